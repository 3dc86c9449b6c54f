"""MWP-CWP: memory and computation warp parallelism, from instruction counts alone."""

from __future__ import annotations

import numpy as np

from warpsight.base.units import CYCLES
from warpsight.equations import mwp_cwp as eq
from warpsight.equations.mwp_cwp import Parameters, solve
from warpsight.gpu.design import Design
from warpsight.gpu.key import MOST_CYCLES, Key
from warpsight.intervals.interval_profile import Floats, IntervalProfile, KernelCounts
from warpsight.models.base import MODELS, About, Model, answer_of

_DERIVED = "default: derived from other keys, see docs/explanation/mwp-cwp.md"
MEMORY_LATENCY = Key("mwp-cwp.memory_latency", CYCLES, "Mem_LD; 0 cycles: an L2 hit and DRAM", 0, MOST_CYCLES, "0 cycles", _DERIVED)
DEPARTURE_COALESCED = Key(
    "mwp-cwp.departure_coalesced", CYCLES, "Departure_del_coal; 0 cycles: an L1 line at an SM's share of the DRAM bandwidth",
    0, MOST_CYCLES, "0 cycles", _DERIVED,
)  # fmt: skip
DEPARTURE_UNCOALESCED = Key(
    "mwp-cwp.departure_uncoalesced", CYCLES, "Departure_del_uncoal; 0 cycles: an L1 sector at an SM's share of the DRAM bandwidth",
    0, MOST_CYCLES, "0 cycles", _DERIVED,
)  # fmt: skip
ISSUE_CYCLES = Key(
    "mwp-cwp.issue_cycles", CYCLES, "Issue_cycles: cycles for which a warp instruction keeps its issue slot", 1, MOST_CYCLES,
    "1 cycle", "default: a scheduler issues a warp instruction every cycle",
)  # fmt: skip


class MwpCwp(Model):
    """Hong and Kim, ISCA 2009, eqs. 1-27, from counts of instructions by kind; the intervals of the profile are not used.

    An SM's cycles are the paper's, but at least those that its schedulers need to issue all instructions (eq. 23 alone can give
    fewer).
    """

    name = "mwp-cwp"
    title = "MWP-CWP: memory-level and thread-level parallelism"
    source = "Hong and Kim: An analytical model for a GPU architecture, ISCA 2009, eqs. 1-27"
    needs = frozenset({"counts"})
    memory_levels = False  # those of the intervals, which are not used here
    parameters = (MEMORY_LATENCY, DEPARTURE_COALESCED, DEPARTURE_UNCOALESCED, ISSUE_CYCLES)
    about = About(
        equations=(
            "eqs. 5-7, 10-17: memory warp parallelism, by departure delay, by peak bandwidth, by warps",
            "eqs. 8-9: computation warp parallelism",
            "eqs. 18-21: memory and computation cycles of a warp, repetitions",
            "eqs. 22-24 (1-4 for one repetition): cycles when warps are few, memory-bound, computation-bound",
            "eqs. 25-27: synchronization cost, total, CPI",
        ),
        assumptions=(
            "every memory instruction goes to DRAM: there is no cache",
            "each SM has a queue to DRAM of its own, and an equal share of the bandwidth",
            "computation instructions of any kind cost only their issue cycles",
            "the mean number of active warps runs all the time; repetitions may be a fraction",
            "words are counted as coalesced or not over a whole warp",
        ),
        fails=(
            "kernels that reuse data in L1 or L2: cycles are too high",
            "few warps with long arithmetic: only memory has a latency",
            "eqs. 22-24 do not meet at their borders, and eq. 26 grows with MWP, so a better GPU may come out slower",
            "bank conflicts, unequal blocks and the last wave cost nothing",
        ),
        citation="S. Hong and H. Kim. An analytical model for a GPU architecture with memory-level and thread-level parallelism "
        "awareness. ISCA 2009.",
        by_component={
            "base": "eqs. 19 and 21: Comp_cycles x N x Rep, the issue of all N active warps",
            "mem_data": "(cycles of eq. 27 - base - sync) x min(MWP / N, 1), all of it where eq. 24 holds: the exposed latency",
            "dram": "(cycles of eq. 27 - base - sync) x (1 - MWP / N), nothing where eq. 24 holds: waiting for a departure or for "
            "bandwidth",
            "sync": "eq. 26: Departure_delay x (MWP - 1) x barriers x active blocks x Rep, the part of it that exceeds base",
            "idle": "all others together x (SMs / active SMs - 1): SMs without a block",
        },
        checks=("last-wave", "equal-blocks", "slowest-warp", "units", "bank-conflicts", "caches-hit"),
    )

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        assert profile.counts is not None
        inputs = parameters(profile.counts, design)
        stack = _stack(inputs, solve(inputs))
        stack["idle"] = sum(stack.values(), np.zeros(len(design))) * (design.sm_count / inputs.active_sms - 1)
        return answer_of(profile, design, stack)


def parameters(counts: KernelCounts, design: Design) -> Parameters:
    """Table 1 of the paper, from a kernel's counts and GPUs; arrays [D]. What a GPU does not give is derived.

    Active SMs are those with a block. Active blocks are the blocks that fit on an SM, or its mean share if that is smaller. The
    issue slots of an SM divide its issue cycles, as far as there are warps to fill them.
    """
    active_sms = np.minimum(design.sm_count, counts.blocks)
    active_blocks = np.minimum(counts.blocks_per_sm, counts.blocks / active_sms)
    slots = np.minimum(design.sm_schedulers * design.sm_issue_width, active_blocks * counts.warps_per_block)
    cycles_per_byte = design.core_clock_hz * active_sms / design.dram_bandwidth_bytes_per_s
    return Parameters(
        clock_hz=design.core_clock_hz,
        bandwidth_bytes_per_s=design.dram_bandwidth_bytes_per_s,
        memory_latency=_or(design.parameter(MEMORY_LATENCY), design.l2_latency_cycles + design.dram_latency_cycles),
        departure_uncoalesced=_or(design.parameter(DEPARTURE_UNCOALESCED), design.l1_sector_bytes * cycles_per_byte),
        departure_coalesced=_or(design.parameter(DEPARTURE_COALESCED), design.l1_line_bytes * cycles_per_byte),
        issue_cycles=design.parameter(ISSUE_CYCLES) / slots,
        warps_per_block=float(counts.warps_per_block), blocks=float(counts.blocks),
        active_blocks=active_blocks, active_sms=active_sms,
        computation_instructions=counts.computation_instructions, uncoalesced_instructions=counts.uncoalesced_instructions,
        coalesced_instructions=counts.coalesced_instructions, synchronizations=counts.synchronizations,
        transactions=counts.transactions, load_bytes=counts.load_bytes,
    )


def _or(described: Floats, derived: Floats) -> Floats:
    """The number of the GPU description, or `derived` where that is 0."""
    return np.where(described > 0, described, derived)


def _stack(inputs: Parameters, solution: dict[str, Floats]) -> dict[str, Floats]:
    """CPI of an active SM by component, [D] each.

    `base` is the issue of all warps, `sync` eq. 26. Of the cycles that exceed the issue in eqs. 22 and 23, memory periods
    beyond the first of every MWP warps wait for a departure or for bandwidth (`dram`); the rest, and the one period of eq. 24, is
    latency.
    """
    issue = solution["Comp_cycles"] * solution["Active_warps_per_SM"] * solution["Rep"]
    above = np.maximum(solution["Final_cycles"] - issue, 0.0)
    sync = np.minimum(solution["Synch_cost"], above)
    overlapped = np.minimum(solution["MWP"] / solution["Active_warps_per_SM"], 1.0)
    latency = np.where(solution["Case"] == eq.COMPUTATION_BOUND, 1.0, overlapped)
    memory = np.where(solution["Mem_insts"] > 0, above - sync, 0.0)
    executed = solution["Total_insts"] * inputs.warps_per_block * inputs.blocks / inputs.active_sms
    cycles = {"base": issue, "mem_data": memory * latency, "dram": memory * (1 - latency), "sync": sync}
    return {name: each / executed for name, each in cycles.items()}


MODELS.add(MwpCwp.name, MwpCwp())
