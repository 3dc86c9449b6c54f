"""What each instruction asks of memory, by the counts of the caches: one definition for demands, intervals and explanations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpsight.caches.miss_profile import Counts, MissProfile
from warpsight.trace.schema import ATOMIC, StaticInstruction


def atomics(instructions: Sequence[StaticInstruction]) -> npt.NDArray[np.bool_]:
    """Which instructions are atomics, bool [instructions]."""
    return np.array([instruction.access == ATOMIC for instruction in instructions], dtype=np.bool_)


def requests(instructions: Sequence[StaticInstruction], misses: MissProfile) -> Counts:
    """Requests of each pc to device memory, int64 [instructions]: lines at the L1; of atomics, which pass it by, L2 sectors."""
    return misses.l1_reads + misses.l1_writes + np.where(atomics(instructions), misses.l2_reads, 0)


def leaving(instructions: Sequence[StaticInstruction], misses: MissProfile) -> tuple[Counts, Counts]:
    """Requests of each pc that leave the SM, int64 [instructions]: reads that take an MSHR, and the others (stores, atomics).

    Atomics pass the L1 by and take no MSHR, so they count with the writes.
    """
    atomic = atomics(instructions)
    return np.where(atomic, 0, misses.l1_misses), misses.l1_writes + np.where(atomic, misses.l2_reads, 0)
