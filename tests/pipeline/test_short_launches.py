"""A launch is run with code that was made quickly, and again with good code if it turns out to be long: both tell the same."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

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


@pytest.mark.parametrize(("most", "compiled"), [(50_000, [True]), (0, [True, False])])
def test_short_run_is_enough_or_begins_again_and_prints_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: list[bool], most: int, compiled: list[bool]
) -> None:
    monkeypatch.setattr(tracing, "_BRIEFLY", most)
    output = StringIO()
    trace = tracing.trace_kernel(request(tmp_path, output, 3))
    assert (output.getvalue(), prepared) == ("0\n1\n2\n", compiled)
    assert trace.header.warps == 1


def test_what_a_short_run_has_printed_before_a_fault_is_told(tmp_path: Path, prepared: list[bool]) -> None:
    output = StringIO()
    with pytest.raises(LaunchFault):
        tracing.trace_kernel(request(tmp_path, output, 1 << 20))
    assert output.getvalue().startswith("0\n1\n2\n")
    assert prepared == [True]
