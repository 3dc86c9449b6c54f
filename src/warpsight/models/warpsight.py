"""Warpsight's own model: the resident warps as customers of a closed queueing network, bounded by what each resource carries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, suggestion
from warpsight.equations import resources
from warpsight.equations.queues import blocking_capacity, closed_network
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile, ResourceDemands
from warpsight.models.base import MODELS, About, Design, predict_one
from warpsight.models.interval_model import Residency, launch_answer, residency, stall_shares
from warpsight.result.prediction import COMPONENTS, Prediction

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Physical parts that can be left out one by one (`warpsight~spread`), to see what each is worth.
WARPSIGHT_PARTS = {
    "all-warps": "stalls are the mean over all warps; without: the representative's",
    "units": "functional units with an initiation interval above 1 are servers",
    "l1-port": "the load-store unit is a server: line requests, passes through the shared-memory banks, sectors of atomics",
    "stores": "stores and atomics keep the load-store unit while the network has no room for them",
    "mshrs": "misses beyond the MSHRs wait, each of them held for the latency of its miss with its queues",
    "ways": "a line on its way keeps a way of its L1 set; while all of a set are kept, the load-store unit waits",
    "l1-pipeline": "a miss keeps MSHR and way from the tags until its line is there, not while its load passes the L1's pipeline",
    "noc": "the network is a server, each way, and so is the SM's port to it",
    "dram": "the memory channels are a server",
    "own-time": "what a warp alone keeps units and load-store unit busy passes within its stalls, and is not added to them",
    "overlap": "requests of an access pass the load-store unit and the memory system at the same time",
    "atomics": "lanes of a warp whose atomics share an address are served one after the other by its L2 slice",
    "spread": "traffic that meets in few slices or channels at a time has only their bandwidth",
    "in-step": "under lrr the warps of a block move together: the block is the customer",
    "barriers": "under gto barriers hold the warps of a block together: the block is the customer, the more so the more there are",
    "last-warp": "the launch ends when its last warp does, whose stalls nobody hides",
    "unequal-blocks": "blocks with different work leave SMs idle at the end, and no launch is over before its slowest warp",
}

# What sticks out of the issue cycles of all warps, barriers apart, is shared out in proportion to what a warp waits for.
_WAITING = "(cycles - sync - base) x {what} / all waiting of a warp"
_MEMORY = _WAITING.format(what="residence at the memory system, as far as it is {what}")
_BY_COMPONENT = {
    "base": "W x instructions / min(schedulers x issue width, W): issue slots of all W warps",
    "com_data": _WAITING.format(what="stalls of a warp alone for arithmetic"),
    "com_struct": _WAITING.format(what="residence R at functional units and load-store unit, without the waits for ways"),
    "mem_data": _WAITING.format(what="stalls of a warp alone for memory"),
    "mshr": _MEMORY.format(what="flight of misses that hold the MSHRs, and waits for a way of an L1 set"),
    "noc": _MEMORY.format(what="residence R at the NoC, and at its ports and the L2 slices beyond it"),
    "dram": _MEMORY.format(what="residence R at the memory channels"),
    "sync": "barriers / (barriers + 1) x (cycles with the block as the customer - with the warp), as far as it is above the issue "
    "slots; nothing under lrr",
    "idle": "all others together x (busiest SM's blocks / mean, unequal blocks and the slowest warp counted - 1)",
}


class Warpsight:
    """Each resident warp goes round a closed network: it asks for issue slots, functional units, the load-store unit and the memory
    system, and spends the stalls of a warp alone elsewhere. Mean-value analysis gives the throughput, which no resource's own bound
    allows to be exceeded. Within the memory system the customers are misses in flight, at most as many as there are MSHRs, and the
    servers are NoC and DRAM. `warpsight~PART` leaves a part out.
    """

    title = "Warpsight: closed queueing network of warps and resources"
    source = "docs/explanation/warpsight-model.md; Bard 1979 and Schweitzer 1979 for the mean-value analysis"
    needs = frozenset({"misses", "demands"})
    about = About(
        equations=(
            "X (Z + sum_k R_k) = C, R_k = D_k / (1 - (C - 1) / C X D_k), X <= 1 / max_k D_k (mean-value analysis, bottleneck law)",
            "the memory system's D: the same for C = MSHRs x SMs misses at NoC and DRAM, Z their flight (MDM eq. 4 less the L1's)",
            "the last wave takes max(A, B + B Z / (B + Z)), A a warp alone, B the largest demand of all; under lrr at least C / X",
            "the load-store unit's D: its requests, what stores and atomics add, and misses x flight x way_wait",
            "unequal blocks: a fluid on SMs, older warps first, a younger one's services on what they leave (intervals/demands.py)",
            *(f"{name}: {what}" for name, what in WARPSIGHT_PARTS.items()),
        ),
        assumptions=(
            "warps are alike in what they ask for on average, and out of step under gto",
            "queues are those of random service; what is scheduled better than at random waits less",
            "stalls of a warp alone do not change under load other than by the queues",
        ),
        fails=(
            "what the cache simulation gets wrong: kernels at the edge between fitting into a cache and thrashing",
            "DRAM that turns between reads and writes, or opens a row for each access, has less than its peak bandwidth",
            "phases: a kernel that first only loads and then only computes overlaps less than the mean over both says",
        ),
        citation="Y. Bard. Some extensions to multiclass queueing network analysis. 1979. P. Schweitzer. Approximate analysis of "
        "multiclass closed networks of queues. 1979. The model itself: this project.",
        by_component=_BY_COMPONENT,
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

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """See `Model.predict`."""
        return predict_one(self, profile, gpu)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        assert profile.demands is not None
        demands = self._demands(profile, profile.demands)
        found = residency(profile, design)
        instructions = resources.instructions_per_warp(profile)
        busy, own, carried = self._stack(profile, demands, found, instructions)
        launch = np.bincount(found.point, found.times * sum(busy.values(), np.zeros(len(found.warps))), len(design))
        shared = np.bincount(found.point, found.times * carried, len(design))
        # What an SM has for itself is idle when its blocks are done, while what the SMs share goes on with others' work. Unequal
        # blocks can also fill the SMs better than their number says (measured on the profile's own number of SMs), which then
        # is wrong for all that an SM does; but on no number is the busiest SM below the mean, nor the launch shorter than what
        # all SMs together need of what they share.
        private = np.bincount(found.point, found.times * own, len(design)) / launch
        surplus = demands.work_imbalance - 1.0
        unequal = np.maximum(1.0 + surplus * (private if surplus > 0 else 1.0), shared / launch)
        found = replace(found, imbalance=np.maximum(found.imbalance * unequal, 1.0))
        executed = np.bincount(found.point, found.times * found.warps, len(design)) * instructions
        stack = {name: np.bincount(found.point, found.times * cycles, len(design)) / executed for name, cycles in busy.items()}
        slowest = demands.longest_warp * (instructions + demands.stall_cycles)
        return launch_answer(profile, design, stack, _not_before(slowest, profile, design, stack, found))

    def _has(self, part: str) -> bool:
        return part not in self._left_out

    def _demands(self, profile: IntervalProfile, demands: ResourceDemands) -> ResourceDemands:
        """The demands without what is left out."""
        if not self._has("all-warps"):
            alone = float(profile.stall_cycles.sum())
            kept = demands.stall_in_step / demands.stall_cycles if demands.stall_cycles else 0.0
            demands = replace(demands, stall_cycles=alone, stall_in_step=alone * kept)
        nothing = {"units": "unit_cycles", "l1-port": "l1_cycles", "barriers": "barriers", "dram": "dram_bytes",
                   "atomics": "atomic_repeats", "ways": "way_wait"}  # fmt: skip
        changes = {field: 0.0 for part, field in nothing.items() if not self._has(part)}
        if not self._has("unequal-blocks"):
            changes |= {"work_imbalance": 1.0, "longest_warp": 1.0}
        if not self._has("spread"):
            demands = resources.evenly_spread(demands)
        if not self._has("noc"):
            changes |= {"fetched_bytes": 0.0, "sent_bytes": 0.0}
        return replace(demands, **changes)

    def _stack(
        self, profile: IntervalProfile, demands: ResourceDemands, found: Residency, instructions: float
    ) -> tuple[dict[str, Floats], Floats, Floats]:
        """Cycles of the busiest SM for each row, [R] by component of the stack; what its own and the shared resources need, [R]."""
        design, warps = found.design, found.warps
        per_block = float(profile.launch.warps_per_block) if profile.launch is not None else 1.0
        issue = resources.issue_cycles(instructions, design, warps)
        memory, carried, shares = self._memory(demands, design)
        by_ways = resources.held_by_ways(demands, self._flight(demands, design))
        by_stores = resources.held_by_stores(demands, design) if self._has("stores") else 0.0 * memory
        port = demands.l1_cycles + by_ways + by_stores
        servers = np.stack([issue, demands.unit_cycles / design.schedulers, port, memory], axis=1)
        # two servers at once: the shorter of the two runs off the time that is spent elsewhere
        at_once = np.minimum(port, memory) if self._has("overlap") else 0.0 * memory
        # under lrr warps of a block come to each of their instructions together
        step = ~design.greedy if self._has("in-step") else np.zeros(len(warps), dtype=np.bool_)
        group = np.where(step, per_block, 1.0)
        own = self._own_time(demands, servers, found, instructions, group)
        stall = np.where(step, demands.stall_in_step, demands.stall_cycles)
        apart, residence = self._cycles(servers, group, warps, stall - own - group * at_once, found.last, step)
        # under gto they come to a barrier one behind the other, the more often there is one the less apart, as through a pipeline
        behind = np.maximum((per_block - 1.0) * (servers.sum(axis=1) - servers.max(axis=1)), per_block * at_once)
        blocks = np.full(len(warps), per_block)
        one = self._own_time(demands, servers, found, instructions, np.ones(len(warps)))
        together, _ = self._cycles(servers, blocks, warps, demands.stall_in_step - one - behind, found.last, np.zeros_like(step))
        mixed = apart + demands.barriers / (demands.barriers + 1.0) * (together - apart)
        total = np.where(step, apart, mixed)
        _, from_memory = stall_shares(profile)
        for_ways = residence[:, 2] * np.divide(by_ways, port, out=np.zeros_like(port), where=port > 0)
        waits = {
            "com_data": stall * max(1.0 - from_memory, 0.0),
            "mem_data": stall * from_memory,
            "com_struct": residence[:, 1] + residence[:, 2] - for_ways,
            **{name: residence[:, 3] * share for name, share in shares.items()},
        }
        waits["mshr"] = waits["mshr"] + for_ways
        sync = np.maximum(total - np.maximum(apart, warps * issue), 0.0)
        stack = _shared_out(total - sync, warps * issue, waits)
        return stack | {"sync": sync}, warps * servers[:, :3].max(axis=1), warps * carried

    def _own_time(
        self, demands: ResourceDemands, servers: Floats, found: Residency, instructions: float, group: Floats
    ) -> Floats:
        """Cycles [R] of a group's services that are no further delay: they lie within the instructions and stalls of its warps.

        A group of `group` [R] warps alone takes its instructions, on as many schedulers as it has warps for, and the stalls of one:
        units are a scheduler's own, and the load-store unit is the SM's.
        """
        if not self._has("own-time"):
            return 0.0 * group
        design = found.design
        slots = np.minimum(design.schedulers * design.issue_width, found.warps)
        issue = group * servers[:, 0] - instructions * np.maximum(group / slots, 1.0)
        return np.asarray(issue + servers[:, 1] * np.minimum(group, design.schedulers) + demands.l1_cycles)

    def _cycles(
        self, servers: Floats, group: Floats, warps: Floats, delay: Floats, last: Bools, in_step: Bools
    ) -> tuple[Floats, Floats]:
        """Cycles of `warps` [R] that go round in groups of `group` [R], and the residence [R, 4] of one at each server.

        `servers` [R, 4] cycles of service of a warp, `delay` [R] what a group spends elsewhere, without what services hide of it.
        `last` [R]: nobody follows; `in_step` [R]: the groups begin together and wait for the same at the same time.
        """
        demands, slowest = servers * group[:, None], servers.max(axis=1)
        elsewhere = np.maximum(delay, slowest * group - demands.sum(axis=1))
        throughput, residence = closed_network(demands, elsewhere, warps / group)
        alone = demands.sum(axis=1) + elsewhere
        rest = alone - slowest * group if self._has("last-warp") else 0.0 * delay
        queued = warps / group / throughput
        # groups in step come to a server together, in the last wave as in any: none of them leaves it sooner than the network says
        least = np.where(in_step, queued, 0.0)
        return np.where(last, np.maximum(_last_wave(alone, warps * slowest, rest), least), queued), residence

    def _flight(self, demands: ResourceDemands, design: Design) -> Floats:
        """Cycles for which a miss keeps its MSHR, and its way of the set, without queues, [R]."""
        return resources.flight_cycles(demands, design, whole=not self._has("l1-pipeline"))

    def _memory(self, demands: ResourceDemands, design: Design) -> tuple[Floats, Floats, dict[str, Floats]]:
        """Cycles of the memory system for one warp of each SM, those of its bandwidth alone, and how the first are shared out."""
        noc, dram = resources.noc_cycles(demands, design), resources.dram_cycles(demands, design)
        held = np.zeros(len(design))
        parts = np.stack([held, noc, dram], axis=1)
        if demands.read_misses > 0 and self._has("mshrs"):
            # counted in all misses of a warp of each SM, which keeps the servers' cycles those of a warp
            latency = self._flight(demands, design) * demands.read_misses * design.sm_count
            in_flight = blocking_capacity(design.mshrs, design.noc_queue) * design.sm_count
            rate, waits = closed_network(np.stack([noc, dram], axis=1), latency, np.maximum(in_flight, 1.0))
            held = 1 / rate
            parts = np.stack([latency, waits[:, 0], waits[:, 1]], axis=1)
        carried = np.max([noc, dram, resources.slice_cycles(demands, design)], axis=0)
        queues = np.max([held, noc, dram], axis=0)
        cycles = np.max([queues, carried, resources.port_cycles(demands, design)], axis=0)
        whole = parts.sum(axis=1, keepdims=True)
        queued = np.divide(queues, cycles, out=np.zeros_like(cycles), where=cycles > 0)
        shares = np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0) * queued[:, None]
        # what port and slices take beyond the queues is the network's
        shares[:, 1] += np.where(cycles > 0, 1.0 - queued, 0.0)
        return cycles, carried, {"mshr": shares[:, 0], "noc": shares[:, 1], "dram": shares[:, 2]}


def _not_before(
    slowest: float, profile: IntervalProfile, design: Design, stack: dict[str, Floats], found: Residency
) -> Residency:
    """`found`, with SMs idle until the launch's slowest warp is done, which alone takes `slowest` cycles."""
    if profile.launch is None:
        return found
    busy = sum(stack.values(), np.zeros(len(design))) * profile.total_warp_instructions / design.sm_count
    return replace(found, imbalance=np.maximum(found.imbalance, slowest / busy))


def _last_wave(alone: Floats, bound: Floats, delay: Floats) -> Floats:
    """Cycles of the wave that nobody follows, from a warp alone, the largest demand of all warps, and a warp's stalls.

    Of the last warp's stalls nobody hides those that come when the others are done: all of them where the wave is long beside them,
    and less the more of it they are. The form is the simplest that grows with both and keeps below their sum.
    """
    unhidden = np.divide(bound * delay, bound + delay, out=np.zeros(len(bound)), where=bound + delay > 0)
    return np.maximum(alone, bound + unhidden)


def _shared_out(total: Floats, issue: Floats, waits: dict[str, Floats]) -> dict[str, Floats]:
    """The stack: cycles without an issue go to what warps wait for, in proportion to the waiting."""
    waiting = sum(waits.values(), np.zeros(len(total)))
    above = np.where(waiting > 0, np.maximum(total - issue, 0.0), 0.0)
    stack = {name: np.zeros(len(total)) for name in COMPONENTS}
    for name, wait in waits.items():
        stack[name] = above * np.divide(wait, waiting, out=np.zeros(len(total)), where=waiting > 0)
    return stack | {"base": total - above}


MODELS.add("warpsight", Warpsight())
