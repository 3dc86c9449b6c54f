"""MDM, the GPU memory divergence model: batches through the MSHRs, queues at NoC and DRAM."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design
from warpsight.models.contention import ContentionModel, Waiting, mdm_mshrs, mdm_queues
from warpsight.models.interval_model import INTERVAL_CHECKS, MDM_EXPOSED, batches, interval_components, mdm_queue

Floats = npt.NDArray[np.float64]


class Mdm(ContentionModel):
    """Wang et al., MICRO 2020, eqs. 1-10; without misses it is GPUMech's multithreading model (C_i of eq. 1).

    Bandwidths are those of all channels together, so service latencies are not divided by the number of channels again.
    """

    name = "mdm"
    title = "MDM: GPU memory divergence model"
    source = "Wang, Jahre, Almutaz Adileh and Eeckhout: MDM, MICRO 2020, eqs. 1-10"
    needs = frozenset({"misses"})
    about = About(
        equations=(
            "GPUMech eqs. 4-16: intervals and multithreading, C_i of eq. 1",
            "eqs. 2-3: memory-divergent intervals, misses in flight",
            "eqs. 4-6: miss latency, its stall under contention, batches through the MSHRs",
            "eqs. 7-10: service latencies and queues of NoC and DRAM, saturation of the NoC",
        ),
        assumptions=(
            "one representative warp stands for all",
            "the misses of an SM go through its MSHRs in whole batches, one after the other",
            "every batch meets the misses of all SMs at the NoC and at DRAM, half of them unless the NoC is saturated",
            "functional units, shared-memory banks and barriers never limit",
        ),
        fails=(
            "batches overlap in hardware, and NoC and DRAM work at the same time: divergent loads come out too slow",
            "stores whose lines meet in few L2 slices come out too fast",
            "barriers and bank conflicts cost nothing",
        ),
        citation="L. Wang, M. Jahre, A. Adileh and L. Eeckhout. MDM: the GPU memory divergence model. MICRO 2020.",
        stack=("base", "com_data", "mem_data", "mshr", "noc", "dram", "idle"),
        by_component=interval_components(
            mshr=batches("MDM eqs. 4-6"),
            noc=mdm_queue("MDM eqs. 3, 7, 9 and 10", "NoC", MDM_EXPOSED),
            dram=mdm_queue("MDM eqs. 3 and 8-10", "DRAM", MDM_EXPOSED),
        ),
        checks=INTERVAL_CHECKS,
    )

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """See `ContentionModel.waiting`."""
        return mdm_mshrs(profile, design, warps, mdm_queues(profile, design, warps, saturation=True))


MODELS.add(Mdm.name, Mdm())
