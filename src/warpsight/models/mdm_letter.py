"""MDM as first published: without the condition that the NoC is saturated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design
from warpsight.models.contention import ContentionModel, Waiting, mdm_mshrs, mdm_queues
from warpsight.models.interval_model import INTERVAL_CHECKS, batches, interval_components, mdm_queue

Floats = npt.NDArray[np.float64]


class MdmLetter(ContentionModel):
    """Wang et al., IEEE CAL 2019, eqs. 1-8: a divergent interval meets its queues in full, whether the NoC is saturated or not."""

    name = "mdm-letter"
    title = "MDM as in its letter: no saturation condition"
    source = "Wang, Jahre, Almutaz Adileh, Wang and Eeckhout: IEEE CAL 2019, eqs. 1-8"
    needs = frozenset({"misses"})
    about = About(
        equations=(
            "GPUMech eqs. 4-16: intervals and multithreading, Ci of eq. 1",
            "eqs. 2-3: service latencies of NoC and DRAM",
            "eqs. 4-5: misses in flight, queues; in full in divergent intervals",
            "eqs. 6-8: miss latency, its stall under contention, batches through the MSHRs",
        ),
        assumptions=(
            "one representative warp stands for all",
            "the misses of an SM go through its MSHRs in whole batches, one after the other",
            "divergence saturates the memory system",
            "functional units, shared-memory banks and barriers never limit",
        ),
        fails=(
            "divergent loads that the LLC serves quickly: their queues are hidden in part, and cycles come out high",
            "batches overlap in hardware, and NoC and DRAM work at the same time: divergent loads come out too slow",
            "barriers and bank conflicts cost nothing",
        ),
        citation="L. Wang, M. Jahre, A. Adileh, Z. Wang and L. Eeckhout. Modeling emerging memory-divergent GPU applications. "
        "IEEE Computer Architecture Letters, 2019.",
        stack=("base", "com_data", "mem_data", "mshr", "noc", "dram", "idle"),
        by_component=interval_components(
            mshr=batches("CAL 2019, eqs. 6-8"),
            noc=mdm_queue("CAL 2019, eqs. 2, 4 and 5", "NoC", "where the interval is divergent"),
            dram=mdm_queue("CAL 2019, eqs. 3-5", "DRAM", "where the interval is divergent"),
        ),
        checks=INTERVAL_CHECKS,
    )

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """See `ContentionModel.waiting`."""
        return mdm_mshrs(profile, design, warps, mdm_queues(profile, design, warps, saturation=False))


MODELS.add(MdmLetter.name, MdmLetter())
