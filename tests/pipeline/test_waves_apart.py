"""Are sampled waves of long blocks simulated apart as they would be in the whole launch, and the same on any number of threads?"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from warpsight.base.records import Memory
from warpsight.caches.exact.apart import Between, Known, _executed, has_long_loops
from warpsight.caches.exact.simulate import CacheSimulation, simulate_caches
from warpsight.caches.exact.state import State
from warpsight.caches.exact.waves import WaveMisses, wave_misses
from warpsight.caches.exact.windows import Spread
from warpsight.caches.miss_profile import COUNTS
from warpsight.emulator.run.sampled import SampledRun
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.usage import path_use, trace_counts
from warpsight.pipeline import sampling
from warpsight.pipeline.evaluate import miss_profile, predict_trace, trace_occupancy
from warpsight.pipeline.request import DEFAULT_METHOD, KernelRequest
from warpsight.pipeline.sampling import Plan, trace_to_predict
from warpsight.pipeline.tracing import launch_of, obtain_trace
from warpsight.traces.late import LateWarps
from warpsight.traces.schema import InMemory, KernelTrace, WaveSample
from warpsight.traces.waves import part_of

pytestmark = pytest.mark.unit

# Eight blocks in a row read all of `b`, 2 MB, which is more than the small L2 holds, and one row of `a`.
SOURCE = """
extern "C" __global__ void product(const float* a, const float* b, float* c)
{
    int column = blockIdx.x % 8 * 64 + threadIdx.x, row = blockIdx.x / 8;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < 1024; ++k) sum += a[row * 1024 + k] * b[k * 512 + column];
    c[row * 512 + column] = sum;
}
"""
BLOCKS = 512
ARGS = ("f32[64*1024]:zeros", "f32[1024*512]:zeros", "f32[64*512]:zeros")
GPU = ["sm_count=2", "sm.max_blocks=4"]
SMALL, LARGE = (load_gpu("mdm-pascal", overrides=[*GPU, f"l2.size={size}"]) for size in ("528 KiB", "8448 KiB"))


def request(threads: int) -> KernelRequest:
    return KernelRequest(SOURCE, kernel="product", grid=BLOCKS, block=64, args=ARGS, threads=threads)


@cache
def sampled(threads: int = 1, gpu: GpuSpec = SMALL) -> KernelTrace:
    return trace_to_predict(request(threads), gpu, "warpsight", DEFAULT_METHOD, 0.1, least_instructions=0)


def sample_of(trace: KernelTrace) -> WaveSample:
    assert trace.waves is not None
    return trace.waves


def misses_of(trace: KernelTrace) -> WaveMisses:
    (found,) = sample_of(trace).kept.values()
    assert isinstance(found, WaveMisses)
    return found


# -- Warps that begin late.

def accesses(trace: KernelTrace) -> dict[int, list[list[int]]]:
    """The sectors of the warps of each block, in order."""
    found: dict[int, list[list[int]]] = {}
    for chunk in trace.chunks:
        for warp in range(len(chunk.path)):
            sectors = chunk.sectors[chunk.sector_offset[warp] : chunk.sector_offset[warp + 1]]
            found.setdefault((chunk.first_warp + warp) // 2, []).append(sectors.tolist())
    return found


def test_warps_that_begin_late_end_as_the_others() -> None:
    whole = sample_of(sampled()).executed
    share = np.ones(whole.header.recorded_blocks)
    share[:3] = 0.25, 0.5, 0.001
    late = LateWarps(whole, share)
    before, after = accesses(whole), accesses(late.trace())
    for block, warps in before.items():
        for warp, sectors in enumerate(warps):
            rest = after[block][warp]
            assert rest == sectors[len(sectors) - len(rest) :]
            assert len(rest) == pytest.approx(max(share[block], 0.02) * len(sectors), rel=0.2, abs=0 if share[block] == 1 else 200)
    assert len(after[2][0]) < len(after[0][0]) < len(after[1][0]) < len(before[1][0])


def test_memory_read_before_warps_begin_is_in_the_order_of_use() -> None:
    """Block 0 leaves out three quarters of its 1,024 rows of `b`, block 1 a half: it has come to row 512 when block 0 is at 768."""
    whole = sample_of(sampled()).executed
    share = np.ones(whole.header.recorded_blocks)
    share[:2] = 0.25, 0.5
    rows = LateWarps(whole, share).read_before(1 << 30)
    assert (rows[:, 3] == 1).all() and not rows[:, [1, 4]].any()
    table = accesses(whole)
    touched = {first // 32 + k for first, size in rows[:, [0, 2]].tolist() for k in range(size // 32)}
    warps = [(warp, int(part * len(warp))) for block, part in ((0, 0.75), (1, 0.5)) for warp in table[block]]
    left_out = {sector for warp, end in warps for sector in warp[:end]}
    assert len(touched ^ left_out) < 0.02 * len(left_out)
    read_at_the_end = {sector for warp, end in warps for sector in warp[end - 80 : end + 80]}
    assert {first // 32 for first in rows[-4:, 0].tolist()} <= read_at_the_end


def test_most_of_what_is_read_before_is_kept_from_the_end() -> None:
    late = LateWarps(sample_of(sampled()).executed, np.full(sample_of(sampled()).executed.header.recorded_blocks, 0.5))
    every, few = late.read_before(1 << 30), late.read_before(1 << 16)
    assert few[:, 2].sum() == 1 << 16 < every[:, 2].sum()
    assert (few[1:, 0] == every[-len(few) + 1 :, 0]).all()


# -- Stretches apart.

def test_long_blocks_are_simulated_apart_where_nothing_depends_on_those_before() -> None:
    trace = sample_of(sampled()).executed
    assert has_long_loops(trace) and misses_of(sampled()).apart


def test_waves_apart_have_the_misses_of_the_launch() -> None:
    whole = obtain_trace(request(1), gpu=SMALL)
    exact, _ = miss_profile(whole, SMALL, trace_occupancy(whole, SMALL), DEFAULT_METHOD, None)
    found, scale = misses_of(sampled()).together(), BLOCKS / sampled().header.sampled_blocks
    for name, within in (("executions", 0.001), ("sectors", 0.001), ("l2_read_misses", 0.1), ("dram_writes", 0.1)):
        assert getattr(found, name).sum() * scale == pytest.approx(getattr(exact, name).sum(), rel=within), name
    (own,), (reference,) = (predict_trace(each, SMALL, ["warpsight"]) for each in (sampled(), whole))
    half_width = sampled().extra["sampling"]["half_width"]
    assert own.cycles == pytest.approx(reference.cycles, rel=min(half_width, 0.005))
    assert half_width < 0.02


def test_l2_before_a_stretch_holds_shared_lines_what_its_blocks_have_read_and_others_that_nobody_finds() -> None:
    """Four lines that all stretches read, two that the blocks have read since, and the rest of 1,000 beyond all addresses."""
    rows = np.array([[128 * 70, 0, 256, 1, 0]])
    held = Between(np.array([10, 11, 12, 13], np.uint32), 1000).held(SMALL, rows)
    tags = held["tag"][held["valid"] != 0]
    assert sorted(tags[tags < 1 << 20]) == [10, 11, 12, 13, 70, 71]
    assert len(tags) == pytest.approx(1000, rel=0.1)  # each of the others is there by chance


def test_blocks_that_start_earlier_are_farther_in_their_loops() -> None:
    """Those of a wave; blocks behind it run whole. The place where most are differs from stretch to stretch."""
    share, places = Spread(0.05, 0.0).begin(1400, 1000, 250, first=1000, place=0.4)
    assert (np.diff(share[:1000]) >= 0).all() and share[0] > 0 and (share[1000:] == 1).all()
    assert share[:1000].std() == pytest.approx(0.05, rel=0.01)
    assert abs(np.median(share[:1000]) - np.median(Spread(0.05, 0.0).begin(1400, 1000, 250, first=1000, place=0.7)[0][:1000])) > 0.1
    assert sorted(places.tolist()) == list(range(1000))


def test_blocks_of_an_sm_stay_together_and_follow_each_other() -> None:
    """Four on each SM: where its blocks end together, it gets four that follow each other. SMs get farther apart with each wave."""
    share, places = Spread(0.02, 0.0).begin(400, 400, 100, first=1600, place=0.5)
    assert (places.reshape(100, 4) // 4 == places[::4, None] // 4).all()
    assert (share.reshape(100, 4) == share[::4, None]).all()
    assert share.std() == pytest.approx(0.02 * 2, rel=0.02)
    _, mixed = Spread(0.02, 0.05).begin(400, 400, 100, first=1600, place=0.5)
    assert (mixed.reshape(100, 4) // 4 == mixed[::4, None] // 4).mean() < 0.5


def test_blocks_that_are_not_apart_begin_at_one_place_and_those_far_apart_everywhere() -> None:
    assert len(set(Spread(0.0, 0.0).begin(10, 10, 5, first=30, place=0.0)[0].tolist())) == 1
    assert np.histogram(Spread(1.0, 0.0).begin(1000, 1000, 1000, first=1000, place=0.5)[0], 10, (0, 1))[0].min() > 70


def test_spread_is_how_far_sms_have_come_relative_to_the_mean_and_blocks_beside_those_of_their_sm() -> None:
    """Two SMs with two blocks of one warp each, with 100 bytes of events: 30 and 50 are made on one, 50 and 70 on the other."""
    memory = Memory(State, slots=6, warps=6)
    machine = memory.root["machine"]
    machine["warp_slots"] = 3
    memory.root["machine"] = machine
    memory["slots"]["id"] = [0, 2, -1, 1, 3, -1]
    warps = memory["warps"]
    warps["event_end"], warps["event"], warps["event_period"] = 100, [70, 50, 0, 50, 70, 0], 10
    warps["event_laps"] = [4, 0, 9, 0, 0, 9]
    spread = Spread.of(memory, np.full(4, 100), 1)
    assert spread.of_sms == pytest.approx(10 / 50)
    assert spread.within_sm == pytest.approx(math.sqrt(4 * 0.1**2 / 2))


@pytest.mark.parametrize(("earlier", "end"), [(0.02, 0.01), (0.01, 0.01), (0.005, 0.04), (0.0, 0.04)])
def test_blocks_of_an_sm_go_on_to_get_apart_as_they_did(earlier: float, end: float) -> None:
    """From an eighth to a quarter of a block: not at all, or in proportion to time."""
    assert Spread(0.03, 0.01).after(Spread(0.02, earlier)) == Spread(0.03, pytest.approx(end))


def test_places_of_the_first_blocks_are_those_that_are_given() -> None:
    """Four blocks read one row of `a`, four the next one: each row is missed on one SM, not on two, if they are by themselves."""
    trace = sample_of(sampled()).executed
    trace = part_of(trace, np.isin(np.arange(trace.header.recorded_blocks), np.arange(4, 12)))
    resident = trace_occupancy(trace, SMALL).blocks_per_sm
    by_sm = CacheSimulation(trace, SMALL, resident, places=np.arange(2 * resident)).misses()
    in_turn = CacheSimulation(trace, SMALL, resident, places=np.arange(2 * resident).reshape(2, -1).T.ravel()).misses()
    default = CacheSimulation(trace, SMALL, resident).misses()
    assert all((getattr(in_turn, name) == getattr(default, name)).all() for name in COUNTS)
    assert by_sm.l1_misses.sum() == default.l1_misses.sum() - 2 * 1024 // 32  # lines of the two rows


def test_stretches_that_a_sample_shares_with_a_smaller_one_are_not_simulated_again() -> None:
    sample = replace(sample_of(sampled()), kept={})
    resident = trace_occupancy(sampled(), SMALL).blocks_per_sm
    known: Known = {}
    every = wave_misses(sample, SMALL, resident, interleaving="clocked", warm=True, known=known)
    assert sum(isinstance(key, tuple) and isinstance(key[0], int) for key in known) == len(sample.start)
    told: list[int] = []
    again = wave_misses(
        sample, SMALL, resident, interleaving="clocked", warm=True, known=known, progress=lambda done, _: told.append(done)
    )
    assert not any(told), "no warp ends in a simulation"
    for own, other in zip(every.waves, again.waves, strict=True):
        assert all((getattr(own, name) == getattr(other, name)).all() for name in COUNTS)


def test_two_threads_find_what_one_finds() -> None:
    one, two = misses_of(sampled(1)), misses_of(sampled(2))
    assert sample_of(sampled(2)).threads == 2
    assert (one.traffic == two.traffic).all()
    for own, other in zip(one.waves, two.waves, strict=True):
        assert all((getattr(own, name) == getattr(other, name)).all() for name in COUNTS)


def test_executions_are_those_that_the_simulation_counts() -> None:
    trace = sample_of(sampled()).executed
    counted = simulate_caches(trace, SMALL, trace_occupancy(trace, SMALL).blocks_per_sm)
    for name, found in _executed(trace).items():
        assert (found == getattr(counted, name)).all(), name


def test_large_l2_holds_all_lines_so_that_stretches_are_apart_too() -> None:
    sample = replace(sample_of(sampled()), kept={})
    found = wave_misses(sample, LARGE, trace_occupancy(sampled(), LARGE).blocks_per_sm, interleaving="clocked", warm=True)
    assert found.apart and not found.together().l2_read_misses.any()
    assert not found.together().dram_writes.any()


@pytest.mark.parametrize(("together", "answer"), [(0.3, 0.04), (0.03, 0.03)])
def test_of_a_launch_longer_than_its_limit_waves_apart_are_kept_where_one_simulation_tells_less(
    monkeypatch: pytest.MonkeyPatch, together: float, answer: float
) -> None:
    """Apart, the waves have 4 %, most of which more waves do not narrow. In one simulation they have `together`, however many."""

    def half_widths(trace: KernelTrace, plan: Plan, *_: object) -> tuple[np.ndarray, np.ndarray]:
        return (np.array([[0.04]]), np.array([[0.03]])) if plan.apart else (np.array([[together]]), np.array([[0.0]]))

    monkeypatch.setattr(sampling, "half_widths", half_widths)
    whole = trace_to_predict(request(1), SMALL, "warpsight", DEFAULT_METHOD, 0.02, least_instructions=0)
    assert whole.waves is None
    longer = replace(request(1), max_instructions=whole.header.warp_instructions * 9 // 10)
    trace = trace_to_predict(longer, SMALL, "warpsight", DEFAULT_METHOD, 0.02, least_instructions=0)
    assert sample_of(trace).apart == (answer < together)
    assert trace.extra["sampling"]["half_width"] == answer


def test_failure_in_a_thread_is_raised_and_ends_the_others() -> None:
    sample = sample_of(sampled())
    broken = replace(sample.executed.paths, repeat=sample.executed.paths.repeat + 1)
    damaged = replace(sample, executed=replace(sample.executed, paths=broken), threads=2, kept={})
    with pytest.raises(Exception, match="path"):
        wave_misses(damaged, SMALL, 4, interleaving="clocked", warm=False)


# -- Packed loops, which are read without following all of their laps.

def test_blocks_are_independent_by_packed_loops_as_by_all_of_their_laps() -> None:
    """Who has read and who has written each sector, with the loop of `product` followed once and with each of its laps."""
    ready, prepared = launch_of(request(1), SMALL)
    found = []
    for packs in (True, False):
        with SampledRun(prepared, ready.launch, registers=ready.registers, max_instructions=10**9) as run:
            if not packs:
                run._packer.packed = lambda chunk, store: chunk  # type: ignore[method-assign]
            run._independence.note_all()  # also who reads what nobody writes
            run.execute([(0, 12)])
            found.append(run._independence._users)
    assert (found[0] == found[1]).all()
    assert np.count_nonzero(found[1][:, 1]) == (2 * 1024 + 1024 * 512) * 4 / 32
    assert np.count_nonzero(found[1][:, 0]) == 12 * 64 * 4 / 32


@pytest.mark.parametrize("coalescing", ["cc1.3", "sectors"])
def test_transactions_of_packed_loops_are_those_of_all_of_their_laps(coalescing: str) -> None:
    """A broadcast of `a` is one transaction, and 32 adjacent words of `b` are one segment of 128 bytes or four sectors."""
    trace, gpu = sample_of(sampled()).executed, load_gpu(SMALL, overrides=[f"sm.coalescing={coalescing}"])
    warps, _ = path_use(trace)
    whole = replace(trace, chunks=InMemory(list(trace.chunks)))
    counts, every = (trace_counts(each, gpu, warps, 4) for each in (trace, whole))
    assert counts == every
    assert counts.coalesced_instructions == 2 * 1024 + 1
