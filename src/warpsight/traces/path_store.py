"""The numbering of distinct paths, for every producer of a trace, and where they are kept: nearly every warp of a kernel whose
branches follow its data has a path of its own.

Long tables of paths lie in unnamed files, and no step copies all of them: they are read in `pieces`, whose pages are dropped from
memory afterwards.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from warpsight.base import room
from warpsight.base.compiled import jit
from warpsight.base.room import drop_pages, in_file, room_for
from warpsight.traces.schema import PathTable

LANES_SHIFT = 24  # of an entry's first word: a block's number, and from this bit on its active lanes
_BLOCK_MASK = (1 << LANES_SHIFT) - 1


_SIGNATURE = (
    "int64(uint32[:, ::1], int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], "
    "Tuple((int32[::1], uint8[::1], int32[::1])), int64)"
)


@jit(_SIGNATURE, cache=True, nogil=True)
def number_paths(entries, offset, numbers, table, hashes, known_offset, known, known_count):  # type: ignore[no-untyped-def]
    """Give each warp's entry list a path number: that of an equal known path, or the next new one.

    `table` is an open-addressing hash table of path numbers + 1 (a power of two long, at least twice the paths); `known`, the
    columns of a PathTable, has room for all entries. Returns the new number of known paths.
    """
    size = len(table)
    block, lanes, repeat = known
    for warp in range(len(numbers)):
        start, end = offset[warp], offset[warp + 1]
        code = np.uint64(14695981039346656037)
        for k in range(start, end):
            for word in range(2):
                code = (code ^ np.uint64(entries[k, word])) * np.uint64(1099511628211)
                code ^= code >> np.uint64(29)
        signed = np.int64(code >> np.uint64(1))
        slot = signed & (size - 1)
        number = -1
        while table[slot] != 0:
            candidate = table[slot] - 1
            if hashes[candidate] == signed and known_offset[candidate + 1] - known_offset[candidate] == end - start:
                base = known_offset[candidate]
                equal = True
                for k in range(end - start):
                    key = np.uint32(block[base + k]) | np.uint32(lanes[base + k]) << np.uint32(LANES_SHIFT)
                    if key != entries[start + k, 0] or np.uint32(repeat[base + k]) != entries[start + k, 1]:
                        equal = False
                        break
                if equal:
                    number = candidate
                    break
            slot = (slot + 1) & (size - 1)
        if number < 0:
            number = known_count
            base = known_offset[number]
            for k in range(end - start):
                block[base + k] = np.int32(entries[start + k, 0] & np.uint32(_BLOCK_MASK))
                lanes[base + k] = np.uint8(entries[start + k, 0] >> np.uint32(LANES_SHIFT))
                repeat[base + k] = np.int32(entries[start + k, 1])
            known_offset[number + 1] = base + end - start
            hashes[number] = signed
            table[slot] = number + 1
            known_count += 1
        numbers[warp] = number
    return known_count


# -- Where the columns lie.

class _Column:
    """Numbers that are added at the end, and not changed. What was read of them stays valid when it grows."""

    def __init__(self, dtype: Any) -> None:
        self.array: npt.NDArray[Any] = np.zeros(1 << 12, dtype)
        self._file: IO[bytes] | None = None

    def reserve(self, used: int, more: int) -> None:
        """Make sure that `more` than the `used` ones can be added. Raises UsageError if the disk refuses."""
        if used + more <= len(self.array):
            return
        size = 2 * (used + more) * self.array.itemsize
        if size <= room.IN_MEMORY:
            grown = np.zeros(2 * (used + more), self.array.dtype)
            grown[:used] = self.array[:used]
            self.array = grown
            return
        is_new = self._file is None
        self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the column
        grown = np.frombuffer(in_file(self._file, size), self.array.dtype)
        if is_new:
            grown[:used] = self.array[:used]
        self.array = grown


class PathStore:
    """All distinct paths of a launch, growing as chunks come in."""

    def __init__(self) -> None:
        self._count = 0
        self._table = np.zeros(1 << 12, dtype=np.int64)
        self._hashes = np.zeros(1 << 11, dtype=np.int64)
        self._offset = np.zeros((1 << 11) + 1, dtype=np.int64)
        self._columns = [_Column(dtype) for dtype in (np.int32, np.uint8, np.int32)]
        self._warps = np.zeros(1 << 11, dtype=np.int64)

    def number(self, entries: npt.NDArray[np.uint32], offset: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Path numbers of warps whose entries are `entries[offset[w]:offset[w + 1]]` (uint32 [n, 2])."""
        warps = len(offset) - 1
        self._reserve(warps, len(entries))
        numbers = np.empty(warps, dtype=np.int32)
        known = tuple(column.array for column in self._columns)
        self._count = number_paths(entries, offset, numbers, self._table, self._hashes, self._offset, known, self._count)
        np.add.at(self._warps, numbers, 1)
        drop_pages(*known)
        return numbers

    @property
    def warps(self) -> npt.NDArray[np.int64]:
        """How many warps have taken each path so far."""
        return self._warps[: self._count]

    def _reserve(self, warps: int, entries: int) -> None:
        paths = self._count + warps
        if paths > len(self._hashes):
            grown = 1 << (2 * paths - 1).bit_length()
            self._hashes = np.resize(self._hashes, grown)
            self._offset = np.resize(self._offset, grown + 1)
            self._warps = np.append(self._warps, np.zeros(grown - len(self._warps), np.int64))
            self._table = np.zeros(2 * grown, dtype=np.int64)
            for number in range(self._count):
                slot = int(self._hashes[number]) & (len(self._table) - 1)
                while self._table[slot]:
                    slot = (slot + 1) & (len(self._table) - 1)
                self._table[slot] = number + 1
        for column in self._columns:
            column.reserve(int(self._offset[self._count]), entries)

    def table(self) -> PathTable:
        """The paths so far, as the trace holds them, at no cost: they stay where they are."""
        used = int(self._offset[self._count])
        return PathTable(self._offset[: self._count + 1], *(column.array[:used] for column in self._columns))

    def table_of(self, numbers: npt.NDArray[np.int64]) -> PathTable:
        """The paths with these `numbers`, at the cost of these alone."""
        return selected(self.table(), numbers)


# -- Reading a table in pieces, so that no step takes memory in proportion to all of it.

_PIECE = 1 << 19  # runs


def pieces(table: PathTable) -> Iterator[tuple[slice, PathTable]]:
    """The table as parts of consecutive paths: which paths they are, and a table of them. Memory is that of one part."""
    columns: list[npt.NDArray[Any]] = [table.block, table.lanes, table.repeat]
    for part in _parts(table.offset):
        low, high = int(table.offset[part.start]), int(table.offset[part.stop])
        yield part, PathTable(table.offset[part.start : part.stop + 1] - low, *(column[low:high] for column in columns))
        drop_pages(*columns)


def _parts(offset: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Consecutive paths with `_PIECE` runs at most, or one path with more."""
    first, count = 0, len(offset) - 1
    while first < count:
        end = max(first + 1, int(np.searchsorted(offset, offset[first] + _PIECE, side="right")) - 1)
        yield slice(first, end)
        first = end


def sums_of_paths(table: PathTable, of_block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The sum along each path of a number of each basic block (`of_block`), with repetitions: [paths] of its type."""
    sums = np.zeros(len(table), of_block.dtype)
    for part, piece in pieces(table):
        running = np.concatenate([np.zeros(1, of_block.dtype), np.cumsum(of_block[piece.block] * piece.repeat)])
        sums[part] = np.diff(running[piece.offset])
    return sums


def executions_of_blocks(
    table: PathTable, warps: npt.NDArray[np.int64], blocks: int, *, of_lanes: bool = False
) -> npt.NDArray[np.int64]:
    """How often all warps together, or their active lanes, executed each basic block: int64 [blocks].

    `warps` int64 [paths] is the number on each path.
    """
    times = np.zeros(blocks, np.int64)
    for part, piece in pieces(table):
        runs = np.repeat(warps[part], np.diff(piece.offset)) * piece.repeat
        np.add.at(times, piece.block, runs * piece.lanes if of_lanes else runs)
    return times


def selected(table: PathTable, numbers: npt.NDArray[np.int64], moved: npt.NDArray[np.int64] | None = None) -> PathTable:
    """The paths with these `numbers`, in this order; the basic blocks of each are `moved` on by so many, int64 [numbers]."""
    first, lengths = table.offset[numbers], table.offset[numbers + 1] - table.offset[numbers]
    offset = np.concatenate([[0], np.cumsum(lengths)])
    old: list[npt.NDArray[Any]] = [table.block, table.lanes, table.repeat]
    new = [room_for(int(offset[-1]), column.dtype) for column in old]
    for part in _parts(offset):
        low, high = int(offset[part.start]), int(offset[part.stop])
        chosen = np.repeat(first[part] - offset[part], lengths[part]) + np.arange(low, high)
        for into, column in zip(new, old, strict=True):
            into[low:high] = column[chosen]
        if moved is not None:
            new[0][low:high] += np.repeat(moved[part], lengths[part])
        drop_pages(*old, *new)
    return PathTable(offset, *new)
