"""Waits for MSHRs, NoC and DRAM as GPUMech and MDM model them, for many design points at once.

A model takes one function for the queues and one for the MSHRs (`gpumech_mdm.py` has the table). Arrays are [R, I]: R design points
with resident warps, I intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.equations import queues
from warpsight.gpu.design import Design
from warpsight.intervals.interval_profile import Floats, IntervalProfile


@dataclass(frozen=True)
class Queues:
    """Stall cycles of an interval behind other requests at the NoC and at DRAM, [R, I] or a shape that broadcasts to it."""

    noc: Any
    dram: Any


@dataclass(frozen=True)
class Waiting:
    """The cost of contention, [R, I]: stall cycles of an interval for MSHRs (`mshr`) and in `queues`.

    `registers` limits the misses in flight, and a miss holds one of them for `miss_cycles`. They give the wait of a mean request
    for its MSHR, which is not the time that an interval stalls.
    """

    mshr: Floats
    queues: Queues
    registers: Any
    miss_cycles: Any

    def by_component(self) -> dict[str, Floats]:
        """Stall cycles [R, I] by component of the CPI stack; a wait that is not modelled is left out."""
        parts = {"mshr": self.mshr, "noc": self.queues.noc, "dram": self.queues.dram}
        return {name: cycles for name, cycles in parts.items() if np.ndim(cycles)}


def gpumech_queues(profile: IntervalProfile, design: Design, warps: Floats, *, noc: bool, dram: bool) -> Queues:
    """GPUMech, eqs. 21-23: with `dram`, an M/D/1 queue at DRAM, loaded by what reaches DRAM, including writes.

    With `noc`, another one at the NoC for all L1 misses (MDM, section IV, on GPUMech+).
    """
    cycles, sms = profile.instructions + profile.stall_cycles, design.sm_count[:, None]

    def queue(requests: Floats, line_bytes: Floats, bytes_per_s: Floats) -> Floats:
        service = queues.service_cycles(design.core_clock_hz, line_bytes, bytes_per_s)[:, None]
        return queues.bandwidth_delay(queues.core_requests(requests, warps[:, None]), sms, service, cycles)

    misses, traffic = profile.read_misses + profile.write_misses, profile.dram_reads + profile.dram_writes
    return Queues(
        queue(misses, design.l1_line_bytes, design.noc_bandwidth_bytes_per_s) if noc else 0.0,
        queue(traffic, design.l2_line_bytes, design.dram_bandwidth_bytes_per_s) if dram else 0.0,
    )


def mdm_queues(profile: IntervalProfile, design: Design, warps: Floats, *, saturation: bool) -> Queues:
    """MDM, MICRO 2020, eqs. 7-10: behind the misses of all SMs, in full in a divergent interval, else by half.

    With `saturation`, in full only if the NoC is saturated too (eq. 10); without, as in the letter (CAL 2019, eq. 5).
    """
    noc_service = queues.service_cycles(design.core_clock_hz, design.l1_line_bytes, design.noc_bandwidth_bytes_per_s)[:, None]
    dram_service = queues.dram_service_cycles(
        design.core_clock_hz, design.l2_line_bytes, design.dram_bandwidth_bytes_per_s, profile.llc_miss_ratio
    )[:, None]
    sms, resident, registers = design.sm_count[:, None], warps[:, None], _registers(design)
    misses = queues.misses_in_flight(profile.read_misses, profile.write_misses, resident, registers)
    exposed = queues.is_divergent(profile.read_misses, resident, registers)
    if saturation:
        l2, dram = design.l2_latency_cycles[:, None], design.dram_latency_cycles[:, None]
        exposed = exposed & queues.is_noc_saturated(noc_service, misses, sms, l2, dram)
    return Queues(
        queues.queueing_stall(misses, sms, noc_service, exposed), queues.queueing_stall(misses, sms, dram_service, exposed)
    )


def gpumech_mshrs(profile: IntervalProfile, design: Design, warps: Floats, behind: Queues, *, queued: bool) -> Waiting:
    """GPUMech, eqs. 18-20: the expected delay for an MSHR, once per memory instruction.

    With `queued`, a miss holds its MSHR through the queues `behind` too ("w/ queue" in MDM's Table V).
    """
    held = _latency(profile, design) + (behind.noc + behind.dram if queued else 0.0)
    registers, resident = design.l1_mshrs[:, None], warps[:, None]
    delay = queues.mshr_delay(profile.read_misses, profile.memory_instructions, resident, registers, held)
    return Waiting(delay, behind, registers, held)


def mdm_mshrs(profile: IntervalProfile, design: Design, warps: Floats, behind: Queues) -> Waiting:
    """MDM, MICRO 2020, eqs. 4-6: batches through the MSHRs, each as long as a miss with its queueing."""
    held = queues.memory_stall(_latency(profile, design), behind.noc, behind.dram)
    registers = _registers(design)
    return Waiting(queues.batching_stall(profile.read_misses, warps[:, None], registers, held), behind, registers, held)


def _latency(profile: IntervalProfile, design: Design) -> Any:
    """MDM eq. 4, which is also GPUMech's mean miss latency (eq. 19)."""
    return queues.latency_without_contention(design.l2_latency_cycles, design.dram_latency_cycles, profile.llc_miss_ratio)[:, None]


def _registers(design: Design) -> Any:
    """What limits the misses in flight: the MSHRs, or the NoC's queue if it holds fewer (MDM, footnote 2, on streaming L1s)."""
    return queues.blocking_capacity(design.l1_mshrs, design.noc_queue)[:, None]
