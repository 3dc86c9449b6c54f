"""Checks of the assumptions of models: what a check is, and the checks that read a profile and its prediction.

A check is a statement, a number that says how far a kernel is from it, and the bound from which on that matters.
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
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import ResourceDemands
from warpsight.intervals.usage import atomics, path_use
from warpsight.models.base import Design
from warpsight.models.interval_model import place_waves
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import WARP_SIZE, KernelTrace

ABOVE, BELOW = "above", "below"


@dataclass(frozen=True)
class CheckInput:
    """What is checked: a profiled trace on a GPU with the `prediction` of a model.

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
        """What a mean warp asks for."""
        found = self.profiled.profile.demands
        assert found is not None, "a profile made from a trace knows its demands"
        return found

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
        """Cycles of a mean warp that has an SM for itself."""
        return self.instructions + self.demands.stall_cycles

    def over_prediction(self, cycles_of_a_warp: npt.NDArray[np.float64]) -> float:
        """Service cycles for a warp of each SM, as those of the launch over the predicted ones."""
        return float(np.max(cycles_of_a_warp)) * self.warps / self.gpu.sm_count / self.prediction.cycles


@dataclass(frozen=True)
class Figure:
    """How far a kernel is from the assumption, and what is behind the number."""

    value: float
    detail: str


@dataclass(frozen=True)
class Check:
    """`assumption` is the statement, `measure` says what the number is: a kernel strains it where that is `side` the `bound`.

    `why` is the reason for the bound. `unit` is `share` (of a whole, 1 is all) or `ratio`. `find` gives None where the assumption
    is not touched (no barriers, no atomics). What is true of every model (`always`) need not be named by any.
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

    def document(self, figure: Figure) -> dict[str, Any]:
        """Its part of the dossier."""
        beyond = figure.value > self.bound if self.side == ABOVE else figure.value < self.bound
        return {
            "key": self.key,
            "assumption": self.assumption,
            "measure": self.measure,
            "unit": self.unit,
            "value": figure.value,
            "bound": self.bound,
            "side": self.side,
            "strained": bool(beyond),
            "detail": figure.detail,
            "why": self.why,
        }


CHECKS: Registry[Check] = Registry("check of an assumption")


def check(
    key: str, assumption: str, measure: str, bound: float, why: str, *, unit: str = "share", side: str = ABOVE, always: bool = False
) -> Callable[[Callable[[CheckInput], Figure | None]], Callable[[CheckInput], Figure | None]]:
    """Registers the function below it as the `find` of a check."""

    def registered(find: Callable[[CheckInput], Figure | None]) -> Callable[[CheckInput], Figure | None]:
        CHECKS.add(key, Check(key, assumption, measure, unit, bound, why, find, side, always))
        return find

    return registered


# -- Checks of what models assume of warps and blocks: that they are alike, and that one of them stands for all.

Floats = npt.NDArray[np.float64]


def instructions_of_paths(trace: KernelTrace) -> Floats:
    """Warp instructions of each path, float64 [paths]."""
    size = np.diff(trace.block_start)[trace.paths.block].astype(np.float64) * trace.paths.repeat
    running = np.concatenate([[0.0], np.cumsum(size)])
    return np.asarray(np.diff(running[trace.paths.offset]))


@check(
    "alike-warps",
    "All warps have about as many instructions.",
    "coefficient of variation of the warps' instruction counts",
    0.1,
    "the cycles of a warp go with its instructions: beyond a tenth, a mean warp is not near to most of them",
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
    "mean-warp",
    "The representative warp takes as long as a mean warp.",
    "its cycles with an SM for itself, over the mean warp's: how far from 1",
    0.1,
    "its cycles are in every term of the model, so that the prediction is off by as much",
)
def _mean(case: CheckInput) -> Figure:
    profile = case.profiled.profile
    own = float(profile.instructions.sum() + profile.stall_cycles.sum())
    return Figure(abs(own / case.mean_alone - 1), f"{thousands(own)} cycles alone, a mean warp {thousands(case.mean_alone)}")


@check(
    "slowest-warp",
    "No single warp holds the launch up.",
    "cycles of the slowest warp with an SM for itself, over the predicted ones",
    0.5,
    "from half of the launch on, few others are left at its end to fill the slowest one's stalls; above 1 it is too low",
)
def _slowest(case: CheckInput) -> Figure:
    slowest = case.demands.longest_warp * case.mean_alone
    return Figure(slowest / case.prediction.cycles, f"{thousands(slowest)} cycles, {three_digits(case.demands.longest_warp)} "
                  "times those of a mean warp")  # fmt: skip


@check(
    "equal-blocks",
    "All blocks take as long.",
    "what unequal blocks add to the time of as many equal ones",
    0.05,
    "SMs with the longer blocks are done that much later, and the launch with them",
)
def _equal(case: CheckInput) -> Figure:
    surplus = case.demands.work_imbalance - 1.0
    times = three_digits(case.demands.work_imbalance)
    return Figure(max(surplus, 0.0), f"dealt as they are, the blocks take {times} times as long as equal ones")


@check(
    "last-wave",
    "Blocks run in whole waves, each begun when the one before it is over.",
    "places for blocks that the last wave leaves empty, of those of all waves",
    0.1,
    "in hardware a block begins when any other ends; the fewer places are filled, the more this differs from waves",
)
def _waves(case: CheckInput) -> Figure | None:
    launch = case.profiled.profile.launch
    if launch is None:
        return None
    full = float(place_waves(launch.blocks, launch.blocks_per_sm, case.gpu.sm_count).full)
    places = launch.blocks_per_sm * case.gpu.sm_count
    if full == 0:  # nothing follows, so that no block could begin before
        return Figure(0.0, f"one wave: {thousands(launch.blocks)} blocks on {thousands(places)} places")
    empty = 1 - launch.blocks / ((full + 1) * places)
    last = thousands(launch.blocks - full * places)
    return Figure(empty, f"{full + 1:.0f} waves of {thousands(places)} places; the last has {last} blocks")


@check(
    "barriers",
    "Barriers cost nothing.",
    "instructions that the other warps of a block have still to issue at its barriers, over a warp's own",
    0.05,
    "at a barrier the first warp waits at least until the others of its block have issued as far",
)
def _barriers(case: CheckInput) -> Figure | None:
    if case.demands.barriers == 0:
        return None
    others = case.profiled.trace.header.warps_per_block - 1
    return Figure(case.demands.barriers * others / case.instructions, f"{three_digits(case.demands.barriers)} barriers a warp, "
                  f"{others} other warps in its block, {thousands(case.instructions)} instructions")  # fmt: skip


@check(
    "divergence",
    "The sides of a branch run one after the other, up to where they meet again.",
    "lanes that are active, on average over all warp instructions",
    0.75,
    "GPUs from Volta on may interleave the sides and join them elsewhere; below three quarters much of the time is spent in them",
    side=BELOW,
    always=True,
)
def _divergence(case: CheckInput) -> Figure:
    header = case.profiled.trace.header
    lanes = header.thread_instructions / header.warp_instructions
    return Figure(lanes / WARP_SIZE, f"{three_digits(lanes)} of {WARP_SIZE} lanes")


@check(
    "sampled",
    "The blocks that were not recorded are like those that were.",
    "standard error of the recorded blocks' mean instructions, over the mean",
    0.02,
    "cycles go with the instructions; at 2 % the sample is no longer small beside what models are wrong by",
    always=True,
)
def _sampled(case: CheckInput) -> Figure | None:
    trace = case.profiled.trace
    header = trace.header
    if not header.sampled_blocks:
        return None
    counts = instructions_of_paths(trace)
    blocks = np.concatenate([counts[chunk.path] for chunk in trace.chunks]).reshape(-1, header.warps_per_block).sum(axis=1)
    unseen = 1 - header.recorded_blocks / header.blocks
    error = float(blocks.std()) / float(blocks.mean()) * sqrt(unseen / len(blocks))
    return Figure(error, f"{thousands(header.recorded_blocks)} of {thousands(header.blocks)} blocks are recorded")


# -- Checks of what models assume of resources: that they never limit, that traffic spreads over all parts of them.

# With random arrivals and service, a queue's wait is as long as the service from this load on (M/M/1).
_HALF = 0.5
_QUEUE = "from half of its peak on, a wait in a queue is as long as the service itself (M/M/1)"
_TENTH = "about a tenth of the cycles is what the best models are wrong by anyway"


def _load(name: str, case: CheckInput) -> Figure:
    row = case.speed[name]
    used = f"{three_digits(row['value'])} of {three_digits(row['peak'])} {row['unit']}"
    return Figure(row["percent"] / 100, f"{row['label']}: {used}")


for _key, _name, _what in (
    ("units", "units", "The functional units never limit."),
    ("l1-port", "l1", "The load-store unit takes any number of requests."),
    ("noc-load", "noc", "The network carries any number of requests at a time."),
    ("dram-load", "dram", "DRAM serves any number of requests at a time."),
):
    check(_key, _what, "its use over its peak, in the predicted time", _HALF, _QUEUE)(partial(_load, _name))


@check(
    "peak",
    "No resource gives more than its peak.",
    "the largest use of a resource over its peak, in the predicted time",
    1.005,
    "what is above the peak cannot be: the model does not know this limit, and gives too few cycles (half a per cent is rounding)",
    always=True,
)
def _peak(case: CheckInput) -> Figure:
    resource = max((name for name in case.speed if name != "occupancy"), key=lambda name: float(case.speed[name]["percent"]))
    return _load(resource, case)


@check(
    "latency-hidden",
    "There are always warps enough to hide latency.",
    "cycles that latencies alone take, every resource unlimited, over the predicted ones",
    1.0,
    "the launch cannot be faster than its latencies with all the multithreading that there is",
)
def _latency(case: CheckInput) -> Figure:
    cycles = float(case.alone["latency"]["cycles"])
    return Figure(cycles / case.prediction.cycles, f"{thousands(cycles)} cycles by GPUMech's multithreading alone")


@check(
    "bank-conflicts",
    "A shared-memory access passes the banks once.",
    "cycles of the further passes, over the predicted ones",
    0.05,
    "the load-store unit does nothing else in these cycles; at one in twenty they show",
)
def _conflicts(case: CheckInput) -> Figure | None:
    misses, header = case.profiled.misses, case.profiled.trace.header
    executed, passes = float(misses.shared_executions.sum()), float(misses.shared_passes.sum())
    if executed == 0:
        return None
    further = (passes - executed) * header.blocks / header.recorded_blocks / case.gpu.sm_count
    return Figure(max(further, 0.0) / case.prediction.cycles, f"{three_digits(passes / executed)} passes an access")


@check(
    "atomics",
    "Lanes whose atomics share an address do not wait for each other.",
    "cycles of the L2 slices for the further lanes, over the predicted ones",
    0.1,
    _TENTH,
)
def _atomics(case: CheckInput) -> Figure | None:
    if not atomics(case.profiled.trace.instructions).any():
        return None
    demands, slices = case.demands, case.gpu.l2.slices
    repeats = demands.atomic_repeats * case.warps
    return Figure(repeats / (slices * demands.repeat_share) / case.prediction.cycles, f"{thousands(repeats)} further lanes at "
                  f"{percent(demands.repeat_share)} of {slices} slices")  # fmt: skip


@check(
    "spread-noc",
    "Traffic spreads evenly over the L2 slices.",
    "what the slices' ports take longer for its being uneven, over the predicted cycles",
    0.1,
    _TENTH,
)
def _spread_noc(case: CheckInput) -> Figure:
    design, demands = Design.of(case.gpu), case.demands
    # atomics' repeats have a check of their own
    uneven, even = (
        max(case.over_prediction(resources.noc_cycles(each, design)), case.over_prediction(resources.slice_cycles(each, design)))
        for each in (replace(demands, repeat_share=1.0), resources.evenly_spread(demands))
    )
    return Figure(uneven - even, f"at a time {percent(demands.reply_share)} of the ports to the SMs and "
                  f"{percent(demands.request_share)} of those from them are busy")  # fmt: skip


@check(
    "spread-dram",
    "Traffic spreads evenly over the memory channels.",
    "what the channels take longer for its being uneven, over the predicted cycles",
    0.1,
    _TENTH,
)
def _spread_dram(case: CheckInput) -> Figure:
    design, demands = Design.of(case.gpu), case.demands
    uneven, even = (resources.dram_cycles(each, design) for each in (demands, resources.evenly_spread(demands)))
    return Figure(case.over_prediction(np.asarray(uneven - even)), f"at a time {percent(demands.channel_share)} of "
                  f"{case.gpu.dram.channels} channels are busy")  # fmt: skip


@check(
    "caches-hit",
    "Every memory instruction goes to DRAM.",
    "requests that L1 or L2 serve, of all reads",
    0.1,
    "each of them is charged DRAM's latency and bandwidth, which it does not take",
)
def _caches(case: CheckInput) -> Figure | None:
    misses = case.profiled.misses
    reads = ~atomics(case.profiled.trace.instructions)
    requests, missed = float(misses.l1_reads[reads].sum()), float(misses.l1_misses[reads].sum())
    if requests == 0:
        return None
    beyond = float((misses.l2_read_misses + misses.l2_read_merges)[reads].sum())
    served = 1 - min(beyond / requests, 1.0)
    told = f"of {thousands(requests)} line requests {thousands(missed)} miss in the L1 and {thousands(beyond)} in the L2"
    return Figure(served, told)
