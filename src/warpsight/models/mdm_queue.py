"""MDM's queues with GPUMech's miss registers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design
from warpsight.models.contention import ContentionModel, Waiting, gpumech_mshrs, mdm_queues
from warpsight.models.interval_model import INTERVAL_CHECKS, MDM_EXPOSED, expected_delay, interval_components, mdm_queue

Floats = npt.NDArray[np.float64]


class MdmQueue(ContentionModel):
    """Wang et al., MICRO 2020, Table V: GPUMech+ with the queues of section III-C2. Shows what MDM's queue model is worth alone."""

    name = "mdm-queue"
    title = "MDM-Queue: GPUMech+ with MDM's queues"
    source = "Wang, Jahre, Almutaz Adileh and Eeckhout: MDM, MICRO 2020, Table V"
    needs = frozenset({"misses"})
    about = About(
        equations=(
            "GPUMech eqs. 4-16: intervals and multithreading",
            "MDM eqs. 2-3 and 7-10: queues of NoC and DRAM, saturation of the NoC",
            "GPUMech eqs. 18-20, the miss latency with both queues",
        ),
        assumptions=(
            "one representative warp stands for all",
            "an interval meets the misses of all SMs at the NoC and at DRAM, half of them unless divergent and the NoC saturated",
            "functional units, shared-memory banks and barriers never limit",
        ),
        fails=(
            "divergent loads: MSHRs delay a mean request, not whole batches: half of MDM's delay or a little more",
            "stores whose lines meet in few L2 slices come out too fast",
            "barriers and bank conflicts cost nothing",
        ),
        citation="L. Wang, M. Jahre, A. Adileh and L. Eeckhout. MDM: the GPU memory divergence model. MICRO 2020.",
        stack=("base", "com_data", "mem_data", "mshr", "noc", "dram", "idle"),
        by_component=interval_components(
            mshr=expected_delay(queued=True),
            noc=mdm_queue("MDM eqs. 3, 7, 9 and 10", "NoC", MDM_EXPOSED),
            dram=mdm_queue("MDM eqs. 3 and 8-10", "DRAM", MDM_EXPOSED),
        ),
        checks=INTERVAL_CHECKS,
    )

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """See `ContentionModel.waiting`."""
        behind = mdm_queues(profile, design, warps, saturation=True)
        return gpumech_mshrs(profile, design, warps, behind, queued=True)


MODELS.add(MdmQueue.name, MdmQueue())
