"""MWP-CWP: memory and computation warp parallelism, from instruction counts alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpsight.equations import mwp_cwp as eq
from warpsight.equations.mwp_cwp import Parameters, solve
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile, KernelCounts
from warpsight.models.base import MODELS, About, Design, predict_one
from warpsight.result.prediction import COMPONENTS, Prediction

Floats = npt.NDArray[np.float64]


class MwpCwp:
    """Hong and Kim, ISCA 2009, eqs. 1-27, from counts of instructions by kind; the intervals of the profile do not enter.

    An SM's cycles are the paper's, and not fewer than its schedulers need to issue all instructions (eq. 23 alone can give fewer).
    """

    name = "mwp-cwp"
    title = "MWP-CWP: memory-level and thread-level parallelism"
    source = "Hong and Kim: An analytical model for a GPU architecture, ISCA 2009, eqs. 1-27"
    needs = frozenset({"counts"})
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
            "computation instructions take their issue alone, whatever their kind",
            "as many warps as are active on average run all the time; repetitions may be a fraction",
            "words are counted as coalesced or not over a whole warp",
        ),
        fails=(
            "kernels that reuse data in L1 or L2: cycles come out high",
            "few warps with long arithmetic: latencies other than memory's cost nothing",
            "eqs. 22-24 do not meet at their borders, and eq. 26 grows with MWP, so a better GPU may come out slower",
            "bank conflicts, unequal blocks and the last wave cost nothing",
        ),
        citation="S. Hong and H. Kim. An analytical model for a GPU architecture with memory-level and thread-level parallelism "
        "awareness. ISCA 2009.",
        stack=("base", "mem_data", "dram", "sync", "idle"),
        by_component={
            "base": "eqs. 19 and 21: Comp_cycles x N x Rep, the issue of all N active warps",
            "mem_data": "(cycles of eq. 27 - base - sync) x min(MWP / N, 1), all of it where eq. 24 holds: latency that is exposed",
            "dram": "(cycles of eq. 27 - base - sync) x (1 - MWP / N), nothing where eq. 24 holds: waiting for a departure or for "
            "bandwidth",
            "sync": "eq. 26: Departure_delay x (MWP - 1) x barriers x active blocks x Rep, as far as it sticks out of base",
            "idle": "all others together x (SMs / active SMs - 1): SMs without a block",
        },
        checks=("last-wave", "equal-blocks", "slowest-warp", "units", "bank-conflicts", "caches-hit"),
    )

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """See `Model.predict`."""
        # the profile's levels of memory stalls are those of its intervals, which do not enter here
        return predict_one(self, replace(profile, memory_stall_levels=None), gpu)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        assert profile.counts is not None
        given = parameters(profile.counts, design)
        found = solve(given)
        stack = _stack(given, found)
        stack["idle"] = sum(stack.values(), np.zeros(len(design))) * (design.sm_count / given.active_sms - 1)
        cpi = sum((stack[name] for name in COMPONENTS), np.zeros(len(design)))
        ipc_gpu = design.sm_count / cpi
        cycles = profile.total_warp_instructions / ipc_gpu
        answer = {"cycles": cycles, "seconds": cycles / design.core_clock_hz, "ipc_sm_warp": 1 / cpi, "ipc_gpu_warp": ipc_gpu}
        return answer | {"cpi": cpi} | {f"cpi_stack.{name}": stack[name] for name in COMPONENTS}


def parameters(counts: KernelCounts, design: Design) -> Parameters:
    """Table 1 of the paper, from a kernel's counts and GPUs, with what a GPU leaves open derived; arrays [D].

    Active SMs are those that get a block. Active blocks are as many as an SM holds, or its mean share where that is fewer.
    Several issue slots of an SM divide its issue cycles, as far as there are warps to fill them.
    """
    active_sms = np.minimum(design.sm_count, counts.blocks)
    active_blocks = np.minimum(counts.blocks_per_sm, counts.blocks / active_sms)
    slots = np.minimum(design.schedulers * design.issue_width, active_blocks * counts.warps_per_block)
    cycles_per_byte = design.core_clock_hz * active_sms / design.dram_bytes_per_s
    return Parameters(
        clock_hz=design.core_clock_hz,
        bandwidth_bytes_per_s=design.dram_bytes_per_s,
        memory_latency=_or(design.mwp_memory_latency_cycles, design.l2_latency_cycles + design.dram_latency_cycles),
        departure_uncoalesced=_or(design.mwp_departure_uncoalesced_cycles, design.l1_sector_bytes * cycles_per_byte),
        departure_coalesced=_or(design.mwp_departure_coalesced_cycles, design.l1_line_bytes * cycles_per_byte),
        issue_cycles=design.mwp_issue_cycles / slots,
        warps_per_block=float(counts.warps_per_block),
        blocks=float(counts.blocks),
        active_blocks=active_blocks,
        active_sms=active_sms,
        computation_instructions=counts.computation_instructions,
        uncoalesced_instructions=counts.uncoalesced_instructions,
        coalesced_instructions=counts.coalesced_instructions,
        synchronizations=counts.synchronizations,
        transactions=counts.transactions,
        load_bytes=counts.load_bytes,
    )


def _or(given: Floats, derived: Floats) -> Floats:
    """A GPU's own number, or where it says 0 what follows from the rest."""
    return np.where(given > 0, given, derived)


def _stack(given: Parameters, found: dict[str, Floats]) -> dict[str, Floats]:
    """CPI of an active SM by component, [D] each.

    `base` is the issue of all warps, `sync` eq. 26. Of what sticks out of the issue in eqs. 22 and 23, memory periods beyond the
    first of every MWP warps wait for a departure or for bandwidth (`dram`); the rest, and eq. 24's one period, is latency.
    """
    issue = found["Comp_cycles"] * found["Active_warps_per_SM"] * found["Rep"]
    above = np.maximum(found["Final_cycles"] - issue, 0.0)
    sync = np.minimum(found["Synch_cost"], above)
    overlapped = np.minimum(found["MWP"] / found["Active_warps_per_SM"], 1.0)
    latency = np.where(found["Case"] == eq.COMPUTATION_BOUND, 1.0, overlapped)
    memory = np.where(found["Mem_insts"] > 0, above - sync, 0.0)
    executed = found["Total_insts"] * given.warps_per_block * given.blocks / given.active_sms
    zero = np.zeros(len(issue))
    cycles = {"base": issue, "mem_data": memory * latency, "dram": memory * (1 - latency), "sync": sync}
    return {name: cycles.get(name, zero) / executed for name in COMPONENTS}


MODELS.add(MwpCwp.name, MwpCwp())
