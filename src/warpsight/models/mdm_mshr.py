"""MDM's batches through the miss registers with GPUMech+'s queues."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design
from warpsight.models.contention import ContentionModel, Waiting, gpumech_queues, mdm_mshrs
from warpsight.models.interval_model import GPUMECH_DRAM, GPUMECH_NOC, INTERVAL_CHECKS, batches, interval_components

Floats = npt.NDArray[np.float64]


class MdmMshr(ContentionModel):
    """Wang et al., MICRO 2020, Table V: GPUMech+ with the batches of section III-C1. Shows what MDM's MSHR model is worth alone."""

    name = "mdm-mshr"
    title = "MDM-MSHR: GPUMech+ with MDM's batches"
    source = "Wang, Jahre, Almutaz Adileh and Eeckhout: MDM, MICRO 2020, Table V"
    needs = frozenset({"misses", "dram"})
    about = About(
        equations=(
            "GPUMech eqs. 4-16: intervals and multithreading",
            "GPUMech eqs. 21-23 at DRAM, and once more at the NoC",
            "MDM eqs. 2 and 4-6: batches through the MSHRs",
        ),
        assumptions=(
            "one representative warp stands for all",
            "the misses of an SM go through its MSHRs in whole batches, one after the other",
            "requests spread evenly over an interval and over all channels",
            "functional units, shared-memory banks and barriers never limit",
        ),
        fails=(
            "divergent loads: requests queue behind all of their interval, even those that wait for an MSHR: far too slow",
            "each of the batches then waits in these queues: slower still than gpumech-plus",
            "barriers and bank conflicts cost nothing",
        ),
        citation="L. Wang, M. Jahre, A. Adileh and L. Eeckhout. MDM: the GPU memory divergence model. MICRO 2020.",
        stack=("base", "com_data", "mem_data", "mshr", "noc", "dram", "idle"),
        by_component=interval_components(
            mshr=batches("MDM eqs. 4-6"),
            noc=GPUMECH_NOC,
            dram=GPUMECH_DRAM,
        ),
        checks=INTERVAL_CHECKS,
    )

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """See `ContentionModel.waiting`."""
        return mdm_mshrs(profile, design, warps, gpumech_queues(profile, design, warps, noc=True))


MODELS.add(MdmMshr.name, MdmMshr())
