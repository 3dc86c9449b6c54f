"""GPUMech with a queue at the NoC, whose misses wait for MSHRs through all queues."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design
from warpsight.models.contention import ContentionModel, Waiting, gpumech_mshrs, gpumech_queues
from warpsight.models.interval_model import GPUMECH_DRAM, GPUMECH_NOC, INTERVAL_CHECKS, expected_delay, interval_components

Floats = npt.NDArray[np.float64]


class GpuMechPlus(ContentionModel):
    """Wang et al., MICRO 2020, section IV and Table V: GPUMech changed no more than needed to see the NoC.

    GPUMech's queue of eqs. 21-23 stands at the NoC too, loaded by all L1 misses, and both queues lengthen the miss of eq. 19.
    """

    name = "gpumech-plus"
    title = "GPUMech+: GPUMech with a NoC queue"
    source = "Wang, Jahre, Almutaz Adileh and Eeckhout: MDM, MICRO 2020, section IV, Table V"
    needs = frozenset({"misses", "dram"})
    about = About(
        equations=(
            "GPUMech eqs. 4-16: intervals and multithreading",
            "GPUMech eqs. 21-23 at DRAM, and once more at the NoC",
            "GPUMech eqs. 18-20, the miss latency with both queues",
        ),
        assumptions=(
            "one representative warp stands for all",
            "requests spread evenly over an interval and over all channels",
            "a memory instruction waits for an MSHR as long as a mean request",
            "functional units, shared-memory banks and barriers never limit",
        ),
        fails=(
            "divergent loads: requests queue behind all of their interval, even those that wait for an MSHR: far too slow",
            "barriers and bank conflicts cost nothing",
        ),
        citation="L. Wang, M. Jahre, A. Adileh and L. Eeckhout. MDM: the GPU memory divergence model. MICRO 2020.",
        stack=("base", "com_data", "mem_data", "mshr", "noc", "dram", "idle"),
        by_component=interval_components(
            mshr=expected_delay(queued=True),
            noc=GPUMECH_NOC,
            dram=GPUMECH_DRAM,
        ),
        checks=INTERVAL_CHECKS,
    )

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """See `ContentionModel.waiting`."""
        behind = gpumech_queues(profile, design, warps, noc=True)
        return gpumech_mshrs(profile, design, warps, behind, queued=True)


MODELS.add(GpuMechPlus.name, GpuMechPlus())
