"""Where threads may wait for other threads: loops that poll memory, barriers of parts of a block, lanes that meet in a warp.

Kernels in which that happens need lanes that make progress independently (Volta and later). All others run a warp's lanes in step,
which is faster, so this is decided per kernel, when it is compiled. A kernel named here without need only runs slower.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

from warpsight.base.compile_budget import check
from warpsight.isa.ptx.program import Function, Immediate, Instruction, SpecialRegister
from warpsight.isa.ptx.rules import is_block_barrier, is_warp_barrier, reads, register_names, waits_for_group, writes

_COLLECTIVES = frozenset({"shfl", "vote", "match", "redux", "elect"})
_ORDERING = frozenset({"membar", "fence", "nanosleep"})
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio", "cv"})
_PRIVATE = frozenset({"param", "const", "local"})


@dataclass(frozen=True)
class Waits:
    """What a kernel may wait for. `independent` says that its lanes must be able to go on independently of each other.

    `spinning` are edges (block, earlier or same block) that close a loop which may wait for another thread, `polls` the pcs of
    the instructions in such loops; `meetings` the pcs of instructions at which the lanes named in a member mask wait for each
    other. `tests` are the pcs of accesses that a loop repeats until the value in memory has changed, with the blocks of that loop.
    All are empty unless `independent`.
    """

    independent: bool = False
    spinning: frozenset[tuple[int, int]] = frozenset()
    meetings: frozenset[int] = frozenset()
    polls: frozenset[int] = frozenset()
    tests: tuple[tuple[int, frozenset[int]], ...] = ()


NO_WAITS = Waits()
Edges = Sequence[Sequence[int]]


def find_waits(
    function: Function, starts: Sequence[int], successors: Edges, predecessors: Edges, meets: Sequence[int], *, apart: bool = False,
    together: bool = False,
) -> Waits:
    """The waits of a function with these basic blocks (first pcs), their neighbours and immediate post-dominators.

    With `apart` any barrier, and any instruction at which lanes of a warp wait for each other, makes lanes independent. `together`:
    several blocks of a cluster run at the same time, so that each may have to wait for another.
    """
    code = _Code(function, starts, successors, predecessors)
    spinning = frozenset(edge for edge in code.retreating() if code.may_spin(code.loop(*edge)))
    meeting = apart and any(is_collective(i) or is_block_barrier(i) for i in function.instructions)
    if not (together or meeting or spinning or _has_special_barriers(function.instructions) or code.meets_apart(meets)):
        return NO_WAITS
    polls = frozenset(i.index for edge in spinning for block in code.loop(*edge) for i in code.blocks[block])
    return Waits(True, spinning, frozenset(i.index for i in function.instructions if is_collective(i)), polls, code.tests(spinning))


def is_collective(instruction: Instruction) -> bool:
    """Whether the lanes of a member mask wait for each other here: `bar.warp.sync`, `shfl.sync`, `vote.sync`, ..."""
    return is_warp_barrier(instruction) or (instruction.opcode in _COLLECTIVES and "sync" in instruction.modifiers)


def meeting_kind(instruction: Instruction) -> str:
    """What lanes must have in common to meet: the operation with its modifiers, of machine code in PTX's words."""
    return ".".join((instruction.opcode, *instruction.modifiers))


def is_aligned(barrier: Instruction) -> bool:
    """Whether all lanes of a warp must execute this same barrier instruction: `bar`, and `barrier` with `.aligned`."""
    return barrier.opcode == "bar" or "aligned" in barrier.modifiers


def _has_special_barriers(instructions: Sequence[Instruction]) -> bool:
    """Is there a barrier other than one, always the same, at which all threads of the block wait?"""
    if any(map(waits_for_group, instructions)):
        return True
    numbers = set()
    for instruction in filter(is_block_barrier, instructions):
        operands, reduces = instruction.operands, "red" in instruction.modifiers
        whole = len(operands) == (3 if reduces else 1)
        if instruction.guard or not {"arrive", "cluster"}.isdisjoint(instruction.modifiers) or not whole:
            return True
        number = operands[int(reduces)]
        if not isinstance(number, Immediate) or number.value not in range(16):
            return True
        numbers.add(number)
    return len(numbers) > 1


class _Code:
    """A function's blocks and what lies on the paths between them."""

    def __init__(self, function: Function, starts: Sequence[int], successors: Edges, predecessors: Edges) -> None:
        self.function, self.instructions = function, function.instructions
        self.blocks = [function.instructions[first:last] for first, last in pairwise([*starts, len(function.instructions)])]
        self.successors, self.predecessors = successors, predecessors

    @cached_property
    def reads(self) -> list[frozenset[str]]:
        """The registers that each instruction reads: an instruction is in many loops."""
        return [frozenset(reads(i)) for i in self.instructions]

    @cached_property
    def writes(self) -> list[frozenset[str]]:
        """The registers that each instruction writes."""
        return [frozenset(writes(i)) for i in self.instructions]

    def retreating(self) -> list[tuple[int, int]]:
        """Edges to an earlier or the same block: each cycle has one. None when nothing in the function could be polled."""
        if not any(i.opcode in ("atom", "mbarrier", "ld") for i in self.instructions):
            return []
        return [(block, target) for block, following in enumerate(self.successors) for target in following if target <= block]

    def loop(self, last: int, first: int) -> list[int]:
        """The blocks from which `last` can be reached without passing `first`, and `first`; [] when the edge closes no loop."""
        return sorted({first, *_reached(last, self.predecessors, first)})

    def may_spin(self, loop: list[int]) -> bool:
        """Does a branch of the loop depend on memory that another thread may change meanwhile?"""
        check("looking for loops that wait")
        body = self._with_called([i for block in loop for i in self.blocks[block]])
        if any(i.opcode == "call" and i.native is None for i in body):  # what is called may poll
            written = frozenset[str]().union(*self.writes)
            return any(_polls(i, False, written) for i in self.instructions)
        written = frozenset[str]().union(*(self.writes[i.index] for i in body))
        ordered = any(i.opcode in _ORDERING or is_warp_barrier(i) for i in body)
        here = {i.index for block in loop for i in self.blocks[block]}
        called = [i for i in body if i.index not in here]
        entering: dict[int, set[str]] = {block: set() for block in loop}
        pending = list(loop)
        while pending:  # what another thread may change, from block to block: registers of machine code are used again and again
            tainted = set(entering[block := pending.pop()])
            own = _is_assembled(self.blocks[block])
            for instruction in self.blocks[block]:
                reading = not tainted.isdisjoint(self.reads[instruction.index])
                if reading and _decides(instruction):
                    return True
                if reading or (not own and _polls(instruction, ordered, written)):
                    tainted.update(self.writes[instruction.index])
                elif instruction.guard is None:
                    tainted.difference_update(self.writes[instruction.index])
                if called and instruction.opcode == "call" and self._spreads(called, tainted, ordered, written):
                    return True
            for following in self.successors[block]:
                if following in entering and not tainted <= entering[following]:
                    entering[following] |= tainted
                    pending.append(following)
        return False

    def tests(self, spinning: Set[tuple[int, int]]) -> tuple[tuple[int, frozenset[int]], ...]:
        """`Waits.tests`; of nested loops the innermost."""
        loops: dict[int, set[int]] = {}
        for last, first in spinning:
            loops.setdefault(first, set()).update(self.loop(last, first))
        found: dict[int, frozenset[int]] = {}
        for first, blocks in sorted(loops.items(), key=lambda loop: -len(loop[1])):
            tests = self._tests_of(first, blocks)
            tests += [i for block in self.predecessors[first] if block not in blocks for i in self._same_before(block, tests)]
            found.update((i.index, frozenset(blocks)) for i in tests)
        return tuple(sorted(found.items()))

    def _tests_of(self, first: int, loop: Set[int]) -> list[Instruction]:
        """The tests of memory in a loop in which only the last turn has an effect: none ends it by an earlier one or a clock.

        What a turn carries to the next decides neither that nor which address is tested.
        """
        written = frozenset[str]().union(*(self.writes[i.index] for block in loop for i in self.blocks[block]))
        entering: dict[int, set[str]] = {block: set(written) if block == first else set() for block in loop}
        carries: dict[int, bool] = {}
        pending = list(loop)
        while pending:
            carried = set(entering[block := pending.pop()])
            leaves = not set(self.successors[block]) <= loop
            for instruction in self.blocks[block]:
                carries[instruction.index] = reading = not carried.isdisjoint(self.reads[instruction.index])
                if instruction.opcode == "call" or (reading and instruction.opcode in ("exit", "ret")):
                    return []
                if reading and leaves and _decides(instruction):
                    return []
                if reading or _reads_clock(instruction):
                    carried.update(self.writes[instruction.index])
                elif instruction.guard is None:
                    carried.difference_update(self.writes[instruction.index])
            for following in self.successors[block]:
                if following in loop and not carried <= entering[following]:
                    entering[following] |= carried
                    pending.append(following)
        return [i for block in sorted(loop) for i in self.blocks[block] if _tests_memory(i) and not carries[i.index]]

    def _same_before(self, block: int, tests: Sequence[Instruction]) -> list[Instruction]:
        """Those tests that a compiler has put in front of the loop as well: the same access, whose address then stays."""
        same = {(i.opcode, i.modifiers, _inputs(i)) for i in tests}
        later: set[str] = set()
        found = []
        for instruction in reversed(self.blocks[block]):
            access = instruction.opcode, instruction.modifiers, _inputs(instruction)
            if access in same and later.isdisjoint(self.reads[instruction.index]):
                found.append(instruction)
            later.update(self.writes[instruction.index])
        return found

    def _with_called(self, code: Sequence[Instruction]) -> list[Instruction]:
        """Instructions of machine code with those of the functions that they call."""
        found = {i.index: i for i in code}
        pending = list(code) if self.function.call_sites else []
        while pending:
            site = self.function.call_sites.get((instruction := pending.pop()).index)
            if instruction.native is not None and site is not None:
                for body in (self.function.callables[name] for name in site.targets):
                    fresh = [i for i in self.instructions[body.first : body.end] if i.index not in found]
                    found.update((i.index, i) for i in fresh)
                    pending += fresh
        return list(found.values())

    def _spreads(self, code: Sequence[Instruction], tainted: set[str], ordered: bool, written: Set[str]) -> bool:
        """Add to `tainted` what follows from it in functions that are called; True when something there depends on it."""
        before = -1
        while len(tainted) != before:
            before = len(tainted)
            for instruction in code:
                reading = not tainted.isdisjoint(self.reads[instruction.index])
                if reading and _decides(instruction):
                    return True
                if reading or _polls(instruction, ordered, written):
                    tainted.update(self.writes[instruction.index])
        return False

    def meets_apart(self, meets: Sequence[int]) -> bool:
        """Is there a branch both sides of which have the same operation between lanes, so that its sides may have to meet?"""
        holds = [_meeting_kinds(self._with_called(block)) for block in self.blocks]
        kinds = [kind for held in holds for kind in held]
        if len(kinds) == len(set(kinds)):
            return False
        for block, following in enumerate(self.successors):
            check("looking for branches whose sides meet")
            sides = [_reached(successor, self.successors, meets[block]) for successor in following] if len(following) > 1 else []
            for side, other in combinations(sides, 2):
                mine = {kind for b in side - other for kind in holds[b]}
                if mine & {kind for b in other - side for kind in holds[b]}:
                    return True
        return False


def _reached(start: int, edges: Edges, end: int) -> set[int]:
    """The blocks that `edges` lead to from `start`, itself included, without passing `end`; none from `end` itself."""
    seen, pending = set(), [start]
    while pending:
        block = pending.pop()
        if block not in seen and block != end:
            seen.add(block)
            pending.extend(edges[block])
    return seen


def _meeting_kinds(block: Sequence[Instruction]) -> set[str]:
    barriers = {"barrier" for i in block if is_block_barrier(i) and not is_aligned(i)}
    return barriers | {meeting_kind(i) for i in block if is_collective(i)}


def _is_assembled(block: Sequence[Instruction]) -> bool:
    """Whether it is the loop that an assembler makes of an atomic operation that the hardware lacks: nobody is waited for in it."""
    return any(i.native is not None and "SPIN" in i.native.modifiers for i in block)


def _decides(instruction: Instruction) -> bool:
    """Whether the way of a thread may depend on what it reads; unoptimised code keeps its variables in local memory."""
    branches = instruction.opcode in ("bra", "brx", "exit", "ret")
    return branches or (instruction.opcode == "st" and "local" in instruction.modifiers)


def _tests_memory(instruction: Instruction) -> bool:
    """A load, or an atomic operation with which threads wait: it takes a lock if it is free, or adds nothing."""
    if instruction.opcode != "atom":
        return instruction.opcode == "ld" and not _PRIVATE & set(instruction.modifiers)
    adds_nothing = any(isinstance(each, Immediate) and each.value == 0 for each in instruction.operands[-1:])
    return adds_nothing or not {"cas", "exch"}.isdisjoint(instruction.text.lower().split("."))


def _inputs(instruction: Instruction) -> str:
    """Its operands but the first, which it writes, as text."""
    return repr((instruction.operands if instruction.native is None else instruction.native.operands)[1:])


def _reads_clock(instruction: Instruction) -> bool:
    return any(isinstance(o, SpecialRegister) and o.name.startswith(("%clock", "%globaltimer")) for o in instruction.operands)


def _polls(instruction: Instruction, ordered: bool, written: Set[str]) -> bool:
    """Whether another thread may change what it reads while the loop runs; `written` are the registers that the loop changes."""
    modifiers = instruction.modifiers
    if instruction.opcode == "atom" or (instruction.opcode == "mbarrier" and modifiers[:1] in (("test_wait",), ("try_wait",))):
        return True
    if instruction.opcode != "ld" or _PRIVATE & set(modifiers):
        return False
    if ordered or _STRONG & set(modifiers):
        return True
    return written.isdisjoint(register_names(instruction.operands[-1:]))
