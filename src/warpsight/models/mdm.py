"""MDM, the GPU memory divergence model: batches through the MSHRs, queues at NoC and DRAM."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.equations import mshr, queues
from warpsight.gpu.spec import GpuSpec
from warpsight.models import interval_model
from warpsight.models.answer import predict_one
from warpsight.models.base import About, Design
from warpsight.models.registry import MODELS
from warpsight.profile.interval_profile import IntervalProfile
from warpsight.result.prediction import Prediction

Floats = npt.NDArray[np.float64]


class Mdm:
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
    )

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """See `Model.predict`."""
        return predict_one(self, profile, gpu)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        return interval_model.evaluate(profile, design, contention)


def contention(profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
    """S(MSHR), S(NoC) and S(DRAM) summed over the intervals, for `warps` [R] on each design point [R]."""
    ratio = profile.llc_miss_ratio
    noc_service = queues.service_cycles(design.core_clock_hz, design.l1_line_bytes, design.noc_bytes_per_s)[:, None]
    dram_service = queues.dram_service_cycles(design.core_clock_hz, design.l2_line_bytes, design.dram_bytes_per_s, ratio)[:, None]
    l2, dram = design.l2_latency_cycles[:, None], design.dram_latency_cycles[:, None]
    registers, sms, resident = design.mshrs[:, None], design.sm_count[:, None], warps[:, None]
    reads, writes = profile.read_misses, profile.write_misses

    misses = mshr.misses_in_flight(reads, writes, resident, registers)
    saturated = queues.is_noc_saturated(noc_service, misses, sms, l2, dram)
    exposed = mshr.is_divergent(reads, resident, registers) & saturated
    noc_stall = queues.queueing_stall(misses, sms, noc_service, exposed)
    dram_stall = queues.queueing_stall(misses, sms, dram_service, exposed)
    memory = queues.memory_stall(queues.latency_without_contention(l2, dram, ratio), noc_stall, dram_stall)
    batching = mshr.batching_stall(reads, resident, registers, memory)
    return {"mshr": batching.sum(axis=1), "noc": noc_stall.sum(axis=1), "dram": dram_stall.sum(axis=1)}


MODELS.add(Mdm.name, Mdm())
