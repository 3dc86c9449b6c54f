"""GPUMech's multithreading model alone, for round-robin and for greedy-then-oldest scheduling."""

from __future__ import annotations

from warpsight.models.base import MODELS, About
from warpsight.models.interval_model import INTERVAL_CHECKS, IntervalModel, interval_components


class Multithreading(IntervalModel):
    """Huang et al., MICRO 2014, eqs. 7-16 (MT in Table II), by the policy of the GPU: `sm.policy` lrr or gto.

    Without requests that leave the SM, every model from `mt-mshr` to `mdm` is this one.
    """

    name = "mt"
    title = "Multithreading alone, round-robin or greedy-then-oldest"
    source = "Huang, Lee, Kim and Lee: GPUMech, MICRO 2014, eqs. 4-16"
    needs = frozenset()
    about = About(
        equations=(
            "GPUMech eq. 4: intervals of the representative warp",
            "GPUMech eqs. 7-11: round-robin",
            "GPUMech eqs. 7-9 and 12-16: greedy-then-oldest",
        ),
        assumptions=(
            "one representative warp stands for all",
            "intervals of the warps interleave at random",
            "no request waits for another",
        ),
        fails=(
            "memory-bound kernels: neither MSHRs nor bandwidth limit",
        ),
        citation="J.-C. Huang, J. H. Lee, H. Kim and H.-H. S. Lee. GPUMech: GPU performance modeling technique based on interval "
        "analysis. MICRO 2014.",
        stack=("base", "com_data", "mem_data", "idle"),
        by_component=interval_components(),
        checks=(*INTERVAL_CHECKS, "noc-load", "dram-load"),
    )


MODELS.add(Multithreading.name, Multithreading())
