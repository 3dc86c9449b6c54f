"""Do checks find what is wrong in a launch, nothing else, at both levels; and are the results and the trace the same with them?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_launch import KERNELS, REGISTERS, cuda, launch, ptx, whole

from warpsight.base.findings import INITCHECK, MEMCHECK, RACECHECK, SYNCCHECK, WATCHING, Finding
from warpsight.emulator.run.launch import emulate, prepare_kernel
from warpsight.kernels.launch import KernelSource, RunOptions
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.unit
I32 = np.int32
LEVELS = pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])


def found_in(
    source: KernelSource, kernel: str, grid: int, block: int, *args: Any, native: bool = False, checks: frozenset[str] = WATCHING
) -> list[Finding]:
    """What the checks find."""
    findings: list[Finding] = []
    architecture = Architecture(80) if native else None
    prepared = prepare_kernel(source, kernel, architecture=architecture, checks=checks)
    options = RunOptions(check=checks, found=findings.append)
    emulate(source, make_launch(source, kernel, grid, block, args), registers=REGISTERS, options=options, prepared=prepared)
    return findings


def unwritten(kernel: str, block: int, *args: Any, native: bool = False) -> list[Finding]:
    return found_in(cuda("unwritten.cu"), kernel, 1, block, *args, native=native, checks=frozenset({MEMCHECK, INITCHECK}))


def hazards(kernel: str, grid: int, block: int, *args: Any, native: bool = False) -> set[tuple[str, int, int]]:
    """Kind and lines of what racecheck finds."""
    found = found_in(cuda("hazards.cu"), kernel, grid, block, *args, native=native, checks=frozenset({RACECHECK}))
    assert all(f.tool == RACECHECK and f.site and f.other for f in found)
    return {(f.kind, f.site.line, f.other.line) for f in found if f.site and f.other}


# -- initcheck ---------------------------------------------------------------------------------------------------------------


@LEVELS
def test_shared_words_that_no_thread_wrote_are_found_with_thread_line_and_count(native: bool) -> None:
    assert unwritten("reads_shared", 64, np.zeros(64, I32), 0, native=native) == []
    (finding,) = unwritten("reads_shared", 64, np.zeros(64, I32), 37, native=native)
    assert finding.site is not None
    assert (finding.tool, finding.kind, finding.site.line, finding.count) == ("initcheck", "uninitialised", 7, 37)
    assert (finding.site.thread, finding.space, finding.bytes) == ((0, 0, 0), "shared", 4)
    assert native or (finding.address == 0 and finding.distance == 0 and ".shared variable" in finding.allocation)


@LEVELS
def test_missing_barrier_shows_as_read_of_unwritten_words(native: bool) -> None:
    assert unwritten("lacks_barrier", 64, np.zeros(64, I32), 1, native=native) == []
    (finding,) = unwritten("lacks_barrier", 64, np.zeros(64, I32), 0, native=native)
    assert finding.site is not None
    assert (finding.site.line, finding.count) == (13, 32)


@LEVELS
def test_atomics_on_counters_that_were_not_cleared_are_found(native: bool) -> None:
    out = np.zeros(8, I32)
    assert unwritten("counts", 64, out, 1, native=native) == []
    assert out.tolist() == [8] * 8
    findings = unwritten("counts", 64, out, 0, native=native)
    assert {f.kind for f in findings} == {"uninitialised"}
    assert out.tolist() == [8] * 8  # the launch goes on


@LEVELS
def test_exchange_reads_only_where_the_old_value_is_used(native: bool) -> None:
    out = np.zeros(32, I32)
    checks = frozenset({MEMCHECK, INITCHECK})
    assert found_in(cuda("hazards.cu"), "exchanges", 1, 1, out, native=native, checks=checks) == []
    assert out[0] == 3
    (finding,) = found_in(cuda("hazards.cu"), "exchanges_unwritten", 1, 1, out, native=native, checks=checks)
    assert finding.kind == "uninitialised"


@LEVELS
@pytest.mark.parametrize("parts", [0, 1, 3, 4])
def test_vector_must_be_written_in_all_its_elements_and_the_first_missing_byte_is_named(parts: int, native: bool) -> None:
    out = np.zeros((32, 4), np.float32)
    findings = unwritten("reads_vector", 32, out, parts, native=native)
    if parts == 4:
        assert findings == []
        assert out.tolist() == [[0, 1, 2, 3]] * 32
    else:
        (finding,) = findings
        assert finding.site is not None
        assert (finding.site.line, finding.count) == (28, 32)
        assert native or finding.address == 4 * parts


def test_local_memory_is_each_threads_own() -> None:
    at = np.array([*range(8), *[0, 1, 2, 7] * 8], I32)
    assert unwritten("reads_local", 32, np.zeros(32, I32), at, 8) == []
    (finding,) = unwritten("reads_local", 32, np.zeros(32, I32), at, 5)
    assert finding.site is not None
    assert (finding.site.thread, finding.site.line, finding.count, finding.space) == ((3, 0, 0), 33, 8, "local")


@pytest.mark.parametrize(("what", "line"), [(1, 39), (2, 43), (3, 0)])
def test_allocated_memory_starts_unwritten_each_time(what: int, line: int) -> None:
    assert unwritten("reads_heap", 40, np.zeros(40, I32), 0) == []
    finding = unwritten("reads_heap", 40, np.zeros(40, I32), what)[0]
    assert finding.site is not None
    assert finding.site.line == line or not line  # `atomicAdd` stands in a header
    assert "32 bytes from malloc" in finding.allocation


def test_each_block_starts_with_nothing_written() -> None:
    text = """mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READ; mov.u32 %r2, 5; st.shared.u32 [s], %r2;
        READ: ld.shared.u32 %r3, [s]; st.global.u64 [%out], 1; ret;"""
    source = ptx(text, registers=".shared .align 4 .b8 s[4];")
    assert found_in(source, "k", 1, 1, np.zeros(1, np.uint64)) == []
    (finding,) = found_in(source, "k", 2, 1, np.zeros(2, np.uint64))
    assert finding.site is not None
    assert finding.site.block == (1, 0, 0)


def test_matrices_and_copies_pass_on_what_is_written() -> None:
    """`wmma` writes and reads lines; `cp.async` writes what a later read sees."""
    stored = "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [s], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8};"
    read = "ld.shared.u32 %r3, [s+1020]; st.global.u64 [%out], 1; ret;"
    space = ".shared .align 16 .b8 s[1024];"
    out, checks = np.zeros(32, np.uint64), frozenset({INITCHECK})
    assert found_in(ptx(stored + read, registers=space), "k", 1, 32, out, checks=checks) == []
    assert [f.kind for f in found_in(ptx(read, registers=space), "k", 1, 32, out, checks=checks)] == ["uninitialised"]
    copied = "cp.async.ca.shared.global [s+1016], [%out], 8; cp.async.wait_all;"
    assert [f.tool for f in found_in(ptx(copied + read, registers=space), "k", 1, 1, np.zeros(1, np.uint64))] == []


# -- racecheck ---------------------------------------------------------------------------------------------------------------


@LEVELS
def test_hazards_between_warps_are_found_with_both_lines_and_barriers_end_them(native: bool) -> None:
    assert hazards("reverses", 2, 64, np.zeros(64, I32), 2, native=native) == set()
    both = {("write-after-read", 8, 6), ("read-after-write", 6, 8)}
    assert hazards("reverses", 1, 64, np.zeros(64, I32), 1, native=native) == both
    # The warp that runs second writes what the first has read.
    assert ("write-after-read", 4, 6) in hazards("reverses", 1, 64, np.zeros(64, I32), 0, native=native)


def test_hazards_between_lanes_end_where_just_these_lanes_meet() -> None:
    out = np.zeros(32, I32)
    assert hazards("reverses_in_warp", 1, 32, out, 1) == set()
    assert hazards("reverses_in_warp", 1, 32, out, 0) == {("read-after-write", 15, 12)}
    assert hazards("reverses_in_warp", 1, 32, out, 2) == {("read-after-write", 15, 12)}
    assert hazards("reverses_in_warp", 1, 32, out, 0, native=True) == set()  # machine code leaves out what it need not say


@LEVELS
def test_tree_needs_its_barriers(native: bool) -> None:
    assert hazards("sums_tree", 1, 256, np.ones(256, I32), 0, native=native) == set()
    found = hazards("sums_tree", 1, 256, np.ones(256, I32), 64, native=native)
    assert {line for _, *lines in found for line in lines} == {22}


@LEVELS
def test_blocks_that_write_one_place_are_a_hazard_unless_they_write_the_same(native: bool) -> None:
    assert hazards("same_place", 3, 32, np.zeros(1, I32), 7, native=native) == set()
    assert hazards("same_place", 3, 32, np.zeros(1, I32), 0, native=native) == {("write-after-write", 28, 28)}


@LEVELS
def test_fence_and_counter_let_the_last_block_read_what_the_others_wrote(native: bool) -> None:
    part, out = np.zeros(8, I32), np.zeros(32, I32)
    assert hazards("last_block", 8, 32, part, out, 1, native=native) == set()
    assert hazards("last_block", 8, 32, part, out, 0, native=native) == {("read-after-write", 37, 32)}


@LEVELS
def test_atomics_must_reach_as_far_as_those_that_use_them(native: bool) -> None:
    assert hazards("counts_in_scope", 2, 32, np.zeros(32, I32), 1, native=native) == set()
    kinds = {kind for kind, *_ in hazards("counts_in_scope", 2, 32, np.zeros(32, I32), 0, native=native)}
    assert kinds == {"write-after-write"}


@LEVELS
def test_bytes_of_a_word_are_told_apart(native: bool) -> None:
    assert hazards("bytes_of_words", 1, 128, np.zeros(128, np.uint8), native=native) == set()


def test_flag_hands_over_with_a_fence_alone() -> None:
    """Of PTX: in machine code nothing tells a volatile access to shared memory."""
    data = np.zeros(2, I32)
    assert hazards("hands_over", 1, 64, data, 1) == set()
    assert hazards("hands_over", 1, 64, data, 0) == {("read-after-write", 71, 65)}
    assert data[0] == 5


@pytest.mark.parametrize("case", [(1, 1, set()), (0, 1, {82}), (1, 0, {82})], ids=["ordered", "no-fence", "no-lock"])
def test_volatile_data_needs_an_order_like_any_other(case: tuple[int, int, set[int]]) -> None:
    fence, lock, lines = case
    found = hazards("takes_turns", 2, 64, np.zeros(1, I32), fence, lock)
    assert {line for _, *both in found for line in both} == lines


@LEVELS
@pytest.mark.parametrize(
    "case",
    [
        (2, (2, 2), 0, 0), (2, (0, 2), 0, 1), (2, (2, 0), 0, 1), (2, (1, 2), 0, 1), (2, (0, 2), 1, 0), (1, (1, 1), 0, 0),
        (1, (0, 1), 0, 1),
    ],
    ids=["fenced", "first-unfenced", "second-unfenced", "scope", "other-locks", "block-fenced", "block-unfenced"],
)
def test_each_holder_of_a_lock_needs_a_fence_before_its_accesses(case: tuple[int, tuple[int, int], int, int], native: bool) -> None:
    """Also the one that came first here: in another run it comes second."""
    grid, scopes, apart, wrong = case
    args = (np.zeros(1, I32), np.array(scopes, I32), apart, np.zeros(1, I32))
    found = found_in(cuda("hazards.cu"), "takes_lock", grid, 64 // grid, *args, native=native, checks=frozenset({RACECHECK}))
    assert [f.kind for f in found] == ["write-after-write"] * wrong
    assert all("under a lock taken without a fence" in f.message for f in found)
    assert all(("__threadfence_block()" if grid == 1 else "__threadfence()") in f.remedy for f in found)


def test_volatile_flag_that_a_loop_waits_for_is_no_hazard() -> None:
    flag, data = np.zeros(1, I32), np.zeros(64, I32)
    assert hazards("waits_for_flag", 2, 32, flag, data, 1) == set()
    assert data.tolist() == [5] * 64


# -- memcheck ----------------------------------------------------------------------------------------------------------------


@LEVELS
def test_all_wrong_accesses_are_found_and_the_rest_of_the_launch_is_right(native: bool) -> None:
    out, wide = np.zeros(100, I32), np.arange(16, dtype=I32)
    checks = frozenset({MEMCHECK})
    found = found_in(cuda("hazards.cu"), "beyond", 2, 64, out, 98, wide, native=native, checks=checks)
    lines = {(f.kind, f.site.line): f for f in found if f.site}
    assert set(lines) == {("out-of-bounds", 45), ("misaligned", 46), ("shared-out-of-bounds", 48)}
    first = lines["out-of-bounds", 45]
    assert first.site is not None
    assert (first.site.block, first.site.thread, first.distance) == ((1, 0, 0), (34, 0, 0), 9)
    assert first.count == 26  # the last four hit the next array
    assert (first.site.what, first.bytes, first.space) == ("write", 4, "global")
    assert lines["misaligned", 46].count == 2 * 64 * 3 // 4
    assert lines["shared-out-of-bounds", 48].count == 64
    assert out[:64].tolist() == [1] * 64


def test_trace_and_results_are_the_same_with_and_without() -> None:
    traces, outputs = [], []
    watching = WATCHING - {SYNCCHECK}  # which lets lanes go apart: this kernel's results depend on that
    for options in (RunOptions(), RunOptions(check=watching, found=list[Finding]().append)):
        out = np.linspace(0, 1, 5 * 72, dtype=np.float32)
        traces.append(launch(cuda("unwritten.cu"), "uses_everything", 5, 72, [out], options=options))
        outputs.append(out)
    assert outputs[0].tolist() == outputs[1].tolist()
    plain, with_check = (whole(trace) for trace in traces)
    for name in ("path", "event_offset", "events", "sector_offset", "sectors"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(with_check, name))
    assert traces[0].header.warp_instructions == traces[1].header.warp_instructions


# -- Clusters ----------------------------------------------------------------------------------------------------------------


@LEVELS
def test_hazards_in_shared_memory_of_other_blocks_end_at_the_barriers_of_the_cluster(native: bool) -> None:
    """A barrier orders what came before it, and not what a block does between two of them; so does an mbarrier of another block.

    The blocks of the second cluster find the memory, and the marks in it, of those of the first.
    """
    source, check = load_source(KERNELS / "clusters.cu", arch="sm_90"), frozenset({RACECHECK})
    text = (KERNELS / "clusters.cu").read_text().splitlines()
    wrote, read, again = (
        1 + next(k for k, line in enumerate(text) if part in line) for part in ('"r"(i + 1)', "= value[i]", '"r"(i + 7)')
    )
    # of two blocks the first has read before the other writes
    early, late = ({("read-after-write", read, line), ("write-after-read", line, read)} for line in (wrote, again))
    architecture = Architecture(90) if native else None
    prepared = prepare_kernel(source, "neighbours", architecture=architecture, checks=check, clustered=True)
    for left_out, expected in ((0, set()), (1, early), (2, late), (4, set())):
        findings: list[Finding] = []
        order = make_launch(source, "neighbours", 4, 32, (np.zeros(128, np.uint32), left_out, 1), cluster=2)
        emulate(source, order, registers=REGISTERS, options=RunOptions(check=check, found=findings.append), prepared=prepared)
        found = {(f.kind, f.site.line, f.other.line) for f in findings if f.site and f.other}
        assert found == expected, left_out
