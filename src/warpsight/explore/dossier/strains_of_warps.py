"""Checks of what models assume of warps and blocks: that they are alike, and that one of them stands for all."""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt

from warpsight.base.format import percent, thousands, three_digits
from warpsight.equations.waves import place_waves
from warpsight.explore.dossier.strain import BELOW, Figure, Strained, check
from warpsight.profile.usage import path_use
from warpsight.trace.schema import WARP_SIZE, KernelTrace

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
def _alike(case: Strained) -> Figure:
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
def _mean(case: Strained) -> Figure:
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
def _slowest(case: Strained) -> Figure:
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
def _equal(case: Strained) -> Figure:
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
def _waves(case: Strained) -> Figure | None:
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
def _barriers(case: Strained) -> Figure | None:
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
def _divergence(case: Strained) -> Figure:
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
def _sampled(case: Strained) -> Figure | None:
    trace = case.profiled.trace
    header = trace.header
    if not header.sampled_blocks:
        return None
    counts = instructions_of_paths(trace)
    blocks = np.concatenate([counts[chunk.path] for chunk in trace.chunks]).reshape(-1, header.warps_per_block).sum(axis=1)
    unseen = 1 - header.recorded_blocks / header.blocks
    error = float(blocks.std()) / float(blocks.mean()) * sqrt(unseen / len(blocks))
    return Figure(error, f"{thousands(header.recorded_blocks)} of {thousands(header.blocks)} blocks are recorded")
