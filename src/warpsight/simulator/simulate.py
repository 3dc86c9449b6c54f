"""One launch through the referee: a cycle-level simulation from a trace.

Every SM has `sm.schedulers` warp schedulers that issue in order within a warp, each instruction when its registers are there and
its unit is free. Memory instructions wait in a queue for the load-store unit, which sends one request a cycle into the L1. Misses
go through a crossbar to L2 slices and from there to memory channels. Every queue is finite, and what is full holds up what is
behind it. With nothing in its way an access takes exactly the latencies of the GPU description.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsight.base.errors import FormatError, LimitError, UsageError
from warpsight.gpu.spec import GpuSpec
from warpsight.simulator import layout as at
from warpsight.simulator.engine import BAD_TRACE, DONE, NEED_BLOCK, STUCK, TOO_LONG, run
from warpsight.simulator.layout import Ints
from warpsight.simulator.machine import code_of, new_memory, parameters_of
from warpsight.simulator.result import Sample, Simulation, simulation_of
from warpsight.traces.schema import KernelTrace
from warpsight.traces.window import TraceWindow, contradiction

DEFAULT_MAX_CYCLES = 10**10
WATCHED_INSTRUCTIONS = 200_000
_SAMPLES = 512

Progress = Callable[[int, int], None]

_COLUMNS = {
    "id": at.ID,
    "event": at.EVENT,
    "event_end": at.EVENT_END,
    "sector": at.SECTOR,
    "sector_end": at.SECTOR_END,
    "taken": at.TAKEN,
}
_SLOT = np.dtype(
    {
        "names": list(_COLUMNS),
        "formats": [np.int64] * len(_COLUMNS),
        "offsets": [8 * column for column in _COLUMNS.values()],
        "itemsize": 8 * at.WARP_WIDTH,
    }
)


def simulate_launch(
    trace: KernelTrace,
    gpu: GpuSpec,
    blocks_per_sm: int,
    *,
    max_cycles: int = DEFAULT_MAX_CYCLES,
    watch_sm: int | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate the launch of `trace` on `gpu`, cold caches; `blocks_per_sm` blocks fit each SM.

    `watch_sm` keeps what that SM issues, `WATCHED_INSTRUCTIONS` at most. `progress` is called now and then with the warps that have
    ended and the warps of the launch. Memory is bounded by the machine's state, the resident warps' streams and the trace's
    largest chunk. Raises SpecError or LimitError for a GPU that cannot be simulated, UsageError for an SM that it does not have,
    LimitError past `max_cycles`, FormatError for a trace that contradicts itself.
    """
    header = trace.header
    p = parameters_of(gpu, header.recorded_blocks, header.warps_per_block, blocks_per_sm)
    p[at.MAX_CYCLES] = max_cycles
    p[at.WATCHED_SM], p[at.WATCH_ROOM] = _watched(watch_sm, gpu)
    code = code_of(trace, gpu)
    s = new_memory(p, trace, gpu, code)
    f = np.zeros((len(code.rows) + 1) * at.STACK_WIDTH)
    window = TraceWindow(trace)
    cell, rows = s[p[at.CELL] :], _warp_rows(p, s)
    samples = _Samples()
    outcome = NEED_BLOCK
    while outcome != DONE:
        outcome = run(p, s, f, window.warps.view(np.int64), window.events, window.sectors, samples.period)
        launched = int(cell[at.NEXT_BLOCK]) * header.warps_per_block
        if outcome == NEED_BLOCK:
            window.extend(rows.view(_SLOT)[:, 0], launched)
            cell[at.FIRST_WARP], cell[at.LAST_WARP] = window.first, window.end
            continue
        live = int(cell[at.LIVE_WARPS])
        _refuse(outcome, trace, int(cell[at.BAD_WARP]), max_cycles, launched - live)
        samples.add(Sample(int(cell[at.NOW]), live, int(cell[at.ISSUED_TOTAL])))
        if progress is not None:
            progress(launched - live, header.warps)
    return simulation_of(p, s, f, samples.taken)


class _Samples:
    """Samples at even distances, `_SAMPLES` at most: when they are too many, every other goes and the distance doubles."""

    def __init__(self) -> None:
        self.period = 64
        self.taken: list[Sample] = []

    def add(self, sample: Sample) -> None:
        self.taken.append(sample)
        if len(self.taken) >= _SAMPLES:
            self.taken = self.taken[1::2]
            self.period *= 2


def _watched(watch_sm: int | None, gpu: GpuSpec) -> tuple[int, int]:
    if watch_sm is None:
        return -1, 0
    if not 0 <= watch_sm < gpu.sm_count:
        what = f"{gpu.name} has no SM {watch_sm}"
        raise UsageError(what, place="--timeline-sm", remedy=f"give 0 to {gpu.sm_count - 1}")
    return watch_sm, WATCHED_INSTRUCTIONS


def _warp_rows(p: Ints, s: Ints) -> Ints:
    """The table of warp slots as [slots, WARP_WIDTH], a view."""
    slots = int(p[at.SM_COUNT] * p[at.SLOTS])
    return s[p[at.WARP] : p[at.WARP] + slots * at.WARP_WIDTH].reshape(slots, at.WARP_WIDTH)


def _refuse(outcome: int, trace: KernelTrace, warp: int, max_cycles: int, ended: int) -> None:
    """Raise what a run that cannot go on has to say."""
    if outcome == BAD_TRACE:
        raise contradiction(trace, warp)
    if outcome == TOO_LONG:
        what = f"{max_cycles:,} cycles are over and {ended:,} of {trace.header.warps:,} warps have ended"
        raise LimitError(what, place="--max-cycles", remedy="raise --max-cycles, or record fewer blocks with --sample")
    if outcome == STUCK:
        what = "the simulation stands still: no warp can go on"
        raise FormatError(what, place=trace.origin or trace.header.kernel, remedy="please report this, with the trace")
