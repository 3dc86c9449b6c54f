"""What if one more block fitted on an SM?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsight.advice.base import PROGRAMMER, Case, WhatIf
from warpsight.advice.registry import RULES
from warpsight.base.format import three_digits
from warpsight.gpu.occupancy import Occupancy, occupancy
from warpsight.trace.schema import KernelTrace, TraceHeader


def next_step(case: Case) -> tuple[TraceHeader, Occupancy] | None:
    """The launch with the fewest registers and bytes of shared memory taken away that raise its residency, and that; None when
    threads or blocks bound it as well."""
    header, now = case.trace.header, case.profiled.occupancy.blocks_per_sm

    def blocks(registers: int, shared: int) -> int:
        return occupancy(case.gpu, header.threads_per_block, registers, shared).blocks_per_sm

    def raised(registers: int, shared: int) -> bool:
        return blocks(registers, shared) > now

    shared = header.static_shared_bytes + header.dynamic_shared_bytes
    if not raised(1, 0):
        return None
    registers = header.registers_per_thread
    while not raised(registers, 0):
        registers -= 1
    if not raised(registers, shared):
        # a block's share is rounded up to units, so whole units are enough to look at
        unit = case.gpu.sm.shared_memory_unit_bytes
        shared = (shared - 1) // unit * unit
        while not raised(registers, shared):
            shared = max(0, shared - unit)
    static = min(header.static_shared_bytes, shared)
    changed = replace(
        header, registers_per_thread=registers, static_shared_bytes=static, dynamic_shared_bytes=shared - static
    )
    return changed, occupancy(case.gpu, header.threads_per_block, registers, shared)


class OccupancyStep:
    """Fewer registers or less shared memory: residency, caches, profile and model are made again."""

    name = "occupancy"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The next step, if registers or shared memory are what bounds the residency."""
        found = next_step(case)
        if found is None:
            return
        header, reached = found
        before, now = case.trace.header, case.profiled.occupancy
        less = []
        if header.registers_per_thread < before.registers_per_thread:
            less.append(f"{header.registers_per_thread} registers a thread instead of {before.registers_per_thread}")
        shared = [part.static_shared_bytes + part.dynamic_shared_bytes for part in (header, before)]
        if shared[0] < shared[1]:
            less.append(f"{shared[0]:,} bytes of shared memory a block instead of {shared[1]:,}")
        trace: KernelTrace = replace(case.trace, header=header)
        yield WhatIf(
            title=f"occupancy from {three_digits(now.fraction)} to {three_digits(reached.fraction)}: {' and '.join(less)}",
            place="launch",
            reason=f"{now.blocks_per_sm} blocks fit on an SM, limited by {now.limiter}; {reached.blocks_per_sm} would",
            cost="__launch_bounds__ or less shared memory; spills that this may cause are not counted",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(trace),
        )


RULES.add(OccupancyStep.name, OccupancyStep())
