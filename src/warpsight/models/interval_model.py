"""What interval models share: multithreading, the CPI stack, waves. A model adds its contention and little else.

An SM's cycles for the intervals of the representative warp, at a given residency, are its cycles free of contention (GPUMech's
multithreaded ones, where a model does not say otherwise) plus the model's contention cycles, and not fewer than its schedulers need
to issue all instructions.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.equations.multithreading import multithreaded_cycles, nonoverlapped
from warpsight.equations.pieces import pieces
from warpsight.gpu.spec import GpuSpec
from warpsight.models.answer import predict_one
from warpsight.models.base import About, Design
from warpsight.models.residency import Residency, residency
from warpsight.profile.interval_profile import CAUSES, IntervalProfile
from warpsight.result.prediction import COMPONENTS, Prediction

Floats = npt.NDArray[np.float64]

# Contention cycles of each interval, [R, I] by component, for design points and resident warps [R].
Contention = Callable[[IntervalProfile, Design, Floats], dict[str, Floats]]
# Cycles of an SM for all intervals free of contention, [R], for design points and resident warps [R].
ContentionFree = Callable[[IntervalProfile, Design, Floats], Floats]

# From so many evaluations on, equal intervals are looked for.
_MANY = 64


class IntervalModel(ABC):
    """A model of this kind: its file gives what `Model` asks it to say of itself, and overrides `contention`."""

    name: str
    title: str
    source: str
    needs: frozenset[str]
    about: About

    def contention(self, profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
        """Contention cycles [R, I] of each interval by component of the stack, for `warps` [R] on each design point [R].

        Of each interval by itself: the profile may hold some of the intervals only, and equal ones once. No requests, no cycles.
        """
        return {}

    def contention_free(self, profile: IntervalProfile, design: Design, warps: Floats) -> Floats:
        """Cycles [R] of an SM for all intervals without contention: GPUMech's multithreading, unless overridden."""
        return multithreaded(profile, design, warps)

    def remarks(self, profile: IntervalProfile, gpu: GpuSpec) -> dict[str, Any]:
        """What the model has to say of a prediction besides its numbers: entries of the provenance."""
        return {}

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """See `Model.predict`."""
        answer = predict_one(self, profile, gpu)
        said = answer.provenance["model"] | self.remarks(profile, gpu)
        return replace(answer, provenance=answer.provenance | {"model": said})

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        return evaluate(profile, design, self.contention, self.contention_free)


def multithreaded(profile: IntervalProfile, design: Design, warps: Floats) -> Floats:
    """GPUMech eq. 7's denominator, among the warps of one scheduler; a given count of non-overlapped instructions goes first."""
    extra: Floats | float
    if profile.nonoverlapped_instructions is not None:
        extra = profile.nonoverlapped_instructions
    else:
        own = np.maximum(warps / design.schedulers, 1.0)
        extra = nonoverlapped(profile.instructions, profile.stall_cycles, own, design.issue_width, greedy=design.greedy)
    cycles = multithreaded_cycles(profile.instructions, profile.stall_cycles, extra, design.issue_width)
    return np.asarray(cycles, dtype=np.float64)


def evaluate(
    profile: IntervalProfile, design: Design, contention: Contention, contention_free: ContentionFree = multithreaded
) -> dict[str, Floats]:
    """The answer of `Model.evaluate` for an interval model with that contention on top of `contention_free`."""
    found = residency(profile, design)
    free = contention_free(profile, found.design, found.warps)
    busy = stack_cycles(profile, found.design, found.warps, contention, free)
    executed = np.bincount(found.point, found.times * found.warps, len(design)) * profile.instructions.sum()
    stack = {name: np.bincount(found.point, found.times * cycles, len(design)) / executed for name, cycles in busy.items()}
    return _answer(profile, design, stack, found)


def _answer(profile: IntervalProfile, design: Design, stack: dict[str, Floats], found: Residency) -> dict[str, Floats]:
    """From the busy CPI of the busiest SM to the launch: SMs with fewer blocks wait for it."""
    busy = sum(stack.values(), np.zeros(len(design)))
    stack["idle"] = busy * (found.imbalance - 1)
    cpi = sum((stack[name] for name in COMPONENTS), np.zeros(len(design)))
    ipc_sm = 1 / cpi
    ipc_gpu = ipc_sm * design.sm_count
    cycles = profile.total_warp_instructions / ipc_gpu
    seconds = cycles / design.core_clock_hz
    answer = {"cycles": cycles, "seconds": seconds, "ipc_sm_warp": ipc_sm, "ipc_gpu_warp": ipc_gpu, "cpi": cpi}
    return answer | {f"cpi_stack.{name}": stack[name] for name in COMPONENTS}


def stack_cycles(
    profile: IntervalProfile, design: Design, warps: Floats, contention: Contention, free: Floats
) -> dict[str, Floats]:
    """Cycles of an SM with `warps` [R] resident for all intervals, by component of the CPI stack, [R] each (GPUMech section VII).

    `free` [R] are its cycles without contention. `base` is what the SM needs to issue, a constant of the machine. What
    multithreading leaves of the stalls is shared out between compute and memory as in the representative warp alone. Where issue is
    the bound and hides contention, contention shrinks.
    """
    # a scheduler issues its width, but no more than one instruction of each of its warps
    issue = profile.instructions.sum() * warps / np.minimum(design.schedulers * design.issue_width, warps)
    queued = _contended(profile, design, warps, contention)
    total = free + sum(queued.values(), np.zeros(len(warps)))
    above = np.maximum(total - issue, 0.0)
    exposed = np.minimum(np.maximum(free - issue, 0.0), above)
    waiting = total - free
    scale = np.divide(above - exposed, waiting, out=np.zeros(len(warps)), where=waiting > 0)
    compute, memory = _stall_shares(profile)
    return {
        **{name: np.zeros(len(warps)) for name in COMPONENTS},
        **{name: cycles * scale for name, cycles in queued.items()},
        "base": issue + exposed * (1 - compute - memory),
        "com_data": exposed * compute,
        "mem_data": exposed * memory,
    }


def _contended(profile: IntervalProfile, design: Design, warps: Floats, contention: Contention) -> dict[str, Floats]:
    """Contention cycles summed over the intervals, [R] by component, piece by piece."""
    total: dict[str, Floats] = {}
    loaded, times = _loaded(profile, merge=len(warps) >= _MANY)
    for part in pieces(len(times), 1):
        some = _pick(loaded, part)
        for rows in pieces(len(warps), len(times[part])):
            for name, cycles in contention(some, design.pick(rows), warps[rows]).items():
                total.setdefault(name, np.zeros(len(warps)))[rows] += (cycles * times[part]).sum(axis=1)
    return total


def _loaded(profile: IntervalProfile, *, merge: bool) -> tuple[IntervalProfile, Floats]:
    """The intervals to ask for their contention and how often each is there; none when there are no requests.

    A loop makes equal intervals: with `merge` they are one, and those without requests left out, which pays for many design points.
    """
    requests = (profile.read_misses, profile.write_misses, profile.dram_reads, profile.dram_writes)
    loaded = np.flatnonzero(np.any(requests, axis=0))
    if loaded.size and not merge:
        return profile, np.ones(len(profile.instructions))
    alike = np.zeros(len(loaded), dtype=np.int64)
    for column in (profile.instructions, profile.stall_cycles, profile.memory_instructions, *requests):
        values, number = np.unique(column[loaded], return_inverse=True)
        alike = np.unique(alike * len(values) + number, return_inverse=True)[1]
    _, first, times = np.unique(alike, return_index=True, return_counts=True)
    return _pick(profile, loaded[first]), times.astype(np.float64)


def _pick(profile: IntervalProfile, which: npt.NDArray[np.intp] | slice) -> IntervalProfile:
    """The intervals that `which` (indices or a slice) names."""
    arrays: dict[str, Any] = {name: value[which] for name, value in profile.__dict__.items() if isinstance(value, np.ndarray)}
    return replace(profile, **arrays)


def _stall_shares(profile: IntervalProfile) -> tuple[float, float]:
    """Shares of compute and memory in the stall cycles of the warp alone; both 0 when it never stalls."""
    total = float(profile.stall_cycles.sum())
    if total == 0:
        return 0.0, 0.0
    memory = float(profile.stall_cycles @ (profile.cause == CAUSES.index("memory")))
    return max(total - memory, 0.0) / total, memory / total
