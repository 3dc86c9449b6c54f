"""The parts that the contention models of GPUMech and MDM are put together from (MDM, MICRO 2020, Table V).

A row of Table V is one of the two queue models with one of the two MSHR models. Here a queue model is a function that answers
`Queues`, an MSHR model one that takes them and answers `Waiting`; a model's file says which two it is. Arrays are [R, I]: R design
points with resident warps, I intervals.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.equations import queues
from warpsight.equations import queues as mshr
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.interval_model import IntervalModel, residency

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Queues:
    """Stall cycles of an interval behind other requests at the NoC and at DRAM, [R, I] or what broadcasts to it."""

    noc: Any
    dram: Any

    @property
    def total(self) -> Any:
        """Both."""
        return self.noc + self.dram


@dataclass(frozen=True)
class Waiting:
    """What contention costs, [R, I]: stall cycles of an interval for miss registers, and in `queues`.

    `registers` bound the misses in flight and `miss_cycles` is how long a miss holds one: from them follows how long a mean request
    waits for its register, which is not what an interval stalls.
    """

    mshr: Floats
    queues: Queues
    registers: Any
    miss_cycles: Any

    def by_component(self) -> dict[str, Floats]:
        """The stall cycles, [R, I] by component of the CPI stack; what a model does not have is left out."""
        parts = {"mshr": self.mshr, "noc": self.queues.noc, "dram": self.queues.dram}
        return {name: cycles for name, cycles in parts.items() if np.ndim(cycles)}


class ContentionModel(IntervalModel):
    """An interval model with waiting for miss registers, NoC and DRAM; its file gives `waiting`."""

    @abstractmethod
    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """The waiting in each interval with `warps` [R] resident on each design point [R]."""

    def contention(self, profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
        """See `IntervalModel.contention`."""
        return self.waiting(profile, design, warps).by_component()

    def remarks(self, profile: IntervalProfile, gpu: GpuSpec) -> dict[str, Any]:
        """`l1_miss_latency`: cycles of a mean L1 read miss by where it spends them (MDM, Fig. 3); nothing without read misses."""
        found = residency(profile, Design.of(gpu))
        weight = profile.read_misses * (found.times * found.warps)[:, None]
        if not weight.any():
            return {}
        waiting = self.waiting(profile, found.design, found.warps)
        requests = np.maximum(mshr.core_requests(profile.read_misses, found.warps[:, None]), waiting.registers)
        parts = {
            "mshr": mshr.expected_queueing_delay(requests, waiting.registers, waiting.miss_cycles),
            "noc_queue": waiting.queues.noc,
            "l2": float(gpu.l2.latency_cycles),
            "dram_queue": waiting.queues.dram,
            "dram": profile.llc_miss_ratio * gpu.dram.latency_cycles,
        }
        return {"l1_miss_latency": {name: float((weight * cycles).sum() / weight.sum()) for name, cycles in parts.items()}}


def no_queues() -> Queues:
    """Requests that never queue."""
    return Queues(0.0, 0.0)


def gpumech_queues(profile: IntervalProfile, design: Design, warps: Floats, *, noc: bool) -> Queues:
    """GPUMech, eqs. 21-23: an M/D/1 queue at DRAM, loaded by what reaches DRAM, writes included.

    With `noc`, one more at the NoC for all L1 misses (MDM, section IV, on GPUMech+).
    """
    cycles, sms = profile.instructions + profile.stall_cycles, design.sm_count[:, None]

    def queue(requests: Floats, service: Floats) -> Floats:
        return queues.bandwidth_delay(mshr.core_requests(requests, warps[:, None]), sms, service[:, None], cycles)

    dram_service = queues.service_cycles(design.core_clock_hz, design.l2_line_bytes, design.dram_bandwidth_bytes_per_s)
    dram = queue(profile.dram_reads + profile.dram_writes, dram_service)
    if not noc:
        return Queues(0.0, dram)
    noc_service = queues.service_cycles(design.core_clock_hz, design.l1_line_bytes, design.noc_bandwidth_bytes_per_s)
    return Queues(queue(profile.read_misses + profile.write_misses, noc_service), dram)


def mdm_queues(profile: IntervalProfile, design: Design, warps: Floats, *, saturation: bool) -> Queues:
    """MDM, MICRO 2020, eqs. 7-10: behind the misses of all SMs in full in a divergent interval, else by half.

    With `saturation`, in full only where the NoC is saturated as well (eq. 10); without, as in the letter (CAL 2019, eq. 5).
    """
    noc_service = queues.service_cycles(design.core_clock_hz, design.l1_line_bytes, design.noc_bandwidth_bytes_per_s)[:, None]
    dram_service = queues.dram_service_cycles(
        design.core_clock_hz, design.l2_line_bytes, design.dram_bandwidth_bytes_per_s, profile.llc_miss_ratio
    )[:, None]
    sms, resident, registers = design.sm_count[:, None], warps[:, None], _registers(design)
    misses = mshr.misses_in_flight(profile.read_misses, profile.write_misses, resident, registers)
    exposed = mshr.is_divergent(profile.read_misses, resident, registers)
    if saturation:
        l2, dram = design.l2_latency_cycles[:, None], design.dram_latency_cycles[:, None]
        exposed = exposed & queues.is_noc_saturated(noc_service, misses, sms, l2, dram)
    return Queues(
        queues.queueing_stall(misses, sms, noc_service, exposed), queues.queueing_stall(misses, sms, dram_service, exposed)
    )


def gpumech_mshrs(profile: IntervalProfile, design: Design, warps: Floats, behind: Queues, *, queued: bool) -> Waiting:
    """GPUMech, eqs. 18-20: the expected delay for a miss register, once per memory instruction.

    With `queued` a miss holds its register through the queues `behind` too, as MDM's Table V has it ("w/ queue").
    """
    held = _latency(profile, design) + (behind.total if queued else 0.0)
    registers, resident = design.l1_mshrs[:, None], warps[:, None]
    delay = mshr.mshr_delay(profile.read_misses, profile.memory_instructions, resident, registers, held)
    return Waiting(delay, behind, registers, held)


def mdm_mshrs(profile: IntervalProfile, design: Design, warps: Floats, behind: Queues) -> Waiting:
    """MDM, MICRO 2020, eqs. 4-6: batches through the miss registers, each as long as a miss with its queueing."""
    held = queues.memory_stall(_latency(profile, design), behind.noc, behind.dram)
    registers = _registers(design)
    return Waiting(mshr.batching_stall(profile.read_misses, warps[:, None], registers, held), behind, registers, held)


def _latency(profile: IntervalProfile, design: Design) -> Any:
    """MDM eq. 4, and what GPUMech's eq. 19 takes as the mean miss latency."""
    return queues.latency_without_contention(design.l2_latency_cycles, design.dram_latency_cycles, profile.llc_miss_ratio)[:, None]


def _registers(design: Design) -> Any:
    """What blocks the L1: its MSHRs, or the NoC's queue where that holds less (MDM, footnote 2, on streaming L1s)."""
    return mshr.blocking_capacity(design.l1_mshrs, design.noc_queue)[:, None]
