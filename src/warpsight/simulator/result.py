"""The result of a simulation: counts and cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.records import Memory, fields_of
from warpsight.simulator.state import Counters, CpiStack, Issue

Ints = npt.NDArray[np.int64]

COMPONENTS = tuple(fields_of(CpiStack))
_COUNTS = tuple(name for name in fields_of(Counters) if not name.startswith("miss_"))


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
        """The CPI stack per SM. Cycles that no scheduler accounts for are idle: SMs without a block, or without one any more."""
        scale = 1.0 / (schedulers * self.warp_instructions)
        parts = {name: float(value) * scale for name, value in zip(COMPONENTS, self.stack.sum(axis=0), strict=True)}
        cpi = self.cycles * sm_count / self.warp_instructions
        parts["idle"] += max(0.0, cpi - sum(parts.values()))
        return parts


def simulation_of(memory: Memory, samples: list[Sample]) -> Simulation:
    """The result that the final state of `memory`, a `state.State`, holds."""
    counters, stack, launch = memory["counters"], memory["stack"], memory.root
    return Simulation(
        cycles=int(launch["last_end"]) + 1, warp_instructions=int(launch["issued"]),
        stack=np.stack([stack[name] for name in COMPONENTS], axis=1),
        counts={name: counters[name].copy() for name in _COUNTS},
        miss_latency=_miss_latency({name: float(counters[name].sum()) for name in fields_of(Counters)}),
        samples=tuple(samples), timeline=_timeline(memory) if launch["machine"]["watch_room"] else None,
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
