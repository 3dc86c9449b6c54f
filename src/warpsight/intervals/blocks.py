"""A block alone on an SM, whose warps wait for each other, for copies and for products: the path of its slowest population.

Warps that bring data and warps that compute with them run at one pace: a producer waits until a buffer is empty, a consumer until
it is full. Such waits are on mbarriers. A phase of one is over when all its arrivals have come, and all its bytes. The trace says
what each instruction does there, so the warps of a block are walked together, in the order of time. They share the units of the SM
and of their schedulers, and its issue slots. The unit for bulk copies makes them one after the other, and each is done when its
last line has come. Where each warp copies for itself (LDGSTS), the copies of later tiles are on their way while it computes, so
units that depend on nothing work at the same time within one block: such blocks are walked too, with their barriers.

What other blocks of a cluster send is not known here. They are taken to be as fast as this one: when no warp can go on, the
phases that warps wait for are over when what the block itself has sent to them is there. The trace does not tell barriers for a
part of a block apart: such barriers open in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import inlined, kept_until_changed
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import ISSUE, TICKS, Groups, Indices, Ints, Longs, Steps, Waits, arrives, plain
from warpsight.intervals.demands import BULK_COPIES, StepTimes, step_times
from warpsight.intervals.interval_profile import Floats
from warpsight.traces.schema import BARRIER_RECORD, NO_OBJECT, KernelTrace, TraceChunk

Bytes = npt.NDArray[np.uint8]

# What an instruction does at a barrier. A product is done when a commit behind it arrives.
_NOTHING, _ARRIVES, _WAITS, _COPIES, _BLOCK, _PRODUCT, _COMMITS = range(7)
_RUNS, _WAITS_FOR_PHASE, _AT_BARRIER, _DONE = range(4)
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class BlocksAlone:
    """`cycles` of a block alone, the mean over the blocks; `warps` float64 [paths], when the warps of each path end, likewise.

    `waits` of the first warp on each path. `critical` is the path whose warps wait the least for other warps, of those that last as
    long as the block: the others run at its pace; -1 where no warp waits on an mbarrier.
    """

    cycles: float
    warps: Floats
    waits: dict[int, Waits]
    critical: int = -1


def overlap_in_blocks(trace: KernelTrace) -> bool:
    """Whether warps wait on mbarriers for what other warps, or bulk copies, do, or copy to shared memory asynchronously."""
    return any(instruction.waits_at_barrier or instruction.is_async_copy for instruction in trace.instructions)


def blocks_alone(trace: KernelTrace, walked: Steps, latency: Floats, port_cycles: Floats, gpu: GpuSpec) -> BlocksAlone:
    """Walk one block for each combination of paths that blocks have. `latency` and `port_cycles` as for `step_times`."""
    times = step_times(trace, walked, latency, port_cycles, gpu)
    codes = _codes(trace, walked)
    ends, weights = np.zeros(len(trace.paths)), np.zeros(len(trace.paths))
    longest, blocks, waits = 0.0, 0, dict[int, Waits]()
    for chunk, first, count in _kinds_of_blocks(trace):
        paths = plain(chunk.path[first : first + trace.header.warps_per_block], np.int64)
        end, found = _walk_one(trace, walked, times, gpu, codes, chunk, first)
        np.add.at(ends, paths, count * end)
        np.add.at(weights, paths, count)
        longest, blocks = longest + count * float(end.max()), blocks + count
        for warp, path in enumerate(paths.tolist()):
            waits.setdefault(path, found[warp])
    warps = ends / np.maximum(weights, 1)
    if not any(instruction.waits_at_barrier for instruction in trace.instructions):
        return BlocksAlone(longest / blocks, warps, {})
    critical = min(waits, key=lambda path: (warps[path] < _AS_LONG * warps.max(), _for_warps(trace, waits[path]), -warps[path]))
    return BlocksAlone(longest / blocks, warps, waits, critical)


_AS_LONG = 0.9


def _for_warps(trace: KernelTrace, waits: Waits) -> int:
    """Ticks that a warp has waited for other warps, not for copies."""
    ticks, causes = waits
    bulk = np.array([*(instruction.is_bulk for instruction in trace.instructions), False], dtype=np.bool_)  # -1: nothing
    return int(ticks[~bulk[causes]].sum())


def _kinds_of_blocks(trace: KernelTrace) -> list[tuple[TraceChunk, int, int]]:
    """The first block with each combination of paths, as its chunk and its first warp there, and how many blocks have it."""
    per_block, known = trace.header.warps_per_block, dict[bytes, list[int]]()
    found: list[tuple[TraceChunk, int]] = []
    for chunk in trace.chunks:
        rows = plain(chunk.path, np.int32).reshape(-1, per_block)
        for number, row in enumerate(rows):
            entry = known.setdefault(row.tobytes(), [len(found), 0])
            if not entry[1]:
                found.append((chunk, number * per_block))
            entry[1] += 1
    return [(*found[number], count) for number, count in known.values()]


def _codes(trace: KernelTrace, walked: Steps) -> tuple[Longs, Longs]:
    """Of each step what it does at a barrier, and the bytes of its event, both at the last step of an instruction, else 0."""
    kind = np.array([
        _WAITS if i.waits_at_barrier else _COPIES if i.at_barrier and i.is_bulk
        else _PRODUCT if i.uses_tensor_memory else _COMMITS if i.commits_products
        else _ARRIVES if i.at_barrier and not i.polls_mbarrier else _BLOCK if i.is_block_barrier else _NOTHING
        for i in trace.instructions
    ], dtype=np.int64)  # fmt: skip
    events = np.array([i.event_bytes for i in trace.instructions], dtype=np.int64)
    return np.where(walked.ends, kind[walked.pc], _NOTHING), np.where(walked.ends, events[walked.pc], 0)


def _walk_one(
    trace: KernelTrace, walked: Steps, times: StepTimes, gpu: GpuSpec, codes: tuple[Longs, Longs], chunk: TraceChunk, first: int
) -> tuple[Floats, list[Waits]]:
    """Cycles until each warp of a block ends, and the waits of each."""
    last = first + trace.header.warps_per_block
    paths, table = plain(chunk.path[first:last], np.int64), trace.paths
    runs = np.stack([table.offset[paths], table.offset[paths + 1]], axis=1).astype(np.int64)
    tests = np.append(codes[0] == _WAITS, False).astype(np.int64)
    in_block = np.add.reduceat(tests, walked.start[:-1]) * (np.diff(walked.start) > 0)
    counts = np.array([int((in_block[table.block[a:b]] * table.repeat[a:b]).sum()) for a, b in runs.tolist()], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    code = _Code(
        plain(table.block, np.int32), plain(table.repeat, np.int32), walked.start, walked.sources, walked.destination, walked.kind,
        walked.pc, *codes, walked.groups, plain(chunk.events, np.uint8),
    )  # fmt: skip
    count = len(paths)
    zero, none = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    warps = _Warps(
        plain(runs, np.int64), zero, zero.copy(), none, runs[:, 0].copy(), zero.copy(), none.copy(),
        chunk.event_offset[first:last].astype(np.int64), offset[:-1].copy(), zero.copy(),
        np.zeros((count, walked.registers + 2), dtype=np.int64), zero.copy(), none.copy(),
    )  # fmt: skip
    units = int(max(times.unit.max(initial=0), times.whole.max(initial=0))) + 1
    phases = np.zeros((NO_OBJECT + 1, _COLUMNS), dtype=np.int64)
    phases[:, [_PENDING, _CAUSE, _WHY]] = -1
    schedulers, arrival = gpu.sm.schedulers, TICKS * gpu.latency_cycles["int"]
    slot = TICKS // gpu.sm.issue_width
    block = _Block(np.zeros((schedulers, units), dtype=np.int64), np.zeros(schedulers, dtype=np.int64), phases, slot, arrival)
    waits, causes = np.zeros(offset[-1], dtype=np.int64), np.full(offset[-1], -1, dtype=np.int32)
    _walk_block(code, times, walked.shared, warps, block, waits, causes)
    return warps.cycle / TICKS, [(waits[a:b], causes[a:b]) for a, b in pairwise(offset.tolist())]


# -- The compiled walk. An mbarrier is a row of `phases`.

_PHASE, _PENDING, _DATA, _LATEST, _CAUSE, _OVER, _WHY = range(7)
# Its phase's parity; arrivals still to come, -1 if not known yet; bytes still to come. When the latest arrival or copy of this
# phase is there, and which instruction that is; the same of the phase before.
_COLUMNS = 7
_RECORD = BARRIER_RECORD.itemsize


@inlined
def _number(events: Bytes, place: int, size: int) -> Any:
    """The unsigned number in some bytes of an event, int64."""
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(events[place + k]) << 8 * k
    return value


@inlined
def _come(phases: Longs, events: Bytes, record: int, time: int, pc: int, does: int) -> bool:
    """An arrival, or the end of a copy, at `time`, as `does` says. Returns whether the phase is over."""
    row = phases[_number(events, record, 2)]
    amount, data, expected = _number(events, record + 2, 2), _number(events, record + 4, 4), _number(events, record + 8, 2)
    data -= (data >> 31) << 32  # is signed
    if does != _COPIES and row[_PENDING] < 0:
        row[_PENDING] = expected
    row[_PENDING] -= amount if does != _COPIES else 0
    row[_DATA] += data if does != _COMMITS else 0  # of which it is the mask of a multicast
    if time >= row[_LATEST]:
        row[_LATEST], row[_CAUSE] = time, pc
    if row[_PENDING] != 0 or row[_DATA] != 0:
        return False
    _end(row)
    return True


@inlined
def _end(row: Longs) -> None:
    """The phase of an mbarrier is over; the next one begins."""
    row[_PHASE] ^= 1
    row[_OVER], row[_WHY] = row[_LATEST], row[_CAUSE]
    row[_PENDING], row[_DATA], row[_LATEST], row[_CAUSE] = -1, 0, 0, -1


class _Code(NamedTuple):
    """The paths of the trace, the steps of the kernel as in `Steps`, what they do at barriers, their events' bytes; the events."""

    block: Ints
    repeat: Ints
    start: Longs
    sources: Indices
    destination: Indices
    kind: Ints
    pc: Ints
    does: Longs
    event_bytes: Longs
    groups: Groups
    events: Bytes


class _Warps(NamedTuple):
    """The warps of the block. `runs` [warps, 2]: the entries of their paths. `cycle`: the earliest time of the next step.

    `since` a test has waited, -1: not yet. `run`, `turn`, `step`: the place on the path. `wait`: which of the waits is next. It
    waits for a phase of mbarrier `waits_for`. `ready` [warps, registers]. Its latest product with tensor memory is done at
    `products`, and is instruction `product_pc`.
    """

    runs: Longs
    cycle: Longs
    status: Longs
    since: Longs
    run: Longs
    turn: Longs
    step: Longs
    event: Longs
    wait: Longs
    waits_for: Longs
    ready: Longs
    products: Longs
    product_pc: Longs


class _Block(NamedTuple):
    """What the warps share: when units are `free` [schedulers, units] and issue slots, the mbarriers, ticks of an issue slot, and
    ticks until an arrival is there.
    """

    free: Longs
    issue_free: Longs
    phases: Longs
    slot: int
    arrival: int


@inlined
def _first(warps: _Warps) -> int:
    """The warp that runs next in time; -1: none can."""
    found, least = -1, _NEVER
    for warp in range(len(warps.cycle)):
        if warps.status[warp] == _RUNS and warps.cycle[warp] < least:
            found, least = warp, warps.cycle[warp]
    return found


@inlined
def _go_on(warps: _Warps, phases: Longs) -> bool:
    """No warp can run: open barriers for a part of the block, else end the phases that warps wait for. False if none is left."""
    if (warps.status == _AT_BARRIER).any():
        _open(warps)
        return True
    found = False
    for warp in range(len(warps.status)):
        if warps.status[warp] == _WAITS_FOR_PHASE:
            _end(phases[warps.waits_for[warp]])
            _wake(warps, warps.waits_for[warp])
            found = True
    return found


@inlined
def _wake(warps: _Warps, number: int) -> None:
    """A phase of the mbarrier is over: what waits for it goes on."""
    for warp in range(len(warps.status)):
        if warps.status[warp] == _WAITS_FOR_PHASE and warps.waits_for[warp] == number:
            warps.status[warp] = _RUNS


@inlined
def _open(warps: _Warps) -> None:
    """Let the warps at the barrier of the block go on, with the last of them."""
    latest = np.int64(0)
    for warp in range(len(warps.status)):
        latest = max(latest, warps.cycle[warp] if warps.status[warp] == _AT_BARRIER else np.int64(0))
    for warp in range(len(warps.status)):
        if warps.status[warp] == _AT_BARRIER:
            warps.status[warp], warps.cycle[warp] = _RUNS, latest


@inlined
def _open_if_all_are_there(warps: _Warps) -> None:
    if not ((warps.status == _RUNS) | (warps.status == _WAITS_FOR_PHASE)).any():
        _open(warps)


@inlined
def _has_step(code: _Code, warps: _Warps, warp: int) -> bool:
    """Go to the warp's next step, of the next basic block that has any; False at the end of its path."""
    while warps.run[warp] < warps.runs[warp, 1]:
        run, step = warps.run[warp], warps.step[warp]
        if step >= 0 and step < code.start[code.block[run] + 1]:
            return True
        warps.turn[warp] += 1 if step >= 0 else 0
        if warps.turn[warp] < code.repeat[run]:
            warps.step[warp] = code.start[code.block[run]]
        else:
            warps.run[warp], warps.turn[warp], warps.step[warp] = run + 1, 0, -1
    return False


@inlined
def _earliest(code: _Code, times: StepTimes, warps: _Warps, block: _Block, warp: int, place: int) -> Any:
    """When the warp's step can be, given its operands, its issue slot, and its unit."""
    step, ready = warps.step[warp], warps.ready[warp]
    issue = max(warps.cycle[warp], ready[code.sources[step, 0]], ready[code.sources[step, 1]], ready[code.sources[step, 2]])
    if times.advance[step] > 0:
        issue = max(issue, block.issue_free[warp % len(block.issue_free)])
    if not times.queued[step]:
        issue = max(issue, block.free[place, times.unit[step]], block.free[place, times.whole[step]])
    return issue


@inlined
def _passes(code: _Code, warps: _Warps, phases: Longs, warp: int, record: int, waits: Longs, causes: Ints) -> bool:
    """Whether the phase is over that the warp tests now. If not, the warp waits; if so, the wait is noted."""
    number, now = _number(code.events, record, 2), warps.cycle[warp]
    phase = phases[number]
    if warps.since[warp] < 0:
        warps.since[warp] = now
    if number != NO_OBJECT:
        if phase[_PHASE] == _number(code.events, record + 2, 2):
            warps.status[warp], warps.waits_for[warp] = _WAITS_FOR_PHASE, number
            return False
        if phase[_OVER] > now:
            warps.cycle[warp] = phase[_OVER]
            return False
    turn = warps.wait[warp]
    waits[turn], causes[turn] = now - warps.since[warp], phase[_WHY]
    warps.since[warp], warps.wait[warp] = -1, turn + 1
    return True


@inlined
def _take(code: _Code, times: StepTimes, shared: bool, warps: _Warps, block: _Block, warp: int, place: int, idle: bool) -> Any:
    """The warp's step is now; `idle`: it is a copy of nothing. Returns when its unit begins it."""
    step, issue = warps.step[warp], warps.cycle[warp]
    unit, whole = times.unit[step], times.whole[step]
    begun = max(issue, block.free[place, unit], block.free[place, whole])
    if not idle:
        block.free[place, unit] = begun + times.busy[step]
        block.free[place, whole] = begun + times.held[step]
    done = (issue if code.kind[step] == ISSUE else begun) + times.after[step]
    arrives(warps.ready[warp], code.destination[step], done, shared, code.groups)
    warps.event[warp] += code.event_bytes[step]
    warps.step[warp] += 1
    warps.cycle[warp] = issue + times.advance[step]
    if times.advance[step] > 0:
        block.issue_free[warp % len(block.issue_free)] = issue + block.slot
    return begun


@inlined
def _signal(code: _Code, warps: _Warps, block: _Block, record: int, time: int, pc: Any, does: int) -> None:
    """An arrival or the end of a copy at an mbarrier."""
    number = _number(code.events, record, 2)
    if number != NO_OBJECT and _come(block.phases, code.events, record, time, pc, does):
        _wake(warps, number)


@kept_until_changed("intervals/algorithm.py")
def _walk_block(code: _Code, times: StepTimes, shared: bool, warps: _Warps, block: _Block, waits: Longs, causes: Ints) -> None:
    """Walk the warps to their ends. `waits` int64 and `causes` int32: ticks of each wait on an mbarrier, and what it was for."""
    while True:
        warp = _first(warps)
        if warp < 0:
            if not _go_on(warps, block.phases):
                return
            continue
        if not _has_step(code, warps, warp):
            warps.status[warp] = _DONE
            _open_if_all_are_there(warps)
            continue
        step = warps.step[warp]
        does = code.does[step]
        # all tensor cores make a part of a product with tensor memory, in the same time
        of_sm = times.unit[step] <= BULK_COPIES or does == _PRODUCT
        place = 0 if of_sm else warp % len(block.issue_free)
        issue = _earliest(code, times, warps, block, warp, place)
        if issue > warps.cycle[warp]:  # others may go first
            warps.cycle[warp] = issue
            continue
        record = warps.event[warp] + code.event_bytes[step] - _RECORD
        if does == _WAITS and not _passes(code, warps, block.phases, warp, record, waits, causes):
            continue
        idle = does == _COPIES and _number(code.events, record, 2) == NO_OBJECT
        begun = _take(code, times, shared, warps, block, warp, place, idle)
        if does == _BLOCK:
            warps.status[warp] = _AT_BARRIER
            _open_if_all_are_there(warps)
        elif does == _ARRIVES:
            _signal(code, warps, block, record, issue + block.arrival, code.pc[step], does)
        elif does == _COPIES:
            _signal(code, warps, block, record, begun + times.result[step], code.pc[step], does)
        elif does == _PRODUCT:
            warps.products[warp], warps.product_pc[warp] = begun + times.result[step], code.pc[step]
        elif does == _COMMITS:
            here = issue + block.arrival
            pc = warps.product_pc[warp] if warps.products[warp] > here else np.int64(code.pc[step])
            _signal(code, warps, block, record, max(here, warps.products[warp]), pc, does)
