"""Basic blocks, their edges and immediate post-dominators: where diverged lanes of a warp meet again.

Immediate post-dominators are found with the iterative algorithm of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm"
(2001), on the reversed graph from a virtual exit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.isa.ptx.program import Function, Instruction, Register, Symbol, Vector
from warpsight.isa.ptx.rules import is_block_barrier, waits_for_group
from warpsight.isa.ptx.waiting import NO_WAITS, Waits, find_waits

_EXITS = frozenset({"ret", "exit", "trap"})
_JUMPS = frozenset({"bra", "brx"})
Node = TypeVar("Node", bound=Hashable)


@dataclass(frozen=True)
class ControlFlowGraph:
    """Basic blocks of a function, numbered in PTX order; unreachable code has blocks too.

    `block_start` int32 [blocks + 1]: block b holds instructions `block_start[b]` .. `block_start[b + 1]`; `block_index` int32
    [instructions] is the block of each. A block starts at every label that is branched to, and after every branch, exit,
    barrier of the thread block, and call that was not expanded. Edges to the virtual exit (ret, exit, trap, the end of the body)
    are not in `successors`: blocks that have one are `exit_blocks`. A call's successor is the block after it.
    A guarded `bra` has successors (target, next block), or one where both are the same.
    `post_dominator[b]` is the immediate post-dominator, -1 where only the virtual exit is, also for blocks from which no exit can
    be reached. `waits` says where threads may wait for others; a block also starts at each of its meetings.
    """

    block_start: npt.NDArray[np.int32]
    block_index: npt.NDArray[np.int32]
    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]
    post_dominator: tuple[int, ...]
    exit_blocks: tuple[int, ...]
    waits: Waits = NO_WAITS

    def __len__(self) -> int:
        return len(self.successors)

    def block_of(self, pc: int) -> int:
        """The block that holds instruction `pc`. Raises IndexError outside the function."""
        if pc < 0:
            raise IndexError(pc)
        return int(self.block_index[pc])


def build_cfg(function: Function, *, apart: bool = False, together: bool = False) -> ControlFlowGraph:
    """The control-flow graph of a parsed function; a function without instructions has no blocks. `apart` and `together` as for
    `find_waits`.

    Raises FormatError for a branch to a label that is not defined, UnsupportedError for one whose targets are not listed.
    """
    targets = {i.index: _targets(function, i) for i in function.instructions if i.opcode in _JUMPS}
    graph = _build(function, targets, frozenset())
    starts = graph.block_start[:-1].tolist()
    waits = find_waits(function, starts, graph.successors, graph.predecessors, graph.post_dominator, apart=apart, together=together)
    if not waits.independent:
        return graph
    if waits.meetings - set(starts):
        graph = _build(function, targets, waits.meetings)
        starts = graph.block_start[:-1].tolist()
        edges = graph.successors, graph.predecessors, graph.post_dominator
        waits = find_waits(function, starts, *edges, apart=apart, together=together)
    return replace(graph, waits=waits)


def _build(function: Function, targets: dict[int, tuple[int, ...]], meetings: frozenset[int]) -> ControlFlowGraph:
    instructions = function.instructions
    count = len(instructions)
    leaders = {0, *meetings, *(target for listed in targets.values() for target in listed)}
    leaders.update(i.index + 1 for i in instructions if _ends_block(function, i))
    leaders.update(callee.first for callee in function.callables.values())
    starts = sorted(leader for leader in leaders if leader < count)
    block_start = np.array([*starts, count] if count else [0], dtype=np.int32)
    block_index = np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(block_start))
    successors, exits = _edges(function, starts, targets)
    predecessors = _reversed(successors)
    post_dominator = _post_dominators(successors, predecessors, exits)
    return ControlFlowGraph(block_start, block_index, tuple(successors), predecessors, tuple(post_dominator), tuple(exits))


def _reversed(successors: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """The predecessors of each block."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for block, following in enumerate(successors):
        for successor in following:
            predecessors[successor].append(block)
    return tuple(map(tuple, predecessors))


def _ends_block(function: Function, instruction: Instruction) -> bool:
    if instruction.opcode == "call":
        return instruction.index in function.call_sites
    barrier = is_block_barrier(instruction) or waits_for_group(instruction)
    return instruction.opcode in _JUMPS or instruction.opcode in _EXITS or barrier


def with_calls(function: Function, graph: ControlFlowGraph) -> ControlFlowGraph:
    """`graph` with edges from calls to the functions they reach and from returns to where those calls go on.

    For the flow of values: a register that is live after a call is live throughout the function. Post-dominators stay those of each
    function by itself, as lanes that are called together return together.
    """
    if not function.call_sites:
        return graph
    successors = [list(following) for following in graph.successors]
    after: dict[str, list[int]] = {callee.return_register: [] for callee in function.callables.values()}
    for index, site in function.call_sites.items():
        block = graph.block_of(index)
        for target in site.targets:
            callee = function.callables[target]
            successors[block].append(graph.block_of(callee.first))
            after[callee.return_register].append(block + 1)
    for block, end in enumerate(graph.block_start[1:].tolist()):
        last = function.instructions[end - 1]
        if last.opcode == "ret" and last.operands and isinstance(last.operands[0], Register):
            successors[block].extend(after[last.operands[0].name])
    distinct = tuple(tuple(dict.fromkeys(following)) for following in successors)
    return replace(graph, successors=distinct, predecessors=_reversed(distinct))


def _targets(function: Function, branch: Instruction) -> tuple[int, ...]:
    """Instruction indices that a branch may go to, in the order of the instruction or of its .branchtargets list."""
    place = f"ptx:{branch.ptx_line}"
    names: tuple[str, ...] = ()
    operand = branch.operands[-1] if branch.operands else None
    if branch.opcode == "bra":
        names = (operand.name,) if isinstance(operand, Symbol) and operand.offset == 0 else ()
    elif isinstance(operand, Symbol):
        names = function.branch_targets.get(operand.name, ())
    elif isinstance(operand, Vector):
        names = tuple(element.name for element in operand.elements if isinstance(element, Symbol))
    if not names:
        what = f'"{branch.text}" has no list of targets'
        raise UnsupportedError(what, place=place, remedy="list its targets with .branchtargets")
    missing = [name for name in names if name not in function.labels]
    if missing:
        raise FormatError(f'branch to "{missing[0]}", which is not defined', place=place, remedy="compile the kernel again")
    return tuple(dict.fromkeys(function.labels[name] for name in names))


def _edges(function: Function, starts: list[int], targets: dict[int, tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Successors of each block, and the blocks with an edge to the virtual exit."""
    instructions, count = function.instructions, len(function.instructions)
    number = {start: block for block, start in enumerate(starts)}
    successors: list[tuple[int, ...]] = []
    exits: list[int] = []
    for block, end in enumerate([*starts[1:], count] if starts else []):
        last = instructions[end - 1]
        goes_on = last.guard is not None or last.opcode not in _JUMPS | _EXITS
        following = [*targets.get(end - 1, ()), *([end] if goes_on else [])]
        successors.append(tuple(dict.fromkeys(number[target] for target in following if target < count)))
        if last.opcode in _EXITS or any(target >= count for target in following):
            exits.append(block)
    return successors, exits


def _post_dominators(
    successors: Sequence[tuple[int, ...]], predecessors: Sequence[tuple[int, ...]], exits: list[int]
) -> list[int]:
    """Immediate post-dominator per block; the virtual exit is node `len(successors)` inside and -1 outside."""
    count = len(successors)
    order = postorder(exits, predecessors)
    rank = {node: position for position, node in enumerate([*order, count])}
    is_exit = set(exits)
    immediate = [-1] * (count + 1)
    immediate[count] = count

    def meet(left: int, right: int) -> int:
        while left != right:
            while rank[left] < rank[right]:
                left = immediate[left]
            while rank[right] < rank[left]:
                right = immediate[right]
        return left

    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            best = count if node in is_exit else -1
            for successor in successors[node]:
                if successor in rank and immediate[successor] >= 0:
                    best = successor if best < 0 else meet(best, successor)
            if best != immediate[node]:
                immediate[node] = best
                changed = True
    return [-1 if node == count else node for node in immediate[:count]]


def postorder(roots: Iterable[Node], edges: Any) -> list[Node]:
    """The nodes that `edges` (a list or dict of neighbours) lead to from the roots, in depth-first postorder."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, Iterator[Node]]] = []
    for root in roots:
        if root not in seen:
            seen.add(root)
            stack.append((root, iter(edges[root])))
        while stack:
            node, rest = stack[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(edges[following])))
    return order
