"""The interval profile of a representative warp: the contract between `profile/` and `models/` (GPUMech eq. 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpsight.profile.kernel_counts import KernelCounts

Floats = npt.NDArray[np.float64]

CAUSES = ("none", "compute", "memory")


@dataclass(frozen=True)
class LaunchShape:
    """What a model needs of the launch to place waves: optional in a profile; without it the GPU is taken as evenly full.

    `blocks_per_sm` is how many an SM can hold (at least 1), `limiter` the resource that bounds it, `occupancy` the fraction of the
    SM's warp slots that they fill.
    """

    blocks: int
    warps_per_block: int
    blocks_per_sm: int
    limiter: str = ""
    occupancy: float = 0.0


@dataclass(frozen=True)
class IntervalProfile:
    """Intervals of one warp, each a float64 [intervals] array, per warp after coalescing.

    `instructions` warp instructions; `stall_cycles`; `cause` index into `CAUSES` (int8); `pc` of the stalling instruction, -1 none;
    `memory_instructions` loads from device memory; `read_misses` and `write_misses` requests that leave the SM: read misses take an
    MSHR, write misses (stores and atomics) do not; `dram_reads`, `dram_writes` lines read and written at DRAM.
    `warps_per_sm` warps resident on the busiest SM. `llc_miss_ratio` L2 misses over L2 accesses, 0 to 1.
    `nonoverlapped_instructions`, when given, replaces the multithreading model. `dpki` divergent loads per kilo-instruction.
    `memory_stall_levels` the shares (L1, L2, DRAM) of the memory stall cycles, by where the loads were served; None when unknown.
    `counts` are instructions by kind, for models that take them instead of the intervals; None when unknown.
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
    dpki: float | None = None
    launch: LaunchShape | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
    memory_stall_levels: tuple[float, float, float] | None = None
    counts: KernelCounts | None = None
