"""Exact instruction counts of a launch by kind: what the MWP-CWP model takes of a kernel (Hong and Kim, ISCA 2009, Table 1)."""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.base.errors import UsageError


@dataclass(frozen=True)
class KernelCounts:
    """Counts per warp: totals of the launch over its warps, so they may be fractions.

    A memory instruction accesses device memory (global, local, textures); one whose lanes are all off, shared memory, constants
    and parameters count as computation (paper, section 3.6; section 3.5 takes constant caches as perfect).
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


@dataclass(frozen=True)
class LaunchTotals:
    """Sums over all warps of a launch, from a trace or from the program text.

    `instructions` warp instructions; `coalesced`, `uncoalesced` memory instructions; `transactions` of the uncoalesced ones;
    `access_bytes` word sizes summed over the memory instructions.
    """

    instructions: float
    coalesced: float
    uncoalesced: float
    transactions: float
    access_bytes: float
    synchronizations: float

    def per_warp(
        self, warps: int, blocks: int, warps_per_block: int, blocks_per_sm: int, *, coalescing: str, origin: str
    ) -> KernelCounts:
        """The counts of a mean warp, of `warps` that the sums are over. Raises UsageError for a launch without instructions."""
        if self.instructions <= 0:
            raise UsageError("no warp executed an instruction, so there is nothing to count", remedy="check the launch")
        memory = self.coalesced + self.uncoalesced
        return KernelCounts(
            (self.instructions - memory) / warps,
            self.coalesced / warps,
            self.uncoalesced / warps,
            self.transactions / self.uncoalesced if self.uncoalesced else 1.0,
            self.synchronizations / warps,
            32.0 * self.access_bytes / memory if memory else 0.0,
            blocks,
            warps_per_block,
            blocks_per_sm,
            coalescing,
            origin,
        )
