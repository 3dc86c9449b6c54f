"""Service cycles of one warp at each resource of a GPU, from the demands of a launch, without waiting.

All are core cycles, [R] like the numbers of `design`. A resource that the SMs share serves one warp of each SM in them, so that all
are cycles per warp of an SM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from warpsight.caches.miss_profile import SHARES
from warpsight.equations.queues import latency_without_contention
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import Floats, IntervalProfile, ResourceDemands


def instructions_per_warp(profile: IntervalProfile) -> float:
    """The mean over all warps if the launch is known, else the representative warp's."""
    if profile.launch is None:
        return float(profile.instructions.sum())
    return profile.total_warp_instructions / (profile.launch.blocks * profile.launch.warps_per_block)


def evenly_spread(demands: ResourceDemands) -> ResourceDemands:
    """The same traffic, spread evenly over slices and channels at all times."""
    even: dict[str, Any] = dict.fromkeys(SHARES, 1.0)
    return replace(demands, **even)


def issue_cycles(instructions: float, design: Design, warps: Floats) -> Floats:
    """Issue slots of the SM: a scheduler issues its width a cycle, but no more than one instruction of each warp."""
    return np.asarray(instructions / np.minimum(design.sm_schedulers * design.sm_issue_width, warps))


def start_cycles(design: Design, warps_per_block: float) -> Floats:
    """From the start of a block's first warp to that of its last."""
    return np.asarray((warps_per_block - 1.0) * design.dispatch_warp_cycles)


def grid_cycles(design: Design, uses_memory: bool) -> Floats:
    """What a launch takes once, beside its blocks: its grid begins and ends, and the first warps read their parameters.

    No SM has the parameters of a new launch; so where they hold addresses, the first warps wait for the L2 (ADR 0081).
    """
    reads = design.dispatch_parameter_reads if uses_memory else 0.0
    return np.asarray(design.dispatch_grid_cycles + reads * design.l2_latency_cycles)


def grid_cycles_of(gpu: GpuSpec, uses_memory: bool) -> float:
    """`grid_cycles` of one GPU."""
    return float(grid_cycles(Design.of(gpu), uses_memory)[0])


def dispatch_cycles(blocks: float, design: Design) -> Floats:
    """The whole GPU's distribution of `blocks` to its SMs."""
    return np.asarray(blocks * design.dispatch_block_interval_ns * 1e-9 * design.core_clock_hz)


def noc_cycles(demands: ResourceDemands, design: Design) -> Floats:
    """The network: its two directions work at the same time, and only the slices' ports that traffic uses at a time."""
    busiest = max(demands.fetched_bytes / demands.reply_share, demands.sent_bytes / demands.request_share)
    return np.asarray(busiest * design.core_clock_hz * design.sm_count / design.noc_bandwidth_bytes_per_s)


def port_cycles(demands: ResourceDemands, design: Design, sms: Floats) -> Floats:
    """The SM's port to the network, in each direction as wide as that of a slice, on a GPU of `sms` SMs. A store has a header, and
    a mask of its bytes.

    A slice sends the data of a multicast once, and they pass the port of each SM that they are for. The SMs of a TPC send the
    requests of their loads in turn, one a cycle. A launch first has blocks on one SM of each TPC.
    """
    byte = design.core_clock_hz * design.l2_slices / design.noc_bandwidth_bytes_per_s
    arriving, leaving = (demands.fetched_bytes + demands.multicast_bytes) * byte, demands.sent_bytes * byte
    together = np.clip(np.ceil(design.sm_count * design.noc_tpc_sms / sms), 1.0, design.noc_tpc_sms)
    requests = np.where(design.noc_tpc_sms > 1, demands.read_misses, 0.0) * together
    return np.asarray(np.max([arriving, leaving, _packets(demands, design), requests], axis=0))


def sending_cycles(demands: ResourceDemands, design: Design) -> Floats:
    """The SM's port to the network, for stores and atomics."""
    leaving = demands.sent_bytes * design.core_clock_hz * design.l2_slices / design.noc_bandwidth_bytes_per_s
    return np.asarray(np.maximum(leaving, _packets(demands, design)))


def _packets(demands: ResourceDemands, design: Design) -> Floats:
    return np.asarray(demands.sent_flits * design.noc_store_time_cycles / 3)


def held_by_stores(demands: ResourceDemands, design: Design) -> Floats:
    """Additional cycles for which stores and atomics occupy the load-store unit while the network cannot accept them."""
    sent = demands.sent_bytes / demands.request_share * design.core_clock_hz * design.sm_count / design.noc_bandwidth_bytes_per_s
    return np.asarray(np.maximum(sent - demands.sent_requests, 0.0))


def flight_cycles(demands: ResourceDemands, design: Design, *, whole: bool = False) -> Floats:
    """The time of a miss in flight without queues: the latency of its load, without the pipeline of the L1 that every load passes.

    A miss takes its MSHR at the tag lookup, and frees it when the line arrives. `whole`: the latency with that pipeline. At least a
    cycle.
    """
    l2 = design.l2_latency_cycles + demands.far_share * design.l2_far_latency_cycles
    latency = latency_without_contention(l2, design.dram_latency_cycles, demands.dram_share)
    return np.asarray(np.maximum(latency if whole else latency - design.l1_latency_cycles, 1.0))


def held_by_ways(demands: ResourceDemands, flight: Floats) -> Floats:
    """Cycles for which misses block the load-store unit while all ways of a set are in flight: a part of their `flight` [R]."""
    return np.asarray(demands.way_wait * demands.read_misses * flight)


def slice_cycles(demands: ResourceDemands, design: Design) -> Floats:
    """The L2 slices: each serves one access a cycle, and one lane a cycle of an atomic whose lanes share an address.

    Sent and fetched traffic each use only the slices of their share; together they are at best spread evenly.
    """
    fetches = demands.slice_accesses - demands.sent_requests
    busiest = max(demands.slice_accesses, fetches / demands.reply_share, demands.sent_requests / demands.request_share)
    accesses = busiest + demands.atomic_repeats / demands.repeat_share
    return np.asarray(accesses * design.sm_count / design.l2_slices)


def dram_cycles(demands: ResourceDemands, design: Design, *, peak: bool = False) -> Floats:
    """The DRAM channels that traffic uses at a time. `peak`: as if a stream of reads reached the peak of the bandwidth.

    A channel gathers writes until they fill its queue and sends them together: its bus turns around twice for a queue of writes. If
    there are fewer reads, it is these that are gathered. Meanwhile other banks open their rows, but no two rows of a channel are
    opened in less than `dram.row_interval`: JEDEC's tRRD, and tFAW for four.
    """
    reached = design.dram_bandwidth_bytes_per_s * (1.0 if peak else design.dram_efficiency)
    bus = demands.dram_bytes / demands.channel_share * design.core_clock_hz * design.sm_count / reached
    turns = 2.0 * demands.dram_alternating / design.dram_queue * design.sm_count / design.dram_channels
    opened = demands.dram_rows / demands.channel_share * design.sm_count / design.dram_channels
    opening = opened * design.dram_row_interval_ns * 1e-9 * design.core_clock_hz
    return np.maximum(bus + turns * design.dram_turnaround_cycles, opening)
