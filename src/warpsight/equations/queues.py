"""Queueing at NoC and DRAM: GPUMech's M/D/1 queue (eqs. 21-23) and MDM's contention model (MICRO 2020, eqs. 4, 5 and 7-10).

Latencies are in core cycles, bandwidths in bytes per second over all channels, clocks in hertz. A bandwidth over all channels
already holds the division by the number of channels that MDM asks for. Arguments broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def service_cycles(clock_hz: Any, block_bytes: Any, bandwidth_bytes_per_s: Any) -> Any:
    """Core cycles to transfer one block: s in GPUMech eq. 22, MDM eq. 7."""
    return clock_hz * block_bytes / bandwidth_bytes_per_s


def dram_service_cycles(clock_hz: Any, block_bytes: Any, bandwidth_bytes_per_s: Any, llc_miss_ratio: Any) -> Any:
    """MDM eq. 8: core cycles of DRAM per request that leaves the SM, of which only LLC misses get there."""
    return llc_miss_ratio * service_cycles(clock_hz, block_bytes, bandwidth_bytes_per_s)


def arrival_rate(core_requests: Any, sm_count: Any, interval_cycles: Any) -> Any:
    """GPUMech eq. 23: requests of all SMs per cycle of an interval of one warp alone (its instructions and its stall)."""
    return core_requests * sm_count / interval_cycles


def bandwidth_delay(core_requests: Any, sm_count: Any, service: Any, interval_cycles: Any) -> Floats:
    """GPUMech eqs. 21-22: expected cycles in an M/D/1 queue, capped at half of all requests being served first.

    A queue with a utilisation of 1 or more has no steady state and takes the cap.
    """
    rate = arrival_rate(core_requests, sm_count, interval_cycles)
    utilisation = rate * service
    cap = service * core_requests * sm_count / 2
    with np.errstate(divide="ignore"):
        waiting = utilisation * service / (2 * np.maximum(1 - utilisation, 0.0))
    return np.asarray(np.minimum(waiting, cap))


def latency_without_contention(l2_latency: Any, dram_latency: Any, llc_miss_ratio: Any) -> Any:
    """MDM eq. 4: the mean latency of an L1 miss; `dram_latency` is what DRAM adds to an LLC hit."""
    return l2_latency + llc_miss_ratio * dram_latency


def memory_stall(latency: Any, noc_stall: Any, dram_stall: Any) -> Any:
    """MDM eq. 5: stall cycles of an L1 miss with its queueing."""
    return latency + noc_stall + dram_stall


def is_noc_saturated(noc_service: Any, misses: Any, sm_count: Any, l2_latency: Any, dram_latency: Any) -> Any:
    """MDM eq. 10: the queue at the NoC is longer than the round trip to DRAM."""
    return (noc_service * sm_count) * misses > l2_latency + dram_latency


def queueing_stall(misses: Any, sm_count: Any, service: Any, exposed: Any) -> Any:
    """MDM eq. 9: stall cycles behind the misses of all SMs, in full where `exposed`, else by half.

    `exposed`: the interval is memory-divergent (eq. 2) and the NoC saturated (eq. 10), for the NoC's and the DRAM's queue alike.
    """
    return (0.5 + 0.5 * exposed) * misses * (sm_count * service)
