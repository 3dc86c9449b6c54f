"""What the L2 holds between launches: the lines that a launch leaves, also without simulating it, and those that a copy touches.

`L2Lines` are the rows of `state.State.l2_lines`, [slice, set, way], of each set the most recently used first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.addressing.mapping import line_in_slice, set_index, slice_of_line
from warpsight.base.compiled import compiled, compiled_and_kept, kept_until_changed, reference_to
from warpsight.base.diskcache import content_key
from warpsight.base.records import Address, Memory, dtype_of
from warpsight.base.room import drop_pages
from warpsight.caches.exact.geometry import machine_of, most_dirty, sector_groups
from warpsight.caches.exact.l2 import ROW_PLACES, l2_read, l2_write
from warpsight.caches.exact.lru import packed, unpacked
from warpsight.caches.exact.state import AT_ONCE, NO_LINE, Line, State
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.events import sectors_of_event
from warpsight.traces.schema import ATOMIC, LOAD, SECTOR_BYTES, STORE, KernelTrace

L2Lines = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_READ, _WRITTEN, _COVERED = 1, 2, 4  # through an L1; in part or not; readable afterwards, also if nobody reads it
_MARKS = {LOAD: _READ, STORE: _WRITTEN, ATOMIC: _WRITTEN | _COVERED}
_MOST_SECTORS = 1 << 26  # between the lowest and the highest address, 2 GiB apart
_MOST_KEPT = 1 << 22  # sectors of a footprint that is kept with its trace
_NOBODY = 0xFFFFFFFF  # the tag of a line that no access finds, less its place in the set
_TIMES = 2  # a copy of more than the L2 leaves its end there; of so many times the L2, each set has seen enough

_state_at = reference_to(State)


def empty_l2(gpu: GpuSpec) -> L2Lines:
    """An L2 without lines."""
    return np.zeros(gpu.l2.slices * gpu.l2.sets * gpu.l2.ways, dtype_of(Line))


def l2_key(lines: L2Lines) -> str:
    """A hash of what the L2 holds, in which order of use."""
    there = (lines["valid"] != 0) | (lines["dirty"] != 0)
    return content_key(*(np.where(there, lines[name], 0).tobytes() for name in ("tag", "valid", "dirty")))


def put_l2(memory: Memory, ways: int, lines: L2Lines | None) -> None:
    """Let the L2 of a simulation's `memory` hold `lines`; with None nothing."""
    rows = len(memory["l2_lines"]) // ways
    memory["l2_tags"][:] = NO_LINE
    memory["l2_order"].reshape(rows, -1)[:] = packed(ways)
    if lines is None:
        return
    there = np.flatnonzero((lines["valid"] != 0) | (lines["dirty"] != 0))
    held = lines[there]
    memory["l2_lines"][there], memory["l2_tags"][there] = held, held["tag"]
    memory["l2_dirty"][:] = np.bincount(there[held["dirty"] != 0] // ways, minlength=rows)


def lines_of(memory: Memory, ways: int) -> L2Lines:
    """What the L2 of a simulation's `memory` holds at its end, at rest."""
    order = unpacked(memory["l2_order"], ways)
    first = ways * np.arange(len(order))[:, np.newaxis]
    return at_rest(memory["l2_lines"][(order + first).reshape(-1)])


def at_rest(lines: L2Lines) -> L2Lines:
    """What the next launch finds of the `lines` that a launch or a copy leaves: data that is there, and no copies in the other
    partition, which is assumed (a launch that reads what the one before has read still waits for the other partition).
    """
    lines["ready"] = 0
    return lines


# -- The lines that a launch leaves in an empty L2, if it evicts none.

@kept_until_changed("traces/events.py")
def _mark(
    paths: tuple[Longs, Ints, npt.NDArray[np.uint8], Ints], warps: tuple[Longs, Longs, Longs],
    memory: tuple[Longs, Longs, Longs, Longs, Longs], events: npt.NDArray[np.uint8], sectors: npt.NDArray[np.uint32],
    low: int, flags: npt.NDArray[np.uint8],
) -> bool:
    """Mark the sectors of a chunk in `flags`, from sector `low` on; False if its streams do not fit the warps' paths.

    `paths`: offset, basic block, active lanes and repetitions; `warps`: path, first event and first sector; `memory`: where the
    memory instructions of each basic block begin in the list of all, and of each its bytes of an event, its mark (0: no sectors),
    the bytes that a lane accesses and those of its event that count sectors.
    """
    offset, block, lanes, repeat = paths
    path, first_event, first_sector = warps
    start, width, mark, size, counts = memory
    for warp in range(len(path)):
        event, sector = first_event[warp], first_sector[warp]
        for entry in range(offset[path[warp]], offset[path[warp] + 1]):
            for _ in range(repeat[entry]):
                for number in range(start[block[entry]], start[block[entry] + 1]):
                    if event + width[number] > first_event[warp + 1]:
                        return False
                    if mark[number] != 0:
                        count = sectors_of_event(events, event, counts[number])
                        end, bits = sector + count, mark[number]
                        if end > first_sector[warp + 1]:
                            return False
                        if bits == _WRITTEN and lanes[entry] * size[number] >= SECTOR_BYTES * count:
                            bits |= _COVERED
                        while sector < end:
                            flags[np.int64(sectors[sector]) - low] |= bits
                            sector += 1
                    event += width[number]
        if event != first_event[warp + 1] or sector != first_sector[warp + 1]:
            return False
    return True


def _memory_instructions(trace: KernelTrace) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """The argument `memory` of `_mark`."""
    chosen = [i for i in trace.instructions if i.event_bytes]
    pcs = np.array([i.pc for i in chosen], np.int64)
    marks = [_MARKS[i.access] if i.has_sectors else 0 for i in chosen]
    start = np.searchsorted(pcs, np.asarray(trace.block_start)).astype(np.int64)
    sizes = [np.array([getattr(i, name) for i in chosen], np.int64) for name in ("event_bytes", "access_bytes", "sector_bytes")]
    return start, sizes[0], np.array(marks, np.int64), sizes[1], sizes[2]


def _footprint(trace: KernelTrace, aligned: int) -> tuple[int, npt.NDArray[np.uint8]] | None:
    """The sectors that the launch reads and writes: the number of the first, a multiple of `aligned`, and marks from it on.

    None where they lie too far apart, or the trace contradicts itself.
    """
    key = "footprint", aligned
    if key not in trace.kept:
        found = _marked(trace, aligned)
        if found is not None and len(found[1]) > _MOST_KEPT:
            return found
        trace.kept[key] = found
    kept: tuple[int, npt.NDArray[np.uint8]] | None = trace.kept[key]
    return kept


def _marked(trace: KernelTrace, aligned: int) -> tuple[int, npt.NDArray[np.uint8]] | None:
    memory, table = _memory_instructions(trace), trace.paths
    paths = np.asarray(table.offset, np.int64), table.block, table.lanes, table.repeat
    low, flags = 0, np.zeros(0, np.uint8)
    for chunk in trace.chunks:
        if len(chunk.sectors):
            least, most = int(chunk.sectors.min()) // aligned * aligned, int(chunk.sectors.max()) // aligned * aligned + aligned
            if len(flags):
                least, most = min(low, least), max(low + len(flags), most)
            if most - least > _MOST_SECTORS:
                return None
            if (least, most) != (low, low + len(flags)):
                grown = np.zeros(most - least, np.uint8)
                grown[low - least : low - least + len(flags)] = flags
                low, flags = least, grown
        warps = (chunk.path.astype(np.int64), np.asarray(chunk.event_offset), np.asarray(chunk.sector_offset))
        if not _mark(paths, warps, memory, chunk.events, chunk.sectors, low, flags):
            return None
        drop_pages(*paths)
    return low, flags


@compiled_and_kept
def _places(lines: Longs, slicing: tuple[int, int, int], cache: tuple[int, int, int], used: Longs, places: Longs) -> bool:
    """The way that each of the `lines` gets, into `places`; False if a set is full. `used`: ways in use of each set.

    `slicing`: lines per piece, slices and the rule of slices; `cache`: sets, ways and the rule of sets.
    """
    per_piece, slices, slice_rule = slicing
    sets, ways, index_rule = cache
    for number in range(len(lines)):
        part = slice_of_line(lines[number], per_piece, slices, slice_rule)
        row = part * sets + set_index(line_in_slice(lines[number], per_piece, slices), sets, index_rule)
        if used[row] == ways:
            return False
        places[number] = row * ways + used[row]
        used[row] += 1
    return True


def _grown(there: npt.NDArray[np.bool_], sectors: int) -> npt.NDArray[np.bool_]:
    """All sectors of the groups of so many of which one is `there`."""
    return np.repeat(there.reshape(-1, sectors).any(axis=1), sectors) if sectors > 1 else there


def lines_left(trace: KernelTrace, gpu: GpuSpec) -> L2Lines | None:
    """What the launch leaves in an empty L2, if nothing is evicted; None where something may be: then only a simulation knows.

    Every sector that is touched passes through the L2 once: L1s are empty at the start, and write through. Only the order of use
    is not that of a simulation. It decides nothing as long as no line is evicted, and none written back early.
    """
    l1, l2 = gpu.l1, gpu.l2
    per_line = l2.line_bytes // SECTOR_BYTES
    found = _footprint(trace, math.lcm(l1.line_bytes, l2.line_bytes) // SECTOR_BYTES)
    if found is None:
        return None
    low, flags = found
    marks_bytes, unit = l2.partial_writes == "mask", l2.sector_bytes // SECTOR_BYTES
    if marks_bytes and unit > 1:
        return None  # a store may cover a part of a sector
    written = (flags & _WRITTEN) != 0
    there = _grown((flags & _READ) != 0, l1.sector_bytes // SECTOR_BYTES) | ((flags & _COVERED) != 0)
    bits = 1 << np.arange(per_line)
    valid = _grown(there if marks_bytes else there | written, unit).reshape(-1, per_line) @ bits
    dirty = _grown(written, unit).reshape(-1, per_line) @ bits
    touched = np.flatnonzero(valid | dirty)
    left = empty_l2(gpu)
    if len(touched) > len(left):
        return None
    numbers, places = touched + low // per_line, np.zeros(len(touched), np.int64)
    machine = machine_of(gpu, 1, 1, 1, "round-robin")
    slicing = (int(machine["lines_per_piece"]), int(machine["slices"]), int(machine["slice_rule"]))
    cache = (int(machine["l2"]["sets"]), int(machine["l2"]["ways"]), int(machine["l2"]["index_rule"]))
    if not _places(numbers, slicing, cache, np.zeros(l2.slices * l2.sets, np.int64), places):
        return None
    left["tag"][places], left["valid"][places] = numbers, valid[touched]
    left["dirty"][places] = dirty[touched]
    most = np.bincount(places[dirty[touched] != 0] // l2.ways, minlength=1).max()
    return left if most <= most_dirty(l2) else None


# -- Copies and fills of a program.

@compiled
def _touch(state: State, first: int, end: int, writes: int) -> None:
    """Read or write the sectors from `first` to `end`, line by line."""
    per_line, sector = state.machine.l2.line_sectors, first
    while sector < end:
        line = sector // per_line
        last = min(end, (line + 1) * per_line)
        mask = ((1 << (last - sector)) - 1) << (sector - line * per_line)
        if writes:
            l2_write(state, line, mask, True, 0, 0)
        else:
            l2_read(state, line, mask, 0, 0, 0)
        sector = last


@kept_until_changed("addressing", "caches")
def _touch_all(address: Address, rows: Longs, most: int) -> None:
    """Touch the memory of `rows`; of each row the last `most` sectors."""
    state = _state_at(address)
    for number in range(len(rows)):
        for row in range(rows[number, 3]):
            start = rows[number, 0] + row * rows[number, 1]
            end = (start + rows[number, 2] + SECTOR_BYTES - 1) // SECTOR_BYTES
            _touch(state, max(start // SECTOR_BYTES, end - most), end, rows[number, 4])


def touch(lines: L2Lines, gpu: GpuSpec, rows: Longs) -> L2Lines:
    """The L2 with `lines` after copies and fills, which move whole sectors: `rows` int64 [n, 5] of address, pitch, bytes of a
    row, number of rows, and whether they are written.
    """
    machine = machine_of(gpu, 1, 1, 1, "round-robin")
    slices, ways, sets = int(machine["slices"]), gpu.l2.ways, len(lines) // gpu.l2.ways
    memory = Memory(
        State, counters=1, replies=slices, stores=slices, atomics=slices, channels=int(machine["channels"]),
        open_rows=ROW_PLACES * int(machine["channels"]), l2_lines=len(lines), l2_tags=len(lines) + AT_ONCE, l2_dirty=sets,
        l2_order=sets * int(machine["l2_order_words"]), l2_copies=len(lines) if machine["partitions"] > 1 else 0,
    )
    memory.root["machine"] = machine
    memory.put("l2_groups", sector_groups(gpu.l2))
    put_l2(memory, ways, lines)
    _touch_all(memory.address, np.ascontiguousarray(rows), _TIMES * gpu.l2.size_bytes // SECTOR_BYTES)
    return lines_of(memory, ways)


# -- What blocks leave that are not executed.

def aged(lines: L2Lines, gpu: GpuSpec, wanted: float) -> L2Lines:
    """The L2 with `wanted` lines in it, as far as it has room: beside those that are there such as nobody finds, with as many dirty
    ones among them. They are what blocks between the samples have left.
    """
    grown = lines.copy()
    sets = grown.reshape(-1, gpu.l2.ways)
    there = (sets["valid"] != 0) | (sets["dirty"] != 0)
    missing, free = max(0.0, wanted - float(there.sum())), int((~there).sum())
    if not missing or not free or not there.any():
        return grown
    chance = np.random.default_rng(0)
    added = ~there & (chance.random(sets.shape) < missing / free)
    share = float((sets["dirty"] != 0).sum()) / float(there.sum())
    number = np.cumsum(added, axis=1) * share + chance.random(len(sets))[:, None]  # evenly among those of a set
    dirty = added & (np.floor(number) > np.floor(number - share))
    room = most_dirty(gpu.l2) - (sets["dirty"] != 0).sum(axis=1)
    dirty &= np.cumsum(dirty, axis=1) <= room[:, None]
    whole = (1 << gpu.l2.line_bytes // SECTOR_BYTES) - 1
    sets["valid"][added], sets["dirty"][dirty] = whole, whole
    forget(grown, added.ravel(), gpu)
    return grown


def forget(lines: L2Lines, chosen: npt.NDArray[np.bool_], gpu: GpuSpec) -> None:
    """Let no access find the `chosen` lines."""
    lines["tag"][chosen] = (_NOBODY - np.arange(len(lines)) % gpu.l2.ways)[chosen]
