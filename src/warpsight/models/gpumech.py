"""GPUMech: multithreading, expected MSHR delay, and an M/D/1 queue at DRAM."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.equations.mshr import core_requests, mshr_delay
from warpsight.equations.queues import bandwidth_delay, latency_without_contention, service_cycles
from warpsight.gpu.spec import GpuSpec
from warpsight.models import interval_model
from warpsight.models.answer import predict_one
from warpsight.models.base import About, Design
from warpsight.models.registry import MODELS
from warpsight.profile.interval_profile import IntervalProfile
from warpsight.result.prediction import Prediction

Floats = npt.NDArray[np.float64]


class GpuMech:
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
    )

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """See `Model.predict`."""
        return predict_one(self, profile, gpu)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        return interval_model.evaluate(profile, design, contention)


def contention(profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
    """Eq. 17's numerator: MSHR and DRAM delay cycles summed over the intervals, for `warps` [R] on each design point [R]."""
    latency = latency_without_contention(design.l2_latency_cycles, design.dram_latency_cycles, profile.llc_miss_ratio)
    resident = warps[:, None]
    mshr = mshr_delay(profile.read_misses, profile.memory_instructions, resident, design.mshrs[:, None], latency[:, None])
    dram = bandwidth_delay(
        core_requests(profile.dram_reads + profile.dram_writes, resident),
        design.sm_count[:, None],
        service_cycles(design.core_clock_hz, design.l2_line_bytes, design.dram_bytes_per_s)[:, None],
        profile.instructions + profile.stall_cycles,
    )
    return {"mshr": mshr.sum(axis=1), "dram": dram.sum(axis=1)}


MODELS.add(GpuMech.name, GpuMech())
