"""The interval profile of a representative warp: the contract between `profile/` and `models/` (GPUMech eq. 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CAUSES = ("none", "compute", "memory")


@dataclass(frozen=True)
class Occupancy:
    """Residency of a launch on a GPU. `fraction` is resident warps over the SM's warp slots, `limiter` what bounds it."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str


@dataclass(frozen=True)
class LaunchShape:
    """What a model needs of the launch to place waves: optional in a profile; without it the GPU is taken as evenly full."""

    blocks: int
    warps_per_block: int
    blocks_per_sm: int
    limiter: str = ""
    occupancy: float = 0.0


@dataclass(frozen=True)
class IntervalProfile:
    """Intervals of one warp, each a float64 [intervals] array, per warp after coalescing.

    `instructions` warp instructions; `stall_cycles`; `cause` index into `CAUSES` (int8); `pc` of the stalling instruction, -1 none;
    `memory_instructions`; `read_misses`, `write_misses` L1 misses, that is requests that leave the SM; `dram_reads`, `dram_writes`.
    `nonoverlapped_instructions`, when given, replaces the multithreading model. `dpki` divergent loads per kilo-instruction.
    `mean_warp_instructions` is the launch's average per warp (0: take the representative's own).
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
