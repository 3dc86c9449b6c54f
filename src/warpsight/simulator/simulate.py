"""One launch in the cycle-level simulator, from its trace.

Every SM has `sm.schedulers` warp schedulers that issue in order within a warp, each instruction when its registers are there and
its unit is free. Memory instructions wait in a queue for the load-store unit, which sends one request a cycle into the L1. Misses
go through a crossbar to L2 slices and from there to memory channels. Every queue is finite, and a full one blocks
what is behind it. Without contention an access takes exactly the latencies of the GPU description.
"""

from __future__ import annotations

from collections.abc import Callable

from warpsight.base.errors import FormatError, LimitError, UsageError
from warpsight.gpu.spec import GpuSpec
from warpsight.simulator.engine import BAD_TRACE, DONE, NEED_BLOCK, STUCK, TOO_LONG, run
from warpsight.simulator.machine import machine_of
from warpsight.simulator.memory import code_of, new_memory
from warpsight.simulator.result import Sample, Simulation, simulation_of
from warpsight.traces.schema import KernelTrace
from warpsight.traces.window import TraceWindow, contradiction

DEFAULT_MAX_CYCLES = 10**10
WATCHED_INSTRUCTIONS = 200_000
_SAMPLES = 512

Progress = Callable[[int, int], None]


def simulate_launch(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, max_cycles: int = DEFAULT_MAX_CYCLES, watch_sm: int | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate the launch of `trace` on `gpu`, cold caches; `blocks_per_sm` blocks fit each SM.

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
    machine |= {"registers": code.registers, "loads": code.loads, "units": len(code.initiation), "max_cycles": max_cycles}
    machine["watched_sm"], machine["watch_room"] = (-1, 0) if watch_sm is None else (watch_sm, WATCHED_INSTRUCTIONS)
    memory = new_memory(trace, gpu, machine, code)
    state, launch, window = memory.state, memory.state.root, TraceWindow(trace)
    samples = _Samples()
    outcome = NEED_BLOCK
    while outcome != DONE:
        outcome = run(state.address, samples.period)
        launched = int(launch["next_block"]) * header.warps_per_block
        if outcome == NEED_BLOCK:
            window.extend(memory.warps, launched)
            launch["first_warp"], launch["last_warp"] = window.first, window.end
            for name, table in (("window", window.warps), ("events", window.events), ("sectors", window.sectors)):
                state.put(name, table)
            continue
        live = int(launch["live_warps"])
        _check(outcome, trace, int(launch["bad_warp"]), max_cycles, launched - live)
        samples.add(Sample(int(launch["now"]), live, int(launch["issued"])))
        if progress is not None:
            progress(launched - live, header.warps)
    return simulation_of(state, samples.taken)


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
        what = f"{max_cycles:,} cycles are over and {ended:,} of {trace.header.warps:,} warps have ended"
        raise LimitError(what, place="max_cycles", remedy="raise `max_cycles`, or record fewer blocks with `sample`")
    if outcome == STUCK:
        what = "deadlock in the simulation: no warp can continue"
        raise FormatError(what, place=trace.origin or trace.header.kernel, remedy="please report this, with the trace")
