"""Is each kind of fault shown in full, by the command line in one line and by Python in fields?"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_one_error, run

import warpsight
from warpsight.base.errors import FaultDetails, LimitError, WarpsightError

pytestmark = pytest.mark.unit
Capture = pytest.CaptureFixture[str]

KERNEL = """\
#include <cassert>
#include <cstdio>
#include <cstdlib>
__constant__ int table[4] = {1, 2, 3, 4};
__global__ void does(int *out, int what, int limit) {
  __shared__ int s[8];
  int local[4] = {what, 1, 2, 3};
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x & 7] = i;
  out[i] = s[0] + local[i & 3];
  if (blockIdx.y != 1 || threadIdx.x != 37 || threadIdx.y != 1) return;
  int *heap = (int *)malloc(64);
  int *to = what < 100 ? (int *)table : out;
  switch (what) {
    case 1: out[limit + 5] = 1; break;
    case 2: ((volatile int *)s)[limit] = 1; break;
    case 3: *(int *)((char *)out + 2) = 1; break;
    case 4: free(heap); heap[1] = 2; break;
    case 5: to[1] = 2; break;
    case 6: __trap(); break;
    case 7: assert(limit == i); break;
    case 8: while (limit) limit |= 1; break;
    case 9: free(heap); free(heap); break;
    case 10: out[7] = ((volatile int *)local)[limit * 1000000]; break;
    case 11: out[7] = to[limit - 500]; break;
    case 12: __brkpt(); break;
    case 13: *(volatile int *)((char *)s + 2) = 1; break;
    case 14: heap[16] = 1; break;
    case 15: free(heap + 1); break;
  }
  printf("done %d\\n", what);
}
"""
LINE = {what: 14 + what for what in range(1, 16)}
KINDS = {
    1: ("out-of-bounds", "20 bytes past the end of the array of parameter"),
    2: ("shared-out-of-bounds", "bytes past the end of the .shared variable"),
    3: ("misaligned", "in the array of parameter"),
    4: ("use-after-free", "byte 4 of 64 bytes from malloc at"),
    5: ("read-only", 'in the variable "'),
    6: ("trap", "trap"),
    7: ("assertion", "Assertion `limit == i` failed."),
    8: ("instruction-limit", "passed 100,000 warp instructions"),
    9: ("double-free", "freed at"),
    10: ("local-out-of-bounds", "bytes past the end of the .local variable"),
    11: ("out-of-bounds", 'past the end of the variable "'),
    12: ("breakpoint", "breakpoint"),
    13: ("misaligned", "in the .shared variable"),
    14: ("out-of-bounds", "0 bytes past the end of the 64 bytes from malloc at"),
    15: ("bad-free", "in the 64 bytes from malloc at"),
}
SIZE = 512


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "faults.cu"
    path.write_text(KERNEL)
    return path


def traced(faults: Path, what: int, **options: Any) -> np.ndarray[Any, Any]:
    out = np.zeros(SIZE, np.int32)
    limit = 100_000 if what == 8 else None
    warpsight.trace(faults, grid=(2, 2), block=(64, 2), args=[out, what, SIZE], max_instructions=limit, **options)
    return out


def details_of(error: WarpsightError) -> FaultDetails:
    assert error.details is not None
    return error.details


@pytest.mark.parametrize("what", KINDS)
def test_fault_in_python_carries_kernel_lines_block_thread_and_address(faults: Path, what: int) -> None:
    kind, words = KINDS[what]
    with pytest.raises(WarpsightError) as caught:
        traced(faults, what, output=io.StringIO())
    details = details_of(caught.value)
    assert words in caught.value.what
    assert (details.kind, details.kernel, details.block) == (kind, "does", (0, 1, 0))
    assert details.file.endswith("faults.cu") and details.ptx_line > 0
    assert caught.value.place == f"{details.file}:{details.line}"
    if what == 8:
        assert isinstance(caught.value, LimitError)
        return
    assert (details.thread, details.line) == ((37, 1, 0), LINE[what])
    assert f"PTX line {details.ptx_line}" in caught.value.what
    has_address = kind not in ("trap", "assertion", "breakpoint")
    assert (details.address is not None) == has_address
    assert bool(details.allocation) == has_address


@pytest.mark.parametrize("what", KINDS)
def test_fault_on_the_command_line_is_one_error_with_its_exit_code(
    faults: Path, tmp_path: Path, capsys: Capture, what: int
) -> None:
    kind, words = KINDS[what]
    launch = ("--grid", "2,2", "--block", "64,2", "--arg", f"i32[{SIZE}]:zeros", "--arg", what, "--arg", SIZE)
    limit = ("--max-instructions", 100_000) if what == 8 else ()
    outcome = run(capsys, "trace", faults, *launch, *limit, "-o", tmp_path / "trace")
    assert_one_error(outcome, 4 if kind == "instruction-limit" else 5, "faults.cu:", "kernel does", words)
    assert "block (0,1,0) thread" in outcome.err or "block: [0,1,0], thread: [37,1,0]" in outcome.err
    assert not (tmp_path / "trace").exists()


def test_text_that_a_kernel_prints_goes_to_standard_output_before_the_answer(faults: Path, capsys: Capture, tmp_path: Path) -> None:
    launch = ("--grid", "2,2", "--block", "64,2", "--arg", f"i32[{SIZE}]:zeros", "--arg", 0, "--arg", SIZE)
    outcome = run(capsys, "trace", faults, *launch, "-o", tmp_path / "trace")
    assert outcome.code == 0
    assert outcome.out.startswith("done 0\ndone 0\n")
    assert outcome.err == ""
    for words in (("--json",), ("--csv",)):
        outcome = run(capsys, "predict", faults, *launch, *words)
        assert (outcome.code, outcome.err) == (0, "done 0\ndone 0\n")
        assert "done" not in outcome.out
    json.loads(run(capsys, "profile", faults, *launch, "-o", "-").out)


def test_text_that_a_kernel_prints_goes_to_the_stream_given(faults: Path) -> None:
    output = io.StringIO()
    out = traced(faults, 0, output=output)
    assert output.getvalue() == "done 0\ndone 0\n"
    assert out.any()


@pytest.mark.parametrize(("heap", "words"), [("-1", "negative"), ("1Qi", "--heap"), ("1<<50", "can be addressed")])
def test_heap_that_cannot_be_is_refused(faults: Path, capsys: Capture, tmp_path: Path, heap: str, words: str) -> None:
    launch = ("--grid", "1", "--block", "1", "--arg", "i32[8]:zeros", "--arg", "0", "--arg", "8")
    outcome = run(capsys, "trace", faults, *launch, f"--heap={heap}", "-o", tmp_path / "trace")
    assert outcome.code in (2, 4)
    assert_one_error(outcome, outcome.code, words)


def test_heap_in_python_must_be_a_number(faults: Path) -> None:
    with pytest.raises(WarpsightError, match="not a whole number"):
        warpsight.trace(faults, grid=1, block=1, args=[np.zeros(8, np.int32), 0, 8], heap_bytes=1.5)  # type: ignore[arg-type]
