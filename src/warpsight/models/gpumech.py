"""GPUMech: multithreading, expected MSHR delay, and an M/D/1 queue at DRAM."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design
from warpsight.models.contention import ContentionModel, Waiting, gpumech_mshrs, gpumech_queues
from warpsight.models.interval_model import GPUMECH_DRAM, INTERVAL_CHECKS, expected_delay, interval_components

Floats = npt.NDArray[np.float64]


class GpuMech(ContentionModel):
    """Huang et al., MICRO 2014, eqs. 7-23, with the slips of eqs. 15 and 16 corrected.

    MSHRs are taken by read misses. The DRAM queue is loaded by what reaches DRAM, writes included. The mean miss latency of eq. 19
    is that of an LLC access: the L2's latency, and DRAM's for the part that misses.
    """

    name = "gpumech"
    title = "GPUMech: interval analysis with MSHR and DRAM queues"
    source = "Huang, Lee, Kim and Lee: GPUMech, MICRO 2014, eqs. 4-23"
    needs = frozenset({"misses", "dram"})
    about = About(
        equations=(
            "eq. 4: intervals of the representative warp",
            "eqs. 7-16: multithreading, round-robin or greedy-then-oldest",
            "eqs. 18-20: expected delay for a free MSHR",
            "eqs. 21-23: M/D/1 queue at DRAM, capped at half of all requests' service",
        ),
        assumptions=(
            "one representative warp stands for all",
            "requests spread evenly over an interval and over all channels",
            "functional units, shared-memory banks and barriers never limit",
        ),
        fails=(
            "divergent loads: there is no NoC, and a request waits for MSHRs at the uncontended latency, so cycles come out low",
            "barriers and bank conflicts cost nothing",
        ),
        citation="J.-C. Huang, J. H. Lee, H. Kim and H.-H. S. Lee. GPUMech: GPU performance modeling technique based on interval "
        "analysis. MICRO 2014.",
        stack=("base", "com_data", "mem_data", "mshr", "dram", "idle"),
        by_component=interval_components(
            mshr=expected_delay(queued=False),
            dram=GPUMECH_DRAM,
        ),
        checks=(*INTERVAL_CHECKS, "noc-load"),
    )

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """See `ContentionModel.waiting`."""
        behind = gpumech_queues(profile, design, warps, noc=False)
        return gpumech_mshrs(profile, design, warps, behind, queued=False)


MODELS.add(GpuMech.name, GpuMech())
