"""MWP-CWP (Hong and Kim, ISCA 2009), eqs. 1-27: memory and computation warp parallelism, and the cycles that follow from them.

Pure functions; numbers and arrays broadcast. Cycles are of the SM's clock, counts are per warp ("in one thread" in Table 1 of the
paper), bandwidths bytes per second, frequencies hertz. MWP and CWP count warps of one SM.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def _ratio(above: Any, below: Any, otherwise: float) -> Floats:
    """`above / below`, and `otherwise` where `below` is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64))
    found: Floats = np.divide(top, bottom, out=np.full(top.shape, otherwise), where=bottom > 0)
    return found


def uncoalesced_latency(memory_latency: Any, transactions: Any, departure_uncoalesced: Any) -> Any:
    """Eq. 10, Mem_L_Uncoal: the last of a warp's transactions leaves so many departure delays after the first."""
    return memory_latency + (transactions - 1) * departure_uncoalesced


def mean_latency(uncoalesced: Any, coalesced: Any, weight_uncoalesced: Any, weight_coalesced: Any) -> Any:
    """Eq. 12, Mem_L; the coalesced latency is Mem_LD (eq. 11)."""
    return uncoalesced * weight_uncoalesced + coalesced * weight_coalesced


def weight(instructions: Any, others: Any) -> Floats:
    """Eqs. 13-14: the share of one kind of memory instruction in both; 0 where there are none of either."""
    return _ratio(instructions, instructions + others, 0.0)


def departure_delay(
    departure_uncoalesced: Any, transactions: Any, weight_uncoalesced: Any, departure_coalesced: Any, weight_coalesced: Any
) -> Any:
    """Eq. 15: least cycles between two memory warps."""
    return departure_uncoalesced * transactions * weight_uncoalesced + departure_coalesced * weight_coalesced


def mwp_by_departure(latency: Any, departure: Any) -> Floats:
    """Eq. 16, MWP_Without_BW_full; infinite where nothing delays a departure."""
    return _ratio(latency, departure, np.inf)


def at_most(parallelism: Any, warps: Any) -> Any:
    """Eq. 17 for MWP_Without_BW, eq. 9 for CWP: no more warps than there are."""
    return np.minimum(parallelism, warps)


def bandwidth_per_warp(clock_hz: Any, load_bytes: Any, latency: Any) -> Floats:
    """Eq. 7, BW_per_warp: bytes per second of a warp whose loads follow each other; 0 without memory instructions."""
    return _ratio(clock_hz * load_bytes, latency, 0.0)


def mwp_by_bandwidth(bandwidth: Any, per_warp: Any, active_sms: Any) -> Floats:
    """Eq. 6, MWP_peak_BW: warps of each active SM that together take the whole bandwidth; infinite where none takes any."""
    return _ratio(bandwidth, per_warp * active_sms, np.inf)


def mwp(by_departure: Any, by_bandwidth: Any, warps: Any) -> Any:
    """Eq. 5."""
    return np.minimum(np.minimum(by_departure, by_bandwidth), warps)


def memory_cycles(uncoalesced: Any, uncoalesced_instructions: Any, coalesced: Any, coalesced_instructions: Any) -> Any:
    """Eq. 18: a warp's cycles of waiting for memory."""
    return uncoalesced * uncoalesced_instructions + coalesced * coalesced_instructions


def computation_cycles(issue_cycles: Any, instructions: Any) -> Any:
    """Eq. 19: a warp's cycles of issue, memory instructions included."""
    return issue_cycles * instructions


def computation_period(computation: Any, memory_instructions: Any) -> Floats:
    """Eq. 2, Comp_p: issue cycles between two memory instructions; 0 where there are none, and no equation asks for it."""
    return _ratio(computation, memory_instructions, 0.0)


def cwp_full(memory: Any, computation: Any) -> Any:
    """Eq. 8."""
    return (memory + computation) / computation


def repetitions(blocks: Any, active_blocks: Any, active_sms: Any) -> Any:
    """Eq. 21: how often an SM executes its active blocks; a fraction where they do not divide the grid."""
    return blocks / (active_blocks * active_sms)


def cycles_memory_bound_by_periods(memory: Any, warps: Any, parallelism: Any, period: Any) -> Any:
    """Eq. 1, of section 3.2's figures: one computation period more than eq. 23 for the same warps."""
    return memory * (warps / parallelism) + period * parallelism


def cycles_memory_bound(memory: Any, warps: Any, parallelism: Any, period: Any) -> Any:
    """Eq. 23 for one repetition: memory periods follow each other, MWP at a time.

    Where MWP is below 1 (the bandwidth does not carry one warp) the second term, which counts the other warps of a period, is 0.
    """
    return memory * (warps / parallelism) + period * np.maximum(parallelism - 1, 0.0)


def cycles_computation_bound(latency: Any, computation: Any, warps: Any) -> Any:
    """Eq. 3, and eq. 24 for one repetition: all computation, and one memory period that nothing covers."""
    return latency + computation * warps


def cycles_few_warps(memory: Any, computation: Any, period: Any, parallelism: Any) -> Any:
    """Eq. 4, and eq. 22 for one repetition: too few warps to cover anything but each other's memory periods."""
    return memory + computation + period * np.maximum(parallelism - 1, 0.0)


FEW_WARPS, MEMORY_BOUND, COMPUTATION_BOUND = 22, 23, 24


def case(parallelism: Any, computation_parallelism: Any, warps: Any, memory: Any, computation: Any) -> npt.NDArray[np.int64]:
    """Which of eqs. 22, 23, 24 holds, the conditions taken in that order, as printed: the number of the equation."""
    few = (parallelism >= warps) & (computation_parallelism >= warps)
    bound = (computation_parallelism >= parallelism) | (computation > memory)
    return np.where(few, FEW_WARPS, np.where(bound, MEMORY_BOUND, COMPUTATION_BOUND))


def synchronization_cycles(departure: Any, parallelism: Any, synchronizations: Any, active_blocks: Any, repeated: Any) -> Any:
    """Eq. 26, Synch_cost, over all repetitions: a barrier waits for the departures of MWP - 1 warps, if there are any."""
    return departure * np.maximum(parallelism - 1, 0.0) * synchronizations * active_blocks * repeated


def cycles_per_instruction(cycles: Any, instructions: Any, warps_per_block: Any, blocks: Any, active_sms: Any) -> Any:
    """Eq. 25: cycles of an active SM per warp instruction that it executes (with eq. 27's cycles for `cycles`)."""
    return cycles / (instructions * warps_per_block * (blocks / active_sms))
