"""The naive interval model: the IPC of one warp times the number of warps, as if other warps hid every stall."""

from __future__ import annotations

import numpy as np

from warpsight.equations.multithreading import multithreaded_cycles
from warpsight.gpu.design import Design
from warpsight.intervals.interval_profile import Floats, IntervalProfile
from warpsight.models.base import MODELS, About
from warpsight.models.interval_model import INTERVAL_CHECKS, IntervalModel, interval_components


class NaiveInterval(IntervalModel):
    """Huang et al., MICRO 2014, eq. 1: the other warps issue all their instructions while the representative warp stalls.

    The profile's count of non-overlapped instructions is not used: in this model there are none. IPC is at most the issue rate.
    """

    name = "naive-interval"
    title = "Naive interval model: one warp's IPC times the warps"
    source = "Huang, Lee, Kim and Lee: GPUMech, MICRO 2014, eq. 1"
    needs = frozenset()
    about = About(
        equations=("GPUMech eq. 4: intervals of the representative warp", "GPUMech eqs. 1 and 5: its IPC alone, times the warps"),
        assumptions=(
            "one representative warp stands for all warps",
            "the instructions of all other warps fit into the stalls of the representative warp",
            "no request waits for another",
        ),
        fails=(
            "kernels with many warps or few stalls: not all instructions overlap with stalls, and cycles are too low",
            "memory-bound kernels: neither MSHRs nor bandwidth are a limit",
        ),
        citation="J.-C. Huang, J. H. Lee, H. Kim and H.-H. S. Lee. GPUMech: GPU performance modeling technique based on interval "
        "analysis. MICRO 2014.",
        by_component=interval_components("instructions + stalls, cycles of the representative warp alone (eqs. 1 and 5)"),
        checks=(*INTERVAL_CHECKS, "noc-load", "dram-load"),
    )

    def contention_free(self, profile: IntervalProfile, design: Design, warps: Floats) -> Floats:
        """Eq. 1: the cycles of the representative warp alone."""
        return np.full(len(warps), multithreaded_cycles(profile.instructions, profile.stall_cycles, 0.0, 1.0), dtype=np.float64)


MODELS.add(NaiveInterval.name, NaiveInterval())
