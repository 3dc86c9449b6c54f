"""The constants of compiled code: times that mean something, and the numbers that stand for kinds, states and causes."""

from __future__ import annotations

TICKS = 1024  # to a core cycle
NEVER = 1 << 60  # later than any time in cycles
LATEST = 1 << 62  # later than any time in ticks
WHEEL = 64  # cycles that a scheduler's timing wheel spans, and warps that a scheduler can have

# Kinds of groups of asynchronous work, in the order of `traces.schema.GROUP_KINDS`.
COPIES, PRODUCTS, WRITES, READS = range(4)
GROUP_KINDS = 4
# What an instruction does at an mbarrier, or at a barrier for a part of a block. COMMITS: it arrives when the warp's latest PRODUCT
# is done. MEETS: it arrives, and waits for the others.
NOT_THERE, ARRIVES, TESTS, COMPLETES, COMMITS, PRODUCT, MEETS = range(7)
NO_OBJECT = 0xFFFF
OLDEST_GROUP = -2  # of asynchronous copies: the oldest that the warp has not waited for
# Kinds of instructions, and of accesses.
ALU, GLOBAL, SHARED, BARRIER, FENCE = range(5)
IS_LOAD, IS_STORE, IS_ATOMIC = range(3)
UNIT_MEMORY, UNIT_ASYNC_COPIES = range(2)  # the load-store unit, its queue of copies; the other units are op classes
# What a warp does. RUNS: it is in its scheduler's ready mask or timing wheel. NEEDS_DATA: waits for a load whose end is not known.
# DRAINS: it has no instructions left but accesses under way.
RUNS, NEEDS_DATA, AT_BARRIER, FENCED, DRAINS = range(5)
# What a warp waited for before it could issue.
CAUSE_START, CAUSE_ALU, CAUSE_MEMORY, CAUSE_BARRIER, CAUSE_FETCH = range(5)
# Why the L1 cannot serve the request at its tags.
NOT_BLOCKED, NO_MSHR, NO_ROOM = range(3)
# Kinds of packets, and where the data of a reply comes from.
READ, WRITE, ATOMIC = range(3)
FROM_L2, FROM_DRAM = range(2)
