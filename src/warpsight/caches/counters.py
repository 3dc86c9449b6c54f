"""The columns of the simulation's counter table, in the order of `MissProfile`'s fields."""

from __future__ import annotations

(
    EXECUTIONS,
    DIVERGENT,
    TOUCHED_SECTORS,
    SLOWEST_L1,
    SLOWEST_L2,
    SLOWEST_DRAM,
    L1_READS,
    L1_HITS,
    L1_MISSES,
    L1_MERGES,
    L1_WRITES,
    L2_READS,
    L2_READ_HITS,
    L2_READ_MISSES,
    L2_READ_MERGES,
    L2_WRITES,
    L2_WRITE_HITS,
    L2_WRITE_MISSES,
    DRAM_READS,
    DRAM_WRITES,
    SHARED_EXECUTIONS,
    SHARED_PASSES,
) = range(22)

COUNTERS = 22
