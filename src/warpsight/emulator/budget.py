"""Which basic blocks get their bookkeeping and memory accesses in line, and which call the functions that do the same.

In line is faster to run: nothing has to be saved around a call. But each costs LLVM milliseconds, so large kernels keep it for
their innermost loops.
"""

from __future__ import annotations

from warpsight.isa.cfg import ControlFlowGraph
from warpsight.isa.opcodes import memory_access
from warpsight.isa.program import Function

# An access in line costs LLVM about as much as two entries of blocks. A kernel within the budget is all in line.
BUDGET = 96
# Kernels above so many instructions go through LLVM quickly: its full code generation takes a millisecond and more for each. What
# is made so runs 1.2 to 1.7 times as long, in line or not.
QUICK_ABOVE, QUICK_BUDGET = 400, 24
ACCESS_COST, BLOCK_COST = 2, 1


def loop_depths(graph: ControlFlowGraph) -> list[int]:
    """How many loops each block lies in; a backward edge is taken as a loop over the blocks between, as compilers lay them out."""
    ends: dict[int, int] = {}
    for block, following in enumerate(graph.successors):
        for head in following:
            if head <= block:
                ends[head] = max(ends.get(head, head), block)
    depths = [0] * len(graph)
    for head, end in ends.items():
        for block in range(head, end + 1):
            depths[block] += 1
    return depths


def is_quick(function: Function) -> bool:
    """Whether the kernel is compiled quickly rather than well."""
    return len(function.instructions) > QUICK_ABOVE


def blocks_in_line(function: Function, graph: ControlFlowGraph) -> frozenset[int]:
    """The blocks worth the compile time: the most deeply nested first, in program order, as long as the budget lasts."""
    depths = loop_depths(graph)
    chosen, left = set(), QUICK_BUDGET if is_quick(function) else BUDGET
    for block in sorted(range(len(graph)), key=lambda b: (-depths[b], b)):
        code = function.instructions[int(graph.block_start[block]) : int(graph.block_start[block + 1])]
        cost = BLOCK_COST + ACCESS_COST * sum(memory_access(instruction) is not None for instruction in code)
        if cost <= left:
            chosen.add(block)
            left -= cost
    return frozenset(chosen)
