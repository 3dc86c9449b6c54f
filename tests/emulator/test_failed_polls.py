"""Are tests of mbarriers that fail left out of what warps recorded, and everything else kept? Streams made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulator_launch import launch
from trace_by_hand import static_code
from trace_reader import accesses

from warpsight.base.errors import FormatError
from warpsight.emulator.run.launch import prepare_kernel
from warpsight.emulator.run.polls import Polls
from warpsight.emulator.run.worker import Streams
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture
from warpsight.traces.path_store import LANES_SHIFT

pytestmark = pytest.mark.unit

# 0 loads, and stores to shared memory; 1 tests; 2 is passed between two tests; 3 loads; 4 tests, and loads; 5 loads, and tests what
# 1 tests; 6 tests another object
BLOCKS = ["load.global.4 r0 <- q\nstore.shared.4 <- r0", "int p <- q\nload.shared.8 p <- q\nbranch <- p", "int r1 <- q",
          "load.global.4 r2 <- q", "load.shared.8 p <- q\nload.global.4 r3 <- q", "load.global.4 r3 <- q\nload.shared.8 p <- q",
          "load.shared.8 p <- q"]  # fmt: skip
TEST, PASSED, LOADS, BOTH, FIRST, OTHER = 1, 2, 3, 4, 5, 6


def polls() -> Polls:
    code, starts = static_code(BLOCKS)
    objects = ["" if i.access_bytes != 8 else "other" if i.pc == len(code) - 1 else "one" for i in code]
    return Polls([replace(i, opcode="mbarrier.try_wait") if i.access_bytes == 8 else i for i in code], objects, starts.tolist())


def streams(*warps: list[tuple[int, int]]) -> Streams:
    """Each block's lanes are 32; each load touches two sectors, numbered from 0 on; the tests' events count up from 100."""
    entries, events, sectors, offsets, test = [], [], [], [(0, 0, 0)], 100
    for warp in warps:
        for block, repeat in warp:
            entries.append((block | 32 << LANES_SHIFT, repeat))
            for _ in range(repeat):
                if block == FIRST:
                    events.append(2)
                    sectors += [len(sectors), len(sectors) + 1]
                if block in (TEST, BOTH, FIRST, OTHER):
                    events.append(test)
                    test += 1
                if block in (0, LOADS, BOTH):
                    events.append(2)
                    sectors += [len(sectors), len(sectors) + 1]
                if block == 0:
                    events.append(7)
        offsets.append((len(entries), len(events), len(sectors)))
    arrays = np.array(entries, np.uint32).reshape(-1, 2), np.array(events, np.uint8), np.array(sectors, np.uint32)
    return Streams(0, len(warps), np.array(offsets, np.int64), *arrays)


Lists = list[list[int]]


def kept(*warps: list[tuple[int, int]]) -> tuple[list[list[tuple[int, int]]], Lists, Lists, int]:
    """By warp: blocks with repeats, events and sectors; and how many instructions were left out."""
    made = polls()
    found = made.without_failed(streams(*warps))
    spans = list(zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True))
    path = [[(int(word) & (1 << LANES_SHIFT) - 1, int(times)) for word, times in found.entries[a[0] : b[0]]] for a, b in spans]
    assert found.offsets[-1].tolist() == [len(found.entries), len(found.events), len(found.sectors)]
    events = [found.events[a[1] : b[1]].tolist() for a, b in spans]
    return path, events, [found.sectors[a[2] : b[2]].tolist() for a, b in spans], made.instructions


def test_one_of_several_tests_is_kept() -> None:
    path, events, sectors, dropped = kept([(0, 1), (TEST, 5), (LOADS, 1)])
    assert path == [[(0, 1), (TEST, 1), (LOADS, 1)]]
    assert events == [[2, 7, 104, 2]] and sectors == [[0, 1, 2, 3]] and dropped == 4 * 3


def test_loop_of_tests_may_pass_through_blocks_without_accesses() -> None:
    path, events, sectors, dropped = kept([(TEST, 1), (PASSED, 2), (TEST, 1), (PASSED, 1), (TEST, 1), (LOADS, 2)])
    assert path == [[(TEST, 1), (LOADS, 2)]]
    assert events == [[100, 2, 2]] and sectors == [[0, 1, 2, 3]] and dropped == 2 * 3 + 3


def test_tests_with_an_access_between_them_are_all_kept() -> None:
    """The main loop of a kernel comes back to the same test, but has done something since."""
    path, events, _, dropped = kept([(TEST, 1), (LOADS, 1), (TEST, 1), (LOADS, 1)])
    assert path == [[(TEST, 1), (LOADS, 1), (TEST, 1), (LOADS, 1)]] and events == [[100, 2, 101, 2]] and dropped == 0


def test_block_that_tests_and_loads_is_kept_as_often_as_it_ran() -> None:
    path, events, sectors, dropped = kept([(BOTH, 3)])
    assert path == [[(BOTH, 3)]] and events == [[100, 2, 101, 2, 102, 2]] and sectors == [list(range(6))] and dropped == 0


def test_loop_of_tests_follows_a_first_test_of_its_own() -> None:
    path, events, sectors, dropped = kept([(FIRST, 1), (PASSED, 1), (TEST, 3), (LOADS, 1)])
    assert path == [[(FIRST, 1), (LOADS, 1)]] and events == [[2, 100, 2]] and sectors == [[0, 1, 2, 3]] and dropped == 1 + 3 * 3


def test_tests_of_two_objects_are_both_kept() -> None:
    path, events, _, dropped = kept([(TEST, 2), (OTHER, 2), (TEST, 1)])
    assert path == [[(TEST, 1), (OTHER, 1), (TEST, 1)]] and events == [[101, 103, 104]] and dropped == 3 + 1


def test_warps_are_told_apart() -> None:
    """A test at the beginning of a warp does not follow one at the end of the warp before."""
    path, events, _, dropped = kept([(LOADS, 1), (TEST, 2)], [(TEST, 3)], [], [(TEST, 1)])
    assert path == [[(LOADS, 1), (TEST, 1)], [(TEST, 1)], [], [(TEST, 1)]]
    assert events == [[2, 101], [104], [], [105]] and dropped == 3 * 3


def test_counts_of_several_bytes_are_read_whole() -> None:
    """A bulk copy of 600 sectors, whose number takes 3 bytes, lies between tests."""
    code, starts = static_code(BLOCKS)
    code = [replace(i, opcode="mbarrier.try_wait") if i.access_bytes == 8 else i for i in code]
    code = [replace(i, count_bytes=3) if i.pc == starts[LOADS] else i for i in code]
    entries = np.array([(block | 32 << LANES_SHIFT, repeat) for block, repeat in ((TEST, 2), (LOADS, 1), (TEST, 3))], np.uint32)
    events = np.array([100, 101, 600 & 255, 600 >> 8, 0, 102, 103, 104], np.uint8)
    offsets = np.array([(0, 0, 0), (3, 8, 600)], np.int64)
    given = Streams(0, 1, offsets, entries, events, np.arange(600, dtype=np.uint32))
    objects = ["one" if i.polls_mbarrier else "" for i in code]
    found = Polls(code, objects, starts.tolist()).without_failed(given)
    assert found.events.tolist() == [101, 600 & 255, 600 >> 8, 0, 104]
    assert found.sectors.tolist() == list(range(600))


@pytest.mark.parametrize("column", [1, 2], ids=["events", "sectors"])
@pytest.mark.parametrize("more", [-1, 1])
def test_streams_that_do_not_fit_the_path_are_an_error_that_names_the_warp(column: int, more: int) -> None:
    given = streams([(LOADS, 2)], [(TEST, 2), (LOADS, 2)])
    given.offsets[2, column] += more
    with pytest.raises(FormatError, match="kernel: warp 1 "):
        polls().without_failed(given)


def flags(*path: tuple[int, int]) -> tuple[list[tuple[int, int]], Lists, int]:
    """A warp's path, events and sectors without the loads of a flag that fail, in which block 1 loads it and block 2 branches back.
    The last block comes back to block 1 with another address. The n-th load touches n sectors.
    """
    code, starts = static_code(["load.global.4 r0 <- q", "load.global.4 p <- q\nbranch <- p", "int r1 <- q", "int q <- q"])
    objects = ["flag" if i.pc == starts[1] else "" for i in code]
    events = [n for n, _ in enumerate((b for b, repeat in path for _ in range(repeat) if b < 2), 1)]
    entries = np.array([(block | 32 << LANES_SHIFT, repeat) for block, repeat in path], np.uint32)
    sectors = np.array([n for n in events for _ in range(n)], np.uint32)
    offsets = np.array([(0, 0, 0), (len(entries), len(events), len(sectors))], np.int64)
    made = Polls(code, objects, starts.tolist(), loops={"flag": {1, 2}})
    found = made.without_failed(Streams(0, 1, offsets, entries, np.array(events, np.uint8), sectors))
    kept_path = [(int(word) & (1 << LANES_SHIFT) - 1, int(times)) for word, times in found.entries]
    return kept_path, [found.events.tolist(), found.sectors.tolist()], made.instructions


def test_loads_of_a_flag_that_fail_go_with_their_sectors() -> None:
    path, (events, sectors), dropped = flags((0, 1), (1, 1), (2, 1), (1, 3), (2, 1), (1, 1), (0, 1))
    assert path == [(0, 1), (1, 1), (0, 1)] and events == [1, 2, 7]
    assert sectors == [1, 2, 2, *7 * [7]] and dropped == 2 * 4 + 2


def test_loads_of_another_flag_by_the_same_instruction_are_kept() -> None:
    """A scan looks back from block to block: what is between two loads is not of the loop that waits."""
    path, (events, _), dropped = flags((1, 1), (3, 1), (1, 2), (2, 1), (1, 1))
    assert path == [(1, 1), (3, 1), (1, 1)] and events == [1, 3] and dropped == 2 * 2 + 1


def test_kernel_without_tests_in_blocks_of_their_own_has_none() -> None:
    code, starts = static_code(BLOCKS)
    assert polls().any and not Polls(code, [""] * len(code), starts.tolist()).any


def test_block_that_tests_an_object_twice_is_kept_once() -> None:
    """Machine code tests, sleeps, and tests again before it branches."""
    code, starts = static_code(["load.shared.8 p <- q\nload.shared.8 p <- q\nbranch <- p", "load.global.4 r2 <- q"])
    objects = ["one" if i.access_bytes == 8 else "" for i in code]
    pair = Polls([replace(i, opcode="SYNCS.PHASECHK") if i.access_bytes == 8 else i for i in code], objects, starts.tolist())
    entries = np.array([(32 << LANES_SHIFT, 3), (1 | 32 << LANES_SHIFT, 1)], np.uint32)
    events, sectors = np.array([1, 2, 3, 4, 5, 6, 1], np.uint8), np.array([9], np.uint32)
    found = pair.without_failed(Streams(0, 1, np.array([(0, 0, 0), (2, 7, 1)], np.int64), entries, events, sectors))
    assert found.entries[:, 1].tolist() == [1, 1] and found.sectors.tolist() == [9]
    assert found.events.tolist() == [5, 6, 1] and pair.instructions == 2 * 3


SPINS = """
extern "C" __global__ void waits(volatile int *flag, int *lock, int *out, int *chain)
{
    int value = 0;
    if (threadIdx.x == 0 && blockIdx.x == 0)
        while (flag[0] == 0) ;                             // a flag
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(value) : "l"(lock) : "memory");
        while (value != 3);                                // a lock, as of a turn among blocks
        for (volatile int *at = chain; (value = *at) != 0; at += 8) ;  // 5 words, each in a sector of its own: no test
    }
    if (threadIdx.x == 0 && blockIdx.x) { atomicAdd(lock, 1); __threadfence(); flag[0] = 1; }
    out[blockIdx.x * 32 + threadIdx.x] = value;
}
"""


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
def test_loads_that_wait_for_another_thread_are_in_the_trace_once(native: bool) -> None:
    source = load_source(SPINS, name="spins.cu", arch=80)
    chain = np.zeros(64, np.int32)
    chain[0:32:8] = 1
    prepared = prepare_kernel(source, "waits", architecture=Architecture(80) if native else None)
    flag, lock, out = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(128, np.int32)
    trace = launch(source, "waits", 4, 32, [flag, lock, out, chain], prepared=prepared)
    assert (flag[0], lock[0]) == (1, 3)
    lines = [(trace.instructions[a.pc].line, a.sectors) for a in accesses(trace, warp=0)]
    # while lane 0 waits for the flag, the other lanes of its warp store: one test before that, and one after
    assert sorted(line for line, _ in lines if line in (6, 8, 10)) == [6, 6, 8, 10, 10, 10, 10, 10]
    assert len({sectors for line, sectors in lines if line == 10}) == 5
    assert trace.header.warp_instructions < 4 * 120
