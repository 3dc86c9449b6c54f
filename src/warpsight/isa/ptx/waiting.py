"""Where threads may wait for other threads: loops that poll memory, barriers of parts of a block, lanes that meet in a warp.

Kernels in which that happens need lanes that make progress independently (Volta and later). All others run a warp's lanes in step,
which is faster, so this is decided per kernel, when it is compiled. A kernel named here without need only runs slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from warpsight.isa.ptx.program import Address, Function, Immediate, Instruction, Operand, Register, Vector
from warpsight.isa.ptx.rules import destination_count, is_block_barrier, is_warp_barrier

_COLLECTIVES = frozenset({"shfl", "vote", "match", "redux", "elect"})
_ORDERING = frozenset({"membar", "fence", "nanosleep"})
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio", "cv"})
_PRIVATE = frozenset({"param", "const", "local"})


@dataclass(frozen=True)
class Waits:
    """What a kernel may wait for. `independent` says that its lanes must be able to go on independently of each other.

    `spinning` are edges (block, earlier or same block) that close a loop which may wait for another thread; `meetings` the pcs of
    instructions at which the lanes named in a member mask wait for each other. Both are empty unless `independent`.
    """

    independent: bool = False
    spinning: frozenset[tuple[int, int]] = frozenset()
    meetings: frozenset[int] = frozenset()


NO_WAITS = Waits()


def find_waits(function: Function, starts: Sequence[int], successors: Sequence[Sequence[int]], meets: Sequence[int]) -> Waits:
    """The waits of a function with these basic blocks (first pcs), their successors and immediate post-dominators."""
    code = _Code(function, starts, successors)
    spinning = frozenset(edge for edge in code.retreating() if code.may_spin(code.loop(*edge)))
    if not (spinning or _has_special_barriers(function.instructions) or code.meets_apart(meets)):
        return NO_WAITS
    return Waits(True, spinning, frozenset(i.index for i in function.instructions if is_collective(i)))


def is_collective(instruction: Instruction) -> bool:
    """Whether the lanes of a member mask wait for each other here: `bar.warp.sync`, `shfl.sync`, `vote.sync`, ..."""
    return is_warp_barrier(instruction) or (instruction.opcode in _COLLECTIVES and "sync" in instruction.modifiers)


def is_aligned(barrier: Instruction) -> bool:
    """Whether all lanes of a warp must execute this same barrier instruction: `bar`, and `barrier` with `.aligned`."""
    return barrier.opcode == "bar" or "aligned" in barrier.modifiers


def _has_special_barriers(instructions: Sequence[Instruction]) -> bool:
    """Is there a barrier other than one, always the same, at which all threads of the block wait?"""
    names = set()
    for instruction in instructions:
        if not is_block_barrier(instruction):
            continue
        operands, modifiers = instruction.operands, instruction.modifiers
        place = 1 if "red" in modifiers else 0
        whole = len(operands) == (3 if "red" in modifiers else 1)
        if instruction.guard or "arrive" in modifiers or "cluster" in modifiers or not whole:
            return True
        number = operands[place]
        if not isinstance(number, Immediate) or number.value not in list(range(16)):
            return True
        names.add(number)
    return len(names) > 1


def _registers(operands: Sequence[object]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Address):
            yield from _registers((operand.base,))
        elif isinstance(operand, Vector):
            yield from _registers([e for e in operand.elements if e is not None])
        elif hasattr(operand, "register"):
            yield operand.register.name


def _written(instruction: Instruction) -> set[str]:
    found = {
        name
        for operand in instruction.operands[: destination_count(instruction)]
        if not isinstance(operand, Address)
        for name in _registers((operand,))
    }
    return found | ({instruction.pair.name} if instruction.pair else set())


def _read(instruction: Instruction) -> set[str]:
    found = set(_registers(instruction.operands[destination_count(instruction) :]))
    return found | ({instruction.guard.register.name} if instruction.guard else set())


class _Code:
    """A function's blocks and what lies on the paths between them."""

    def __init__(self, function: Function, starts: Sequence[int], successors: Sequence[Sequence[int]]) -> None:
        bounds = [*starts, len(function.instructions)]
        self.blocks = [function.instructions[first:last] for first, last in pairwise(bounds)]
        self.successors = successors
        self.predecessors: list[list[int]] = [[] for _ in self.blocks]
        for block, following in enumerate(successors):
            for successor in following:
                self.predecessors[successor].append(block)

    def retreating(self) -> list[tuple[int, int]]:
        """Edges to an earlier or the same block: each cycle has one. None when nothing in the function could be polled."""
        everything = [i for block in self.blocks for i in block]
        if not any(i.opcode in ("atom", "mbarrier", "ld") for i in everything):
            return []
        return [(block, target) for block, following in enumerate(self.successors) for target in following if target <= block]

    def loop(self, last: int, first: int) -> list[int]:
        """The blocks from which `last` can be reached without passing `first`, and `first`; [] when the edge closes no loop."""
        seen, pending = {first, last}, [last] if last != first else []
        while pending:
            for predecessor in self.predecessors[pending.pop()]:
                if predecessor not in seen:
                    seen.add(predecessor)
                    pending.append(predecessor)
        return sorted(seen)

    def may_spin(self, loop: list[int]) -> bool:
        """Does a branch of the loop depend on memory that another thread may change meanwhile?"""
        body = [i for block in loop for i in self.blocks[block]]
        if any(i.opcode == "call" for i in body):  # what is called may poll
            everything = [i for block in self.blocks for i in block]
            written = {name for i in everything for name in _written(i)}
            return any(_polls(i, False, written) for i in everything)
        written = {name for i in body for name in _written(i)}
        ordered = any(i.opcode in _ORDERING or is_warp_barrier(i) for i in body)
        tainted = {name for i in body if _polls(i, ordered, written) for name in _written(i)}
        before = -1
        while tainted and len(tainted) != before:
            before = len(tainted)
            for instruction in body:
                if _read(instruction) & tainted:
                    if instruction.opcode in ("bra", "brx", "exit", "ret"):
                        return True
                    tainted |= _written(instruction)
                    if instruction.opcode == "st" and "local" in instruction.modifiers:
                        return True  # unoptimised code keeps its variables there
        return False

    def meets_apart(self, meets: Sequence[int]) -> bool:
        """Is there a branch both sides of which have the same operation between lanes, so that its sides may have to meet?"""
        holds: list[frozenset[str]] = [frozenset(_meeting_kinds(block)) for block in self.blocks]
        kinds = [kind for held in holds for kind in held]
        if len(kinds) == len(set(kinds)):
            return False
        for block, following in enumerate(self.successors):
            if len(following) < 2:
                continue
            sides = [self._until(successor, meets[block]) for successor in following]
            for index, side in enumerate(sides):
                for other in sides[index + 1 :]:
                    mine = {kind for b in side - other for kind in holds[b]}
                    if mine & {kind for b in other - side for kind in holds[b]}:
                        return True
        return False

    def _until(self, first: int, end: int) -> set[int]:
        seen, pending = ({first}, [first]) if first != end else (set(), [])
        while pending:
            for successor in self.successors[pending.pop()]:
                if successor not in seen and successor != end:
                    seen.add(successor)
                    pending.append(successor)
        return seen


def _meeting_kinds(block: Sequence[Instruction]) -> set[str]:
    found = {i.text for i in block if is_collective(i)}
    return found | {"barrier" for i in block if is_block_barrier(i) and not is_aligned(i)}


def _polls(instruction: Instruction, ordered: bool, written: set[str]) -> bool:
    """May what it reads be changed by another thread while the loop runs? `written` are the registers that the loop changes."""
    modifiers = instruction.modifiers
    if instruction.opcode == "atom" or (instruction.opcode == "mbarrier" and modifiers[:1] in (("test_wait",), ("try_wait",))):
        return True
    if instruction.opcode != "ld" or _PRIVATE & set(modifiers):
        return False
    if ordered or _STRONG & set(modifiers):
        return True
    address: Operand | object = instruction.operands[-1]
    return not (set(_registers((address,))) & written)
