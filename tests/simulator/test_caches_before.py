"""A launch that finds the L2 as the same launch has left it: what is still there is not fetched again, what is dirty is written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from command_line import run
from micro import DRAM_LATENCY, gpu
from trace_by_hand import Warp, build_trace

from warpsight.base.errors import UsageError
from warpsight.caches.exact.simulate import CacheSimulation, simulate_caches
from warpsight.caches.reuse.miss_source import reuse_miss_profile
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.caches_before import CarriedL2, at_start
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.predict import LaunchesInOrder, over_repeats
from warpsight.pipeline.request import Method
from warpsight.pipeline.simulation import simulate_repeated, simulate_trace
from warpsight.simulator.simulate import simulate_launch
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

LOADS, STORES = ["load.global.4 r0 <- r0"], ["store.global.4 <- r0 r0"]
L2_LINES = (1 << 20) // 128
CHASE = """.version 7.8
.target sm_75
.address_size 64
.visible .entry chase(.param .u64 x) {
    .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p;
    ld.param.u64 %rd1, [x]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r1, 8192, %r2; mov.u32 %r3, 32;
loop:
    mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r4, [%rd2]; add.u32 %r1, %r1, %r4; add.u32 %r1, %r1, 256;
    sub.u32 %r3, %r3, 1; setp.ne.u32 %p, %r3, 0; @%p bra loop;
    ret;
}
"""


def touching(code: list[str], lines: int) -> KernelTrace:
    """One warp of one lane that accesses so many lines; a load waits for the one before."""
    trace = build_trace(code, [Warp(((0, 1, lines),), [[128 * line] for line in range(lines)])])
    return dataclasses.replace(trace, header=dataclasses.replace(trace.header, warp_instructions=lines, thread_instructions=lines))


@pytest.mark.parametrize(
    ("code", "lines", "reads", "writes"),
    [
        (LOADS, 64, 0, 0),  # all are still there
        (LOADS, 2 * L2_LINES, 2 * L2_LINES, 0),  # least recently used: none is
        (STORES, 64, 0, 0),  # dirty lines that stay
        (STORES, 2 * L2_LINES, 2 * L2_LINES, 2 * L2_LINES),  # each takes the place of a dirty one, also of the launch before
    ],
)
def test_memory_accesses_of_a_repeated_launch(code: list[str], lines: int, reads: int, writes: int) -> None:
    trace = touching(code, lines)
    for totals in (simulate_caches(trace, gpu(), 1, warm=True).totals(), simulate_launch(trace, gpu(), 1, warm=True).totals()):
        assert (totals["dram_reads"], totals["dram_writes"]) == (reads, writes)
        assert totals["l1_misses"] == (lines if code is LOADS else 0), "the L1 is empty"


def test_each_load_of_a_chain_saves_the_latency_of_memory() -> None:
    trace = touching(LOADS, 64)
    cold, warm = (simulate_launch(trace, gpu(), 1, warm=warm).cycles for warm in (False, True))
    assert cold - warm == 64 * DRAM_LATENCY


def test_command_line_says_how_the_launch_found_the_caches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source, folder = tmp_path / "chase.ptx", str(tmp_path / "t")
    source.write_text(CHASE)
    run(capsys, "trace", source, "--grid", "8", "--block", "32", "--arg", "u32[65536]:zeros", "-o", folder)
    cycles = {}
    for command in ("predict", "simulate"):
        for before in ("cold", "warm"):
            outcome = run(capsys, command, folder, "--gpu", "a100", "--caches-before", before, "--json")
            document = json.loads(outcome.out)
            assert document["provenance"]["method"]["caches_before"] == before
            cycles[command, before] = document["cycles"]
        assert cycles[command, "warm"] < 0.7 * cycles[command, "cold"]
    assert run(capsys, "predict", folder, "--gpu", "a100").out.splitlines()[0].endswith("warm L2")
    assert run(capsys, "predict", folder, "--gpu", "mdm-pascal").out.splitlines()[0].endswith("cold L2")
    after_itself = json.loads(run(capsys, "predict", folder, "--gpu", "a100", "--caches-before", folder, "--json").out)
    assert after_itself["cycles"] == cycles["predict", "warm"]
    assert after_itself["provenance"]["method"]["caches_before"] == folder
    refused = run(capsys, "predict", folder, "--gpu", "a100", "--caches-before", "lukewarm")
    assert refused.code == 2 and "neither a state of the caches nor a file" in refused.err


def test_state_by_default_is_that_of_the_gpu_and_of_a_sample_cold() -> None:
    trace = touching(LOADS, 4)
    assert at_start("auto", load_gpu("a100"), trace) == "warm"
    assert at_start("auto", load_gpu("mdm-pascal"), trace) == "cold"
    assert at_start("cold", load_gpu("a100"), trace) == "cold"
    sample = dataclasses.replace(trace, header=dataclasses.replace(trace.header, sampled_blocks=1))
    assert at_start("auto", load_gpu("a100"), sample) == "cold"


@pytest.mark.parametrize(("code", "lines"), [(LOADS, 64), (STORES, 64), (LOADS, 2 * L2_LINES), (STORES, L2_LINES + 5)])
def test_warm_simulation_equals_a_second_launch_after_the_first(code: list[str], lines: int) -> None:
    trace, on = touching(code, lines), gpu()
    first = simulate_launch(trace, on, 1)
    second, warm = simulate_launch(trace, on, 1, l2_before=first.l2_left), simulate_launch(trace, on, 1, warm=True)
    assert (second.cycles, second.totals()) == (warm.cycles, warm.totals())


# -- Between launches: copies and fills, other launches, the same launch many times.

def fill(start: int, size: int, *, writes: bool = True) -> npt.NDArray[np.int64]:
    return np.array([[start, size, size, 1, writes]], np.int64)


def misses_after(rows: list[npt.NDArray[np.int64]], trace: KernelTrace) -> dict[str, int]:
    carried = CarriedL2(gpu())
    for each in rows:
        carried.touch(each)
    return carried.misses(CacheSimulation(trace, gpu(), 1)).totals()


def test_launch_finds_what_a_fill_has_written_and_a_copy_has_read() -> None:
    trace = touching(LOADS, 64)
    assert misses_after([], trace)["dram_reads"] == 64
    assert misses_after([fill(0, 128 * 64)], trace)["dram_reads"] == 0
    assert misses_after([fill(0, 128 * 16, writes=False)], trace)["dram_reads"] == 48
    assert misses_after([fill(128 * 8, 128 * 8)], trace)["dram_reads"] == 56
    after_more = misses_after([fill(0, 128 * 64), fill(1 << 24, 3 << 20)], trace)
    assert (after_more["dram_reads"], after_more["dram_writes"]) == (64, 64), "the second fill has evicted the first, and is dirty"


def test_rows_of_a_pitched_fill_are_touched_and_not_what_lies_between() -> None:
    rows = np.array([[0, 256, 128, 8, 1]], np.int64)
    assert misses_after([rows], touching(LOADS, 16))["dram_reads"] == 8


def test_second_kernel_finds_what_the_first_has_written() -> None:
    carried, on = CarriedL2(gpu()), gpu()
    written, read = touching(STORES, 64), touching(LOADS, 96)
    first = carried.misses(CacheSimulation(written, on, 1)).totals()
    second = carried.misses(CacheSimulation(read, on, 1)).totals()
    assert (first["dram_reads"], second["dram_reads"]) == (64, 32), "a store of 4 bytes fetches its line"


def test_launches_in_order_do_not_simulate_a_launch_twice_that_finds_the_same_l2(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    plain = CacheSimulation.run

    def counted(self: CacheSimulation, before: npt.NDArray[np.void] | None = None) -> object:
        runs.append(1)
        return plain(self, before)

    monkeypatch.setattr(CacheSimulation, "run", counted)
    in_order, trace = LaunchesInOrder(load_gpu("a100"), Method()), touching(LOADS, 64)
    cycles = [in_order.launch(trace)(model).cycles for _ in range(5) for model in ("warpsight",)]
    assert cycles[0] > cycles[1] == cycles[2] == cycles[3] == cycles[4]
    assert len(runs) == 2
    cold = LaunchesInOrder(load_gpu("a100"), Method(caches_before="cold"))
    assert [cold.launch(trace)("warpsight").cycles for _ in range(3)] == [cycles[0]] * 3
    assert len(runs) == 3


@pytest.mark.parametrize("before", ["auto", "warm"])
def test_repeats_are_the_first_launch_those_that_follow_and_their_sum(before: str) -> None:
    trace, a100 = touching(LOADS, 64), load_gpu("a100")
    (cold,), (warm,) = (predict_trace(trace, a100, ["warpsight"], Method(caches_before=each)) for each in ("cold", "warm"))
    rows = over_repeats(trace, a100, ["warpsight"], 10, Method(caches_before=before))
    first = warm if before == "warm" else cold
    assert [row.provenance["varied"]["launch"] for row in rows] == ["1", "2 to 10", "total"]
    assert [row.cycles for row in rows] == pytest.approx([first.cycles, warm.cycles, first.cycles + 9 * warm.cycles])
    simulated = simulate_repeated(trace, a100, 3, caches_before=before)
    assert simulated[2].cycles == pytest.approx(simulated[0].cycles + 2 * simulated[1].cycles)
    assert simulated[1].cycles == simulate_trace(trace, a100, caches_before="warm").prediction.cycles
    with pytest.raises(UsageError, match="out of range"):
        over_repeats(trace, a100, ["warpsight"], 0)


@pytest.mark.parametrize("lines", [64, 6000, 20000])
def test_warm_reuse_distances_agree_with_exact_caches(lines: int) -> None:
    """One warp on one SM, whose loads wait for each other: nothing but capacity decides."""
    trace, on = touching(LOADS, lines), gpu()
    for warm in (False, True):
        exact, model = simulate_caches(trace, on, 1, warm=warm).totals(), reuse_miss_profile(trace, on, 1, warm=warm).totals()
        assert model["dram_reads"] == exact["dram_reads"] == (0 if warm and lines <= L2_LINES else lines)
