"""A program's trace of several launches beside a profiler's file of the same program: which is which?"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.base.errors import UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.comparison import compare
from warpsight.pipeline.request import KernelRequest

HEADER = """-kernel name = _Z{length}{name}Pf
-grid dim = (1,1,1)
-block dim = (32,1,1)
-shmem = 0
-nregs = 16
-binary version = 80
-accelsim tracer version = 5
#traces format = whatever
#BEGIN_TB
thread block = 0,0,0
warp = 0
insts = 1
0000 ffffffff 0 EXIT 0 0 0
#END_TB
"""
ROW = '"{number}","{kernel}(float *)","(32, 1, 1)","(1, 1, 1)","{cycles}"\n'
GPU = load_gpu("mdm-pascal")


def program(folder: Path, names: list[str], measured: list[tuple[str, int]]) -> tuple[KernelRequest, str]:
    """A folder of launches, and ncu's table of others."""
    for number, name in enumerate(names, 1):
        (folder / f"kernel-{number}.traceg").write_text(HEADER.format(length=len(name), name=name))
    text = '"ID","Kernel Name","Block Size","Grid Size","sm__cycles_elapsed.max"\n"","","","","cycle"\n'
    text += "".join(ROW.format(number=k, kernel=kernel, cycles=cycles) for k, (kernel, cycles) in enumerate(measured))
    (folder / "ncu.csv").write_text(text)
    return KernelRequest(path=str(folder)), str(folder / "ncu.csv")


def test_launches_of_one_kernel_are_matched_in_the_order_of_the_program(tmp_path: Path) -> None:
    request, csv = program(tmp_path, ["step", "sum", "step"], [("step", 100), ("sum", 200), ("step", 300)])
    found = compare([request], GPU, ["mdm"], against=csv)
    assert [(launch.label, launch.reference.cycles) for launch in found.launches if launch.reference] == [
        ("launch 1", 100), ("launch 2", 200), ("launch 3", 300),
    ]  # fmt: skip
    for launch in found.launches:
        error, answer = launch.predictions[0].error(launch.reference), launch.predictions[0].prediction
        assert answer is not None
        assert launch.reference is not None
        assert launch.reference.cycles is not None
        assert error == pytest.approx((answer.cycles - launch.reference.cycles) / launch.reference.cycles)


def test_chosen_launch_keeps_its_turn(tmp_path: Path) -> None:
    request, csv = program(tmp_path, ["step", "sum", "step"], [("step", 100), ("sum", 200), ("step", 300)])
    chosen = KernelRequest(path=request.path, launches="3")
    (launch,) = compare([chosen], GPU, ["mdm"], against=csv).launches
    assert launch.reference is not None
    assert launch.reference.cycles == 300


def test_file_with_another_number_of_launches_is_refused(tmp_path: Path) -> None:
    request, csv = program(tmp_path, ["step", "step", "step"], [("step", 100), ("step", 300)])
    with pytest.raises(UsageError, match="2 launches are step"):
        compare([request], GPU, ["mdm"], against=csv)


def test_launch_that_was_not_measured_is_refused_by_name(tmp_path: Path) -> None:
    request, csv = program(tmp_path, ["step", "sum"], [("step", 100)])
    with pytest.raises(UsageError, match='has no launch of "sum"'):
        compare([request], GPU, ["mdm"], against=csv)
