"""GPUMech without its DRAM queue: multithreading and miss registers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design
from warpsight.models.contention import ContentionModel, Waiting, gpumech_mshrs, no_queues
from warpsight.models.interval_model import INTERVAL_CHECKS, expected_delay, interval_components

Floats = npt.NDArray[np.float64]


class MultithreadingMshr(ContentionModel):
    """Huang et al., MICRO 2014, eqs. 7-20: MT_MSHR in Table II."""

    name = "mt-mshr"
    title = "Multithreading and MSHRs"
    source = "Huang, Lee, Kim and Lee: GPUMech, MICRO 2014, eqs. 4-20"
    needs = frozenset({"misses"})
    about = About(
        equations=(
            "GPUMech eqs. 4-16: intervals and multithreading, as in mt",
            "GPUMech eqs. 18-20: expected delay for a free MSHR",
        ),
        assumptions=(
            "one representative warp stands for all",
            "all requests of an interval are made at once",
            "NoC and DRAM carry any number of requests",
        ),
        fails=(
            "kernels bound by bandwidth, stores above all: they take no MSHR",
        ),
        citation="J.-C. Huang, J. H. Lee, H. Kim and H.-H. S. Lee. GPUMech: GPU performance modeling technique based on interval "
        "analysis. MICRO 2014.",
        stack=("base", "com_data", "mem_data", "mshr", "idle"),
        by_component=interval_components(
            mshr=expected_delay(queued=False),
        ),
        checks=(*INTERVAL_CHECKS, "noc-load", "dram-load"),
    )

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """See `ContentionModel.waiting`."""
        return gpumech_mshrs(profile, design, warps, no_queues(), queued=False)


MODELS.add(MultithreadingMshr.name, MultithreadingMshr())
