"""A block alone on its SM, whose warps wait for each other, for copies and for products: the path of its slowest population.

Warps that bring data and warps that compute with them run at one pace: a producer waits until a buffer is empty, a consumer until
it is full. Such waits are on mbarriers. A phase of one is over when all its arrivals have come, and all its bytes. The trace says
what each instruction does there, so the warps of a block are walked together, in the order of time. They share the units of the SM
and of their schedulers, and its issue slots. The unit for bulk copies makes them one after the other, and each is done when its
last line has come. The load-store unit does accesses in their order, and at most `sm.access_queue` of them wait: a warp with one
more does not issue it. Where each warp copies for itself (LDGSTS), the copies of later tiles are on their way while it computes, so
units that depend on nothing work at the same time within one block: such blocks are walked too, with their barriers.

The blocks of a cluster, each on an SM of its own, are walked together, since they arrive on each other's mbarriers and copy to each
other. When no warp can go on, the phase that was waited for first is over: what ends it is not in the trace, which names one
place and one number of arrivals for all lanes of a warp. A barrier for a part of a block is like an mbarrier: its phase is over
when so many threads have arrived as it counts, of those that wait there and of those that only arrive (`bar.arrive`). Traces of
other tools do not tell such barriers apart: there they open when no warp can go on.
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
from warpsight.intervals.demands import BARRIERS, LOAD_STORE, StepTimes, step_times
from warpsight.intervals.interval_profile import Floats
from warpsight.traces.marks import marks
from warpsight.traces.schema import BARRIER_RECORD, NO_OBJECT, KernelTrace

Bytes = npt.NDArray[np.uint8]

# What an instruction does at a barrier. A product is done when a commit behind it arrives, and a fence waits for accesses.
_NOTHING, _ARRIVES, _WAITS, _COPIES, _BLOCK, _PRODUCT, _COMMITS, _FENCE, _MEETS = range(9)
_RUNS, _WAITS_FOR_PHASE, _AT_BARRIER, _DONE, _IN_PART = range(5)  # in part: at a barrier for a part of its block
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class BlocksAlone:
    """`cycles` of a block alone, the mean over the blocks; `warps` float64 [paths], when the warps of each path end, likewise.

    `waits` of the first warp on each path. `critical` is the path whose warps wait the least for other warps, of those that last as
    long as the block: the others run at its pace; -1 where no warp waits on an mbarrier. `unanswered` float64 [paths]: cycles from
    the end of a warp until the memory system has answered its accesses; None where blocks were walked as a whole.
    """

    cycles: float
    warps: Floats
    waits: dict[int, Waits]
    critical: int = -1
    unanswered: Floats | None = None


def overlap_in_blocks(trace: KernelTrace) -> bool:
    """Whether warps wait on mbarriers, or at barriers for a part of a block, for what other warps or bulk copies do, or copy to
    shared memory asynchronously.
    """
    found = marks(trace.instructions)
    return bool((found.waits_at_barrier | found.waits_for_part | found.async_copy).any())


def blocks_alone(trace: KernelTrace, walked: Steps, latency: Floats, port_cycles: Floats, gpu: GpuSpec) -> BlocksAlone:
    """Walk one cluster for each combination of paths that the blocks of clusters have, or one block where there are no clusters.

    `latency` and `port_cycles` as for `step_times`.
    """
    times = step_times(trace, walked, latency, port_cycles, gpu)
    codes = _codes(trace, walked)
    ends, weights = np.zeros(len(trace.paths)), np.zeros(len(trace.paths))
    longest, blocks, waits = 0.0, 0, dict[int, Waits]()
    for streams, count in _kinds_of_clusters(trace):
        end, found = _walk_one(trace, walked, times, gpu, codes, streams)
        np.add.at(ends, streams.paths, count * end)
        np.add.at(weights, streams.paths, count)
        longest += count * float(end.reshape(-1, trace.header.warps_per_block).max(axis=1).sum())
        blocks += count * trace.header.cluster_blocks
        for warp, path in enumerate(streams.paths.tolist()):
            waits.setdefault(path, found[warp])
    warps = ends / np.maximum(weights, 1)
    if not marks(trace.instructions).waits_at_barrier.any():
        return BlocksAlone(longest / blocks, warps, {})
    critical = min(waits, key=lambda path: (warps[path] < _AS_LONG * warps.max(), _for_warps(trace, waits[path]), -warps[path]))
    return BlocksAlone(longest / blocks, warps, waits, critical)


_AS_LONG = 0.9


def _for_warps(trace: KernelTrace, waits: Waits) -> int:
    """Ticks that a warp has waited for other warps, not for copies."""
    ticks, causes = waits
    bulk = np.append(marks(trace.instructions).bulk, False)  # -1: nothing
    return int(ticks[~bulk[causes]].sum())


class _Streams(NamedTuple):
    """The warps of the blocks of a cluster, by rank: their `paths`, and where the events of each begin in `events`."""

    paths: Longs
    first: Longs
    events: Bytes


def _kinds_of_clusters(trace: KernelTrace) -> list[tuple[_Streams, int]]:
    """The first cluster with each combination of paths, and how many clusters have it."""
    header = trace.header
    size = header.cluster_blocks
    rows = np.concatenate([plain(chunk.path, np.int32) for chunk in trace.chunks]).reshape(-1, header.warps_per_block)
    members = np.asarray(header.block_at(np.arange(len(rows)))).reshape(-1, size)
    _, chosen, counts = np.unique(rows[members].reshape(len(members), -1), axis=0, return_index=True, return_counts=True)
    wanted = {int(block): np.zeros(0, np.uint8) for block in members[chosen].flat}
    starts = dict[int, Longs]()
    for chunk in trace.chunks:
        before = chunk.first_warp // header.warps_per_block
        for block in range(before, before + len(chunk.path) // header.warps_per_block):
            if block in wanted:
                first = (block - before) * header.warps_per_block
                offsets = chunk.event_offset[first : first + header.warps_per_block + 1].astype(np.int64)
                wanted[block], starts[block] = np.array(chunk.events[offsets[0] : offsets[-1]], np.uint8), offsets[:-1] - offsets[0]
    kinds = []
    for place in np.argsort(chosen).tolist():
        blocks = members[chosen[place]].tolist()
        begins = np.cumsum([0, *(len(wanted[block]) for block in blocks[:-1])]).tolist()
        places = np.concatenate([starts[block] + begin for block, begin in zip(blocks, begins, strict=True)])
        events = np.concatenate([wanted[block] for block in blocks])
        kinds.append((_Streams(rows[blocks].ravel().astype(np.int64), places, events), int(counts[place])))
    return kinds


def _codes(trace: KernelTrace, walked: Steps) -> tuple[Longs, Longs]:
    """Of each step what it does at a barrier, and the bytes of its event, both at the last step of an instruction, else 0."""
    kind = np.array([
        _WAITS if i.waits_at_barrier else _MEETS if i.waits_for_part else _COPIES if i.at_barrier and i.is_bulk
        else _PRODUCT if i.uses_tensor_memory else _COMMITS if i.commits_products
        else _ARRIVES if i.at_barrier and not i.polls_mbarrier else _BLOCK if i.is_block_barrier
        else _FENCE if i.is_fence else _NOTHING
        for i in trace.instructions
    ], dtype=np.int64)  # fmt: skip
    events = np.array([i.event_bytes for i in trace.instructions], dtype=np.int64)
    return np.where(walked.ends, kind[walked.pc], _NOTHING), np.where(walked.ends, events[walked.pc], 0)


def _walk_one(
    trace: KernelTrace, walked: Steps, times: StepTimes, gpu: GpuSpec, codes: tuple[Longs, Longs], streams: _Streams
) -> tuple[Floats, list[Waits]]:
    """Cycles until each warp of a cluster's blocks ends, and the waits of each."""
    paths, table = streams.paths, trace.paths
    runs = np.stack([table.offset[paths], table.offset[paths + 1]], axis=1).astype(np.int64)
    tests = np.append(codes[0] == _WAITS, False).astype(np.int64)
    in_block = np.add.reduceat(tests, walked.start[:-1]) * (np.diff(walked.start) > 0)
    counts = np.array([int((in_block[table.block[a:b]] * table.repeat[a:b]).sum()) for a, b in runs.tolist()], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    code = _Code(
        plain(table.block, np.int32), plain(table.repeat, np.int32), walked.start, walked.sources, walked.destination, walked.kind,
        walked.pc, *codes, walked.groups, streams.events,
    )  # fmt: skip
    count = len(paths)
    zero, none = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    warps = _Warps(
        plain(runs, np.int64), zero, zero.copy(), none, runs[:, 0].copy(), zero.copy(), none.copy(),
        streams.first.copy(), offset[:-1].copy(), zero.copy(),
        np.zeros((count, walked.registers + 2), dtype=np.int64), zero.copy(), none.copy(), zero.copy(),
    )  # fmt: skip
    units = int(max(times.unit.max(initial=0), times.whole.max(initial=0))) + 1
    blocks = trace.header.cluster_blocks
    phases = np.zeros((blocks * _OBJECTS, _COLUMNS), dtype=np.int64)
    phases[:, [_PENDING, _CAUSE, _WHY]] = -1
    schedulers, arrival = gpu.sm.schedulers, gpu.latency_cycles["int"]
    away = max(arrival, gpu.sm.cluster_latency_cycles // 2)  # half of a round trip
    cluster = _Cluster(
        np.zeros((blocks * schedulers, units), dtype=np.int64), np.zeros(blocks * schedulers, dtype=np.int64), phases,
        np.zeros((blocks, gpu.sm.access_queue), dtype=np.int64), np.zeros(blocks, dtype=np.int64),
        trace.header.warps_per_block, schedulers, TICKS // gpu.sm.issue_width, TICKS * arrival, TICKS * away,
    )  # fmt: skip
    waits, causes = np.zeros(offset[-1], dtype=np.int64), np.full(offset[-1], -1, dtype=np.int32)
    _walk_cluster(code, times, walked.shared, warps, cluster, waits, causes)
    return warps.cycle / TICKS, [(waits[a:b], causes[a:b]) for a, b in pairwise(offset.tolist())]


# -- The compiled walk. An mbarrier is a row of `phases`, of which each block has `_OBJECTS`.

_OBJECTS = NO_OBJECT + 1

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
def _come(row: Longs, events: Bytes, record: int, time: int, pc: int, does: int) -> bool:
    """An arrival, or the end of a copy, at `time`, as `does` says. Returns whether the phase is over."""
    amount, data, expected = _number(events, record + 2, 2), _number(events, record + 4, 4), _number(events, record + 8, 2)
    data -= (data >> 31) << 32  # is signed
    if does != _COPIES and row[_PENDING] < 0 and expected > 0:  # what only brings bytes does not say how many arrivals
        row[_PENDING] = expected
    row[_PENDING] -= amount if does != _COPIES else 0
    row[_DATA] += data
    if time >= row[_LATEST]:
        row[_LATEST], row[_CAUSE] = time, pc
    if row[_PENDING] != 0 or row[_DATA] != 0:
        return False
    _end(row)
    return True


@inlined
def _end(row: Longs) -> None:
    """The phase of an mbarrier is over; the next one begins. Bytes that are still to come, or came too early, are not forgotten."""
    row[_PHASE] ^= 1
    row[_OVER], row[_WHY] = row[_LATEST], row[_CAUSE]
    row[_PENDING], row[_LATEST], row[_CAUSE] = -1, 0, -1


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
    """The warps of the blocks. `runs` [warps, 2]: the entries of their paths. `cycle`: the earliest time of the next step.

    `since` a test has waited, -1: not yet. `run`, `turn`, `step`: the place on the path. `wait`: which of the waits is next. It
    waits for a phase of the mbarrier in row `waits_for`. `ready` [warps, registers]. Its latest product with tensor memory is done
    at `products`, and is instruction `product_pc`; its accesses are done at `accessed`.
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
    accessed: Longs


class _Cluster(NamedTuple):
    """What the warps share: when units are `free` [blocks x schedulers, units] and issue slots, the mbarriers; when the latest
    accesses have `begun` [blocks, queue] in the load-store unit, used in turn, and how many there were; the warps of a block, the
    schedulers of an SM, ticks of an issue slot, and ticks until an arrival is there, of the own block and of another one.
    """

    free: Longs
    issue_free: Longs
    phases: Longs
    begun: Longs
    accesses: Longs
    warps: int
    schedulers: int
    slot: int
    arrival: int
    away: int


@inlined
def _scheduler(cluster: _Cluster, warp: int) -> Any:
    """The number of the warp's scheduler, through all SMs."""
    block = warp // cluster.warps
    return block * cluster.schedulers + (warp - block * cluster.warps) % cluster.schedulers


@inlined
def _first(warps: _Warps) -> int:
    """The warp that runs next in time; -1: none can."""
    found, least = -1, _NEVER
    for warp in range(len(warps.cycle)):
        if warps.status[warp] == _RUNS and warps.cycle[warp] < least:
            found, least = warp, warps.cycle[warp]
    return found


@inlined
def _go_on(warps: _Warps, cluster: _Cluster) -> bool:
    """No warp can run: open barriers for a part of a block, else end the phase that was waited for first. False if none is left."""
    found = -1
    for warp in range(len(warps.status)):
        if warps.status[warp] == _AT_BARRIER:
            _open(warps, cluster, warp // cluster.warps)
            return True
        waits = warps.status[warp] == _WAITS_FOR_PHASE or warps.status[warp] == _IN_PART
        if waits and (found < 0 or warps.since[warp] < warps.since[found]):
            found = warp
    if found >= 0:
        _end(cluster.phases[warps.waits_for[found]])
        _wake(warps, cluster, warps.waits_for[found])
    return found >= 0


@inlined
def _wake(warps: _Warps, cluster: _Cluster, row: int) -> None:
    """A phase of the mbarrier is over: what waits for it goes on."""
    for warp in range(len(warps.status)):
        if warps.waits_for[warp] != row:
            continue
        if warps.status[warp] == _IN_PART:
            warps.cycle[warp], warps.since[warp] = max(warps.cycle[warp], cluster.phases[row, _OVER]), -1
            warps.status[warp] = _RUNS
        elif warps.status[warp] == _WAITS_FOR_PHASE:
            warps.status[warp] = _RUNS


@inlined
def _open(warps: _Warps, cluster: _Cluster, block: int) -> None:
    """Let the warps at the barrier of a block go on, with the last of them."""
    latest = np.int64(0)
    for warp in range(block * cluster.warps, (block + 1) * cluster.warps):
        latest = max(latest, warps.cycle[warp] if warps.status[warp] == _AT_BARRIER else np.int64(0))
    for warp in range(block * cluster.warps, (block + 1) * cluster.warps):
        if warps.status[warp] == _AT_BARRIER:
            warps.status[warp], warps.cycle[warp] = _RUNS, latest


@inlined
def _open_if_all_are_there(warps: _Warps, cluster: _Cluster, block: int) -> None:
    status = warps.status[block * cluster.warps : (block + 1) * cluster.warps]
    if not ((status == _RUNS) | (status == _WAITS_FOR_PHASE) | (status == _IN_PART)).any():
        _open(warps, cluster, block)


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
def _waits_in_queue(times: StepTimes, step: int) -> bool:
    """Whether it is an access in the queue of the load-store unit; copies to shared memory have one of their own."""
    return bool(times.unit[step] == LOAD_STORE and times.queued[step] and times.busy[step] > 0)


@inlined
def _earliest(code: _Code, times: StepTimes, warps: _Warps, cluster: _Cluster, warp: int, place: int) -> Any:
    """When the warp's step can be, given its operands, its issue slot, and its unit."""
    step, ready = warps.step[warp], warps.ready[warp]
    issue = max(warps.cycle[warp], ready[code.sources[step, 0]], ready[code.sources[step, 1]], ready[code.sources[step, 2]])
    if times.advance[step] > 0:
        issue = max(issue, cluster.issue_free[_scheduler(cluster, warp)])
    if _waits_in_queue(times, step):  # the access that is as far ahead as the queue is long has left it
        block = warp // cluster.warps
        issue = max(issue, cluster.begun[block, cluster.accesses[block] % cluster.begun.shape[1]])
    if code.does[step] == _FENCE:
        issue = max(issue, warps.accessed[warp])
    if not times.queued[step]:
        issue = max(issue, cluster.free[place, times.unit[step]], cluster.free[place, times.whole[step]])
    return issue


@inlined
def _passes(code: _Code, warps: _Warps, cluster: _Cluster, warp: int, record: int, waits: Longs, causes: Ints) -> bool:
    """Whether the phase is over that the warp tests now. If not, the warp waits; if so, the wait is noted."""
    number, now = _number(code.events, record, 2), warps.cycle[warp]
    row = warp // cluster.warps * _OBJECTS + number
    phase = cluster.phases[row]
    if warps.since[warp] < 0:
        warps.since[warp] = now
    if number != NO_OBJECT:
        if phase[_PHASE] == _number(code.events, record + 2, 2):
            warps.status[warp], warps.waits_for[warp] = _WAITS_FOR_PHASE, row
            return False
        if phase[_OVER] > now:
            warps.cycle[warp] = phase[_OVER]
            return False
    turn = warps.wait[warp]
    waits[turn], causes[turn] = now - warps.since[warp], phase[_WHY]
    warps.since[warp], warps.wait[warp] = -1, turn + 1
    return True


@inlined
def _take(code: _Code, times: StepTimes, shared: bool, warps: _Warps, cluster: _Cluster, warp: int, place: int, idle: bool) -> Any:
    """The warp's step is now; `idle`: it is a copy of nothing. Returns when its unit begins it."""
    step, issue = warps.step[warp], warps.cycle[warp]
    unit, whole = times.unit[step], times.whole[step]
    begun = max(issue, cluster.free[place, unit], cluster.free[place, whole])
    if not idle:
        cluster.free[place, unit] = begun + times.busy[step]
        cluster.free[place, whole] = begun + times.held[step]
    if _waits_in_queue(times, step):
        number = warp // cluster.warps
        cluster.begun[number, cluster.accesses[number] % cluster.begun.shape[1]] = begun
        cluster.accesses[number] += 1
        warps.accessed[warp] = max(warps.accessed[warp], begun + max(times.busy[step], times.result[step]))
    done = (issue if code.kind[step] == ISSUE else begun) + times.after[step]
    arrives(warps.ready[warp], code.destination[step], done, shared, code.groups)
    warps.event[warp] += code.event_bytes[step]
    warps.step[warp] += 1
    warps.cycle[warp] = issue + times.advance[step]
    if times.advance[step] > 0:
        cluster.issue_free[_scheduler(cluster, warp)] = issue + cluster.slot
    return begun


@inlined
def _signal(code: _Code, warps: _Warps, cluster: _Cluster, warp: int, record: int, time: int, pc: Any, does: int) -> None:
    """An arrival that is sent, or a copy that ends, at `time`: at an mbarrier of the warp's block, or at those of others."""
    number, reached, own = _number(code.events, record, 2), _number(code.events, record + 10, 2), warp // cluster.warps
    if number == NO_OBJECT:
        return
    for rank in range(len(warps.cycle) // cluster.warps):
        if (reached >> rank & 1) == 0 and (reached != 0 or rank != own):
            continue
        here = time if does == _COPIES else time + (cluster.arrival if rank == own else cluster.away)
        row = rank * _OBJECTS + number
        if does == _MEETS:
            warps.status[warp], warps.waits_for[warp], warps.since[warp] = _IN_PART, row, time
        if _come(cluster.phases[row], code.events, record, here, pc, does):
            _wake(warps, cluster, row)


@kept_until_changed("intervals/algorithm.py")
def _walk_cluster(
    code: _Code, times: StepTimes, shared: bool, warps: _Warps, cluster: _Cluster, waits: Longs, causes: Ints
) -> None:
    """Walk the warps to their ends. `waits` int64 and `causes` int32: ticks of each wait on an mbarrier, and what it was for."""
    while True:
        warp = _first(warps)
        if warp < 0:
            if not _go_on(warps, cluster):
                return
            continue
        block = warp // cluster.warps
        if not _has_step(code, warps, warp):
            warps.status[warp] = _DONE
            _open_if_all_are_there(warps, cluster, block)
            continue
        step = warps.step[warp]
        does = code.does[step]
        # all tensor cores make a part of a product with tensor memory, in the same time
        of_sm = times.unit[step] <= BARRIERS or does == _PRODUCT
        place = block * cluster.schedulers if of_sm else _scheduler(cluster, warp)
        issue = _earliest(code, times, warps, cluster, warp, place)
        if issue > warps.cycle[warp]:  # others may go first
            warps.cycle[warp] = issue
            continue
        record = warps.event[warp] + code.event_bytes[step] - _RECORD
        if does == _WAITS and not _passes(code, warps, cluster, warp, record, waits, causes):
            continue
        idle = does == _COPIES and _number(code.events, record, 2) == NO_OBJECT
        begun = _take(code, times, shared, warps, cluster, warp, place, idle)
        pc = np.int64(code.pc[step])
        if does == _BLOCK:
            warps.status[warp], warps.cycle[warp] = _AT_BARRIER, max(warps.cycle[warp], begun + times.result[step])
            _open_if_all_are_there(warps, cluster, block)
        elif does in (_ARRIVES, _MEETS):
            timed = times.unit[step] == BARRIERS  # the last arrival opens a barrier as late as that of a whole block
            sent = max(issue, begun + times.result[step] - cluster.arrival) if timed else issue
            _signal(code, warps, cluster, warp, record, sent, pc, does)
        elif does == _COPIES:
            _signal(code, warps, cluster, warp, record, begun + times.result[step], pc, does)
        elif does == _PRODUCT:
            warps.products[warp], warps.product_pc[warp] = begun + times.result[step], pc
        elif does == _COMMITS:
            sent = max(issue, warps.products[warp] - cluster.arrival)
            pc = warps.product_pc[warp] if sent > issue else pc
            _signal(code, warps, cluster, warp, record, sent, pc, does)
