"""MWP-CWP (Hong and Kim, ISCA 2009), eqs. 2-27: its cases as pure functions, and the solution with all intermediates.

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


def cwp_full(memory: Any, computation: Any) -> Any:
    """Eq. 8."""
    return (memory + computation) / computation


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


# -- Eqs. 5-27 solved from the parameters of Table 1, every intermediate kept.

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
    # eq. 18: a warp's cycles of waiting for memory; eq. 19: its cycles of issue, memory instructions included
    memory = solution["Mem_cycles"] = (
        solution["Mem_L_Uncoal"] * inputs.uncoalesced_instructions + solution["Mem_L_Coal"] * inputs.coalesced_instructions
    )
    computation = solution["Comp_cycles"] = inputs.issue_cycles * instructions
    full = solution["CWP_full"] = cwp_full(memory, computation)
    cwp = solution["CWP"] = np.minimum(full, warps)  # eq. 9
    # eq. 21: how often an SM executes its active blocks; a fraction where they do not divide the grid
    repeated = solution["Rep"] = inputs.blocks / (inputs.active_blocks * inputs.active_sms)
    # eq. 2: issue cycles between two memory instructions; 0 where there are none, and no equation asks for it
    mwp, period = solution["MWP"], _ratio(computation, memory_instructions, 0.0)
    equation = np.where(memory_instructions > 0, case(mwp, cwp, warps, memory, computation), COMPUTATION_BOUND)
    solution |= {"Comp_p": period, "Case": equation}
    cycles = np.select(
        [equation == FEW_WARPS, equation == MEMORY_BOUND],
        [cycles_few_warps(memory, computation, period, mwp), cycles_memory_bound(memory, warps, mwp, period)],
        cycles_computation_bound(solution["Mem_L"], computation, warps),
    )
    solution["Exec_cycles_app"] = cycles * repeated
    # eq. 26, over all repetitions: a barrier waits for the departures of MWP - 1 warps, if there are any
    waiting = solution["Departure_delay"] * np.maximum(mwp - 1, 0.0)
    solution["Synch_cost"] = waiting * inputs.synchronizations * inputs.active_blocks * repeated
    final = solution["Final_cycles"] = solution["Exec_cycles_app"] + solution["Synch_cost"]
    # eq. 25: cycles of an active SM per warp instruction that it executes
    solution["CPI"] = final / (instructions * inputs.warps_per_block * (inputs.blocks / inputs.active_sms))
    return {name: np.asarray(value, dtype=np.float64) for name, value in solution.items()}


def _latencies(inputs: Parameters) -> dict[str, Any]:
    """Eqs. 10-15. The coalesced latency is Mem_LD (eq. 11)."""
    uncoalesced, coalesced = inputs.uncoalesced_instructions, inputs.coalesced_instructions
    # eq. 10: the last of a warp's transactions leaves so many departure delays after the first
    latency = inputs.memory_latency + (inputs.transactions - 1) * inputs.departure_uncoalesced
    # eqs. 13-14: the share of each kind of memory instruction in both; 0 where there are none of either
    share_uncoalesced, share_coalesced = (_ratio(kind, uncoalesced + coalesced, 0.0) for kind in (uncoalesced, coalesced))
    # eq. 15: least cycles between two memory warps
    delay = inputs.departure_uncoalesced * inputs.transactions * share_uncoalesced + inputs.departure_coalesced * share_coalesced
    return {
        "Mem_L_Uncoal": latency, "Mem_L_Coal": inputs.memory_latency, "Weight_uncoal": share_uncoalesced,
        "Weight_coal": share_coalesced, "Mem_L": latency * share_uncoalesced + inputs.memory_latency * share_coalesced,  # eq. 12
        "Departure_delay": delay,
    }


def _parallelism(inputs: Parameters, solution: dict[str, Any]) -> dict[str, Any]:
    """Eqs. 5-7, 16 and 17."""
    warps, latency = solution["Active_warps_per_SM"], solution["Mem_L"]
    full = _ratio(latency, solution["Departure_delay"], np.inf)  # eq. 16: infinite where nothing delays a departure
    by_departure = np.minimum(full, warps)  # eq. 17
    # eq. 7: bytes per second of a warp whose loads follow each other; 0 without memory instructions
    per_warp = _ratio(inputs.clock_hz * inputs.load_bytes, latency, 0.0)
    # eq. 6: warps of each active SM that together take the whole bandwidth; infinite where none takes any
    by_bandwidth = _ratio(inputs.bandwidth_bytes_per_s, per_warp * inputs.active_sms, np.inf)
    mwp = np.minimum(np.minimum(by_departure, by_bandwidth), warps)  # eq. 5
    if inputs.mwp_decimals is not None:
        mwp = np.round(mwp, inputs.mwp_decimals)
    return {
        "MWP_Without_BW_full": full, "MWP_Without_BW": by_departure, "BW_per_warp": per_warp, "MWP_peak_BW": by_bandwidth,
        "MWP": mwp,
    }
