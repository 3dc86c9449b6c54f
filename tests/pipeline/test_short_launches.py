"""A launch is run with code that was made quickly, and again with good code if it turns out to be long: both tell the same."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from warpsight.base.errors import LaunchFault
from warpsight.emulator.run import launch
from warpsight.kernels.launch import KernelSource
from warpsight.pipeline import tracing
from warpsight.pipeline.request import KernelRequest

pytestmark = pytest.mark.unit

COUNT = """\
#include <cstdio>
__global__ void count(int* x, int n) {
  for (int i = 0; i < n; ++i)
    if (threadIdx.x == 0) printf("%d\\n", x[i]);
}
"""


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each time that a kernel is compiled, whether for a short run."""
    usual, found = launch.prepare_kernel, list[bool]()

    def prepare_kernel(source: KernelSource, kernel: str, *, briefly: bool = False, **how: object) -> launch.PreparedKernel:
        found.append(briefly)
        return usual(source, kernel, briefly=briefly, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(launch, "prepare_kernel", prepare_kernel)
    return found


def request(folder: Path, output: StringIO, bound: int) -> KernelRequest:
    (folder / "count.cu").write_text(COUNT)
    args = "i32[3]:arange", str(bound)
    return KernelRequest(str(folder / "count.cu"), grid=(1, 1, 1), block=(32, 1, 1), args=args, output=output)


WAYS = pytest.mark.parametrize(("most", "compiled"), [(50_000, [True]), (0, [True, False])])


@WAYS
def test_short_run_is_enough_or_begins_again_and_prints_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: list[bool], most: int, compiled: list[bool]
) -> None:
    monkeypatch.setattr(tracing, "_BRIEFLY", most)
    output = StringIO()
    trace = tracing.trace_kernel(request(tmp_path, output, 3))
    assert (output.getvalue(), prepared) == ("0\n1\n2\n", compiled)
    assert trace.header.warps == 1


@WAYS
def test_an_array_of_the_caller_is_changed_by_one_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: list[bool], most: int, compiled: list[bool]
) -> None:
    """Where the short run ends early, its first turns have added to the array in device memory."""
    monkeypatch.setattr(tracing, "_BRIEFLY", most or 10)
    text = "__global__ void add(int* x) { for (int i = 0; i < 1000; ++i) atomicAdd(x + threadIdx.x, i); }"
    (tmp_path / "add.cu").write_text(text)
    x = np.arange(32, dtype=np.int32)
    tracing.trace_kernel(KernelRequest(str(tmp_path / "add.cu"), grid=(1, 1, 1), block=(32, 1, 1), args=[x]))
    assert x.tolist() == [i + 999 * 1000 // 2 for i in range(32)]
    assert prepared == compiled


def test_what_a_short_run_has_printed_before_a_fault_is_told(tmp_path: Path, prepared: list[bool]) -> None:
    output = StringIO()
    with pytest.raises(LaunchFault):
        tracing.trace_kernel(request(tmp_path, output, 1 << 20))
    assert output.getvalue().startswith("0\n1\n2\n")
    assert prepared == [True]
