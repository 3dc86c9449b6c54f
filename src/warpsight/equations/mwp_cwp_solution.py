"""MWP-CWP's equations (Hong and Kim, ISCA 2009, eqs. 5-27) solved from the parameters of Table 1, every intermediate kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.equations import mwp_cwp as eq

Floats = npt.NDArray[np.float64]


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


def solve(given: Parameters) -> dict[str, Floats]:
    """Every intermediate and result by the paper's name (without its #), as arrays; `Case` is the equation that held, 22 to 24.

    `Exec_cycles_app` is eqs. 22-24, `Final_cycles` eq. 27, over all repetitions. A kernel without memory instructions is not among
    the paper's cases: it takes Comp_cycles x N (eq. 24 with Mem_L 0).
    """
    found: dict[str, Any] = {}
    warps = found["Active_warps_per_SM"] = np.asarray(given.warps_per_block * given.active_blocks, dtype=np.float64)
    memory_instructions = found["Mem_insts"] = given.uncoalesced_instructions + given.coalesced_instructions
    instructions = found["Total_insts"] = given.computation_instructions + memory_instructions
    found |= _latencies(given)
    found |= _parallelism(given, found)
    memory = found["Mem_cycles"] = eq.memory_cycles(
        found["Mem_L_Uncoal"], given.uncoalesced_instructions, found["Mem_L_Coal"], given.coalesced_instructions
    )
    computation = found["Comp_cycles"] = eq.computation_cycles(given.issue_cycles, instructions)
    full = found["CWP_full"] = eq.cwp_full(memory, computation)
    cwp = found["CWP"] = eq.at_most(full, warps)
    repeated = found["Rep"] = eq.repetitions(given.blocks, given.active_blocks, given.active_sms)
    mwp = found["MWP"]
    period = found["Comp_p"] = eq.computation_period(computation, memory_instructions)
    chosen = found["Case"] = np.where(
        memory_instructions > 0, eq.case(mwp, cwp, warps, memory, computation), eq.COMPUTATION_BOUND
    )
    cycles = np.select(
        [chosen == eq.FEW_WARPS, chosen == eq.MEMORY_BOUND],
        [eq.cycles_few_warps(memory, computation, period, mwp), eq.cycles_memory_bound(memory, warps, mwp, period)],
        eq.cycles_computation_bound(found["Mem_L"], computation, warps),
    )
    found["Exec_cycles_app"] = cycles * repeated
    found["Synch_cost"] = eq.synchronization_cycles(
        found["Departure_delay"], mwp, given.synchronizations, given.active_blocks, repeated
    )
    found["Final_cycles"] = found["Exec_cycles_app"] + found["Synch_cost"]
    found["CPI"] = eq.cycles_per_instruction(
        found["Final_cycles"], instructions, given.warps_per_block, given.blocks, given.active_sms
    )
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def _latencies(given: Parameters) -> dict[str, Any]:
    """Eqs. 10-15."""
    uncoalesced = eq.uncoalesced_latency(given.memory_latency, given.transactions, given.departure_uncoalesced)
    weights = (
        eq.weight(given.uncoalesced_instructions, given.coalesced_instructions),
        eq.weight(given.coalesced_instructions, given.uncoalesced_instructions),
    )
    return {
        "Mem_L_Uncoal": uncoalesced,
        "Mem_L_Coal": given.memory_latency,
        "Weight_uncoal": weights[0],
        "Weight_coal": weights[1],
        "Mem_L": eq.mean_latency(uncoalesced, given.memory_latency, *weights),
        "Departure_delay": eq.departure_delay(
            given.departure_uncoalesced, given.transactions, weights[0], given.departure_coalesced, weights[1]
        ),
    }


def _parallelism(given: Parameters, found: dict[str, Any]) -> dict[str, Any]:
    """Eqs. 5-7, 16 and 17."""
    warps, latency = found["Active_warps_per_SM"], found["Mem_L"]
    full = eq.mwp_by_departure(latency, found["Departure_delay"])
    by_departure = eq.at_most(full, warps)
    per_warp = eq.bandwidth_per_warp(given.clock_hz, given.load_bytes, latency)
    by_bandwidth = eq.mwp_by_bandwidth(given.bandwidth_bytes_per_s, per_warp, given.active_sms)
    mwp = eq.mwp(by_departure, by_bandwidth, warps)
    if given.mwp_decimals is not None:
        mwp = np.round(mwp, given.mwp_decimals)
    return {
        "MWP_Without_BW_full": full,
        "MWP_Without_BW": by_departure,
        "BW_per_warp": per_warp,
        "MWP_peak_BW": by_bandwidth,
        "MWP": mwp,
    }
