"""MWP-CWP (Hong and Kim, ISCA 2009), eqs. 1-27: the equations as pure functions, and their solution with all intermediates.

Numbers and arrays broadcast. Cycles are of the SM clock, counts are per warp ("in one thread" in Table 1 of the paper),
bandwidths bytes per second, frequencies hertz. MWP and CWP count warps of one SM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.intervals.interval_profile import Floats


def _ratio(above: Any, below: Any, otherwise: float) -> Floats:
    """`above / below`, and `otherwise` where `below` is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64))
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, otherwise), where=bottom > 0))


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


def memory_warp_parallelism(by_departure: Any, by_bandwidth: Any, warps: Any) -> Any:
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


# -- MWP-CWP's equations (Hong and Kim, ISCA 2009, eqs. 5-27) solved from the parameters of Table 1, every intermediate kept.

@dataclass(frozen=True)
class Parameters:
    """Table 1: numbers or float64 arrays that broadcast. Clock in hertz, bandwidth in bytes per second, the rest cycles and counts.

    Instructions are per warp. `transactions` is #Uncoal_per_mw, `load_bytes` Load_bytes_per_warp, `issue_cycles` between two warp
    instructions of an SM. `active_blocks` per SM may be a mean. `mwp_decimals`, if given, rounds MWP before it is used on: the
    paper's Table 2 goes on with 2.28.
    """

    clock_hz: Any
    bandwidth_bytes_per_s: Any
    memory_latency: Any
    departure_uncoalesced: Any
    departure_coalesced: Any
    issue_cycles: Any
    warps_per_block: Any
    blocks: Any
    active_blocks: Any
    active_sms: Any
    computation_instructions: Any
    uncoalesced_instructions: Any
    coalesced_instructions: Any
    synchronizations: Any
    transactions: Any
    load_bytes: Any
    mwp_decimals: int | None = None


def solve(inputs: Parameters) -> dict[str, Floats]:
    """Every intermediate and result by the paper's name (without its #), as arrays; `Case` is the equation that held, 22 to 24.

    `Exec_cycles_app` is eqs. 22-24, `Final_cycles` eq. 27, over all repetitions. A kernel without memory instructions is not among
    the paper's cases: it takes Comp_cycles x N (eq. 24 with Mem_L 0).
    """
    solution: dict[str, Any] = {}
    warps = solution["Active_warps_per_SM"] = np.asarray(inputs.warps_per_block * inputs.active_blocks, dtype=np.float64)
    memory_instructions = solution["Mem_insts"] = inputs.uncoalesced_instructions + inputs.coalesced_instructions
    instructions = solution["Total_insts"] = inputs.computation_instructions + memory_instructions
    solution |= _latencies(inputs)
    solution |= _parallelism(inputs, solution)
    memory = solution["Mem_cycles"] = memory_cycles(
        solution["Mem_L_Uncoal"], inputs.uncoalesced_instructions, solution["Mem_L_Coal"], inputs.coalesced_instructions
    )
    computation = solution["Comp_cycles"] = computation_cycles(inputs.issue_cycles, instructions)
    full = solution["CWP_full"] = cwp_full(memory, computation)
    mwp, cwp = solution["MWP"], at_most(full, warps)
    solution["CWP"] = cwp
    repeated = solution["Rep"] = repetitions(inputs.blocks, inputs.active_blocks, inputs.active_sms)
    period = solution["Comp_p"] = computation_period(computation, memory_instructions)
    equation = np.where(memory_instructions > 0, case(mwp, cwp, warps, memory, computation), COMPUTATION_BOUND)
    solution["Case"] = equation
    cycles = np.select(
        [equation == FEW_WARPS, equation == MEMORY_BOUND],
        [cycles_few_warps(memory, computation, period, mwp), cycles_memory_bound(memory, warps, mwp, period)],
        cycles_computation_bound(solution["Mem_L"], computation, warps),
    )
    solution["Exec_cycles_app"] = cycles * repeated
    solution["Synch_cost"] = synchronization_cycles(
        solution["Departure_delay"], mwp, inputs.synchronizations, inputs.active_blocks, repeated
    )
    final = solution["Final_cycles"] = solution["Exec_cycles_app"] + solution["Synch_cost"]
    solution["CPI"] = cycles_per_instruction(final, instructions, inputs.warps_per_block, inputs.blocks, inputs.active_sms)
    return {name: np.asarray(value, dtype=np.float64) for name, value in solution.items()}


def _latencies(inputs: Parameters) -> dict[str, Any]:
    """Eqs. 10-15."""
    uncoalesced = uncoalesced_latency(inputs.memory_latency, inputs.transactions, inputs.departure_uncoalesced)
    weights = (
        weight(inputs.uncoalesced_instructions, inputs.coalesced_instructions),
        weight(inputs.coalesced_instructions, inputs.uncoalesced_instructions),
    )
    delay = departure_delay(
        inputs.departure_uncoalesced, inputs.transactions, weights[0], inputs.departure_coalesced, weights[1]
    )
    return {
        "Mem_L_Uncoal": uncoalesced, "Mem_L_Coal": inputs.memory_latency, "Weight_uncoal": weights[0], "Weight_coal": weights[1],
        "Mem_L": mean_latency(uncoalesced, inputs.memory_latency, *weights), "Departure_delay": delay,
    }


def _parallelism(inputs: Parameters, solution: dict[str, Any]) -> dict[str, Any]:
    """Eqs. 5-7, 16 and 17."""
    warps, latency = solution["Active_warps_per_SM"], solution["Mem_L"]
    full = mwp_by_departure(latency, solution["Departure_delay"])
    by_departure = at_most(full, warps)
    per_warp = bandwidth_per_warp(inputs.clock_hz, inputs.load_bytes, latency)
    by_bandwidth = mwp_by_bandwidth(inputs.bandwidth_bytes_per_s, per_warp, inputs.active_sms)
    mwp = memory_warp_parallelism(by_departure, by_bandwidth, warps)
    if inputs.mwp_decimals is not None:
        mwp = np.round(mwp, inputs.mwp_decimals)
    return {
        "MWP_Without_BW_full": full, "MWP_Without_BW": by_departure, "BW_per_warp": per_warp, "MWP_peak_BW": by_bandwidth,
        "MWP": mwp,
    }
