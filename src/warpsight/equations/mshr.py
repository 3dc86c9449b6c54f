"""Waiting for miss registers (MSHRs): GPUMech's expected delay (eqs. 18-20) and MDM's batches (MICRO 2020, eqs. 2, 3 and 6).

Per interval: `read_misses` and `write_misses` of one warp, arrays [..., I]. GPU values broadcast against them. `warps` counts all
warps of an SM, since they share its L1. Requests are means over executions and may be fractions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def core_requests(warp_requests: Any, warps: Any) -> Any:
    """GPUMech eq. 18: requests of all warps of an SM in an interval."""
    return warp_requests * warps


def expected_queueing_delay(requests: Any, mshrs: Any, miss_latency: Any) -> Floats:
    """GPUMech eq. 19: mean cycles that one of `requests` (above 0) waits for an MSHR.

    Request j, counted from 1, is served in round ceil(j / mshrs). In closed form: with q full rounds and r requests over, they
    sum to mshrs q (q + 1) / 2 + r (q + 1).
    """
    full = np.floor(requests / mshrs)
    rounds = mshrs * full * (full + 1) / 2 + (requests - full * mshrs) * (full + 1)
    return np.asarray(miss_latency * (rounds / requests - 1))


def mshr_delay(read_misses: Floats, memory_instructions: Floats, warps: Any, mshrs: Any, miss_latency: Any) -> Floats:
    """GPUMech eq. 20: cycles an interval waits for MSHRs, once per memory instruction; 0 where the MSHRs suffice."""
    # up to as many requests as MSHRs eq. 19 gives 0, as eq. 20 asks; starting there keeps 0 requests out of its division
    requests = np.maximum(core_requests(read_misses, warps), mshrs)
    return expected_queueing_delay(requests, mshrs, miss_latency) * memory_instructions


def blocking_capacity(mshrs: Any, noc_queue: Any) -> Any:
    """MDM, footnote 2: misses an SM has in flight before it blocks. A streaming L1 has more MSHRs than its NoC queue holds."""
    return np.minimum(mshrs, noc_queue)


def is_divergent(read_misses: Any, warps: Any, mshrs: Any) -> Any:
    """MDM eq. 2: an interval is memory-divergent when its concurrent read misses exceed the MSHRs."""
    return read_misses * warps > mshrs


def misses_in_flight(read_misses: Any, write_misses: Any, warps: Any, mshrs: Any) -> Any:
    """MDM eq. 3: concurrent L1 misses of an SM. Reads are bounded by the MSHRs; writes pass the L1 by."""
    return np.minimum(read_misses * warps, mshrs) + write_misses * warps


def batches(read_misses: Any, warps: Any, mshrs: Any) -> Any:
    """MDM eq. 6, its quotient: in how many batches an SM's read misses of an interval go through the MSHRs."""
    return np.ceil(read_misses * warps / mshrs)


def batching_stall(read_misses: Any, warps: Any, mshrs: Any, memory_stall: Any) -> Floats:
    """MDM eq. 6: stall cycles of all batches but the last, which the queues cover; 0 in an interval that is not divergent."""
    # the count of batches above 1 is positive exactly where eq. 2 holds, and -1 or 0 elsewhere
    return np.asarray(np.maximum(batches(read_misses, warps, mshrs) - 1, 0.0) * memory_stall)
