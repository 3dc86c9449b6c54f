"""Design points times waves: every residency at which a model's equations have to be evaluated for a launch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.equations.waves import place_waves
from warpsight.models.base import Design
from warpsight.profile.interval_profile import IntervalProfile

Floats = npt.NDArray[np.float64]


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
    waves = place_waves(launch.blocks, launch.blocks_per_sm, design.sm_count)
    filled = waves.full > 0
    point = np.concatenate([points, points[filled]])
    blocks = np.concatenate([waves.last_blocks, np.full(int(filled.sum()), float(launch.blocks_per_sm))])
    sm_count = np.concatenate([waves.last_sms, design.sm_count[filled]])
    times = np.concatenate([np.ones(len(design)), waves.full[filled]])
    rows = design.pick(point).varied(sm_count=sm_count)
    last = np.arange(len(point)) < len(design)
    return Residency(rows, blocks * launch.warps_per_block, point, times, last, waves.imbalance)
