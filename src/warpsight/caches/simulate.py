"""Exact simulation of the L1 of every SM and of the shared L2 over all warps of a launch.

Hits and misses are exact for the order in which the accesses arrive, and that order is the *interleaving*:

`clocked` (the default). SMs act in the order of their clocks. A warp comes to its next access after the instructions between (one
a cycle and scheduler, each as late as its operands ask) and after the data that they use has come; the scheduler picks among the
warps that are there, greedy-then-oldest or round-robin as the GPU says. Issued accesses wait in order, `sm.access_queue` at most,
for the load-store unit, which takes n cycles for n line requests. A miss takes an MSHR until its data is back: after the latency
of its level, and its turns at the L2 slice's port to the network and at the memory channel. A request for a line that is still on
its way is a *merge*. All this decides an order. It is no prediction of time.

`round-robin`. One memory instruction of each warp in turn, SMs in turn (GPUMech, MICRO 2014, section IV; MDM, MICRO 2020). Nothing
takes time, so a line is there as soon as it was asked for, and no request merges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsight.caches import layout as at
from warpsight.caches.engine import BAD_TRACE, DONE, NEED_BLOCK, run
from warpsight.caches.geometry import parameters_of, sector_groups
from warpsight.caches.layout import Ints
from warpsight.caches.memory import counts, new_memory, warp_rows
from warpsight.caches.miss_profile import COUNTS, SHARES, MissProfile
from warpsight.caches.mshr import way_wait
from warpsight.caches.program import program_of
from warpsight.caches.spread import shares_in_use
from warpsight.gpu.spec import GpuSpec
from warpsight.trace.schema import KernelTrace
from warpsight.trace.window import Places, TraceWindow, contradiction

TURNS_PER_REPORT = 1_000_000

Progress = Callable[[int, int], None]

_PLACES = Places(at.ID, at.EVENT, at.EVENT_END, at.SECTOR, at.SECTOR_END, at.TAKEN)


def simulate_caches(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, progress: Progress | None = None, interleaving: str = "clocked"
) -> MissProfile:
    """Simulate the caches of `gpu` under the whole launch; `blocks_per_sm` blocks are resident on each SM.

    `progress` is called now and then with the warps that have ended and the warps of the launch. `interleaving` is `clocked` or
    `round-robin` (see the module). Memory is bounded by the resident warps' streams and the trace's largest chunk.
    Raises SpecError for a hierarchy that cannot be simulated, UsageError for `blocks_per_sm` below 1 or an unknown interleaving,
    FormatError for a trace that contradicts itself.
    """
    header = trace.header
    p = parameters_of(gpu, header.recorded_blocks, header.warps_per_block, blocks_per_sm, interleaving)
    s = new_memory(p, program_of(trace, gpu, interleaving == "clocked"), sector_groups(gpu.l1), sector_groups(gpu.l2))
    window = TraceWindow(trace, _PLACES)
    cell = s[p[at.CELL] :]
    outcome = NEED_BLOCK
    while outcome != DONE:
        outcome = run(p, s, window.warps, window.events, window.sectors, TURNS_PER_REPORT)
        launched = int(cell[at.NEXT_BLOCK]) * header.warps_per_block
        if outcome == NEED_BLOCK:
            window.extend(warp_rows(p, s), launched)
            cell[at.FIRST_WARP], cell[at.LAST_WARP] = window.first, window.end
        elif outcome == BAD_TRACE:
            raise contradiction(trace, int(cell[at.BAD_WARP]))
        if progress is not None:
            progress(launched - int(cell[at.LIVE_WARPS]), header.warps)
    return _profile(counts(p, s), shares_in_use(p, s), way_wait(p, s))


def _profile(count: Ints, shares: tuple[float, ...], way_wait: float) -> MissProfile:
    def column(field: str) -> Ints:
        found = count[:, at.TOUCHED_SECTORS if field == "sectors" else getattr(at, field.upper())].copy()
        return found // at.TICKS if field == "merged_wait_cycles" else found

    found: dict[str, Any] = {field: column(field) for field in COUNTS}
    return MissProfile(way_wait=way_wait, **found | dict(zip(SHARES, shares, strict=True)))
