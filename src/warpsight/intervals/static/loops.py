"""The loops of a kernel, and the user's hints about loops and accesses that the program text does not determine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function

ALL = -1


@dataclass(frozen=True)
class StaticHints:
    """`trips`: executions of the body by loop label. `coalesced`, `uncoalesced`: PTX lines of memory instructions (or `ALL`), for
    those with unknown addresses. `both_paths`: both sides of a branch that depends on data are counted (Hong and Kim, ISCA 2009,
    section 3.5: an upper bound).
    """

    trips: dict[str, int] = field(default_factory=dict)
    coalesced: frozenset[int] = frozenset()
    uncoalesced: frozenset[int] = frozenset()
    both_paths: bool = False

    def kind(self, ptx_line: int) -> bool | None:
        """Whether the hint says that the access at `ptx_line` is coalesced; None: no hint. A line has priority over `ALL`."""
        for place in (ptx_line, ALL):
            if place in self.coalesced:
                return True
            if place in self.uncoalesced:
                return False
        return None


def parse_trips(texts: list[str]) -> dict[str, int]:
    """`LABEL=n` texts. Raises UsageError for another form, a label given twice, or less than 1."""
    trips: dict[str, int] = {}
    for text in texts:
        label, equals, number = (part.strip() for part in text.partition("="))
        if not equals or not label or not number.isdecimal() or int(number) < 1:
            remedy = "give a loop's label and the executions of its body: '$L__BB0_2=16'"
            raise UsageError(f'"{text}" is not LABEL=n', place="trips", remedy=remedy)
        if label in trips:
            raise UsageError(f"{label} is given twice", place="trips", remedy="keep one of them")
        trips[label] = int(number)
    return trips


def parse_lines(texts: list[str], option: str) -> frozenset[int]:
    """PTX line numbers, or `all`. Raises UsageError for anything else."""
    lines = set()
    for text in ",".join(texts).split(",") if texts else ():
        word = text.strip()
        if word != "all" and not (word.isdecimal() and int(word) > 0):
            remedy = "give a PTX line number, several with commas, or all"
            raise UsageError(f'"{word}" is not a line of the PTX', place=option, remedy=remedy)
        lines.add(ALL if word == "all" else int(word))
    return frozenset(lines)


# -- The loops of a kernel: natural loops of its control-flow graph, innermost known for each basic block.

REMEDY = "leave out `static`: a trace counts any kernel"


@dataclass(frozen=True)
class Loop:
    """A natural loop, called by the label before its `header`. `latches` jump back; `exits` are (block, target outside)."""

    label: str
    header: int
    body: frozenset[int]
    latches: tuple[int, ...]
    exits: tuple[tuple[int, int], ...]
    ptx_line: int


def find_loops(function: Function, graph: ControlFlowGraph, dominators: list[int]) -> dict[int, Loop]:
    """The loops by header block. Raises UnsupportedError for one that can be entered beside its header."""
    bodies: dict[int, set[int]] = {}
    latches: dict[int, list[int]] = {}
    for block, following in enumerate(graph.successors):
        for target in following:
            if dominators[block] >> target & 1:
                bodies.setdefault(target, {target}).update(_connected(graph.predecessors, block, target))
                latches.setdefault(target, []).append(block)
    _check_reducible(function, graph, dominators)
    names = {index: label for label, index in reversed(function.labels.items())}
    loops = {}
    for header, body in bodies.items():
        exits = tuple((b, t) for b in sorted(body) for t in graph.successors[b] if t not in body)
        line = function.instructions[int(graph.block_start[header])].ptx_line
        label = names.get(int(graph.block_start[header]), f"block{header}")
        loops[header] = Loop(label, header, frozenset(body), tuple(latches[header]), exits, line)
    return loops


def dominators_of(graph: ControlFlowGraph) -> list[int]:
    """Bit sets: bit d of entry b says that block d dominates block b; 0 for blocks that cannot be reached from the first."""
    count = len(graph)
    everything = (1 << count) - 1
    sets = [everything] * count
    if count:
        sets[0] = 1
    changed = True
    while changed:
        changed = False
        for block in range(1, count):
            common = everything
            for before in graph.predecessors[block]:
                common &= sets[before]
            new = common | (1 << block) if graph.predecessors[block] else everything
            if new != sets[block]:
                sets[block], changed = new, True
    reached = _connected(graph.successors, 0)
    return [bits if block in reached else 0 for block, bits in enumerate(sets)]


def _connected(neighbours: Sequence[Iterable[int]], block: int, barrier: int | None = None) -> set[int]:
    """Blocks that `neighbours` (successors or predecessors of each) lead to from `block`, without passing `barrier`."""
    seen, pending = {block}, [block]
    while pending:
        current = pending.pop()
        new = set() if current == barrier else set(neighbours[current]) - seen
        seen |= new
        pending += new
    return seen


def _check_reducible(function: Function, graph: ControlFlowGraph, dominators: list[int]) -> None:
    """Without the edges back to dominators no cycle may be left."""
    forward = [[t for t in following if not dominators[b] >> t & 1] for b, following in enumerate(graph.successors)]
    incoming = [0] * len(graph)
    for following in forward:
        for target in following:
            incoming[target] += 1
    pending = [block for block, count in enumerate(incoming) if count == 0]
    done = set(pending)
    while pending:
        for target in forward[pending.pop()]:
            incoming[target] -= 1
            if incoming[target] == 0:
                done.add(target)
                pending.append(target)
    left = [block for block in range(len(graph)) if block not in done and dominators[block]]
    if left:
        line = function.instructions[int(graph.block_start[left[0]])].ptx_line
        what = "a loop that is entered at two places cannot be analysed"
        raise UnsupportedError(what, place=f"ptx:{line}", remedy=REMEDY)
