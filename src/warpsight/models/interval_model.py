"""What interval models share: waves and residency, multithreading, the CPI stack. A model adds its contention and little else.

Blocks are distributed to the SMs evenly; the busiest SM has ceil(blocks / SMs), and its time is that of the launch. It runs full
waves of the blocks that fit on it, and a last wave of the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.equations.multithreading import multithreaded_cycles, nonoverlapped, pieces
from warpsight.equations.resources import grid_cycles
from warpsight.gpu.design import Design
from warpsight.gpu.occupancy import clusters_of
from warpsight.intervals.interval_profile import CAUSES, Floats, IntervalProfile, LaunchShape
from warpsight.models.base import STACK_PREFIX, Model, answer_of
from warpsight.result.prediction import in_order


@dataclass(frozen=True)
class Waves:
    """What the busiest SM runs; float64 arrays of the designs' shape.

    `full` waves of the blocks that an SM holds, then one of `last_blocks` (1 to that many). In the last wave the launch's remaining
    blocks are as many as on `last_sms` SMs with `last_blocks` each (a fraction when they are not spread evenly). `imbalance` is the
    busiest SM's blocks over the mean: 1 when all SMs have the same.
    """

    full: Floats
    last_blocks: Floats
    last_sms: Floats
    imbalance: Floats


def place_waves(blocks: Any, blocks_per_sm: Any, sm_count: Any) -> Waves:
    """Waves of a launch of `blocks` (at least 1) on `sm_count` SMs that hold `blocks_per_sm` each. Arguments broadcast."""
    busiest = np.ceil(blocks / np.asarray(sm_count, dtype=np.float64))
    full = np.floor((busiest - 1) / blocks_per_sm)
    last_blocks = busiest - full * blocks_per_sm
    last_sms = (blocks - full * blocks_per_sm * sm_count) / last_blocks
    return Waves(full, last_blocks, last_sms, busiest * sm_count / blocks)


def waves_of(launch: LaunchShape, design: Design) -> Waves:
    """Waves of a launch on every design point.

    Of clusters, the SMs of a GPC hold whole ones; as many SMs as the places left over would fill have no block in any wave.
    """
    if launch.cluster_blocks == 1:
        return place_waves(launch.blocks, launch.blocks_per_sm, design.sm_count)
    used = sms_with_clusters(launch, design)
    waves = place_waves(launch.blocks, launch.blocks_per_sm, used)
    return replace(waves, imbalance=waves.imbalance * design.sm_count / used)


def sms_with_clusters(launch: LaunchShape, design: Design) -> Floats:
    """SMs that the resident clusters of a launch fill, [D]; without clusters all. Raises UsageError where not one cluster fits."""
    if launch.cluster_blocks == 1:
        return design.sm_count
    shapes, point = np.unique(np.stack([design.sm_count, design.gpc_count]).astype(np.int64), axis=1, return_inverse=True)
    clusters = np.array([clusters_of(sms, gpcs, launch.blocks_per_sm, launch.cluster_blocks) for sms, gpcs in shapes.T.tolist()])
    if not clusters.all():
        what = f"a cluster of {launch.cluster_blocks} blocks does not fit on a GPC of {int(shapes[0, clusters.argmin()])} SMs"
        raise UsageError(what, place="gpc_count", remedy="give fewer GPCs, or more SMs")
    return np.asarray(clusters[point.ravel()] * launch.cluster_blocks / launch.blocks_per_sm)


# -- Design points times waves: every residency at which a model's equations have to be evaluated for a launch.

@dataclass(frozen=True)
class Residency:
    """R evaluations for D design points.

    `design` has R rows, with `sm_count` the SMs that issue requests; `warps` [R] resident on an SM; `point` int [R] the design
    point of each row; `times` [R] how many waves of that kind the busiest SM runs; `last` bool [R] whether nothing follows it.
    `imbalance` [D]: the busiest SM's blocks over the mean.
    """

    design: Design
    warps: Floats
    point: npt.NDArray[np.intp]
    times: Floats
    last: npt.NDArray[np.bool_]
    imbalance: Floats


def residency(profile: IntervalProfile, design: Design) -> Residency:
    """The waves of the profile's launch on every design point; without a launch, one wave that fills the GPU evenly."""
    points = np.arange(len(design))
    if profile.launch is None:
        warps = np.full(len(design), float(profile.warps_per_sm))
        one = np.ones(len(design))
        return Residency(design, warps, points, one, np.ones(len(design), dtype=np.bool_), one)
    launch = profile.launch
    waves = waves_of(launch, design)
    filled = waves.full > 0
    point = np.concatenate([points, points[filled]])
    blocks = np.concatenate([waves.last_blocks, np.full(int(filled.sum()), float(launch.blocks_per_sm))])
    sm_count = np.concatenate([waves.last_sms, design.sm_count[filled]])
    times = np.concatenate([np.ones(len(design)), waves.full[filled]])
    rows = design.pick(point).varied(sm_count=sm_count)
    last = np.arange(len(point)) < len(design)
    return Residency(rows, blocks * launch.warps_per_block, point, times, last, waves.imbalance)


# -- The equation of each component of the CPI stack (`About.by_component`) that interval models share.
#
# W are the warps resident on an SM. Every sum is over the intervals of the representative warp and the waves of the launch, divided
# by the instructions that the SM executes in them.

_SHARE = "(F - base) x {cause} stalls / all stalls of the representative warp (GPUMech, section VII), F = {free}"
IDLE = "all other components x (blocks of the busiest SM / mean blocks of an SM - 1): SMs with fewer blocks wait for it"
_MULTITHREADED = "instructions + stalls + non-overlapped instructions (GPUMech eqs. 8-16) / issue width, cycles without contention"


def interval_components(free: str = _MULTITHREADED, **contention: str) -> dict[str, str]:
    """The equation of each component of an interval model: `free` gives its cycles without contention, `contention` the rest."""
    return {
        "base": "instructions x W / min(schedulers x issue width, W): the warps' issue slots; all of F if a warp never stalls",
        "com_data": _SHARE.format(free=free, cause="compute"),
        "mem_data": _SHARE.format(free=free, cause="memory"),
        **contention,
        "idle": IDLE,
    }


# Checks of `analysis/assumptions.py` for all interval models: what none of them models.
INTERVAL_CHECKS = (
    "alike-warps", "mean-warp", "slowest-warp", "equal-blocks", "last-wave", "units", "l1-port", "bank-conflicts", "barriers",
    "atomics", "spread-noc", "spread-dram",
)  # fmt: skip


# -- The model itself.
#
# At a given residency, the cycles of an SM for the intervals of the representative warp are its cycles without contention
# (GPUMech's multithreading, unless the model overrides it) plus the model's contention cycles, and at least the cycles that its
# schedulers need to issue all instructions.

# Contention cycles of each interval, [R, I] by component, for design points and resident warps [R].
Contention = Callable[[IntervalProfile, Design, Floats], dict[str, Floats]]

# From this number of evaluations on, equal intervals are merged.
_MANY = 64


class IntervalModel(Model):
    """An interval model: its file gives the attributes of `Model` and overrides `contention`, `contention_free` or both."""

    def contention(self, profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
        """Contention cycles [R, I] of each interval by component of the stack, for `warps` [R] on each design point [R].

        Each interval is evaluated by itself: the profile may hold some of the intervals only, and equal ones once. Without requests
        there must be no cycles.
        """
        return {}

    def contention_free(self, profile: IntervalProfile, design: Design, warps: Floats) -> Floats:
        """Cycles [R] of an SM for all intervals without contention.

        Unless overridden, the denominator of GPUMech eq. 7, among the warps of one scheduler; the profile's count of non-overlapped
        instructions, if any, is used instead of eqs. 8-16.
        """
        extra: Floats | float
        if profile.nonoverlapped_instructions is not None:
            extra = profile.nonoverlapped_instructions
        else:
            own = np.maximum(warps / design.sm_schedulers, 1.0)
            extra = nonoverlapped(profile.instructions, profile.stall_cycles, own, design.sm_issue_width, greedy=design.greedy)
        cycles = multithreaded_cycles(profile.instructions, profile.stall_cycles, extra, design.sm_issue_width)
        return np.asarray(cycles, dtype=np.float64)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        waves = residency(profile, design)
        free = self.contention_free(profile, waves.design, waves.warps)
        busy = stack_cycles(profile, waves.design, waves.warps, self.contention, free)
        executed = np.bincount(waves.point, waves.times * waves.warps, len(design)) * profile.instructions.sum()
        stack = {name: np.bincount(waves.point, waves.times * cycles, len(design)) / executed for name, cycles in busy.items()}
        return launch_answer(profile, design, stack, waves)


def launch_answer(profile: IntervalProfile, design: Design, stack: dict[str, Floats], waves: Residency) -> dict[str, Floats]:
    """The answer for the launch from the CPI stack of the busiest SM without `idle`: SMs with fewer blocks wait for it."""
    stack = in_order(stack)
    stack["idle"] = sum(stack.values(), np.zeros(len(design))) * (waves.imbalance - 1)
    return answer_of(profile, design, stack)


def with_launch(profile: IntervalProfile, design: Design, answer: dict[str, Floats], least: Floats) -> dict[str, Floats]:
    """`answer` with the launch: it takes at least the cycles `least` [D], for its blocks to start, a grid begins and ends, and its
    first warps read the addresses of memory, which are parameters."""
    cycles = grid_cycles(design, profile.uses_memory) + np.maximum(least - answer["cycles"], 0.0)
    stack = {name.removeprefix(STACK_PREFIX): value for name, value in answer.items() if name.startswith(STACK_PREFIX)}
    return answer_of(profile, design, stack | {
        "launch": stack["launch"] + cycles * design.sm_count / profile.total_warp_instructions,
    })


def stack_cycles(
    profile: IntervalProfile, design: Design, warps: Floats, contention: Contention, free: Floats
) -> dict[str, Floats]:
    """Cycles of an SM with `warps` [R] resident for all intervals, by component of the CPI stack, [R] each (GPUMech section VII).

    `free` [R] are its cycles without contention. `base` is the time that the SM needs to issue all instructions. The stalls that
    multithreading does not hide are divided between compute and memory as in the representative warp alone. Where issue is the
    bound and hides contention, contention is smaller.
    """
    # a scheduler issues its width, but no more than one instruction of each of its warps
    issue = profile.instructions.sum() * warps / np.minimum(design.sm_schedulers * design.sm_issue_width, warps)
    queued = _contended(profile, design, warps, contention)
    total = free + sum(queued.values(), np.zeros(len(warps)))
    above = np.maximum(total - issue, 0.0)
    exposed = np.minimum(np.maximum(free - issue, 0.0), above)
    waiting = total - free
    scale = np.divide(above - exposed, waiting, out=np.zeros(len(warps)), where=waiting > 0)
    compute, memory = stall_shares(profile)
    return in_order({
        "base": issue + exposed * (1 - compute - memory),
        "com_data": exposed * compute,
        "mem_data": exposed * memory,
        **{name: cycles * scale for name, cycles in queued.items()},
    })


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
    """The intervals whose contention must be computed, and how often each occurs; none if there are no requests.

    A loop makes equal intervals: with `merge`, equal ones become one, and those without requests are left out. This saves time for
    many design points.
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


def stall_shares(profile: IntervalProfile) -> tuple[float, float]:
    """Shares of compute and memory in the stall cycles of the warp alone; both 0 when it never stalls."""
    total = float(profile.stall_cycles.sum())
    if total == 0:
        return 0.0, 0.0
    memory = float(profile.stall_cycles @ (profile.cause == CAUSES.index("memory")))
    return max(total - memory, 0.0) / total, memory / total
