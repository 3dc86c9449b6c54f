"""From a CPI stack to instructions: one rule a component. The rules are explained in docs/explanation/explain.md.

A rule gives a weight to every instruction of the kernel; the component is divided in proportion. Nothing depends on the model that
made the stack, so the parts of every model sum to its prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import SpecError
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.latencies import ISSUE_ONLY
from warpsight.gpu.spec import GpuSpec
from warpsight.profile.interval_profile import CAUSES, IntervalProfile
from warpsight.profile.requests import leaving, requests
from warpsight.trace.schema import KernelTrace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """What the rules read: a trace, what the caches of a GPU made of it, and its interval profile.

    `warps` int64 [paths]: how many took each path. `times` int64 [instructions]: how often warps came past each pc. `waiting` int32
    [intervals]: the pc that waits at the end of each interval of the representative warp, -1 for none.
    """

    trace: KernelTrace
    misses: MissProfile
    profile: IntervalProfile
    gpu: GpuSpec
    warps: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    waiting: npt.NDArray[np.int32]


def divided(stack: Mapping[str, float], evidence: Evidence) -> tuple[dict[str, Floats], dict[str, float]]:
    """Each component over the instructions, float64 [instructions]; and what no instruction is charged with, by component.

    The latter is `idle`, components without a rule (a plug-in's own), and those whose cause the trace does not show.
    """
    parts: dict[str, Floats] = {}
    rest: dict[str, float] = {}
    for name, value in stack.items():
        weights = RULES[name](evidence) if name in RULES and value else np.zeros(len(evidence.times))
        total = float(weights.sum())
        if total > 0:
            parts[name] = value * (weights / total)
        else:
            parts[name] = np.zeros(len(weights))
            if value:
                rest[name] = value
    return parts, rest


def _issued(evidence: Evidence) -> Floats:
    return evidence.times.astype(np.float64)


def _waited(cause: str) -> Callable[[Evidence], Floats]:
    """Stall cycles of the representative warp by the instruction that waits."""

    def weights(evidence: Evidence) -> Floats:
        chosen = (evidence.profile.cause == CAUSES.index(cause)) & (evidence.waiting >= 0)
        found = np.bincount(evidence.waiting[chosen], evidence.profile.stall_cycles[chosen], len(evidence.times))
        return found.astype(np.float64)

    return weights


def _waited_for_memory(evidence: Evidence) -> Floats:
    """Where no load is waited for, a model may still charge accesses to device memory, as MWP-CWP does: by execution."""
    found = _waited("memory")(evidence)
    return found if found.any() else evidence.misses.executions.astype(np.float64)


def _in_mshrs(evidence: Evidence) -> Floats:
    return leaving(evidence.trace.instructions, evidence.misses)[0].astype(np.float64)


def _on_the_network(evidence: Evidence) -> Floats:
    reads, others = leaving(evidence.trace.instructions, evidence.misses)
    return (reads + others + evidence.misses.atomic_repeats).astype(np.float64)


def _at_dram(evidence: Evidence) -> Floats:
    return (evidence.misses.dram_reads + evidence.misses.dram_writes).astype(np.float64)


def _unit_held(evidence: Evidence) -> Floats:
    """Cycles for which instructions hold their unit beyond the one that they issue in: arithmetic, shared memory, load-store.

    Where none does, units are contended only in that several schedulers share them: then all cycles that they are held for.
    Raises SpecError for an unknown unit.
    """
    initiation = np.array([_initiation(instruction.op_class, evidence.gpu) for instruction in evidence.trace.instructions])
    misses = evidence.misses
    # a generic access may go to shared memory alone, and then has fewer requests than executions
    queued = np.maximum(requests(evidence.trace.instructions, misses) - misses.executions, 0)
    longer: Floats = evidence.times * (initiation - 1) + (misses.shared_passes - misses.shared_executions) + queued
    if longer.any():
        return longer
    units = np.array([instruction.op_class not in ISSUE_ONLY for instruction in evidence.trace.instructions], dtype=np.float64)
    return evidence.times * units


def _initiation(op_class: str, gpu: GpuSpec) -> float:
    """Cycles until a unit takes the next instruction; what only issues, and what goes to memory, holds none of them."""
    if op_class in (*ISSUE_ONLY, "memory"):
        return 1.0
    if op_class not in gpu.initiation_cycles:
        known = ", ".join(sorted(gpu.initiation_cycles))
        what = f'{gpu.name} gives no initiation interval for op class "{op_class}"'
        raise SpecError(what, place=f"initiation.{op_class}", remedy=f"add it to the GPU description; it has {known}")
    return float(gpu.initiation_cycles[op_class])


def _at_barriers(evidence: Evidence) -> Floats:
    barrier = [instruction.op_class == "barrier" for instruction in evidence.trace.instructions]
    return np.where(barrier, evidence.times, 0).astype(np.float64)


# Weights [instructions] of 0 or more. `idle` has no rule: no instruction makes an SM idle.
RULES: dict[str, Callable[[Evidence], Floats]] = {
    "base": _issued,
    "com_data": _waited("compute"),
    "com_struct": _unit_held,
    "mem_data": _waited_for_memory,
    "mshr": _in_mshrs,
    "noc": _on_the_network,
    "dram": _at_dram,
    "sync": _at_barriers,
}
