"""The interval profile of a representative warp: the contract between `intervals/` and `models/` (GPUMech eq. 2).

`KernelCounts` are the instruction counts that the MWP-CWP model uses instead of the intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError


@dataclass(frozen=True)
class KernelCounts:
    """Counts per warp: totals of the launch over its warps, so they may be fractions.

    A memory instruction accesses device memory (global, local, textures). Instructions with all lanes off, and those on shared
    memory, constants and parameters count as computation (paper, section 3.6; section 3.5 assumes perfect constant caches).
    `transactions` per uncoalesced memory instruction (1 where there are none), by the coalescing rule `coalescing`.
    `synchronizations` barriers of the thread block. `load_bytes` of a warp's memory instruction: word size times 32.
    `blocks` of the grid, of `warps_per_block` warps; an SM holds `blocks_per_sm`.
    """

    computation_instructions: float
    coalesced_instructions: float
    uncoalesced_instructions: float
    transactions: float
    synchronizations: float
    load_bytes: float
    blocks: int
    warps_per_block: int
    blocks_per_sm: int
    coalescing: str
    origin: str = "trace"

    @property
    def memory_instructions(self) -> float:
        """Coalesced and uncoalesced together."""
        return self.coalesced_instructions + self.uncoalesced_instructions

    @property
    def instructions(self) -> float:
        """Warp instructions of a warp."""
        return self.computation_instructions + self.memory_instructions


@dataclass
class LaunchTotals:
    """Sums over all warps of a launch, from a trace or from the program text.

    `instructions` warp instructions; `coalesced`, `uncoalesced` memory instructions; `transactions` of the uncoalesced ones;
    `access_bytes` word sizes summed over the memory instructions.
    """

    instructions: float = 0.0
    coalesced: float = 0.0
    uncoalesced: float = 0.0
    transactions: float = 0.0
    access_bytes: float = 0.0
    synchronizations: float = 0.0

    def per_warp(
        self, warps: int, blocks: int, warps_per_block: int, blocks_per_sm: int, *, coalescing: str, origin: str
    ) -> KernelCounts:
        """The counts of a mean warp, of `warps` that the sums are over. Raises UsageError for a launch without instructions."""
        if self.instructions <= 0:
            raise UsageError("no warp executed an instruction, so there is nothing to count", remedy="check the launch")
        memory = self.coalesced + self.uncoalesced
        return KernelCounts(
            (self.instructions - memory) / warps, self.coalesced / warps, self.uncoalesced / warps,
            self.transactions / self.uncoalesced if self.uncoalesced else 1.0, self.synchronizations / warps,
            32.0 * self.access_bytes / memory if memory else 0.0, blocks, warps_per_block, blocks_per_sm, coalescing, origin,
        )


# -- The profile and its parts.

Floats = npt.NDArray[np.float64]

CAUSES = ("none", "compute", "memory")


@dataclass(frozen=True)
class LaunchShape:
    """The launch as models need it to place waves. It is optional in a profile; without it, all SMs are assumed to be equally full.

    `blocks_per_sm` blocks fit on an SM (at least 1), `limiter` is the resource that limits them, `occupancy` the fraction of the
    SM's warp slots that they fill. `cluster_blocks` start together (1: there are no clusters).
    """

    blocks: int
    warps_per_block: int
    blocks_per_sm: int
    limiter: str = ""
    occupancy: float = 0.0
    cluster_blocks: int = 1


@dataclass(frozen=True)
class ResourceDemands:
    """The demand of a warp for each resource without waiting, as means over all warps of a launch on one GPU.

    `unit_cycles`: cycles of the busiest functional unit that is not fully pipelined (initiation interval above 1), per scheduler;
    `unit` is its op class ("": unknown).
    `l1_cycles`: cycles of the SM's load-store unit: one per line request, per pass through the shared-memory banks, and per
    sector of an atomic. `read_misses`: lines that take an MSHR. `fetched_bytes` arrive over the NoC, `sent_bytes` (stores,
    atomics) leave over it, in `sent_requests` of the load-store unit and `sent_flits` at the SM's port: headers, masks of bytes
    and sectors. `dram_bytes` cross the DRAM channels; of the reads and writes that do, `dram_alternating` is the smaller
    number; `dram_rows` of memory banks are opened for them. `slice_accesses` of the L2: one per line that a request reads or
    writes, or per sector of an atomic. `atomic_repeats`: cycles for which an L2 slice executes atomics beyond one for each
    sector, such as for lanes of a warp at the same address. `dram_share` (0 to 1) of the read misses goes on to DRAM,
    `far_share` (0 to 1) finds its data in the other partition of the L2.

    `reply_share`, `request_share`, `channel_share`, `repeat_share` (above 0, at most 1): the part that is busy at a time, of the
    L2 slices' ports to and from the SMs, of the DRAM channels, and of the slices that repeat atomics. `way_wait` (0 to 1): cycles
    for which the L1 is blocked because all ways of a set are in flight, per cycle of a miss in flight. `barriers`: those that a
    warp executes. `stall_cycles` of a warp alone, including its waits for units that it occupies itself; `stall_in_step`: those
    that remain when the warps of a block are in step, and each stall begins with the first warp while the others still issue.
    `port_conflict_share` and `stall_conflict_share` (0 to 1): the parts of `l1_cycles` and of `stall_cycles` that are due to bank
    conflicts in shared memory. `work_imbalance`: the relative time of unequal blocks on the SMs; 1 for equal blocks.
    `longest_warp`: cycles of the slowest warp alone over those of the mean warp; 1 for equal warps.

    `block_cycles`: cycles of a block alone whose warps wait on mbarriers or at barriers for a part of the block, or copy to
    shared memory asynchronously, with its stores; 0 for others.
    `asynchronous` (0 to 1): the part of the fetched bytes that such copies and bulk copies bring, while the warps go on.
    `multicast_bytes` arrive at the SM besides, for which blocks of other SMs have asked. `drain_cycles`: from the last instruction
    of a block alone until the memory system has answered its last stores, without queues; 0 if `block_cycles` is above 0.
    """

    unit_cycles: float
    l1_cycles: float
    read_misses: float
    fetched_bytes: float
    sent_bytes: float
    sent_requests: float
    dram_bytes: float
    dram_alternating: float
    slice_accesses: float
    atomic_repeats: float
    dram_share: float
    reply_share: float
    request_share: float
    channel_share: float
    repeat_share: float
    way_wait: float
    barriers: float
    stall_cycles: float
    stall_in_step: float
    work_imbalance: float
    longest_warp: float
    far_share: float = 0.0
    port_conflict_share: float = 0.0
    stall_conflict_share: float = 0.0
    unit: str = ""
    block_cycles: float = 0.0
    asynchronous: float = 0.0
    multicast_bytes: float = 0.0
    sent_flits: float = 0.0
    drain_cycles: float = 0.0
    dram_rows: float = 0.0


# The demands that are amounts per warp; the others are shares and ratios.
AMOUNTS = ("unit_cycles", "l1_cycles", "read_misses", "fetched_bytes", "sent_bytes", "sent_requests", "dram_bytes",
           "dram_alternating", "slice_accesses", "atomic_repeats", "barriers", "stall_cycles", "stall_in_step",
           "block_cycles", "multicast_bytes", "sent_flits", "dram_rows")  # fmt: skip


def divided(demands: ResourceDemands, parts: float) -> ResourceDemands:
    """The demands of a warp if `parts` warps share the work of each equally."""
    amounts: dict[str, Any] = {name: getattr(demands, name) / parts for name in AMOUNTS}
    return replace(demands, **amounts, work_imbalance=1.0, longest_warp=1.0)


@dataclass(frozen=True)
class Activity:
    """What a warp does that takes energy beyond its traffic in `ResourceDemands`, as means over all warps of a launch.

    `lanes`: operations of active lanes, without matrix multiplies and memory accesses. `products`: matrix multiplies of a warp, in
    units of 16x8x16 of 16-bit numbers or the same bits of operands. `shared_bytes` that shared memory reads or writes in passes of
    128 B, without the operands that products read there. `l1_bytes` of accesses of device memory, in sectors of 32 B.
    """

    lanes: float
    products: float
    shared_bytes: float
    l1_bytes: float


@dataclass(frozen=True)
class IntervalProfile:
    """Intervals of one warp, each a float64 [intervals] array, per warp after coalescing.

    `instructions` warp instructions; `stall_cycles`; `cause` index into `CAUSES` (int8); `pc` of the stalling instruction, -1 none;
    `memory_instructions` loads from device memory; `read_misses` and `write_misses` requests that leave the SM: read misses take an
    MSHR, write misses (stores and atomics) do not; `dram_reads`, `dram_writes` lines read and written at DRAM.
    `path` is the number of the representative warp's path in the trace; None for a profile that was read from a file.
    `warps_per_sm` warps resident on the busiest SM. `llc_miss_ratio` DRAM accesses over L2 accesses, 0 to 2.
    `nonoverlapped_instructions`, if not None, replaces the multithreading model. `dpki`: divergent loads per kilo-instruction.
    `demands` of the launch for each resource, for models with queues; None if unknown. `memory_stall_levels`: the shares of L1, L2
    and DRAM in the memory stall cycles, by the level that served the loads; None if unknown. `counts`: instructions by kind, for
    models that use them instead of the intervals; None if unknown. `activity` of the launch, for its power; None if unknown.
    """

    kernel: str
    warps_per_sm: int
    total_warp_instructions: int
    llc_miss_ratio: float
    instructions: Floats
    stall_cycles: Floats
    cause: npt.NDArray[np.int8]
    pc: npt.NDArray[np.int32]
    memory_instructions: Floats
    read_misses: Floats
    write_misses: Floats
    dram_reads: Floats
    dram_writes: Floats
    nonoverlapped_instructions: float | None = None
    path: int | None = None
    dpki: float | None = None
    launch: LaunchShape | None = None
    notes: tuple[str, ...] = ()
    memory_stall_levels: tuple[float, float, float] | None = None
    demands: ResourceDemands | None = None
    counts: KernelCounts | None = None
    activity: Activity | None = None

    @property
    def uses_memory(self) -> bool:
        """Whether requests leave the SM, as far as the demands tell."""
        return self.demands is None or self.demands.fetched_bytes + self.demands.sent_bytes > 0
