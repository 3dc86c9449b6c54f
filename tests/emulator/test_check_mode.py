"""With `check`, is a read of memory that was never written a fault, and nothing else; and is the trace the same without?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_launch import cuda, launch, ptx, whole

import warpsight
from warpsight.base.errors import FaultDetails, LaunchFault, UnsupportedError
from warpsight.kernels.launch import RunOptions

pytestmark = pytest.mark.unit
CHECK = RunOptions(check=True)
I32 = np.int32


def checked(kernel: str, block: int, *args: Any, grid: int = 1) -> None:
    launch(cuda("unwritten.cu"), kernel, grid, block, args, options=CHECK)


def found(kernel: str, block: int, *args: Any) -> FaultDetails:
    """The details of the read that is found; without `check` the launch passes."""
    launch(cuda("unwritten.cu"), kernel, 1, block, args)
    with pytest.raises(LaunchFault, match="never written") as caught:
        checked(kernel, block, *args)
    assert caught.value.details is not None
    assert caught.value.details.kind == "uninitialised"
    return caught.value.details


def test_shared_word_that_no_thread_wrote_is_found_with_thread_line_and_variable() -> None:
    checked("reads_shared", 64, np.zeros(64, I32), 0)
    details = found("reads_shared", 64, np.zeros(64, I32), 37)
    assert (details.thread, details.line, details.address, details.distance) == ((0, 0, 0), 7, 0, 0)
    assert ".shared variable" in details.allocation


def test_missing_barrier_is_found_where_it_shows() -> None:
    checked("lacks_barrier", 64, np.zeros(64, I32), 1)
    details = found("lacks_barrier", 64, np.zeros(64, I32), 0)
    assert (details.thread, details.line, details.address) == ((0, 0, 0), 13, 63 * 4)


def test_atomic_on_counters_that_were_not_cleared_is_found() -> None:
    out = np.zeros(8, I32)
    checked("counts", 64, out, 1)
    assert out.tolist() == [8] * 8
    details = found("counts", 64, out, 0)
    assert (details.thread, details.address) == ((0, 0, 0), 0)  # the line is that of the header that has `atomicAdd`


@pytest.mark.parametrize("parts", [0, 1, 3, 4])
def test_vector_must_be_written_in_all_its_elements(parts: int) -> None:
    out = np.zeros((32, 4), np.float32)
    if parts == 4:
        checked("reads_vector", 32, out, 4)
        assert out.tolist() == [[0, 1, 2, 3]] * 32
    else:
        assert found("reads_vector", 32, out, parts).line == 28


def test_local_memory_is_each_threads_own() -> None:
    at = np.array([*range(8), *[0, 1, 2, 7] * 8], I32)
    checked("reads_local", 32, np.zeros(32, I32), at, 8)
    details = found("reads_local", 32, np.zeros(32, I32), at, 5)
    assert (details.thread, details.line) == ((3, 0, 0), 33)
    assert ".local variable" in details.allocation


@pytest.mark.parametrize(("what", "line"), [(1, 39), (2, 43), (3, 0)])
def test_allocated_memory_starts_unwritten_each_time(what: int, line: int) -> None:
    checked("reads_heap", 40, np.zeros(40, I32), 0)
    details = found("reads_heap", 40, np.zeros(40, I32), what)
    assert details.line == line or not line  # `atomicAdd` stands in a header
    assert "32 bytes from malloc" in details.allocation


@pytest.mark.parametrize("at", [-1, 8, 11])
def test_read_beside_a_variable_finds_bytes_that_nothing_wrote(at: int) -> None:
    checked("reads_beside", 32, np.zeros(32, I32), 7)
    with pytest.raises(LaunchFault) as caught:
        checked("reads_beside", 32, np.zeros(32, I32), at)
    assert caught.value.details is not None
    assert caught.value.details.kind in ("uninitialised", "shared-out-of-bounds")


def test_each_block_starts_with_nothing_written() -> None:
    text = """mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READ; mov.u32 %r2, 5; st.shared.u32 [s], %r2;
        READ: ld.shared.u32 %r3, [s]; st.global.u64 [%out], 1; ret;"""
    source = ptx(text, registers=".shared .align 4 .b8 s[4];")
    launch(source, "k", 1, 1, [np.zeros(1, np.uint64)], options=CHECK)
    with pytest.raises(LaunchFault, match=r"block \(1,0,0\)"):
        launch(source, "k", 2, 1, [np.zeros(2, np.uint64)], options=CHECK)


def test_trace_and_results_are_the_same_with_and_without() -> None:
    traces, outputs = [], []
    for options in (RunOptions(), CHECK):
        out = np.linspace(0, 1, 5 * 72, dtype=np.float32)
        traces.append(launch(cuda("unwritten.cu"), "uses_everything", 5, 72, [out], options=options))
        outputs.append(out)
    assert outputs[0].tolist() == outputs[1].tolist()
    plain, with_check = (whole(trace) for trace in traces)
    for name in ("path", "event_offset", "events", "sector_offset", "sectors"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(with_check, name))
    assert traces[0].header.warp_instructions == traces[1].header.warp_instructions


def test_instruction_whose_writes_are_not_seen_is_refused() -> None:
    body = "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}; ret;"
    with pytest.raises(UnsupportedError, match="`check` does not see") as caught:
        launch(ptx(body), "k", 1, 32, [np.zeros(32, np.uint64)], options=CHECK)
    assert caught.value.exit_code == 3


def test_python_and_the_command_line_have_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from warpsight.cli.main import main

    path = str(Path(__file__).parent / "kernels" / "unwritten.cu")
    with pytest.raises(LaunchFault, match="never written"):
        warpsight.trace(path, "counts", grid=1, block=64, args=[np.zeros(8, I32), 0], check=True)
    words = ["trace", path, "--kernel", "counts", "--grid", "1", "--block", "64", "--arg", "i32[8]:zeros", "--arg", "0"]
    assert main([*words, "--check", "-o", str(tmp_path / "a")]) == 5
    assert "never written" in capsys.readouterr().err
    assert main([*words, "-o", str(tmp_path / "b")]) == 0
