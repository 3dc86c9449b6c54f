"""The input of the reuse-distance model: the accesses of a launch per warp, coalesced, for one cache line size.

Accesses of single threads, in any order between threads, become transactions of warps: each entry is moved once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import compiled_and_kept, inlined
from warpsight.base.errors import UsageError
from warpsight.caches.reuse.state import Stream
from warpsight.caches.reuse.structures import Ints, Longs
from warpsight.traces.events import EventReader
from warpsight.traces.schema import LOAD, SECTOR_BYTES, STORE, WARP_SIZE, KernelTrace

# An entry's key: its turn, then the lane, then the logarithm of its bytes.
_SIZE_BITS, _LANE_BITS = 3, 5
_FEW_THREADS = 1 << 20


@compiled_and_kept
def _by_table(line: Longs, low: int, rank: Ints, dense: Ints) -> int:
    """The rank of each line among the distinct ones into `dense`, by a table for all numbers from `low` on; returns their count."""
    for i in range(len(line)):
        rank[line[i] - low] = 1
    count = np.int32(0)
    for k in range(len(rank)):
        there = rank[k]
        rank[k] = count if there else -1
        count += there
    for i in range(len(line)):
        dense[i] = rank[line[i] - low]
    return count  # type: ignore[return-value]


@compiled_and_kept
def _by_hash(line: Longs, table: Ints, known: Longs, dense: Ints) -> int:
    """Number the distinct lines as they come, into `known` and `dense`; returns their count. `table`: -1, twice as many or more."""
    count = 0
    mask = len(table) - 1
    for i in range(len(line)):
        number = line[i]
        bucket = (number * -7046029254386353131 >> 20) & mask
        while table[bucket] >= 0 and known[table[bucket]] != number:
            bucket = (bucket + 1) & mask
        if table[bucket] < 0:
            table[bucket] = count
            known[count] = number
            count += 1
        dense[i] = table[bucket]
    return count


def numbered(line: Longs) -> tuple[Longs, Ints]:
    """The distinct lines in order, and the rank of each entry's line among them, int32."""
    dense = np.empty(len(line), np.int32)
    if not len(line):
        return np.zeros(0, np.int64), dense
    low, high = int(line.min()), int(line.max())
    if high - low < 8 * len(line) + 1024:
        rank = np.zeros(high - low + 1, np.int32)
        count = _by_table(line, low, rank, dense)
        there = np.flatnonzero(rank >= 0)
        assert len(there) == count
        return there + low, dense
    table = np.full(1 << (2 * len(line)).bit_length(), -1, np.int32)
    known = np.empty(len(line), np.int64)
    known = known[: _by_hash(line, table, known, dense)]
    order = np.argsort(known)
    rank = np.empty(len(known), np.int32)
    rank[order] = np.arange(len(known), dtype=np.int32)
    return known[order], rank[dense]


@compiled_and_kept
def _count(
    thread: Longs, store: Longs, address: Longs, size: Longs, stores: bool, threads: int, place: Longs, per_warp: Longs
) -> int:
    """Count the entries of each warp into `per_warp` [warps]; returns the sum, or -1 - i for an invalid entry i."""
    if not len(thread) == len(store) == len(address) == len(size):
        return -1
    kept = 0
    for i in range(len(thread)):
        bytes_ = size[i]
        if thread[i] < 0 or address[i] < 0 or bytes_ < 1 or bytes_ > 16 or bytes_ & (bytes_ - 1) != 0:
            return -1 - i
        if thread[i] < threads and (stores or store[i] == 0):
            warp = place[thread[i]] >> _LANE_BITS
            if not 0 <= warp < len(per_warp):
                return -1 - i
            per_warp[warp] += 1
            kept += 1
    return kept


@compiled_and_kept
def _deal(
    entries: tuple[Longs, Longs, Longs, Longs], stores: bool, line_bytes: int, place: Longs, free: Longs, key: Longs, line: Longs
) -> int:
    """Put each entry that `_count` counted among those of its warp, with its turn; returns how many cross the end of a line."""
    thread, store, address, size = entries
    turn = np.zeros(len(place), np.int32)
    shift = np.int64(0)
    while np.int64(1) << shift < line_bytes:
        shift += 1
    power = np.int64(1) << shift == line_bytes
    crossing = 0
    for i in range(len(thread)):
        own_thread = thread[i]
        if own_thread >= len(place) or not (stores or store[i] == 0):
            continue
        bytes_, first_byte = size[i], address[i]
        logarithm = (bytes_ > 1) + np.int64(bytes_ > 2) + (bytes_ > 4) + (bytes_ > 8)
        warp, lane = place[own_thread] >> _LANE_BITS, place[own_thread] & (WARP_SIZE - 1)
        to = free[warp]
        free[warp] = to + 1
        number = first_byte >> shift if power else first_byte // line_bytes
        key[to] = np.int64(turn[own_thread]) << (_LANE_BITS + _SIZE_BITS) | lane << _SIZE_BITS | logarithm
        line[to] = number
        turn[own_thread] += 1
        crossing += first_byte - number * line_bytes + bytes_ > line_bytes
    return crossing


@compiled_and_kept
def _in_turn(key: Longs, line: Longs, begin: Longs) -> None:
    """Sort the entries of each warp, `begin[w]` to `begin[w + 1]`, by turn and lane, where they are not."""
    for warp in range(len(begin) - 1):
        first, end = begin[warp], begin[warp + 1]
        last = np.int64(0)
        sorted_ = True
        for i in range(first + 1, end):
            sorted_ = sorted_ and key[i] >> _SIZE_BITS >= key[i - 1] >> _SIZE_BITS
            last = max(last, key[i] >> (_SIZE_BITS + _LANE_BITS))
        if sorted_:
            continue
        # turns are numbered without gaps, so that there are at most as many as entries
        position = np.zeros(last + 2, np.int64)
        for i in range(first, end):
            position[(key[i] >> (_SIZE_BITS + _LANE_BITS)) + 1] += 1
        for k in range(last + 1):
            position[k + 1] += position[k]
        keys, lines = key[first:end].copy(), line[first:end].copy()
        for i in range(end - first):
            turn = keys[i] >> (_SIZE_BITS + _LANE_BITS)
            key[first + position[turn]], line[first + position[turn]] = keys[i], lines[i]
            position[turn] += 1
        # by turn they are sorted, and a turn has at most one entry of each lane: none moves far
        for i in range(first + 1, end):
            k, own, to = key[i], line[i], i
            while to > first and key[to - 1] >> _SIZE_BITS > k >> _SIZE_BITS:
                key[to], line[to] = key[to - 1], line[to - 1]
                to -= 1
            key[to], line[to] = k, own


@inlined
def _group_bits(key: int) -> int:
    """The logarithm of the lanes that an entry is coalesced with: 32, 16 for 8 B, 8 for 16 B."""
    return 5 if key & 7 < 3 else 7 - (key & 7)


@compiled_and_kept
def _merge(
    key: Longs, line: Longs, begin: Longs, per_warp: Longs, offsets: Longs, kept: Longs, group: npt.NDArray[np.uint8]
) -> tuple[int, int]:
    """The lines of each access once for each group of lanes, into `kept`; returns the number of accesses and of transactions.

    `per_warp` [warps + 1], `offsets` [entries + 1] and `group` [entries] as in `state.Stream`. A lane merges with the lanes before
    it in the group of its own size, whatever theirs; the size of the first lane decides how many lanes look up at once.
    """
    last = np.zeros(WARP_SIZE, np.int64)
    accesses, n = 0, 0
    for warp in range(len(begin) - 1):
        per_warp[warp] = accesses
        i, end = begin[warp], begin[warp + 1]
        while i < end:
            turn = key[i] >> (_SIZE_BITS + _LANE_BITS)
            offsets[accesses] = n
            start = n
            least, most = line[i], line[i]
            together, before = _group_bits(key[i]), np.int64(-1)
            while i < end and key[i] >> (_SIZE_BITS + _LANE_BITS) == turn:
                lane, bits = key[i] >> _SIZE_BITS & (WARP_SIZE - 1), _group_bits(key[i])
                own = line[i]
                known = False
                if n > start and least <= own <= most:
                    for k in range(n - 1, start - 1, -1):
                        if kept[k] == own:
                            # the lanes for which the line was kept before are lower
                            known = last[k - start] >> bits == lane >> bits
                            if known:
                                last[k - start] = lane
                            break
                if not known:
                    kept[n] = own
                    last[n - start] = lane
                    group[n] = lane >> together != before
                    before = lane >> together
                    n += 1
                    least, most = min(least, own), max(most, own)
                i += 1
            accesses += 1
    per_warp[len(begin) - 1] = accesses
    offsets[accesses] = n
    return accesses, n


def coalesced(
    entries: tuple[Longs, Longs, Longs, Longs], line_bytes: int, per_block: int, blocks: int, stores: bool
) -> tuple[Stream, Longs, int, int] | int:
    """The stream, the numbers of its lines, the number of entries, and how many of them cross the end of a line.

    `entries`: thread, store, address and size of each, int64. For an invalid entry its number is returned instead.
    """
    warps_per_block = -(-per_block // WARP_SIZE)
    warps = blocks * warps_per_block
    if blocks * per_block <= 4 * len(entries[0]) + _FEW_THREADS:
        numbers = np.arange(blocks * per_block, dtype=np.int64)
    else:
        # few of the threads access memory: what is kept for each must not grow with the largest number
        numbers, ranks = np.unique(entries[0], return_inverse=True)
        entries = (ranks.astype(np.int64), *entries[1:])
        numbers = numbers[numbers < blocks * per_block]
    block, within = np.divmod(numbers, per_block)
    place = (block * warps_per_block + within // WARP_SIZE) << _LANE_BITS | within % WARP_SIZE
    begin = np.zeros(warps + 1, np.int64)
    count = _count(*entries, stores, len(place), place, begin[1:])
    if count < 0:
        return -1 - count
    np.cumsum(begin, out=begin)
    key, line = np.empty(count, np.int64), np.empty(count, np.int64)
    crossing = _deal(entries, stores, line_bytes, place, begin[:-1].copy(), key, line)
    _in_turn(key, line, begin)
    per_warp, offsets = np.empty(warps + 1, np.int64), np.empty(count + 1, np.int64)
    group = np.empty(count, np.uint8)
    accesses, transactions = _merge(key, line, begin, per_warp, offsets, line, group)
    lines, dense = numbered(line[:transactions])
    stream = Stream(per_warp, offsets[: accesses + 1].copy(), np.zeros(accesses, np.int32), dense, group[:transactions].copy())
    return stream, lines, count, crossing


# -- The accesses of a launch.

@dataclass(frozen=True)
class AccessStream:
    """The accesses of `blocks` blocks of `warps_per_block` warps, in order.

    `stream` as in module `state`; `line_number` int64 [lines]: byte address // `line_bytes` of each dense line. `loads` counts the
    accesses of single threads. `notes` are for readers of the results.
    """

    stream: Stream
    line_number: Longs
    line_bytes: int
    blocks: int
    threads_per_block: int
    warps_per_block: int
    loads: int
    pcs: int
    notes: tuple[str, ...] = ()

    @property
    def transactions(self) -> int:
        """Accesses after coalescing."""
        return len(self.stream.line)


@compiled_and_kept
def _first_of_its_line(access: Longs, line: Longs) -> npt.NDArray[np.bool_]:
    """The entries whose line no earlier entry of the same access has. The entries of an access stand together."""
    first = np.ones(len(line), np.bool_)
    begin = 0
    for i in range(len(line)):
        if access[i] != access[begin]:
            begin = i
        for k in range(begin, i):
            if line[k] == line[i]:
                first[i] = False
                break
    return first


def packed(warps: int, warp: Longs, access: Longs, line: Longs, pc: Longs) -> tuple[Stream, Longs]:
    """The stream and its line numbers, from the lines of each access, which merge; an access looks up all its lines at once.

    Of each entry, in the order (warp, access): `warp`, `access`, a number that grows with each access, `line` and `pc`.
    """
    kept = np.flatnonzero(_first_of_its_line(access, line))
    starts = np.ones(len(kept), np.bool_)
    starts[1:] = np.diff(access[kept]) != 0
    begin = np.flatnonzero(starts)
    offsets = np.append(begin, len(kept)).astype(np.int64)
    per_warp = np.searchsorted(warp[kept][begin], np.arange(warps + 1)).astype(np.int64)
    numbers, dense = numbered(line[kept])
    return Stream(per_warp, offsets, pc[kept][begin].astype(np.int32), dense, starts.astype(np.uint8)), numbers


def bounded_blocks(blocks: int, threads_per_block: int, most_threads: int | None) -> int:
    """The whole blocks within a bound on threads, at least one."""
    if most_threads is None:
        return blocks
    if most_threads < threads_per_block:
        what = f"a block of {threads_per_block:,} threads exceeds {most_threads:,} threads"
        raise UsageError(what, place="max_threads", remedy=f"give {threads_per_block:,} or more")
    return min(blocks, most_threads // threads_per_block)


def of_trace(trace: KernelTrace, line_bytes: int, *, stores: bool = False, most_threads: int | None = None) -> AccessStream:
    """The loads of `trace` in global, local and generic space (with `stores`, also the stores), one line request each.

    Atomics bypass the L1, and so do some asynchronous copies. Accesses of single threads: the lanes active where the basic block
    begins; a guard may leave fewer.
    Raises UsageError for a line that is not a multiple of 32 B, or a bound below one block.
    """
    if line_bytes < SECTOR_BYTES or line_bytes % SECTOR_BYTES:
        what = f"lines of {line_bytes} B do not hold whole sectors of {SECTOR_BYTES} B, as a trace records them"
        raise UsageError(what, place="l1.line", remedy=f"give a multiple of {SECTOR_BYTES} B")
    header = trace.header
    blocks = bounded_blocks(header.recorded_blocks, header.threads_per_block, most_threads)
    warps = blocks * header.warps_per_block
    kinds = (LOAD, STORE) if stores else (LOAD,)
    counted = np.array([i.has_sectors and i.access in kinds and not i.bypasses_l1 for i in trace.instructions], np.bool_)
    reader, loads, number = EventReader(trace), 0, 0
    parts: list[tuple[Longs, Longs, Longs, Longs]] = []
    for chunk in trace.chunks:
        if chunk.first_warp >= warps:
            break
        events = reader.read(chunk)
        keep = np.flatnonzero(counted[events.pc] & (events.sectors > 0) & (events.warp + chunk.first_warp < warps))
        count = events.sectors[keep]
        loads += int(events.lanes[keep].sum())
        each = np.repeat(np.arange(len(keep)), count)
        sector = events.first[keep][each] + np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        line = np.asarray(chunk.sectors)[sector].astype(np.int64) // (line_bytes // SECTOR_BYTES)
        parts.append((events.warp[keep][each] + chunk.first_warp, each + number, line, events.pc[keep][each]))
        number += len(keep)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0, np.int64)] * 4
    stream, numbers = packed(warps, *columns)
    notes = () if blocks == header.recorded_blocks else (f"the first {blocks:,} of {header.recorded_blocks:,} blocks",)
    return AccessStream(
        stream, numbers, line_bytes, blocks, header.threads_per_block, header.warps_per_block, loads, len(trace.instructions), notes
    )
