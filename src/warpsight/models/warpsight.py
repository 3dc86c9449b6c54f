"""Warpsight's own model: the resident warps are the customers of a closed queueing network with the bounds of each resource."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, suggestion
from warpsight.equations import resources
from warpsight.equations.queues import blocking_capacity, closed_network
from warpsight.gpu.design import Design
from warpsight.intervals.interval_profile import Floats, IntervalProfile, ResourceDemands
from warpsight.models.base import MODELS, About, Model
from warpsight.models.interval_model import Residency, launch_answer, residency, stall_shares, with_launch
from warpsight.result.prediction import COMPONENT_PARTS, STRUCT_PARTS, in_order

Bools = npt.NDArray[np.bool_]

# Physical parts that can be left out one by one (`warpsight~spread`), to see the effect of each.
WARPSIGHT_PARTS = {
    "all-warps": "stalls are the mean over all warps; without this part: those of the representative warp",
    "units": "functional units with an initiation interval above 1 are servers",
    "l1-port": "the load-store unit is a server: line requests, passes through the shared-memory banks, sectors of atomics",
    "stores": "stores and atomics occupy the load-store unit while the network cannot accept them",
    "mshrs": "misses beyond the MSHRs wait; a miss holds its MSHR for its latency including its queues",
    "ways": "a line in flight holds a way of its L1 set; while all ways of a set are held, the load-store unit waits",
    "l1-pipeline": "a miss holds MSHR and way from the tag lookup until its line arrives, without the pipeline of the L1",
    "noc": "each direction of the network is a server, and so is the SM's port to it",
    "store-port": "a store occupies the SM's port for longer than its data takes",
    "dram": "the DRAM channels are a server",
    "dram-efficiency": "a stream of reads reaches only a part of the DRAM's peak bandwidth",
    "rows": "a DRAM channel opens one row after the other, with a time between them",
    "turnaround": "the bus of a DRAM channel turns around between reads and writes",
    "own-time": "the time for which a warp alone occupies units and load-store unit is part of its stalls, not added to them",
    "overlap": "requests of one access are in the load-store unit and in the memory system at the same time",
    "atomics": "an L2 slice reads and writes each sector of an atomic, and serves lanes that share an address one after the other",
    "spread": "traffic that goes to few slices or channels at a time has only their bandwidth",
    "asynchronous": "where warps wait on mbarriers or copy asynchronously the block is the customer; copies run beside it",
    "in-step": "under lrr the warps of a block move together: the block is the customer",
    "step-overlap": "under lrr some warps of a block issue while others are at the load-store unit: the longer service counts",
    "even-pace": "under lrr all blocks of an SM are equally fast: the last wave ends with one stall and overlaps the one before",
    "barriers": "under gto barriers hold the warps of a block together: the more there are, the more the block is the customer",
    "last-warp": "the launch ends with its last warp, whose stalls no other warp hides",
    "drain": "the launch ends when the memory system has answered its last stores",
    "launch": "grids begin and end, the GPU starts blocks one after the other, and blocks and their warps do not start at once",
    "unequal-blocks": "blocks with different work leave SMs idle at the end, and no launch ends before its slowest warp",
}

# The cycles beyond the issue cycles of all warps, without those of barriers and last stores, are divided in proportion to the waits
# of a warp.
_WAITING = "(cycles - sync - base - drain) x {what} / all waiting of a warp"
_MEMORY = _WAITING.format(what="residence at the memory system, the part that is {what}")
# The component of the waits for a functional unit, by op class: the pipeline that executes it, as Nsight Compute names them.
# Shuffles and loads of constants go through the load-store unit.
UNITS = {
    "": "com_struct", "int": "alu", "fp32": "fma", "imad": "fma", "fp16": "fp16", "fp64": "fp64", "sfu": "xu", "tensor": "tensor",
    "uniform": "uniform", "shared": "lsu", "constant": "lsu",
}  # fmt: skip
_BY_COMPONENT = {
    "base": "W x instructions / min(schedulers x issue width, W): issue slots of all W warps",
    "com_data": _WAITING.format(what="stalls of a warp alone for arithmetic"),
    "com_struct": _WAITING.format(what="residence R at the busiest functional unit, where the profile does not name it"),
    "banks": _WAITING.format(
        what="residence R at the load-store unit due to bank conflicts, and stalls of a warp alone due to them beyond their service"
    ),
    "lsu": _WAITING.format(what="residence R at the load-store unit, without bank conflicts and the waits for ways"),
    **{unit: _WAITING.format(what=f"residence R at the busiest functional unit, where it is the {STRUCT_PARTS[unit].bound_by}")
       for unit in STRUCT_PARTS if unit not in ("banks", "lsu")},
    "mem_data": _WAITING.format(what="stalls of a warp alone for memory"),
    "mshr": _MEMORY.format(what="flight of misses that hold the MSHRs, and waits for a way of an L1 set"),
    "noc": _MEMORY.format(what="residence R at the NoC, and at its ports and the L2 slices beyond it"),
    "dram": _MEMORY.format(what="residence R at the memory channels"),
    "sync": "barriers / (barriers + 1) x (cycles with the block as the customer - with the warp), the part that exceeds the issue "
    "slots; zero under lrr",
    "launch": "(begin and end of the grid + the first read of its parameters + what the dispatch of all blocks and a warp alone "
    "take beyond all other components) x SMs / instructions of the launch, and "
    + _WAITING.format(what="cycles until a block and its last warp start"),
    "drain": "in the last wave: cycles from the last instruction of a block alone until its stores are answered",
    "idle": "all other components x (blocks of the busiest SM / mean, corrected for unequal blocks and the slowest warp, - 1)",
}


class Warpsight(Model):
    """Each resident warp cycles through a closed network: its servers are the issue slots, the functional units, the load-store
    unit and the memory system, and the stalls of a warp alone are a delay. Mean-value analysis gives the throughput, which is at
    most the bound of each resource. Within the memory system the customers are the misses in flight, limited by the MSHRs, and the
    servers are NoC and DRAM. `warpsight~PART` leaves a part out.
    """

    title = "Warpsight: closed queueing network of warps and resources"
    source = "docs/explanation/warpsight-model.md; Bard 1979 and Schweitzer 1979 for the mean-value analysis"
    needs = frozenset({"misses", "demands"})
    about = About(
        equations=(
            "X (Z + sum_k R_k) = C, R_k = D_k / (1 - (C - 1) / C X D_k), X <= 1 / max_k D_k (mean-value analysis, bottleneck law)",
            "the memory system's D: the same for C = MSHRs x SMs misses at NoC and DRAM, Z their flight (MDM eq. 4 less the L1's)",
            "the last wave takes max(A, B + B Z / (B + Z)), A a warp alone, B the largest demand of all; under lrr A is at least "
            "C / X of constant services, less what the full waves took beyond A, and Z is one stall, sum of squares / sum",
            "the load-store unit's D: its requests, the additional cycles of stores and atomics, and misses x flight x way_wait",
            "unequal blocks: a fluid model of the SMs, older warps first, younger ones with what remains (intervals/demands.py)",
            *(f"{name}: {what}" for name, what in WARPSIGHT_PARTS.items()),
        ),
        assumptions=(
            "all warps have the same demands on average, and are not in step under gto",
            "queues serve in random order; a better schedule waits less",
            "under load, stalls of a warp change only by the queues",
        ),
        fails=(
            "errors of the cache simulation: kernels that almost fit into a cache",
            "DRAM that opens a row for each access, where the description has no `dram.row`: cycles are too low",
            "phases: a kernel that first only loads and then only computes overlaps less than the mean over both phases suggests",
        ),
        citation="Y. Bard. Some extensions to multiclass queueing network analysis. 1979. P. Schweitzer. Approximate analysis of "
        "multiclass closed networks of queues. 1979. The model itself: this project.",
        by_component=_BY_COMPONENT,
        components=tuple(COMPONENT_PARTS.values()),
        checks=("alike-warps",),
    )

    def __init__(self, left_out: Iterable[str] = ()) -> None:
        self._left_out = frozenset(left_out)
        self.name = "~".join(["warpsight", *sorted(self._left_out)])

    def without(self, parts: Iterable[str]) -> Warpsight:
        """The model without those parts. Raises UsageError for a part that it does not have."""
        for part in parts:
            if part not in WARPSIGHT_PARTS:
                what = f'the model "warpsight" has no part "{part}"{suggestion(part, WARPSIGHT_PARTS)}'
                raise UsageError(what, remedy=f"known: {', '.join(WARPSIGHT_PARTS)}")
        return Warpsight(self._left_out.union(parts))

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        assert profile.demands is not None
        demands = self._demands(profile, profile.demands)
        waves = residency(profile, design)
        instructions = resources.instructions_per_warp(profile)
        busy, own, carried = self._stack(profile, demands, waves, instructions, design.sm_count[waves.point])
        launch = np.bincount(waves.point, waves.times * sum(busy.values(), np.zeros(len(waves.warps))), len(design))
        shared = np.bincount(waves.point, waves.times * carried, len(design))
        # The private resources of an SM are idle when its blocks are done, while the shared ones serve other SMs. Unequal blocks
        # can also fill the SMs better than their number suggests (measured for the profile's number of SMs); then the imbalance is
        # too large for everything that an SM does. But the busiest SM is never below the mean, and the launch is never shorter than
        # the time that all SMs together need of the shared resources.
        private = np.bincount(waves.point, waves.times * own, len(design)) / launch
        surplus = demands.work_imbalance - 1.0
        unequal = np.maximum(1.0 + surplus * (private if surplus > 0 else 1.0), shared / launch)
        waves = replace(waves, imbalance=np.maximum(waves.imbalance * unequal, 1.0))
        executed = np.bincount(waves.point, waves.times * waves.warps, len(design)) * instructions
        stack = {name: np.bincount(waves.point, waves.times * cycles, len(design)) / executed for name, cycles in busy.items()}
        slowest = demands.longest_warp * (instructions + demands.stall_cycles) + demands.drain_cycles
        answer = launch_answer(profile, design, stack, _not_before(slowest, profile, design, stack, waves))
        if not self._has("launch"):
            return answer
        shape = profile.launch
        if shape is None:
            return with_launch(profile, design, answer, np.zeros(len(design)))
        # all blocks but the last have left for an SM before it, which then takes as long as its last warp alone
        alone = max(instructions + demands.stall_cycles, demands.block_cycles) + demands.drain_cycles
        last = alone + resources.start_cycles(design, shape.warps_per_block)
        return with_launch(profile, design, answer, resources.dispatch_cycles(shape.blocks, design) + last)

    def _has(self, part: str) -> bool:
        return part not in self._left_out

    def _demands(self, profile: IntervalProfile, demands: ResourceDemands) -> ResourceDemands:
        """The demands without those of the parts that are left out."""
        if not self._has("all-warps"):
            alone = float(profile.stall_cycles.sum())
            kept = demands.stall_in_step / demands.stall_cycles if demands.stall_cycles else 0.0
            demands = replace(demands, stall_cycles=alone, stall_in_step=alone * kept)
        nothing = {
            "units": ("unit_cycles",), "l1-port": ("l1_cycles",), "barriers": ("barriers",), "atomics": ("atomic_repeats",),
            "ways": ("way_wait",), "noc": ("fetched_bytes", "sent_bytes", "multicast_bytes"),
            "dram": ("dram_bytes", "dram_alternating", "dram_rows"), "rows": ("dram_rows",), "turnaround": ("dram_alternating",),
            "asynchronous": ("block_cycles", "asynchronous"), "drain": ("drain_cycles",),
        }  # fmt: skip
        changes: dict[str, Any] = {field: 0.0 for part, fields in nothing.items() if not self._has(part) for field in fields}
        if not self._has("unequal-blocks"):
            changes |= {"work_imbalance": 1.0, "longest_warp": 1.0}
        if not self._has("spread"):
            demands = resources.evenly_spread(demands)
        return replace(demands, **changes)

    def _stack(
        self, profile: IntervalProfile, demands: ResourceDemands, waves: Residency, instructions: float, sms: Floats
    ) -> tuple[dict[str, Floats], Floats, Floats]:
        """Cycles of the busiest SM for each row, [R] by component; those of its private and of the shared resources alone, [R].
        `sms` [R]: those of the GPU.
        """
        design, warps = waves.design, waves.warps
        per_block = float(profile.launch.warps_per_block) if profile.launch is not None else 1.0
        issue = resources.issue_cycles(instructions, design, warps)
        memory, carried, shares = self._memory(demands, design, sms)
        by_ways = resources.held_by_ways(demands, self._flight(demands, design))
        by_stores = resources.held_by_stores(demands, design) if self._has("stores") else 0.0 * memory
        port = demands.l1_cycles + by_ways + by_stores
        servers = np.stack([issue, demands.unit_cycles / design.sm_schedulers, port, memory], axis=1)
        # a request is at two servers at once: the shorter of the two times is part of the delay
        at_once = np.minimum(port, memory) if self._has("overlap") else 0.0 * memory
        at_once = np.maximum(at_once, demands.asynchronous * memory)
        if demands.block_cycles > 0:  # the stores of a block are a part of its own time
            at_once = np.maximum(at_once, np.minimum(resources.sending_cycles(demands, design), memory))
        # under lrr the warps of a block reach each of their instructions together; so do, as one, those that wait for each other
        step = ~design.greedy if self._has("in-step") else np.zeros(len(warps), dtype=np.bool_)
        even = step & self._has("even-pace") & (demands.block_cycles == 0)
        step = step | (demands.block_cycles > 0)
        group = np.where(step, per_block, 1.0)
        own = self._own_time(demands, servers, waves, instructions, group)
        stall = np.where(step, demands.stall_in_step, demands.stall_cycles)
        if demands.block_cycles > 0:  # they include all services of a block alone but those of the memory system
            slots = np.minimum(design.sm_schedulers * design.sm_issue_width, warps)
            stall = demands.block_cycles - instructions * np.maximum(group / slots, 1.0)
            own = stall - demands.block_cycles + group * (servers[:, 0] + servers[:, 1] + demands.l1_cycles)
        starting = self._starting(servers, waves, group, per_block)
        one_stall = np.where(even, _mean_stall(profile), 1.0)
        apart, residence = self._cycles(servers, group, waves, stall - own - group * at_once + starting, step, even, one_stall,
                                         demands.drain_cycles)  # fmt: skip
        # under gto they reach a barrier one after the other, as through a pipeline, the closer together the more barriers there are
        behind = np.maximum((per_block - 1.0) * (servers.sum(axis=1) - servers.max(axis=1)), per_block * at_once)
        blocks = np.full(len(warps), per_block)
        one = self._own_time(demands, servers, waves, instructions, np.ones(len(warps)))
        joined = demands.stall_in_step - one - behind + starting
        none = np.zeros_like(step)
        together, _ = self._cycles(servers, blocks, waves, joined, none, none, np.ones(len(warps)), demands.drain_cycles)
        mixed = apart + demands.barriers / (demands.barriers + 1.0) * (together - apart)
        total = np.where(step, apart, mixed)
        a_cycle = np.divide(residence[:, 2], port, out=np.zeros_like(port), where=port > 0)
        waits = {name: residence[:, 3] * share for name, share in shares.items()} | {"launch": starting}
        waits["mshr"] = waits["mshr"] + a_cycle * by_ways
        waits |= _stalls(profile, demands, stall)
        # of a stall due to conflicts, the warp is in the load-store unit for the passes themselves, which is in R there
        conflicts = demands.l1_cycles * demands.port_conflict_share
        waits["banks"] = np.maximum(waits["banks"] - conflicts, 0.0) + a_cycle * conflicts
        waits["lsu"] = a_cycle * (demands.l1_cycles - conflicts + by_stores)
        unit = UNITS[demands.unit]
        waits[unit] = waits.get(unit, 0.0) + residence[:, 1]
        sync = np.maximum(total - np.maximum(apart, warps * issue), 0.0)
        drain = np.where(waves.last, demands.drain_cycles, 0.0)
        stack = _divided(total - sync - drain, warps * issue, waits)
        return in_order(stack | {"sync": sync, "drain": drain}), warps * servers[:, :3].max(axis=1), warps * carried

    def _starting(self, servers: Floats, waves: Residency, group: Floats, per_block: float) -> Floats:
        """Cycles [R] for which a block's place, or its last warp, waits to start: a delay of each group.

        The place of a block is empty for a while before the next one; nothing waits for one after the last wave. Then the warps
        start one after the other, which those of a group hide where they pass a server more slowly than that.
        """
        if not self._has("launch"):
            return 0.0 * servers[:, 0]
        hidden = (group - 1.0) * servers.max(axis=1)
        return np.asarray(
            np.where(waves.last, 0.0, waves.design.dispatch_block_cycles)
            + np.maximum(resources.start_cycles(waves.design, per_block) - hidden, 0.0)
        )

    def _own_time(self, demands: ResourceDemands, servers: Floats, waves: Residency, instructions: float, group: Floats) -> Floats:
        """Cycles [R] of a group's services that are part of the instructions and stalls of its warps, and so no further delay.

        A group of `group` [R] warps alone takes its instructions, on as many schedulers as it has warps for, and the stalls of one
        warp. Units belong to a scheduler, and the load-store unit to the SM. Some of the other warps issue while others are at the
        load-store unit.
        """
        if not self._has("own-time"):
            return 0.0 * group
        design = waves.design
        slots = np.minimum(design.sm_schedulers * design.sm_issue_width, waves.warps)
        turns = np.maximum(group / slots, 1.0)
        issue = group * servers[:, 0] - instructions * turns
        own = issue + servers[:, 1] * np.minimum(group, design.sm_schedulers) + demands.l1_cycles
        if self._has("step-overlap"):
            own += np.minimum(instructions * (turns - 1.0), demands.l1_cycles * (group - 1.0))
        return np.asarray(own)

    def _cycles(
        self, servers: Floats, group: Floats, waves: Residency, delay: Floats, in_step: Bools, even: Bools, stall: Floats,
        drain: float,
    ) -> tuple[Floats, Floats]:
        """Cycles of warps that circulate in groups of `group` [R], and the residence [R, 4] of one group at each server.

        `servers` [R, 4]: cycles of service of a warp; `delay` [R]: cycles of a group elsewhere, without those that services hide.
        `in_step` [R]: the groups begin together and wait for the same at the same time. `even` [R]: they also have one pace, and
        `stall` [R] is the part of a group's stalls that is left of it when the others are done. `drain`: cycles after its last
        instruction until its stores are answered. Those of the last wave end the launch, and nothing hides them.
        """
        warps, demands, slowest = waves.warps, servers * group[:, None], servers.max(axis=1)
        elsewhere = np.maximum(delay, slowest * group - demands.sum(axis=1))
        # of one pace, each round has the services of the one before, in the same order
        throughput, residence = closed_network(demands, elsewhere, warps / group, np.where(even & waves.last, 0.0, 1.0))
        alone = demands.sum(axis=1) + elsewhere
        rest = alone - slowest * group if self._has("last-warp") else 0.0 * delay
        queued = warps / group / throughput
        # groups in step reach a server together, also in the last wave: none of them leaves it before the network's time
        least = np.maximum(alone, np.where(in_step, queued, 0.0))
        # Where a server is full, each gets the same part of it. So the last group has one of its stalls left when the others are
        # done. Small differences add up over a wave: its blocks end over a while, and others start in their places meanwhile.
        over = np.bincount(waves.point, np.where(waves.last, 0.0, waves.times * np.maximum(queued - alone, 0.0)))[waves.point]
        end = _last_wave(least - np.where(even, over, 0.0), warps * slowest, stall * rest)
        return np.where(waves.last, end + drain, queued), residence

    def _flight(self, demands: ResourceDemands, design: Design) -> Floats:
        """Cycles [R] for which a miss holds its MSHR and its way of the set, without queues."""
        return resources.flight_cycles(demands, design, whole=not self._has("l1-pipeline"))

    def _memory(self, demands: ResourceDemands, design: Design, sms: Floats) -> tuple[Floats, Floats, dict[str, Floats]]:
        """Cycles of the memory system for one warp of each SM, those of its bandwidth alone, and the first by component."""
        noc = resources.noc_cycles(demands, design)
        dram = resources.dram_cycles(demands, design, peak=not self._has("dram-efficiency"))
        held = np.zeros(len(design))
        parts = np.stack([held, noc, dram], axis=1)
        if demands.read_misses > 0 and self._has("mshrs"):
            # one round is all misses of a warp of each SM, so that the servers' cycles remain those of a warp
            latency = self._flight(demands, design) * demands.read_misses * design.sm_count
            in_flight = blocking_capacity(design.l1_mshrs, design.noc_queue) * design.sm_count
            rate, waits = closed_network(np.stack([noc, dram], axis=1), latency, np.maximum(in_flight, 1.0))
            held = 1 / rate
            parts = np.stack([latency, waits[:, 0], waits[:, 1]], axis=1)
        carried = np.max([noc, dram, resources.slice_cycles(demands, design)], axis=0)
        queues = np.max([held, noc, dram], axis=0)
        sending = demands if self._has("noc") and self._has("store-port") else replace(demands, sent_flits=0.0)
        cycles = np.max([queues, carried, resources.port_cycles(sending, design, sms)], axis=0)
        whole = parts.sum(axis=1, keepdims=True)
        queued = np.divide(queues, cycles, out=np.zeros_like(cycles), where=cycles > 0)
        shares = np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0) * queued[:, None]
        # the cycles of port and slices beyond the queues belong to the network
        shares[:, 1] += np.where(cycles > 0, 1.0 - queued, 0.0)
        return cycles, carried, {"mshr": shares[:, 0], "noc": shares[:, 1], "dram": shares[:, 2]}


def _not_before(slowest: float, profile: IntervalProfile, design: Design, stack: dict[str, Floats], waves: Residency) -> Residency:
    """`waves`, with SMs idle until the launch's slowest warp is done, which alone takes `slowest` cycles."""
    if profile.launch is None:
        return waves
    busy = sum(stack.values(), np.zeros(len(design))) * profile.total_warp_instructions / design.sm_count
    return replace(waves, imbalance=np.maximum(waves.imbalance, slowest / busy))


def _last_wave(alone: Floats, bound: Floats, delay: Floats) -> Floats:
    """Cycles of the last wave, at least those of a warp `alone`, from the largest demand of all warps, and a warp's stalls.

    No other warp hides the stalls of the last warp after the others are done: almost all of its stalls if the wave is much longer
    than they are, and a smaller part the shorter the wave is. The form is the simplest that grows with both and stays below their
    sum.
    """
    unhidden = np.divide(bound * delay, bound + delay, out=np.zeros(len(bound)), where=bound + delay > 0)
    return np.maximum(alone, bound + unhidden)


def _stalls(profile: IntervalProfile, demands: ResourceDemands, stall: Floats) -> dict[str, Floats]:
    """`stall`, cycles of a warp alone, by what it waits for: bank conflicts first, which are mostly stalls for arithmetic."""
    _, from_memory = stall_shares(profile)
    conflicts = demands.stall_conflict_share
    others = max(1.0 - from_memory - conflicts, 0.0)
    return {"banks": stall * conflicts, "com_data": stall * others, "mem_data": stall * (1.0 - conflicts - others)}


def _mean_stall(profile: IntervalProfile) -> float:
    """The part of a warp's stall cycles that one stall is, in the mean over these cycles: 1 of a single stall, or of none."""
    total = float(profile.stall_cycles.sum())
    return float(((profile.stall_cycles / total) ** 2).sum()) if total > 0 else 1.0


def _divided(total: Floats, issue: Floats, waits: dict[str, Floats]) -> dict[str, Floats]:
    """The stack: cycles without an issue are divided among the waits of the warps in proportion."""
    waiting = sum(waits.values(), np.zeros(len(total)))
    above = np.where(waiting > 0, np.maximum(total - issue, 0.0), 0.0)
    share = {name: np.divide(wait, waiting, out=np.zeros(len(total)), where=waiting > 0) for name, wait in waits.items()}
    return {"base": total - above, **{name: above * part for name, part in share.items()}}


MODELS.add("warpsight", Warpsight())
