"""One launch in the cycle-level simulator, from its trace.

Every SM has `sm.schedulers` warp schedulers that issue in order within a warp, each instruction when its registers are there and
its unit is free. Memory instructions wait in a queue for the load-store unit, which sends one request a cycle into the L1. Misses
go through a crossbar to L2 slices and from there to memory channels. Every queue is finite, and a full one blocks
what is behind it. Without contention an access takes exactly the latencies of the GPU description.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError, LimitError, UsageError
from warpsight.base.records import Memory, dtype_of, fields_of
from warpsight.caches.exact.between import lines_left
from warpsight.gpu.occupancy import resident_clusters
from warpsight.gpu.spec import GpuSpec
from warpsight.simulator.engine import BAD_TRACE, DONE, NEED_BLOCK, STUCK, TOO_LONG, run
from warpsight.simulator.memory import LaunchMemory, code_of, load_store_unit_of, machine_of, new_memory, waits_of
from warpsight.simulator.state import Counters, CpiStack, Issue
from warpsight.simulator.structures import Line
from warpsight.traces.events import most_sectors
from warpsight.traces.schema import KernelTrace
from warpsight.traces.window import TraceWindow, contradiction

DEFAULT_MAX_CYCLES = 10**10
WATCHED_INSTRUCTIONS = 200_000
_SAMPLES = 512

Progress = Callable[[int, int], None]
Ints = npt.NDArray[np.int64]

COMPONENTS = tuple(fields_of(CpiStack))
_COUNTS = tuple(name for name in fields_of(Counters) if not name.startswith("miss_"))


# -- The result: counts and cycles.

@dataclass(frozen=True)
class Sample:
    """The launch at one cycle: warps that have a place on an SM, and warp instructions issued so far."""

    cycle: int
    resident_warps: int
    issued: int


@dataclass(frozen=True)
class Timeline:
    """What one SM issued, in order of time; int64 [records] each, `truncated` if there was more.

    `warp` of the launch, `slot` on the SM, `pc` at cycle `issued`; `ready` is when its operands were there, and `cause` what it
    waited for until then: 0 its start, 1 arithmetic, 2 memory, 3 a barrier, 4 fetch.
    """

    sm: int
    issued: Ints
    slot: Ints
    warp: Ints
    pc: Ints
    ready: Ints
    cause: Ints
    truncated: bool


@dataclass(frozen=True)
class Simulation:
    """One launch. `stack` float64 [instructions, components] are scheduler-cycles by pc and component, without idle SMs.

    `counts` maps names (requests as in `caches.miss_profile.MissProfile`) to int64 [instructions]. `miss_latency` are the cycles
    of a mean L1 read miss by where it spends them. `samples` are in order of time. `l2_left` are the lines that it leaves in the
    L2, rows of `structures.Line`, which the next launch may begin with.
    """

    cycles: int
    warp_instructions: int
    stack: npt.NDArray[np.float64]
    counts: dict[str, Ints]
    miss_latency: dict[str, float]
    samples: tuple[Sample, ...]
    timeline: Timeline | None
    l2_left: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype_of(Line)), repr=False)

    def totals(self) -> dict[str, int]:
        """The counts over all instructions."""
        return {name: int(values.sum()) for name, values in self.counts.items()}

    def components(self, schedulers: int, sm_count: int) -> dict[str, float]:
        """The CPI stack per SM. Cycles that no scheduler accounts for are idle: SMs without a block, or without one any more."""
        scale = 1.0 / (schedulers * self.warp_instructions)
        parts = {name: float(value) * scale for name, value in zip(COMPONENTS, self.stack.sum(axis=0), strict=True)}
        cpi = self.cycles * sm_count / self.warp_instructions
        parts["idle"] += max(0.0, cpi - sum(parts.values()))
        return parts


def simulation_of(launched: LaunchMemory, samples: list[Sample]) -> Simulation:
    """The result that the final state of a launch holds."""
    memory = launched.state
    counters, stack, launch = memory["counters"], memory["stack"], memory.root
    left = launched.l2_lines.copy()
    left["valid"] |= left["pending"]  # what is still on its way arrives
    left["pending"] = left["copied"] = left["copy_ready"] = 0  # as `caches.exact.between.at_rest` has it
    return Simulation(
        cycles=int(launch["last_end"]) + 1, warp_instructions=int(launch["issued"]),
        stack=np.stack([stack[name] for name in COMPONENTS], axis=1),
        counts={name: counters[name].copy() for name in _COUNTS},
        miss_latency=_miss_latency({name: float(counters[name].sum()) for name in fields_of(Counters)}),
        samples=tuple(samples), timeline=_timeline(memory) if launch["machine"]["watch_room"] else None,
        l2_left=left,
    )


def _miss_latency(totals: dict[str, float]) -> dict[str, float]:
    """Cycles of a mean L1 read miss by where it spends them (MDM, MICRO 2020, Fig. 3); `l2` is the way to the L2 and back."""
    misses = totals["l1_misses"]
    if not misses:
        return {}
    mshr, noc, queue, dram = (totals[f"miss_{part}"] / misses for part in ("mshr", "noc", "dram_queue", "dram"))
    rest = max(0.0, totals["miss_latency"] / misses - mshr - noc - queue - dram)
    return {"mshr": mshr, "noc_queue": noc, "l2": rest, "dram_queue": queue, "dram": dram}


def _timeline(memory: Memory) -> Timeline:
    count, machine = int(memory.root["watched"]), memory.root["machine"]
    columns = {name: memory["issues"][name][:count].copy() for name in fields_of(Issue)}
    return Timeline(sm=int(machine["watched_sm"]), truncated=bool(count == machine["watch_room"]), **columns)


# -- The run.

def simulate_launch(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, max_cycles: int = DEFAULT_MAX_CYCLES, watch_sm: int | None = None,
    progress: Progress | None = None, warm: bool = False, l2_before: npt.NDArray[Any] | None = None,
) -> Simulation:
    """Simulate the launch of `trace` on `gpu`; `blocks_per_sm` blocks fit each SM.

    All caches are empty at the start; with `warm` the L2 is as an earlier launch of the same trace has left it, its dirty lines
    included, or it holds `l2_before`, what another simulation on `gpu` has left. The L1s are empty.
    `watch_sm` keeps what that SM issues, `WATCHED_INSTRUCTIONS` at most. `progress` is called now and then with the warps that have
    ended and the warps of the launch. Memory is bounded by the machine's state, the resident warps' streams and the trace's
    largest chunk. Raises SpecError or LimitError for a GPU that cannot be simulated, UsageError for an SM that it does not have,
    LimitError past `max_cycles`, FormatError for a trace that contradicts itself.
    """
    header = trace.header
    machine = machine_of(gpu, header.recorded_blocks, header.warps_per_block, blocks_per_sm)
    if watch_sm is not None and not 0 <= watch_sm < gpu.sm_count:
        raise UsageError(f"{gpu.name} has no SM {watch_sm}", place="watch_sm", remedy=f"give 0 to {gpu.sm_count - 1}")
    code = code_of(trace, gpu)
    machine |= {"registers": code.registers, "loads": code.loads, "groups": code.groups, "units": code.units}
    machine |= {"max_cycles": max_cycles, **load_store_unit_of(gpu, header.level)}
    machine |= waits_of(trace, gpu)
    resident_clusters(gpu, blocks_per_sm, header.cluster_blocks)  # else no block would ever start
    machine["most_requests"] = most_sectors(trace) + 1
    machine |= {"cluster_blocks": header.cluster_blocks, "gpcs": max(1, gpu.gpc_count), "in_order": header.starts_in_order}
    machine["watched_sm"], machine["watch_room"] = (-1, 0) if watch_sm is None else (watch_sm, WATCHED_INSTRUCTIONS)

    def run_from(before: npt.NDArray[Any] | None) -> Simulation:
        memory = new_memory(trace, gpu, machine, code)
        if before is not None:
            memory.l2_lines[:] = before
        return simulation_of(memory, _run_launch(memory, trace, max_cycles, progress))

    if not warm:
        return run_from(l2_before)
    known = lines_left(trace, gpu)  # without a simulation, where no line is evicted
    if known is None:
        return run_from(run_from(None).l2_left)
    left = new_memory(trace, gpu, machine, code).l2_lines
    there = (known["valid"] | known["dirty"]) != 0
    left["number"], left["valid"], left["dirty"] = np.where(there, known["tag"], -1), known["valid"], known["dirty"]
    return run_from(left)


def _run_launch(memory: LaunchMemory, trace: KernelTrace, max_cycles: int, progress: Progress | None) -> list[Sample]:
    """From the initial state of a launch to its end."""
    header, state, launch, window = trace.header, memory.state, memory.state.root, TraceWindow(trace)
    state.put("events", window.events)
    state.put("sectors", window.sectors)
    samples = _Samples()
    outcome = NEED_BLOCK
    while outcome != DONE:
        outcome = run(state.address, samples.period)
        launched = int(launch["next_block"]) * header.warps_per_block
        if outcome == NEED_BLOCK:
            # behind it are all blocks that have not started: those of a cluster start together
            window.extend(memory.warps, int(header.block_at(launch["next_block"])) * header.warps_per_block)
            launch["first_warp"], launch["last_warp"] = window.first, window.end
            state.put("window", window.warps)
            continue
        live = int(launch["live_warps"])
        _check(outcome, trace, int(launch["bad_warp"]), max_cycles, launched - live)
        samples.add(Sample(int(launch["now"]), live, int(launch["issued"])))
        if progress is not None:
            progress(launched - live, header.warps)
    return samples.taken


class _Samples:
    """Samples at even distances, `_SAMPLES` at most: of too many, every other is dropped and the distance doubles."""

    def __init__(self) -> None:
        self.period = 64
        self.taken: list[Sample] = []

    def add(self, sample: Sample) -> None:
        self.taken.append(sample)
        if len(self.taken) >= _SAMPLES:
            self.taken = self.taken[1::2]
            self.period *= 2


def _check(outcome: int, trace: KernelTrace, warp: int, max_cycles: int, ended: int) -> None:
    """Raise the error of a run that cannot continue."""
    if outcome == BAD_TRACE:
        raise contradiction(trace, warp)
    if outcome == TOO_LONG:
        what = f"only {ended:,} of {trace.header.warps:,} warps have ended after {max_cycles:,} cycles"
        raise LimitError(what, place="max_cycles", remedy="raise `max_cycles`, or record fewer blocks with `sample`")
    if outcome == STUCK:
        what = "deadlock in the simulation: no warp can continue"
        raise FormatError(what, place=trace.origin or trace.header.kernel, remedy="please report this, with the trace")
