"""A trace of Accel-Sim's tracer on the command line: rows for launches, a total, conversion and export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run

import warpsight
from warpsight.gpu.loader import load_gpu

pytestmark = pytest.mark.unit

HEAD = """-kernel name = {name}
-kernel id = {number}
-grid dim = (4,1,1)
-block dim = (64,1,1)
-shmem = 0
-nregs = 16
-binary version = 80
-accelsim tracer version = 5
#traces
"""
LINES = ["0000 ffffffff 1 R4 IMAD 2 R2 R3 0 0",
         "0010 ffffffff 1 R5 LDG.E 1 R4 4 1 0x7f0000001000 4 0", "0020 ffffffff 1 R6 FADD 2 R5 R5 0 0",
         "0030 ffffffff 0 EXIT 0 0 0"]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in ((1, "_Z5firstv"), (2, "_Z6secondv"), (3, "_Z5firstv")):
        text = HEAD.format(name=name, number=number)
        for block in range(4):
            text += f"#BEGIN_TB\nthread block = {block},0,0\n"
            for warp in range(2):
                lines = LINES[:3] * number + LINES[3:] * number
                text += "\n".join([f"warp = {warp}", f"insts = {len(lines)}", *lines, ""])
            text += "#END_TB\n"
        (tmp_path / f"kernel-{number}.traceg").write_text(text)
    (tmp_path / "kernelslist.g").write_text("kernel-1.traceg\nkernel-2.traceg\nkernel-3.traceg\n")
    return tmp_path


def test_folder_of_launches_gives_a_row_for_each_and_the_total(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(capsys, "predict", str(folder), "--model", "mdm,gpumech", "--json").out)
    mdm = [row for row in rows if row["model"] == "mdm"]
    assert [row["provenance"]["varied"]["launch"] for row in mdm] == [1, 2, 3, "total"]
    assert [row["warp_instructions"] for row in mdm] == [32, 64, 96, 192]
    assert mdm[-1]["cycles"] == pytest.approx(sum(row["cycles"] for row in mdm[:-1]))
    lines = run(capsys, "predict", str(folder)).out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")][-4:] == ["1", "2", "3", "total"]


def test_launches_of_a_folder_find_in_the_l2_what_launches_and_copies_have_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second launch uses the region of the first one as its second, so that its trace numbers it otherwise."""
    near, far = (f"{{pc:04x}} ffffffff 1 R{{r}} LDG.E 1 R{{r}} 4 1 {region}00001000 4 0" for region in ("0x7f00", "0x7e00"))
    for number, loads in ((1, (near,)), (2, (far, near)), (3, (far, near))):
        lines = [load.format(pc=16 * k, r=4) for k, load in enumerate(loads)]  # each waits for the one before
        lines += [f"{16 * len(loads):04x} ffffffff 1 R6 FADD 2 R4 R4 0 0", f"{16 * len(loads) + 16:04x} ffffffff 0 EXIT 0 0 0"]
        text = HEAD.format(name="_Z4loadv", number=number).replace("(4,1,1)", "(1,1,1)").replace("(64,1,1)", "(32,1,1)")
        text += "\n".join(["#BEGIN_TB", "thread block = 0,0,0", "warp = 0", f"insts = {len(lines)}", *lines, "#END_TB", ""])
        (tmp_path / f"kernel-{number}.traceg").write_text(text)

    def cycles(listed: str, *words: str) -> list[float]:
        (tmp_path / "kernelslist.g").write_text(listed)
        gpu = ("--gpu", "a100", "--set", "l2.far_latency=0cycles")  # a hit is a hit, in whichever partition
        rows = json.loads(run(capsys, "predict", str(tmp_path), *gpu, "--json", *words).out)
        return [row["cycles"] for row in rows[:3]]

    kernels = "kernel-1.traceg\n{}kernel-2.traceg\nkernel-3.traceg\n"
    cold, alone = cycles(kernels.format(""), "--caches-before", "cold"), cycles(kernels.format(""))
    copied = cycles(kernels.format("MemcpyHtoD,0x00007e0000001000,128\n"))
    dram = load_gpu("a100").dram.latency_cycles
    assert cold[0] == alone[0] == copied[0]
    saved = [[cold[k] - others[k] for k in (1, 2)] for others in (alone, copied)]
    assert saved == [[pytest.approx(dram, rel=0.1), pytest.approx(2 * dram, rel=0.1)], [pytest.approx(2 * dram, rel=0.1)] * 2]


def test_kernels_and_launches_choose(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = [json.loads(run(capsys, "predict", str(folder), "--kernels", "second", "--json").out)]
    assert (row["kernel"], row["warp_instructions"]) == ("second", 64)
    assert "--launches N" in run(capsys, "simulate", str(folder)).err
    assert run(capsys, "predict", str(folder), "--launches", "7").err.startswith("error: --launches")


def test_options_of_a_kernel_and_of_a_trace_are_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--grid" in run(capsys, "predict", str(folder), "--grid", "4").err
    (folder / "k.ptx").write_text(".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n")
    assert "--launches" in run(capsys, "predict", str(folder / "k.ptx"), "--launches", "1").err


def test_converted_trace_predicts_the_same(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    direct = json.loads(run(capsys, "predict", str(folder / "kernel-2.traceg"), "--json").out)
    run(capsys, "trace", str(folder / "kernel-2.traceg"), "-o", str(tmp_path / "own"))
    stored = json.loads(run(capsys, "predict", str(tmp_path / "own"), "--json").out)
    assert stored["cycles"] == direct["cycles"]
    assert stored["provenance"]["notes"] == direct["provenance"]["notes"]
    assert warpsight.load_trace(folder / "kernel-2.traceg").header.kernel == "second"
    summaries = json.loads(run(capsys, "trace", str(folder), "-o", str(tmp_path / "all"), "--json").out)
    assert [Path(summary["folder"]).name for summary in summaries] == ["0001-first", "0002-second", "0003-first"]


def test_exported_trace_is_read_again_and_never_destroys(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    document = json.loads(run(capsys, "trace", "export", str(folder / "kernel-1.traceg"), "-o", str(out), "--json").out)
    assert document["lines"] == 32
    assert sorted(path.name for path in out.iterdir()) == ["kernel-1.traceg", "kernelslist.g"]
    again = json.loads(run(capsys, "predict", str(out), "--json").out)
    assert again["cycles"] == json.loads(run(capsys, "predict", str(folder / "kernel-1.traceg"), "--json").out)["cycles"]
    assert "--force" in run(capsys, "trace", "export", str(folder / "kernel-1.traceg"), "-o", str(out)).err
    assert "something other" in run(capsys, "trace", "export", str(out), "-o", str(folder), "--force").err


def test_native_opcodes_are_listed_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(capsys, "doctor", "--isa", "sass", "--json").out)
    by_name = {row["opcode"]: row for row in rows}
    assert (by_name["LDG"]["space"], by_name["LDG"]["access"]) == ("global", "load")
    assert f"{len(rows)} SASS opcodes" in run(capsys, "doctor", "--isa").out
