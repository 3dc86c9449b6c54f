"""Checks of the assumptions of models: what a check is, and the checks that read a profile and its prediction.

A check is a statement, a number that says how far a kernel is from it, and the bound beyond which the prediction suffers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.registry import Registry
from warpsight.base.units import percent, thousands, three_digits
from warpsight.equations import resources
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.demands import port_conflicts
from warpsight.intervals.interval_profile import ResourceDemands
from warpsight.intervals.usage import path_use, without_conflicts
from warpsight.models.interval_model import sms_with_clusters, waves_of
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.result.prediction import Prediction
from warpsight.traces.marks import marks
from warpsight.traces.path_store import sums_of_paths
from warpsight.traces.schema import WARP_SIZE, KernelTrace

ABOVE, BELOW = "above", "below"


@dataclass(frozen=True)
class CheckInput:
    """The input of a check: a profiled trace on a GPU with the `prediction` of a model.

    `speed` and `alone` are the rows of `resources.speed_of_light` and `resources.alone` by name; `what_if` the grid, where there
    is one.
    """

    profiled: ProfiledTrace
    gpu: GpuSpec
    prediction: Prediction
    speed: dict[str, dict[str, Any]]
    alone: dict[str, dict[str, Any]]
    what_if: dict[str, Any] | None

    @property
    def demands(self) -> ResourceDemands:
        """The resource demands of a mean warp."""
        demands = self.profiled.profile.demands
        assert demands is not None, "a profile made from a trace has its demands"
        return demands

    @property
    def warps(self) -> int:
        """Warps of the launch."""
        return self.profiled.trace.header.blocks * self.profiled.trace.header.warps_per_block

    @property
    def instructions(self) -> float:
        """Instructions of a mean warp."""
        return resources.instructions_per_warp(self.profiled.profile)

    @property
    def mean_alone(self) -> float:
        """Cycles of a mean warp alone on an SM."""
        return self.instructions + self.demands.stall_cycles

    def over_prediction(self, cycles_of_a_warp: npt.NDArray[np.float64]) -> float:
        """Service cycles for a warp of each SM, scaled to the launch, over the predicted cycles."""
        return float(np.max(cycles_of_a_warp)) * self.warps / self.gpu.sm_count / self.prediction.cycles


@dataclass(frozen=True)
class Figure:
    """How far a kernel is from the assumption, and the numbers behind that."""

    value: float
    detail: str


@dataclass(frozen=True)
class Check:
    """`assumption` is the statement, `measure` says what the number is: a kernel violates it if the number is `side` the `bound`.

    `why` is the reason for the bound. `unit` is `share` (of a whole, 1 is all) or `ratio`. `find` returns None if the assumption
    does not apply (no barriers, no atomics). Checks with `always` are made for every model; no model needs to name them. Those with
    `again` predict again with a change, which takes time.
    """

    key: str
    assumption: str
    measure: str
    unit: str
    bound: float
    why: str
    find: Callable[[CheckInput], Figure | None]
    side: str = ABOVE
    always: bool = False
    again: bool = False

    def document(self, figure: Figure) -> dict[str, Any]:
        """Its part of the report data."""
        beyond = figure.value > self.bound if self.side == ABOVE else figure.value < self.bound
        return {
            "key": self.key,
            "assumption": self.assumption,
            "measure": self.measure,
            "unit": self.unit,
            "value": figure.value,
            "bound": self.bound,
            "side": self.side,
            "violated": bool(beyond),
            "detail": figure.detail,
            "why": self.why,
        }


CHECKS: Registry[Check] = Registry("check of an assumption")


def check(
    key: str, assumption: str, measure: str, bound: float, why: str, *, unit: str = "share", side: str = ABOVE,
    always: bool = False, again: bool = False,
) -> Callable[[Callable[[CheckInput], Figure | None]], Callable[[CheckInput], Figure | None]]:
    """Registers the function below it as the `find` of a check."""

    def registered(find: Callable[[CheckInput], Figure | None]) -> Callable[[CheckInput], Figure | None]:
        CHECKS.add(key, Check(key, assumption, measure, unit, bound, why, find, side, always, again))
        return find

    return registered


# -- Checks of what models assume about warps and blocks: that they are alike, and that one of them represents all.

Floats = npt.NDArray[np.float64]


def instructions_of_paths(trace: KernelTrace) -> Floats:
    """Warp instructions of each path, float64 [paths]."""
    return sums_of_paths(trace.paths, np.diff(trace.block_start).astype(np.float64))


@check(
    "alike-warps", "All warps execute about the same number of instructions.",
    "coefficient of variation of the warps' instruction counts", 0.1,
    "a warp's cycles are proportional to its instructions: above 10 %, most warps differ from the mean warp",
)
def _alike(case: CheckInput) -> Figure:
    trace = case.profiled.trace
    warps, _ = path_use(trace)
    taken = warps > 0
    counts, weights = instructions_of_paths(trace)[taken], warps[taken].astype(np.float64)
    mean = float(np.average(counts, weights=weights))
    spread = sqrt(float(np.average((counts - mean) ** 2, weights=weights)))
    path = case.profiled.profile.path
    own = float(warps[path]) / float(weights.sum()) if path is not None else 0.0
    ends = f"{thousands(counts.min())} to {thousands(counts.max())} instructions, on average {thousands(mean)}"
    return Figure(spread / mean, f"{ends}; {percent(own)} of the warps are on the path of the representative one")


@check(
    "mean-warp", "The representative warp takes as long as a mean warp.",
    "cycles alone on an SM, relative to the mean warp's: difference from 1", 0.1,
    "the warp's cycles enter every term of the model, so the prediction is off by the same factor",
)
def _mean(case: CheckInput) -> Figure:
    profile = case.profiled.profile
    own = float(profile.instructions.sum() + profile.stall_cycles.sum())
    return Figure(abs(own / case.mean_alone - 1), f"{thousands(own)} cycles alone, a mean warp {thousands(case.mean_alone)}")


@check(
    "slowest-warp", "No single warp delays the launch.",
    "cycles of the slowest warp alone on an SM, over the predicted cycles", 0.5,
    "above half of the launch, few other warps remain to hide its stalls; above 1 the prediction is too low",
)
def _slowest(case: CheckInput) -> Figure:
    slowest = case.demands.longest_warp * case.mean_alone
    return Figure(slowest / case.prediction.cycles, f"{thousands(slowest)} cycles, {three_digits(case.demands.longest_warp)} "
                  "times those of a mean warp")  # fmt: skip


@check(
    "equal-blocks", "All blocks take the same time.",
    "time that unequal blocks add, relative to equal blocks", 0.05,
    "SMs with longer blocks finish later, and so does the launch",
)
def _equal(case: CheckInput) -> Figure:
    surplus = case.demands.work_imbalance - 1.0
    times = three_digits(case.demands.work_imbalance)
    return Figure(max(surplus, 0.0), f"as distributed, the blocks take {times} times as long as equal ones")


@check(
    "last-wave", "Blocks run in whole waves; each wave starts when the previous one has finished.",
    "block slots that the last wave leaves empty, of those of all waves", 0.1,
    "on hardware a block starts as soon as another one ends; the emptier the last wave, the larger the difference",
)
def _waves(case: CheckInput) -> Figure | None:
    launch = case.profiled.profile.launch
    if launch is None:
        return None
    design = Design.of(case.gpu)
    full, places = waves_of(launch, design).full.item(), round(launch.blocks_per_sm * sms_with_clusters(launch, design).item())
    if full == 0:  # nothing follows, so no block could start earlier
        return Figure(0.0, f"one wave: {thousands(launch.blocks)} blocks in {thousands(places)} slots")
    empty = 1 - launch.blocks / ((full + 1) * places)
    last = thousands(launch.blocks - full * places)
    return Figure(empty, f"{full + 1:.0f} waves of {thousands(places)} slots; the last has {last} blocks")


@check(
    "barriers", "Barriers cost nothing.",
    "instructions that the other warps of a block still have to issue at its barriers, over a warp's own", 0.05,
    "at a barrier the first warp waits at least until the other warps of its block have issued as many instructions",
)
def _barriers(case: CheckInput) -> Figure | None:
    if case.demands.barriers == 0:
        return None
    others = case.profiled.trace.header.warps_per_block - 1
    return Figure(case.demands.barriers * others / case.instructions, f"{three_digits(case.demands.barriers)} barriers a warp, "
                  f"{others} other warps in its block, {thousands(case.instructions)} instructions")  # fmt: skip


@check(
    "divergence", "The paths of a divergent branch run one after the other until they reconverge.",
    "active lanes, averaged over all warp instructions", 0.75,
    "GPUs since Volta may interleave the paths and reconverge elsewhere; below 75 % much of the time is spent in them",
    side=BELOW, always=True,
)
def _divergence(case: CheckInput) -> Figure:
    header = case.profiled.trace.header
    lanes = header.thread_instructions / header.warp_instructions
    return Figure(lanes / WARP_SIZE, f"{three_digits(lanes)} of {WARP_SIZE} lanes")


@check(
    "sampled", "The recorded blocks are representative of all blocks.",
    "standard error of the recorded blocks' mean instructions, over the mean", 0.02,
    "cycles are proportional to instructions; above 2 % the sampling error is no longer small compared with model errors",
    always=True,
)
def _sampled(case: CheckInput) -> Figure | None:
    trace = case.profiled.trace
    header = trace.header
    if not header.sampled_blocks or trace.waves is not None:  # sampled waves have an interval of their own
        return None
    counts = instructions_of_paths(trace)
    blocks = np.concatenate([counts[chunk.path] for chunk in trace.chunks.packed()]).reshape(-1, header.warps_per_block).sum(axis=1)
    unseen = 1 - header.recorded_blocks / header.blocks
    error = float(blocks.std()) / float(blocks.mean()) * sqrt(unseen / len(blocks))
    return Figure(error, f"{thousands(header.recorded_blocks)} of {thousands(header.blocks)} blocks are recorded")


# -- Checks of what models assume about resources: that they never limit, and that traffic spreads evenly over them.

# At this load the mean wait in an M/M/1 queue equals the service time.
_HALF = 0.5
_QUEUE = "above half of the peak, the queueing delay exceeds the service time (M/M/1)"
_TENTH = "the best models have errors of about 10 % anyway"


def _load(name: str, case: CheckInput) -> Figure:
    row = case.speed[name]
    used = f"{three_digits(row['value'])} of {three_digits(row['peak'])} {row['unit']}"
    return Figure(row["percent"] / 100, f"{row['label']}: {used}")


for _key, _name, _what in (
    ("units", "units", "The functional units are never a bottleneck."),
    ("l1-port", "l1", "The load-store unit accepts any number of requests."),
    ("noc-load", "noc", "The NoC carries any number of requests at a time."),
    ("dram-load", "dram", "DRAM serves any number of requests at a time."),
):
    check(_key, _what, "utilization relative to its peak, in the predicted time", _HALF, _QUEUE)(partial(_load, _name))


@check(
    "peak", "No resource exceeds its peak.",
    "the highest utilization of a resource relative to its peak, in the predicted time", 1.005,
    "a utilization above the peak is impossible: the model ignores this limit and predicts too few cycles (0.5 % is rounding)",
    always=True,
)
def _peak(case: CheckInput) -> Figure:
    resource = max((name for name in case.speed if name != "occupancy"), key=lambda name: float(case.speed[name]["percent"]))
    return _load(resource, case)


@check(
    "latency-hidden", "There are always enough warps to hide latency.",
    "cycles due to latencies alone, with every resource unlimited, over the predicted cycles", 1.0,
    "the launch cannot be faster than its latencies, even with full multithreading",
)
def _latency(case: CheckInput) -> Figure:
    cycles = float(case.alone["latency"]["cycles"])
    return Figure(cycles / case.prediction.cycles, f"{thousands(cycles)} cycles by GPUMech's multithreading alone")


@check(
    "bank-conflicts", "Shared-memory accesses have no bank conflicts.",
    "cycles of the passes that conflicts add, over the predicted cycles", 0.05,
    "the load-store unit does nothing else in these cycles; above 5 % they are noticeable",
)
def _conflicts(case: CheckInput) -> Figure | None:
    misses, header = case.profiled.misses, case.profiled.trace.header
    executed, passes = float(misses.shared_executions.sum()), float(misses.shared_passes.sum())
    if executed == 0:
        return None
    conflicts = float(port_conflicts(case.profiled.trace, misses, case.gpu).sum())
    further = conflicts * header.blocks / header.recorded_blocks / case.gpu.sm_count
    ideal = float(without_conflicts(case.profiled.trace.instructions, misses).shared_passes.sum())
    found = f"{three_digits(passes / executed)} passes per access, {three_digits(ideal / executed)} without conflicts"
    return Figure(further / case.prediction.cycles, found)


@check(
    "atomics", "Atomics of several lanes on one address are not serialized.",
    "cycles of the L2 slices for atomics beyond one a sector, over the predicted cycles", 0.1,
    _TENTH,
)
def _atomics(case: CheckInput) -> Figure | None:
    if not marks(case.profiled.trace.instructions).atomic.any():
        return None
    demands, slices = case.demands, case.gpu.l2.slices
    repeats = demands.atomic_repeats * case.warps
    return Figure(repeats / (slices * demands.repeat_share) / case.prediction.cycles, f"{thousands(repeats)} further cycles at "
                  f"{percent(demands.repeat_share)} of {slices} slices")  # fmt: skip


@check(
    "spread-noc", "Traffic spreads evenly over the L2 slices.",
    "additional cycles of the slices' ports due to uneven traffic, over the predicted cycles", 0.1,
    _TENTH,
)
def _spread_noc(case: CheckInput) -> Figure:
    design, demands = Design.of(case.gpu), case.demands
    # atomics' repeats have a check of their own
    uneven, even = (
        max(case.over_prediction(resources.noc_cycles(each, design)), case.over_prediction(resources.slice_cycles(each, design)))
        for each in (replace(demands, repeat_share=1.0), resources.evenly_spread(demands))
    )
    return Figure(uneven - even, f"on average {percent(demands.reply_share)} of the ports to the SMs and "
                  f"{percent(demands.request_share)} of those from the SMs are busy")  # fmt: skip


@check(
    "spread-dram", "Traffic spreads evenly over the memory channels.",
    "additional cycles of the channels due to uneven traffic, over the predicted cycles", 0.1,
    _TENTH,
)
def _spread_dram(case: CheckInput) -> Figure:
    design, demands = Design.of(case.gpu), case.demands
    uneven, even = (resources.dram_cycles(each, design) for each in (demands, resources.evenly_spread(demands)))
    return Figure(case.over_prediction(np.asarray(uneven - even)), f"on average {percent(demands.channel_share)} of "
                  f"{case.gpu.dram.channels} channels are busy")  # fmt: skip


@check(
    "caches-hit", "Every memory instruction goes to DRAM.",
    "read requests served by L1 or L2, of all reads", 0.1,
    "the model charges each of them the latency and bandwidth of DRAM",
)
def _caches(case: CheckInput) -> Figure | None:
    misses = case.profiled.misses
    reads = ~marks(case.profiled.trace.instructions).atomic
    requests, missed = float(misses.l1_reads[reads].sum()), float(misses.l1_misses[reads].sum())
    if requests == 0:
        return None
    beyond = float((misses.l2_read_misses + misses.l2_read_merges)[reads].sum())
    served = 1 - min(beyond / requests, 1.0)
    counts = f"{thousands(missed)} miss in the L1 and {thousands(beyond)} in the L2"
    return Figure(served, f"of {thousands(requests)} line requests {counts}")
