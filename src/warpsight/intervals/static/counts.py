"""The counts of the MWP-CWP model from the PTX of a kernel and its launch, with nothing executed.

First the number of iterations of each loop, in closed form or step by step, then the counts over all blocks.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError, UnsupportedError, UsageError, suggestion
from warpsight.emulator.run.static import static_instructions
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import KernelCounts
from warpsight.intervals.static.loops import ALL, REMEDY, Loop, StaticHints, dominators_of, find_loops
from warpsight.intervals.static.threads import LANES, Coalescing, Registers, Tally, array_address, threads_of
from warpsight.intervals.static.values import (
    Compare,
    Content,
    Later,
    Linear,
    Mask,
    Unknown,
    compared,
    counters_of,
    linear,
    product,
    substituted,
)
from warpsight.intervals.static.walk import END, Frame, NeedIterationError, Program, Walk
from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.dataflow import live_in
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.isa.ptx.program import Function
from warpsight.isa.ptx.rules import writes
from warpsight.kernels.launch import ArrayArgument, KernelSource, Launch, ScalarArgument
from warpsight.traces.schema import StaticInstruction

Longs = npt.NDArray[np.int64]

NEVER = 1 << 62


def first_iteration(relation: str, start: Any, step: Any, threads: int) -> Longs:
    """The least k >= 0 with `start + step k` RELATION 0 (lt, le, gt, ge, eq, ne) for each thread, `NEVER` where there is none.

    `start` and `step` are ints or int64 [threads]; the answer is int64 [threads].
    """
    a = np.broadcast_to(np.asarray(start, dtype=np.int64), (threads,))
    b = np.broadcast_to(np.asarray(step, dtype=np.int64), (threads,))
    if relation in ("gt", "ge"):
        return first_iteration({"gt": "lt", "ge": "le"}[relation], -a, -b, threads)
    if relation == "le":
        return first_iteration("lt", a - 1, b, threads)
    if relation == "lt":
        falling = np.where(b < 0, a // np.where(b < 0, -b, 1) + 1, NEVER)
        return np.where(a < 0, 0, falling)
    if relation == "ne":
        return np.where(a != 0, 0, np.where(b != 0, 1, NEVER))
    divisor = np.where(b != 0, b, 1)
    meets = (b != 0) & (a % divisor == 0) & (-a // divisor > 0)
    return np.where(a == 0, 0, np.where(meets, -a // divisor, NEVER))


# -- Loops of a walk: how registers change in an iteration, when each thread leaves, and the iterations that count together.

_MOST_GROUPS = 4096
_MOST_ITERATIONS = 65536


def enter(walk: Walk, loop: Loop, mask: Mask) -> tuple[Mask, int]:
    """Walk a loop to its end for the threads of `mask`; gives who comes out of it, and where. The `enter` of a `Walk`."""
    before = walk.snapshot()
    meeting = _meeting(walk, loop)
    changes, exits, stay = _probe(walk, loop, mask, meeting)
    walk.restore(before)
    ends = _ends(walk, loop, mask, changes, exits, mask & ~stay)
    frame = Frame(loop, meeting, np.zeros_like(mask))
    if ends is None:
        return _one_by_one(walk, frame, mask), meeting
    if not walk.counting:
        return _last_pass(walk, frame, mask, changes, ends), meeting
    try:
        return _grouped(walk, frame, mask, changes, ends), meeting
    except NeedIterationError as need:
        if need.counter != loop.label:
            raise
        walk.restore(before)
        return _one_by_one(walk, Frame(loop, meeting, np.zeros_like(mask)), mask), meeting


def _meeting(walk: Walk, loop: Loop) -> int:
    """Where all exits of a loop come together."""
    block = loop.header
    while block in loop.body:
        block = walk.program.graph.post_dominator[block]
    return block


def _changed(walk: Walk, loop: Loop) -> list[str]:
    """Registers that the loop writes."""
    starts = walk.program.graph.block_start
    instructions = walk.program.function.instructions
    places = (place for block in sorted(loop.body) for place in range(int(starts[block]), int(starts[block + 1])))
    return list(dict.fromkeys(name for place in places for name in writes(instructions[place])))


def _changing(loop: Loop, name: str) -> Unknown:
    return Unknown(f"{name}, which changes in the loop {loop.label}", loop.ptx_line)


def _probe(walk: Walk, loop: Loop, mask: Mask, meeting: int) -> tuple[dict[str, Content], dict[int, Content], Mask]:
    """How much each changed register grows in an iteration (Unknown: not by a fixed number), and the predicates of the exits.

    The predicates are in terms of the registers at the start of the iteration, `phi REGISTER`. Third, the threads that do not end
    in every iteration, by a guarded `ret`.
    """
    names = _changed(walk, loop)
    registers = walk.registers
    registers.alive = mask
    for name in names:
        kind = walk.program.function.registers.get(name, "")
        if kind.startswith("f"):
            registers.contents[name] = Unknown("a floating-point value", loop.ptx_line)
        else:
            counter = f"phi {name}"
            registers.contents[name] = Later(frozenset({counter})) if kind == "pred" else Linear(0, {counter: 1})
    frame = Frame(loop, meeting, np.zeros_like(mask), predicates={})
    walk.counting = False
    walk.frames.append(frame)
    stay = walk.run(loop.header, mask, loop.header, entering=True)
    changes: dict[str, Content] = {}
    for name in names:
        after, counter = registers.contents.get(name), f"phi {name}"
        step: Content = _changing(loop, name)
        if isinstance(after, Linear) and isinstance(after.terms.get(counter), int) and after.terms[counter] == 1:
            rest = {key: number for key, number in after.terms.items() if key != counter}
            if not any(key.startswith("phi ") for key in rest if key[4:] in names):
                step = Linear(after.const, rest)
        elif isinstance(after, Unknown):
            step = after
        changes[name] = step
    assert frame.predicates is not None
    return changes, frame.predicates, stay


def _ends(
    walk: Walk, loop: Loop, mask: Mask, changes: dict[str, Content], exits: dict[int, Content], ended: Mask
) -> dict[int, Longs] | None:
    """For each exit block, the iteration in which every thread would leave there, int64 [threads]. None: not in closed form.

    Threads that have `ended` by a `ret` whose guard is the same in all iterations do so in the first: that is at `END`.
    """
    hint = walk.program.hints.trips.get(loop.label)
    ends: dict[int, Longs] = {}
    open_exits: list[int] = []
    for block, _ in loop.exits:
        certain = block in exits and _in_every_iteration(walk, loop, block)
        iteration = _closed(walk, loop, exits[block], changes) if certain else None
        if iteration is None:
            open_exits.append(block)
        ends[block] = np.full(walk.registers.threads.count, NEVER) if iteration is None else iteration
    if open_exits and hint is None:
        return None
    if hint is not None:
        _apply_hint(walk, loop, mask & ~ended, ends, open_exits, hint)
    if ended.any():
        ends[END] = np.where(ended, 0, NEVER)
    last = np.min(list(ends.values()), axis=0) if ends else np.full(len(mask), NEVER)
    if walk.counting and (last[mask] >= NEVER).any():
        raise walk.needs_trips(loop, None)
    return None if (last[mask] >= NEVER).any() else ends


def _in_every_iteration(walk: Walk, loop: Loop, block: int) -> bool:
    return all(walk.program.dominators[latch] >> block & 1 for latch in loop.latches)


def _apply_hint(walk: Walk, loop: Loop, mask: Mask, ends: dict[int, Longs], open_exits: list[int], trips: int) -> None:
    """Set the hinted trip count at the exit whose own is unknown."""
    by_block = {block: trips - 1 if block in loop.latches else trips for block in ends}
    if open_exits:
        chosen = next((block for block in open_exits if _in_every_iteration(walk, loop, block)), open_exits[0])
        ends[chosen] = np.full(len(mask), by_block[chosen])
        return
    for block, iterations in ends.items():
        known = np.unique(iterations[mask])
        if len(ends) == 1 and known.tolist() not in ([], [by_block[block]]):
            shown = f"{known[0] + trips - by_block[block]:,}" if len(known) == 1 else "different numbers for its threads"
            what = f"the hint for the loop {loop.label} is {trips:,} iterations, but the program text has {shown}"
            raise UsageError(what, place="trips", remedy="leave it out for this loop")


def _closed(walk: Walk, loop: Loop, predicate: Content, changes: dict[str, Content]) -> Longs | None:
    """The first iteration in which `predicate` holds, None where there is no closed form."""
    count = walk.registers.threads.count
    counter = Linear(0, {loop.label: 1})
    for name, step in changes.items():
        start = walk.registers.contents.get(name)
        fixed = isinstance(step, Linear) and isinstance(start, Linear)
        by = linear(start, product(step, counter, 64), operator.add, 64) if fixed and start is not None else step
        if not fixed and not isinstance(by, Unknown):
            by = Unknown(name, loop.ptx_line)
        predicate = substituted(predicate, f"phi {name}", by)
    if isinstance(predicate, bool | np.ndarray):
        return np.where(np.broadcast_to(np.asarray(predicate), (count,)), 0, NEVER)
    if not isinstance(predicate, Compare):
        return None
    difference = predicate.difference
    others = frozenset(difference.terms) - {loop.label}
    if others:
        if walk.counting:
            raise NeedIterationError(walk.innermost(others))
        return None
    return first_iteration(predicate.relation, difference.const, difference.terms.get(loop.label, 0), count)


def _start(walk: Walk, loop: Loop, mask: Mask, before: dict[str, Content], changes: dict[str, Content], iteration: Linear) -> None:
    """Set the registers to what they are when `iteration` begins."""
    live = walk.program.live[loop.header]
    for name, step in changes.items():
        start = before.get(name)
        if isinstance(step, Linear) and isinstance(start, Linear):
            walk.registers.write(name, linear(start, product(step, iteration, 64), operator.add, 64), mask)
        elif name in live and not (not iteration.terms and isinstance(iteration.const, int) and iteration.const == 0):
            walk.registers.write(name, step if isinstance(step, Unknown) else Unknown(name, loop.ptx_line), mask)


def _grouped(walk: Walk, frame: Frame, mask: Mask, changes: dict[str, Content], ends: dict[int, Longs]) -> Mask:
    """All iterations between two in which threads leave at once, and those by themselves."""
    loop, before = frame.loop, dict(walk.registers.contents)
    last = np.min(list(ends.values()), axis=0)
    groups = np.unique(last[mask]).tolist()
    if len(groups) > _MOST_GROUPS:
        what = f"the threads leave the loop {loop.label} in {len(groups):,} different iterations"
        raise LimitError(what, place=walk.program.path, remedy="leave out `static`: a trace counts any kernel")
    first = 0
    nobody = np.zeros_like(mask)
    walk.frames.append(frame)
    for end in groups:
        if end > first:
            times, ranges = walk.times, dict(walk.ranges)
            walk.times, walk.ranges[loop.label] = times * (end - first), (first, end)
            frame.leaving = lambda block: nobody
            _start(walk, loop, mask, before, changes, Linear(0, {loop.label: 1}))
            stay = walk.run(loop.header, mask, loop.header, entering=True)
            if (mask & ~stay).any():
                # by a `ret` that `_probe` did not foresee: they end in one of these iterations, and were counted in all
                raise NeedIterationError(loop.label)
            walk.times, walk.ranges = times, ranges
            _settle(walk, loop, end - 1)
        frame.leaving = lambda block, now=end: ends[block] == now
        _start(walk, loop, mask, before, changes, Linear(end))
        mask = walk.run(loop.header, mask, loop.header, entering=True)
        first = end + 1
    walk.frames.pop()
    return frame.arrived


def _settle(walk: Walk, loop: Loop, iteration: int) -> None:
    """What registers hold after `iteration`, the last of those that were counted together, without the loop's counter."""
    for name, value in walk.registers.contents.items():
        if loop.label not in counters_of(value):
            continue
        after = substituted(value, loop.label, Linear(iteration))
        if isinstance(after, Compare) and not after.difference.terms:
            after = compared(after.relation, after.difference.const, 0)
        elif isinstance(after, Later):
            after = _changing(loop, name)
        walk.registers.contents[name] = after


def _last_pass(walk: Walk, frame: Frame, mask: Mask, changes: dict[str, Content], ends: dict[int, Longs]) -> Mask:
    """Without counting: the last iteration of every thread alone, for what it leaves in the registers."""
    last = np.min(list(ends.values()), axis=0)
    uniform = np.unique(last[mask])
    iteration = Linear(int(uniform[0])) if len(uniform) == 1 else Linear(np.where(mask, last, 0))
    frame.leaving = lambda block: ends[block] == last
    walk.frames.append(frame)
    _start(walk, frame.loop, mask, dict(walk.registers.contents), changes, iteration)
    walk.run(frame.loop.header, mask, frame.loop.header, entering=True)
    walk.frames.pop()
    return frame.arrived


def _one_by_one(walk: Walk, frame: Frame, mask: Mask) -> Mask:
    """Iteration after iteration. Without counting, where that is not possible, nothing is known of what the loop changes."""
    before = walk.snapshot()
    walk.frames.append(frame)
    try:
        rounds = 0
        while mask.any():
            mask = walk.run(frame.loop.header, mask, frame.loop.header, entering=True)
            rounds += 1
            if rounds > _MOST_ITERATIONS:
                what = f"the loop {frame.loop.label} has more than {_MOST_ITERATIONS:,} iterations, and no closed form"
                raise LimitError(what, place=walk.program.path, remedy="leave out `static`: a trace counts any kernel")
    except (NeedIterationError, UsageError):
        if walk.counting:
            raise
        alive = before.registers.alive
        walk.restore(before)
        for name in _changed(walk, frame.loop):
            walk.registers.contents[name] = _changing(frame.loop, name)
        frame.arrived = alive & mask if not mask.any() else alive
        # all threads take the ways from the exits to where they meet
        for _, target in frame.loop.exits:
            if target not in (frame.meeting, END):
                walk.run(target, frame.arrived, frame.meeting)
        return frame.arrived
    walk.frames.pop()
    return frame.arrived


# -- The counts.

_THREADS_AT_ONCE = 1 << 18


def static_counts(
    source: KernelSource, launch: Launch, gpu: GpuSpec, blocks_per_sm: int, hints: StaticHints | None = None
) -> KernelCounts:
    """The counts of `launch`, from the program text: loops with known trip counts, addresses known for every thread.

    Array arguments count as aligned to 256 bytes and loop counters as not wrapping; what memory holds is not known. Raises
    UsageError, with PTX line and remedy, for a trip count, an address or a branch that depends on it and has no hint;
    UnsupportedError for control flow that is not followed; LimitError for a loop without closed form that is too long.
    """
    hints = hints or StaticHints()
    function = inline_calls(source.module, source.module.kernels[launch.kernel])
    program = _program(source.path, function, gpu, hints, static_instructions(function))
    size = launch.threads_per_block
    padded = -(-size // LANES) * LANES
    tally, at_once = Tally(), max(1, _THREADS_AT_ONCE // padded)
    for first in range(0, launch.blocks, at_once):
        threads = threads_of(launch.grid, launch.block, first, min(at_once, launch.blocks - first))
        walk = Walk(program, Registers(threads, _parameters(function, launch)), tally, enter=enter)
        try:
            walk.run(0, threads.active, END)
        except NeedIterationError as need:
            what = f"something depends on the iteration in which the loop {need.counter} was left, which is not followed"
            raise UnsupportedError(what, place=source.path, remedy=REMEDY) from None
    _check_hints(hints, tally, function)
    warps = padded // LANES
    return tally.per_warp(
        launch.blocks * warps, launch.blocks, warps, blocks_per_sm, coalescing=gpu.sm.coalescing, origin="program text"
    )


def _program(path: str, function: Function, gpu: GpuSpec, hints: StaticHints, rows: tuple[StaticInstruction, ...]) -> Program:
    graph = build_cfg(function)
    dominators = dominators_of(graph)
    loops = find_loops(function, graph, dominators)
    labels = [loop.label for loop in loops.values()]
    for label in hints.trips:
        if label not in labels:
            what = f'"{label}" is not the label of a loop{suggestion(label, labels)}'
            raise UsageError(what, place="trips", remedy=f"the kernel's loops: {', '.join(sorted(labels)) or 'none'}")
    rule = Coalescing(gpu.sm.coalescing, gpu.l1.sector_bytes)
    return Program(path, function, graph, rows, loops, dominators, live_in(function, graph), hints, rule)


def _parameters(function: Function, launch: Launch) -> dict[str, bytes | int]:
    """By parameter: a scalar's bytes, or the made-up address of an array."""
    values: dict[str, bytes | int] = {}
    for number, (parameter, argument) in enumerate(zip(function.parameters, launch.arguments, strict=True)):
        if isinstance(argument, ScalarArgument):
            values[parameter.name] = argument.data
        elif isinstance(argument, ArrayArgument):
            values[parameter.name] = array_address(number)
    return values


def _check_hints(hints: StaticHints, tally: Tally, function: Function) -> None:
    """Raises UsageError for a hint at a line that is not a memory instruction with an unknown address."""
    for option, lines in (("coalesced", hints.coalesced), ("uncoalesced", hints.uncoalesced)):
        for line in sorted(lines - {ALL} - tally.hinted):
            what = f"no memory instruction of {function.name} with an unknown address is in PTX line {line}"
            raise UsageError(what, place=option, remedy="leave it out")
