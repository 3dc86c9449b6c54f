"""The growing buffers that native code records into, their part of the context, and how their entries are sorted by warp."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import copy_entries, jit
from warpsight.emulator.codegen.layout import SEGMENT_WORDS, Slot

MAX_BUFFER_BYTES = 1 << 33  # one block's records must fit; a block that needs more is refused as a limit


class Buffer:
    """One linear buffer: cursor and end live in the context, so that native code can append."""

    def __init__(
        self, context: npt.NDArray[np.int64], cursor: Slot, end: Slot, soft: Slot | None, shape: tuple[int, ...], dtype: Any,
        head: int = 0,
    ) -> None:
        self._context, self._cursor, self._end, self._soft, self._head = context, cursor, end, soft, head
        self.array: npt.NDArray[Any] = np.empty(shape, dtype=dtype)
        self.array.reshape(-1)[: max(1, head)] = 0
        self.rewind()

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry."""
        return int(self.array.strides[0])

    @property
    def base(self) -> int:
        """Host address of entry 0."""
        return int(self.array.ctypes.data)

    @property
    def used(self) -> int:
        """Entries written since the last rewind, the reserved head included."""
        return (int(self._context[self._cursor]) - self.base) // self.row_bytes

    @property
    def is_full(self) -> bool:
        """Has the soft end been passed?"""
        return self._soft is not None and bool(self._context[self._cursor] > self._context[self._soft])

    def rewind(self) -> None:
        """Forget the contents. Half of the buffer is kept as room for the block that passes the soft end."""
        self._context[self._cursor] = self.base + self._head * self.row_bytes
        self._limits()

    def _limits(self) -> None:
        self._context[self._end] = self.base + self.array.nbytes
        if self._soft is not None:
            self._context[self._soft] = self.base + self.array.nbytes // 2

    def reserve(self, room: int) -> int:
        """Make sure that `room` bytes can be appended; returns by how much the buffer moved in memory.

        Raises MemoryError past MAX_BUFFER_BYTES.
        """
        used_bytes = int(self._context[self._cursor]) - self.base
        if used_bytes + room <= self.array.nbytes:
            return 0
        size = 2 * (used_bytes + room)
        if size > MAX_BUFFER_BYTES:
            raise MemoryError
        old, used = self.array, used_bytes // self.row_bytes
        self.array = np.empty((-(-size // self.row_bytes), *old.shape[1:]), dtype=old.dtype)
        self.array[:used] = old[:used]
        moved = self.base - int(old.ctypes.data)
        self._context[self._cursor] = self.base + used_bytes
        self._limits()
        return moved


class Recorder:
    """Path, event, sector and segment buffers of one launch."""

    def __init__(self, context: npt.NDArray[np.int64]) -> None:
        self._context = context
        # One entry before the first, so that "same as the last entry?" may always look back.
        self.path = Buffer(context, Slot.PATH_CURSOR, Slot.PATH_END, Slot.PATH_SOFT_END, (1 << 20, 2), np.uint32, head=1)
        self.events = Buffer(context, Slot.EVENT_CURSOR, Slot.EVENT_END, Slot.EVENT_SOFT_END, (1 << 22,), np.uint8)
        self.sectors = Buffer(context, Slot.SECTOR_CURSOR, Slot.SECTOR_END, Slot.SECTOR_SOFT_END, (1 << 22,), np.uint32)
        self.segments = Buffer(context, Slot.SEGMENT_CURSOR, Slot.SEGMENT_END, None, (1 << 15, SEGMENT_WORDS), np.int64)

    @property
    def is_full(self) -> bool:
        """Should they be drained before the next block?"""
        return any(buffer.is_full for buffer in (self.path, self.events, self.sectors))

    def make_room(self, room: int) -> None:
        """Grow whatever lacks `room` bytes. Segments hold cursors, so they follow a buffer that moves."""
        for column, buffer in enumerate((self.path, self.events, self.sectors), 1):
            if moved := buffer.reserve(room):
                self.segments.array[: self.segments.used, column] += moved
        self.segments.reserve(room)

    def take_segments(self) -> npt.NDArray[np.int64]:
        """Segments as int64 rows (warp, path, event, sector index of its start), closed by a row with the ends."""
        rows = np.empty((self.segments.used + 1, SEGMENT_WORDS), dtype=np.int64)
        rows[:-1] = self.segments.array[: self.segments.used]
        rows[-1] = (-1, *(self._context[s] for s in (Slot.PATH_CURSOR, Slot.EVENT_CURSOR, Slot.SECTOR_CURSOR)))
        for column, buffer in enumerate((self.path, self.events, self.sectors), 1):
            rows[:, column] = (rows[:, column] - buffer.base) // buffer.row_bytes
        return rows

    def rewind(self) -> None:
        """Empty all buffers."""
        for buffer in (self.path, self.events, self.sectors, self.segments):
            buffer.rewind()


# -- From native buffers to trace chunks: sort out which entry belongs to which warp.
#
# Warps of a block take turns between barriers, so a warp's records lie in several segments of the buffers.

@jit("void(int64[:, ::1], int64, int64[:, ::1])", cache=True, nogil=True)
def count_per_warp(segments, first_warp, totals):  # type: ignore[no-untyped-def]
    """Sum each warp's path entries, event bytes and sectors.

    `segments` rows: warp, path, event, sector start; the last row is the end.
    """
    totals[:] = 0
    for k in range(len(segments) - 1):
        warp = segments[k, 0] - first_warp
        totals[warp, 0] += segments[k + 1, 1] - segments[k, 1] - 1  # without the mark
        totals[warp, 1] += segments[k + 1, 2] - segments[k, 2]
        totals[warp, 2] += segments[k + 1, 3] - segments[k, 3]


@jit(
    "void(int64[:, ::1], int64, uint32[:, ::1], uint8[::1], uint32[::1], int64[:, ::1], uint32[:, ::1], uint8[::1], uint32[::1])",
    sources=("base/compiled.py",), cache=True, nogil=True,
)  # fmt: skip
def gather_streams(  # type: ignore[no-untyped-def]
    segments, first_warp, path, events, sectors, place, out_path, out_events, out_sectors
):
    """Copy each segment to its warp's place; `place` [warps, 3] holds the next free position of each stream, and is advanced."""
    words = path.shape[1]
    for k in range(len(segments) - 1):
        warp = segments[k, 0] - first_warp
        first, count = place[warp, 0], segments[k + 1, 1] - segments[k, 1] - 1
        copy_entries(path, words * (segments[k, 1] + 1), words * segments[k + 1, 1], out_path, words * first)
        place[warp, 0] = first + count
        first, count = place[warp, 1], segments[k + 1, 2] - segments[k, 2]
        copy_entries(events, segments[k, 2], segments[k + 1, 2], out_events, first)
        place[warp, 1] = first + count
        first, count = place[warp, 2], segments[k + 1, 3] - segments[k, 3]
        copy_entries(sectors, segments[k, 3], segments[k + 1, 3], out_sectors, first)
        place[warp, 2] = first + count


def small_pages(size: int) -> npt.NDArray[np.uint8]:
    """Zeros in pages of their own. A block of 1,024 threads has states of some MB and writes to a small part of them: NumPy asks
    for huge pages from 4 MiB on, and the system would clear all of each. Raises MemoryError.
    """
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    except OSError as error:
        raise MemoryError(f"no {size:,} bytes for the states of a block") from error
