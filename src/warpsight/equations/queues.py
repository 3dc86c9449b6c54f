"""Waits for MSHRs, NoC and DRAM (GPUMech eqs. 18-23; MDM eqs. 2-10), and in a closed network of queues.

Per interval: `read_misses` and `write_misses` of one warp, arrays [..., I]. GPU values broadcast against them. `warps`
counts all warps of an SM, since they share its L1. Requests are means over executions and may be fractions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.equations.multithreading import Floats, pieces


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
    # eq. 19 gives 0 for at most as many requests as MSHRs, as eq. 20 requires; the maximum avoids a division by 0 requests
    requests = np.maximum(core_requests(read_misses, warps), mshrs)
    return expected_queueing_delay(requests, mshrs, miss_latency) * memory_instructions


def blocking_capacity(mshrs: Any, noc_queue: Any) -> Any:
    """MDM, footnote 2: the misses in flight at which an SM blocks. A streaming L1 has more MSHRs than entries in its NoC queue."""
    return np.minimum(mshrs, noc_queue)


def is_divergent(read_misses: Any, warps: Any, mshrs: Any) -> Any:
    """MDM eq. 2: an interval is memory-divergent when its concurrent read misses exceed the MSHRs."""
    return read_misses * warps > mshrs


def misses_in_flight(read_misses: Any, write_misses: Any, warps: Any, mshrs: Any) -> Any:
    """MDM eq. 3: concurrent L1 misses of an SM. Reads are limited by the MSHRs; writes bypass the L1."""
    return np.minimum(read_misses * warps, mshrs) + write_misses * warps


def batches(read_misses: Any, warps: Any, mshrs: Any) -> Any:
    """MDM eq. 6, its quotient: the number of batches in which an SM's read misses of an interval pass the MSHRs."""
    return np.ceil(read_misses * warps / mshrs)


def batching_stall(read_misses: Any, warps: Any, mshrs: Any, memory_stall: Any) -> Floats:
    """MDM eq. 6: stall cycles of all batches but the last, which the queues include; 0 in an interval that is not divergent."""
    # the count of batches above 1 is positive exactly where eq. 2 holds, and -1 or 0 elsewhere
    return np.asarray(np.maximum(batches(read_misses, warps, mshrs) - 1, 0.0) * memory_stall)


# -- Queueing at NoC and DRAM: GPUMech's M/D/1 queue (eqs. 21-23) and MDM's contention model (MICRO 2020, eqs. 4, 5 and 7-10).
#
# Latencies are in core cycles, bandwidths in bytes per second over all channels, clocks in hertz. A bandwidth over all channels
# includes the division by the number of channels in MDM's equations. Arguments broadcast.

def service_cycles(clock_hz: Any, block_bytes: Any, bandwidth_bytes_per_s: Any) -> Any:
    """Core cycles to transfer one block: s in GPUMech eq. 22, MDM eq. 7."""
    return clock_hz * block_bytes / bandwidth_bytes_per_s


def dram_service_cycles(clock_hz: Any, block_bytes: Any, bandwidth_bytes_per_s: Any, llc_miss_ratio: Any) -> Any:
    """MDM eq. 8: core cycles of DRAM per request that leaves the SM, of which only LLC misses reach DRAM."""
    return llc_miss_ratio * service_cycles(clock_hz, block_bytes, bandwidth_bytes_per_s)


def bandwidth_delay(core_requests: Any, sm_count: Any, service: Any, interval_cycles: Any) -> Floats:
    """GPUMech eqs. 21-23: expected cycles in an M/D/1 queue, at most the service time of half of all requests.

    `interval_cycles` are those of an interval of one warp alone (its instructions and its stall). A queue with a utilisation of 1
    or more has no steady state: its delay is that maximum.
    """
    utilisation = core_requests * sm_count / interval_cycles * service
    cap = service * core_requests * sm_count / 2
    with np.errstate(divide="ignore"):
        waiting = utilisation * service / (2 * np.maximum(1 - utilisation, 0.0))
    return np.asarray(np.minimum(waiting, cap))


def latency_without_contention(l2_latency: Any, dram_latency: Any, llc_miss_ratio: Any) -> Any:
    """MDM eq. 4: the mean latency of an L1 miss; `dram_latency` is what DRAM adds to an LLC hit."""
    return l2_latency + llc_miss_ratio * dram_latency


def memory_stall(latency: Any, noc_stall: Any, dram_stall: Any) -> Any:
    """MDM eq. 5: stall cycles of an L1 miss including its queueing."""
    return latency + noc_stall + dram_stall


def is_noc_saturated(noc_service: Any, misses: Any, sm_count: Any, l2_latency: Any, dram_latency: Any) -> Any:
    """MDM eq. 10: the queue at the NoC is longer than the round trip to DRAM."""
    return (noc_service * sm_count) * misses > l2_latency + dram_latency


def queueing_stall(misses: Any, sm_count: Any, service: Any, exposed: Any) -> Any:
    """MDM eq. 9: stall cycles behind the misses of all SMs, in full where `exposed`, else by half.

    `exposed`: the interval is memory-divergent (eq. 2) and the NoC saturated (eq. 10), for the NoC's and the DRAM's queue alike.
    """
    return (0.5 + 0.5 * exposed) * misses * (sm_count * service)


# -- A closed queueing network: servers with queues, and a delay without one.
#
# Mean-value analysis of one class of customers after Schweitzer (1979) and Bard (1979): a customer that arrives at a server finds
# (C - 1) / C of the mean queue. The fixed point X sum_k R_k + X Z = C with R_k = D_k / (1 - (C - 1) / C X D_k) is a root of a
# convex increasing function of the throughput X, so Newton's method from above converges without overshooting, for all rows at
# once. Of a service whose time is constant, half is left on average when another customer arrives, and not all of it as of one
# whose time is random (exponential): R_k = D_k (1 - u / 2) / (1 - u), u = (C - 1) / C X D_k, as Pollaczek and Khinchine have it.

# From above, each step at least halves the distance; near the solution convergence is quadratic.
_MOST_STEPS = 64
_CLOSE = 1e-15


def closed_network(demands: Floats, delay: Floats, customers: Floats, random: Floats | float = 1.0) -> tuple[Floats, Floats]:
    """Throughput [R] (rounds of one customer per cycle) and residence [R, K] (cycles a round at each server, queueing included).

    `demands` [R, K]: cycles of service per round at each of K servers; `delay` [R]: cycles per round elsewhere; `customers` [R]: at
    least 1. A delay is negative if a customer is at several servers at once: the overlap is subtracted. `random` [R]: the squared
    coefficient of variation of service times, 0 (constant) to 1 (exponential). The throughput never exceeds 1 / the largest demand
    (the bottleneck law). Raises ValueError for a row without any cycles.
    """
    largest = demands.max(axis=1)
    if not (demands.sum(axis=1) + delay > 0).all():
        raise ValueError("a round takes no cycles")
    others = (customers - 1) / customers
    # upper bounds: no customer waits, and each server serves one customer at a time
    bottleneck = np.divide(1.0, largest, out=np.full(len(delay), np.inf), where=largest > 0)
    rate = np.minimum(customers / (delay + demands.sum(axis=1)), bottleneck)
    residence = np.empty_like(demands)
    done = np.broadcast_to((1.0 - np.asarray(random, dtype=np.float64)) / 2, delay.shape)  # of the service that an arrival finds
    for rows in pieces(len(delay), demands.shape[1]):
        rate[rows] = _solve(demands[rows], delay[rows], customers[rows], others[rows], done[rows], rate[rows])
        residence[rows] = _residence(demands[rows], others[rows] * rate[rows], done[rows])[0]
    return rate, residence


def _solve(demands: Floats, delay: Floats, customers: Floats, others: Floats, done: Floats, above: Floats) -> Floats:
    """The throughput, from a bound `above` it; the bound itself where it limits the throughput."""
    rate = above
    going = np.ones(len(rate), dtype=np.bool_)
    for _ in range(_MOST_STEPS):
        residence, growth = _residence(demands, others * rate, done)
        excess = rate * (delay + residence.sum(axis=1)) - customers
        slope = delay + growth.sum(axis=1)
        step = np.maximum(excess, 0.0) / slope
        # a row that has converged does not change: its last digits must not depend on its neighbours
        rate = np.where(going, rate - step, rate)
        going &= step > _CLOSE * rate
        if not going.any():
            break
    return rate


def _residence(demands: Floats, seen: Floats, done: Floats) -> tuple[Floats, Floats]:
    """Cycles R [R, K] at each server while the others make `seen` [R] rounds per cycle, and the derivative of X R by X.

    `done` [R] of a service is over when another customer arrives, on average.
    """
    busy = seen[:, None] * demands
    left, over = 1.0 - busy, done[:, None] * busy
    return demands * (1.0 - over) / left, demands * (1.0 - over * (2.0 - busy)) / left / left
