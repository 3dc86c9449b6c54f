"""What a simulation found, as counts and as cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.result.prediction import COMPONENTS
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Floats, Ints

_COUNTS = (
    "executions", "divergent", "l1_reads", "l1_hits", "l1_misses", "l1_merges", "l1_writes", "l2_reads", "l2_read_hits",
    "l2_read_misses", "l2_read_merges", "l2_writes", "l2_write_hits", "l2_write_misses", "dram_reads", "dram_writes",
)  # fmt: skip


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

    `counts` maps names (requests as in `caches.MissProfile`) to int64 [instructions]. `miss_latency` are the cycles of a mean L1
    read miss by where it spends them. `samples` are in order of time.
    """

    cycles: int
    warp_instructions: int
    stack: npt.NDArray[np.float64]
    counts: dict[str, Ints]
    miss_latency: dict[str, float]
    samples: tuple[Sample, ...]
    timeline: Timeline | None

    def totals(self) -> dict[str, int]:
        """The counts over all instructions."""
        return {name: int(values.sum()) for name, values in self.counts.items()}

    def components(self, schedulers: int, sm_count: int) -> dict[str, float]:
        """The CPI stack per SM. What no scheduler's account holds is idle: SMs that had nothing left to run, or nothing at all."""
        scale = 1.0 / (schedulers * self.warp_instructions)
        parts = {name: float(value) * scale for name, value in zip(COMPONENTS, self.stack.sum(axis=0), strict=True)}
        cpi = self.cycles * sm_count / self.warp_instructions
        parts["idle"] += max(0.0, cpi - sum(parts.values()))
        return parts


def simulation_of(p: Ints, s: Ints, f: Floats, samples: list[Sample]) -> Simulation:
    """Read the final state."""
    instructions = int(p[at.INSTRUCTIONS])
    table = s[p[at.COUNT] : p[at.COUNT] + instructions * at.COUNTERS].reshape(instructions, at.COUNTERS)
    counts = {name: table[:, getattr(at, f"C_{name.upper()}")].copy() for name in _COUNTS}
    cell = int(p[at.CELL])
    return Simulation(
        cycles=int(s[cell + at.LAST_END]) + 1,
        warp_instructions=int(s[cell + at.ISSUED_TOTAL]),
        stack=f[: instructions * at.STACK_WIDTH].reshape(instructions, at.STACK_WIDTH).copy(),
        counts=counts,
        miss_latency=_miss_latency(table.sum(axis=0)),
        samples=tuple(samples),
        timeline=_timeline(p, s) if p[at.WATCH_ROOM] else None,
    )


def _miss_latency(totals: Ints) -> dict[str, float]:
    """Mean cycles of an L1 read miss (MDM, MICRO 2020, Fig. 3): waiting for an MSHR, in the NoC's queues, to the L2 and back..."""
    misses = int(totals[at.C_L1_MISSES])
    if not misses:
        return {}
    whole, mshr, noc = (float(totals[k]) / misses for k in (at.C_MISS_LATENCY, at.C_MISS_MSHR, at.C_MISS_NOC))
    queue, dram = (float(totals[k]) / misses for k in (at.C_MISS_DRAM_QUEUE, at.C_MISS_DRAM))
    rest = max(0.0, whole - mshr - noc - queue - dram)
    return {"mshr": mshr, "noc_queue": noc, "l2": rest, "dram_queue": queue, "dram": dram}


def _timeline(p: Ints, s: Ints) -> Timeline:
    count = int(s[p[at.CELL] + at.WATCHED])
    records = s[p[at.WATCH] : p[at.WATCH] + count * at.WATCH_WIDTH].reshape(count, at.WATCH_WIDTH)
    issued, slot, warp, pc, ready, cause = (records[:, k].copy() for k in range(6))
    return Timeline(int(p[at.WATCHED_SM]), issued, slot, warp, pc, ready, cause, bool(count == p[at.WATCH_ROOM]))
