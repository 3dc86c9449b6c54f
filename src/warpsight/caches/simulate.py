"""Exact simulation of the L1 of every SM and of the shared L2 over all warps of a launch.

Hits and misses are exact for the order in which the accesses arrive, and that order is the *interleaving*:

`clocked` (the default). SMs act in the order of their clocks. A warp comes to its next access after the instructions between (one a cycle
and scheduler, each as late as its operands ask) and after the data that they use has come; the scheduler picks among the warps that are
there, greedy-then-oldest or round-robin as the GPU says. A warp access of n line requests takes the load-store unit n cycles; a miss
takes an MSHR until its data is back, after the latency of its level and after its turn at the SM's and the slice's port of the network
and at the memory channel. A request for a line that is still on its way is a *merge*. This decides an order. It is no prediction of time.

`round-robin`. One memory instruction of each warp in turn, SMs in turn (GPUMech, MICRO 2014, section IV; MDM, MICRO 2020). Nothing
takes time, so a line is there as soon as it was asked for, and no request merges.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.caches import counters
from warpsight.caches.engine import BAD_TRACE, DONE, NEED_BLOCK, run
from warpsight.caches.geometry import machine_of
from warpsight.caches.miss_profile import MissProfile
from warpsight.caches.program import program_of
from warpsight.caches.state import BAD_WARP, LIVE_WARPS, NEXT_BLOCK, new_state
from warpsight.caches.stream import Stream
from warpsight.gpu.spec import GpuSpec
from warpsight.trace.schema import KernelTrace

TURNS_PER_REPORT = 1_000_000

Progress = Callable[[int, int], None]


def simulate_caches(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, progress: Progress | None = None, interleaving: str = "clocked"
) -> MissProfile:
    """Simulate the caches of `gpu` under the whole launch; `blocks_per_sm` blocks are resident on each SM.

    `progress` is called now and then with the warps that have ended and the warps of the launch. `interleaving` as in the module's text.
    Memory is bounded by the resident warps' streams and the trace's largest chunk. Raises SpecError for a hierarchy that cannot be
    simulated, UsageError for `blocks_per_sm` below 1 or an unknown interleaving, FormatError for a trace that contradicts itself.
    """
    header = trace.header
    machine = machine_of(gpu, header.blocks, header.warps_per_block, blocks_per_sm, interleaving)
    program, loads = program_of(trace, gpu, interleaving == "clocked")
    state = new_state(machine, len(trace.instructions), loads, counters.COUNTERS)
    stream = Stream(trace)
    cell = state.control.cell
    outcome = NEED_BLOCK
    while outcome != DONE:
        outcome = run(machine, program, stream.window, state, TURNS_PER_REPORT)
        if outcome == NEED_BLOCK:
            stream.extend(state, int(cell[NEXT_BLOCK]) * header.warps_per_block)
        elif outcome == BAD_TRACE:
            raise FormatError(
                f"warp {int(cell[BAD_WARP])} has other events or sectors than its path asks for",
                place=trace.origin or header.kernel,
                remedy="make the trace again",
            )
        if progress is not None:
            progress(int(cell[NEXT_BLOCK]) * header.warps_per_block - int(cell[LIVE_WARPS]), header.warps)
    return _profile(state.cache.count)


def _profile(count: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> MissProfile:
    columns = np.ascontiguousarray(count.T)
    return MissProfile(**{name: columns[getattr(counters, _column(name))] for name in MissProfile.__dataclass_fields__})


def _column(field: str) -> str:
    return "TOUCHED_SECTORS" if field == "sectors" else field.upper()
