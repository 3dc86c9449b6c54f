"""Walks a kernel's basic blocks with the masks of all threads at once, as warps do: both sides of a branch, then where they meet.

A loop is not iterated: one pass finds how each register changes, its exits then say in closed form in which iteration every thread
leaves, and one more pass counts for all iterations in which the same threads take part. Only where that is not possible (a counter
that is halved, a choice that depends on the counter) are iterations walked one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.intervals.static.loops import REMEDY, Loop, StaticHints
from warpsight.intervals.static.threads import LANES, Coalescing, Registers, Tally
from warpsight.intervals.static.values import Content, Linear, Mask, Truth, Unknown, counters_of, negated, same
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Address, Function, Instruction, Symbol
from warpsight.isa.ptx.rules import is_block_barrier
from warpsight.traces.schema import StaticInstruction

_LEAVES = frozenset({"ret", "exit", "trap"})
END = -1


class NeedIterationError(Exception):
    """Something depends on this loop counter in a way that only its single values can tell."""

    def __init__(self, counter: str) -> None:
        super().__init__(counter)
        self.counter = counter


@dataclass
class Frame:
    """A loop that is being walked. `leaving` gives, for an exit block, who leaves there; None asks the exit's own predicate.

    With `predicates` the exits are only recorded in it. `arrived` are threads at `meeting`, where all exits come together.
    """

    loop: Loop
    meeting: int
    arrived: Mask
    leaving: Callable[[int], Mask] | None = None
    predicates: dict[int, Content] | None = None


@dataclass(frozen=True)
class Program:
    """What does not change while walking. `path` names the kernel's file in messages."""

    path: str
    function: Function
    graph: ControlFlowGraph
    rows: tuple[StaticInstruction, ...]
    loops: dict[int, Loop]
    dominators: list[int]
    live: list[frozenset[str]]
    hints: StaticHints
    coalescing: Coalescing

    def place(self, instruction: Instruction) -> str:
        """An instruction in messages: its PTX line, and the source line where that is known."""
        source = f" ({instruction.file}:{instruction.line})" if instruction.line else ""
        return f"{self.path}: PTX line {instruction.ptx_line}{source}"


@dataclass
class Walk:
    """The state of a walk over some blocks of the grid."""

    program: Program
    registers: Registers
    tally: Tally
    counting: bool = True
    times: float = 1.0
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    enter: Callable[[Walk, Loop, Mask], tuple[Mask, int]] | None = None

    def run(self, block: int, mask: Mask, stop: int, *, entering: bool = False) -> Mask:
        """Walk from `block` to `stop`; gives who gets there. With `entering`, `block` is `stop` and is executed first."""
        while mask.any() and block != END and (block != stop or entering):
            loop = self.program.loops.get(block)
            if loop is not None and not entering and all(frame.loop is not loop for frame in self.frames):
                assert self.enter is not None
                mask, block = self.enter(self, loop, mask)
                continue
            if loop is not None and not entering:
                self._refuse(self._last(block), "a jump to the start of an outer loop")
            entering = False
            self._execute(block, mask)
            block, mask = self._follow(block, mask, stop)
        return mask

    def _last(self, block: int) -> Instruction:
        return self.program.function.instructions[int(self.program.graph.block_start[block + 1]) - 1]

    def _refuse(self, instruction: Instruction, what: str) -> None:
        raise UnsupportedError(f"{what} cannot be analysed", place=self.program.place(instruction), remedy=REMEDY)

    def _execute(self, block: int, mask: Mask) -> None:
        start, end = (int(self.program.graph.block_start[block + k]) for k in (0, 1))
        warps = float(mask.reshape(-1, LANES).any(axis=1).sum()) if self.counting else 0.0
        self.tally.instructions += self.times * warps * (end - start)
        for instruction in self.program.function.instructions[start:end]:
            if self.counting and is_block_barrier(instruction) and "arrive" not in instruction.modifiers:
                self.tally.synchronizations += self.times * warps
            if self.counting and self.program.rows[instruction.index].has_sectors:
                self._access(instruction, mask)
            self.registers.execute(instruction, mask)

    def _access(self, instruction: Instruction, mask: Mask) -> None:
        """Count a memory instruction of device memory."""
        row = self.program.rows[instruction.index]
        coalesced = self.program.hints.kind(instruction.ptx_line)
        guard = self.known(self.registers.guard(instruction))
        if isinstance(guard, Unknown):
            if not self.program.hints.both_paths:
                raise self.needs_paths(instruction, guard)
            guard = True
        active = mask & guard  # type: ignore[operator]
        address = self.known(self._address(instruction)) if active.any() else None
        if address is None or (row.space == "generic" and self._is_shared(address)):
            return
        if row.space == "local" and isinstance(address, Linear):
            # local memory is interleaved, so that one offset of all lanes is one run of words
            if isinstance(address.const, int) and all(isinstance(step, int) for step in address.terms.values()):
                coalesced = True
            address = Unknown("the lane, in local memory", instruction.ptx_line)
        if isinstance(address, Linear):
            self.program.coalescing.add(self.tally, address, active, row.access_bytes, self.ranges, self.times)
        elif coalesced is not None:
            self.tally.hinted.add(instruction.ptx_line)
            self.program.coalescing.add_hinted(self.tally, active, row.access_bytes, coalesced, self.times)
        else:
            why = f"{address.why}, PTX line {address.line}" if isinstance(address, Unknown) else "what is not followed"
            what = f'the address of "{instruction.text}" depends on {why}; whether it is coalesced is not known'
            line = instruction.ptx_line
            remedy = f"give `uncoalesced` {line} or `coalesced` {line} (or `all` that are not known); or leave out `static`"
            raise UsageError(what, place=self.program.place(instruction), remedy=remedy)

    def _address(self, instruction: Instruction) -> Content:
        operands = instruction.operands
        copied = operands[1] if instruction.opcode == "cp" and "bulk" not in instruction.modifiers else None
        address = copied or next((o for o in operands if isinstance(o, Address)), None)
        plain = instruction.opcode in ("ld", "ldu", "st", "atom", "red") or copied is not None
        if not plain or not isinstance(address, Address):
            return Unknown(f'the kind of access that "{instruction.text}" makes', instruction.ptx_line)
        return self.registers.address(address, instruction)

    def _is_shared(self, address: Content) -> bool:
        """A generic address that lies in a shared variable."""
        if not isinstance(address, Linear):
            return False
        shared = [name for name, variable in self.program.function.variables.items() if variable.space == "shared"]
        places = [self.registers.operand(Symbol(name), self.program.function.instructions[0]) for name in shared]
        first = address.const if isinstance(address.const, int) else int(address.const[0])
        return any(isinstance(p, Linear) and isinstance(p.const, int) and 0 <= first - p.const < 1 << 32 for p in places)

    def known(self, value: Content) -> Content:
        """`value`, unless it depends on counters in a way that needs their single values: then that loop is iterated."""
        if isinstance(value, bool | np.ndarray | Linear | Unknown):
            return value
        raise NeedIterationError(self.innermost(counters_of(value)))

    def innermost(self, counters: frozenset[str]) -> str:
        """Of counters, that of the innermost loop being walked."""
        names = [frame.loop.label for frame in self.frames if frame.loop.label in counters]
        return names[-1] if names else next(iter(counters))

    def needs_paths(self, instruction: Instruction, why: Unknown) -> UsageError:
        """The error for a choice that depends on data."""
        what = f'"{instruction.text}" depends on {why.why}, PTX line {why.line}; which threads go where is not known'
        remedy = "`both_paths` counts both sides, an upper bound; or leave out `static`: a trace counts any kernel"
        return UsageError(what, place=self.program.place(instruction), remedy=remedy)

    def _follow(self, block: int, mask: Mask, stop: int) -> tuple[int, Mask]:
        """Where the threads of `mask` go from the end of `block`."""
        last = self._last(block)
        if last.opcode in _LEAVES:
            gone = self._leaving(last, mask)
            self.registers.alive = self.registers.alive & ~gone
            return block + 1 if last.guard else END, mask & ~gone
        if last.opcode == "brx" or last.index in self.program.function.call_sites:
            self._refuse(last, "a branch or call through a register")
        if last.opcode != "bra":
            return self._edge(block, block + 1, mask)
        target = self._target(last)
        if last.guard is None or target == block + 1:
            return self._edge(block, target, mask)
        frame = self.frames[-1] if self.frames else None
        inside = [t for t in (target, block + 1) if frame is None or t in frame.loop.body]
        if frame is not None and block in frame.loop.body and len(inside) == 1:
            return inside[0], self._exit(frame, block, target, mask)
        return self._branch(block, target, mask, stop)

    def _leaving(self, last: Instruction, mask: Mask) -> Mask:
        guard = self._choice(last)
        return np.zeros_like(mask) if guard is None else np.asarray(mask & guard, dtype=np.bool_)

    def _choice(self, branch: Instruction) -> Truth | None:
        """The guard of a branch or exit; None if both sides are to be taken because it depends on data."""
        guard = self.registers.guard(branch)
        if self.counting:
            guard = self.known(guard)
        if isinstance(guard, bool | np.ndarray):
            return guard
        if self.counting and isinstance(guard, Unknown) and not self.program.hints.both_paths:
            raise self.needs_paths(branch, guard)
        return None

    def _target(self, branch: Instruction) -> int:
        label = branch.operands[-1]
        assert isinstance(label, Symbol)
        index = self.program.function.labels[label.name]
        return END if index >= len(self.program.function.instructions) else self.program.graph.block_of(index)

    def _edge(self, block: int, target: int, mask: Mask) -> tuple[int, Mask]:
        """An unconditional step, which may leave the loop."""
        frame = self.frames[-1] if self.frames else None
        if frame is not None and block in frame.loop.body and target not in frame.loop.body:
            self._refuse(self._last(block), "a loop that is left without a condition")
        return target, mask

    def _exit(self, frame: Frame, block: int, target: int, mask: Mask) -> Mask:
        """Let threads leave the loop at the end of `block`; gives who stays."""
        last = self._last(block)
        taken_leaves = target not in frame.loop.body
        outside = target if taken_leaves else block + 1
        if frame.predicates is not None:
            guard = self.registers.guard(last)
            frame.predicates[block] = guard if taken_leaves else negated(guard)
            return mask
        if frame.leaving is not None:
            gone = mask & frame.leaving(block)
        else:
            guard = self.registers.guard(last)
            if isinstance(guard, Unknown):
                raise self.needs_trips(frame.loop, guard)
            leaves = self.known(guard if taken_leaves else negated(guard))
            gone = mask & np.asarray(leaves, dtype=np.bool_)
        if gone.any():
            self._arrive(frame, outside, gone)
        return mask & ~gone

    def _arrive(self, frame: Frame, outside: int, gone: Mask) -> None:
        """Threads that left walk to where the exits meet."""
        if outside != frame.meeting:
            outer = self.frames[-2] if len(self.frames) > 1 else None
            if outer is not None and outside not in outer.loop.body:
                self._refuse(self._last(frame.loop.header), "leaving two loops at once")
            self.frames.pop()
            gone = self.run(outside, gone, frame.meeting)
            self.frames.append(frame)
        frame.arrived = frame.arrived | gone

    def needs_trips(self, loop: Loop, why: Unknown | None) -> UsageError:
        """The error for a loop whose iterations are not known."""
        reason = f"depends on {why.why}, PTX line {why.line}" if why is not None else "does not follow from the program text"
        what = f"how often the loop {loop.label} runs {reason}"
        remedy = f"give `trips` '{loop.label}=N' (executions of its body); or leave out `static`: a trace counts any kernel"
        return UsageError(what, place=f"{self.program.path}: PTX line {loop.ptx_line}", remedy=remedy)

    def _branch(self, block: int, target: int, mask: Mask, stop: int) -> tuple[int, Mask]:
        """Both sides of a branch, each by its own threads, up to where they meet."""
        guard = self._choice(self._last(block))
        if guard is None:
            return self._either(block, target, mask)
        taken = np.asarray(mask & guard, dtype=np.bool_)
        other = mask & ~taken
        if not taken.any() or not other.any():
            return (target, mask) if taken.any() else (block + 1, mask)
        meeting = self._meeting(block, taken, other)
        arrived = [self.run(side, part, meeting) for side, part in ((target, taken), (block + 1, other))]
        return meeting, arrived[0] | arrived[1]

    def _meeting(self, block: int, taken: Mask, other: Mask) -> int:
        """Where the sides of a branch meet: its post-dominator, or the next iteration where that lies beyond the loop."""
        meeting = self.program.graph.post_dominator[block]
        frame = self.frames[-1] if self.frames else None
        if frame is None or block not in frame.loop.body or meeting in frame.loop.body:
            return meeting
        apart = taken.reshape(-1, LANES).any(axis=1) & other.reshape(-1, LANES).any(axis=1)
        if apart.any() and self.counting:
            self._refuse(self._last(block), "a warp whose lanes take different ways to the end of a loop")
        return frame.loop.header

    def _either(self, block: int, target: int, mask: Mask) -> tuple[int, Mask]:
        """Both sides by all threads: what they leave different is not known."""
        nobody = np.zeros_like(mask)
        meeting = self._meeting(block, nobody, nobody)
        before, alive = dict(self.registers.contents), self.registers.alive
        first = self.run(target, mask, meeting)
        one, one_alive = self.registers.contents, self.registers.alive
        self.registers.contents, self.registers.alive = before, alive
        second = self.run(block + 1, mask, meeting)
        line = self._last(block).ptx_line
        for name in {*one, *self.registers.contents}:
            mine, its = self.registers.contents.get(name), one.get(name)
            if mine is None or its is None:
                self.registers.contents[name] = mine if mine is not None else its  # type: ignore[assignment]
            elif not same(mine, its):
                self.registers.contents[name] = Unknown("a choice that depends on data", line)
        self.registers.alive = self.registers.alive | one_alive
        return meeting, first | second

    def snapshot(self) -> Walk:
        """The state as it is now, to go back to with `restore`."""
        registers = Registers(self.registers.threads, {})
        registers.contents, registers.alive = dict(self.registers.contents), self.registers.alive
        return replace(self, registers=registers, tally=self.tally.copy(), ranges=dict(self.ranges), frames=list(self.frames))

    def restore(self, before: Walk) -> None:
        """Go back to a snapshot, which stays good."""
        self.registers.contents, self.registers.alive = dict(before.registers.contents), before.registers.alive
        self.tally.__dict__.update(before.tally.copy().__dict__)
        self.counting, self.times = before.counting, before.times
        self.ranges, self.frames = dict(before.ranges), list(before.frames)
