"""The warps of finished blocks as chunks of a trace: in order, all warps of a block there, paths numbered."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.trace.importers.accelsim import layout as at
from warpsight.trace.importers.accelsim.layout import Row
from warpsight.trace.importers.accelsim.parser import Streams, Text
from warpsight.trace.importers.launch import KernelHeader
from warpsight.trace.path_store import PathStore
from warpsight.trace.schema import TraceChunk


class BlockOrder:
    """Makes chunks and keeps count: `blocks` so far, `empty` warps among them, `first_empty` the place of one."""

    def __init__(self, header: KernelHeader, text: Text) -> None:
        self._warps, self._text = header.warps_per_block, text
        self.blocks = self.empty = 0
        self.first_empty = ""
        self._numbers: list[at.Longs] = []

    def chunk(self, streams: Streams, paths: PathStore) -> TraceChunk:
        """The next chunk. Raises FormatError where a warp of a block is there twice."""
        rows = streams.rows
        ends = rows[:, Row.WARP] < 0
        block: at.Longs = np.cumsum(ends) - ends  # how manieth block of this part
        count = int(ends.sum())
        begins = np.vstack((np.zeros((1, Row.WIDTH), np.int64), rows[:-1]))
        here = np.flatnonzero(~ends)
        place = block[here] * self._warps + rows[here, Row.WARP]
        total = count * self._warps
        times = np.bincount(place, minlength=total)
        if len(here) and int(times.max()) > 1:
            k = int(np.flatnonzero(times[place] > 1)[1])
            where = self._text.place(int(rows[here[k], Row.LINE]))
            raise FormatError(
                f"warp {rows[here[k], Row.WARP]} of the block is there twice", place=where, remedy="trace the program again"
            )
        executed = np.zeros(total, np.int64)
        executed[place] = rows[here, Row.INSTRUCTIONS]
        self._note_empty(executed, block, rows)
        parts: list[tuple[Any, at.Longs]] = []
        for column, stream in ((Row.ENTRIES, streams.entries), (Row.EVENTS, streams.events), (Row.SECTORS, streams.sectors)):
            first = np.zeros(total, np.int64)
            size = np.zeros(total, np.int64)
            first[place], size[place] = begins[here, column], rows[here, column] - begins[here, column]
            parts.append(_gathered(stream, first, size))
        (entries, entry_offset), (events, event_offset), (sectors, sector_offset) = parts
        chunk = TraceChunk(
            self.blocks * self._warps, paths.number(np.ascontiguousarray(entries), entry_offset), event_offset, events,
            sector_offset, sectors,
        )  # fmt: skip
        self.blocks += count
        self._numbers.append(rows[ends, Row.BLOCK])
        return chunk

    @property
    def numbers(self) -> list[int] | None:
        """The numbers of the blocks, where some are missing; else None."""
        found = np.concatenate(self._numbers) if self._numbers else np.zeros(0, np.int64)
        return None if bool((found == np.arange(len(found))).all()) else [int(number) for number in found]

    def _note_empty(self, executed: at.Longs, block: at.Longs, rows: at.Longs) -> None:
        empty = np.flatnonzero(executed == 0)
        if len(empty) and not self.empty:
            last = int(np.flatnonzero(block == int(empty[0]) // self._warps)[-1])
            self.first_empty = self._text.place(int(rows[last, Row.LINE]) + 1)
        self.empty += len(empty)


def _gathered(stream: at.Words | at.Bytes, first: at.Longs, size: at.Longs) -> tuple[Any, at.Longs]:
    """The pieces of `stream` that begin at `first` and have `size` items, one after the other, and their offsets [n + 1]."""
    offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    if bool((first[size > 0] == offset[:-1][size > 0]).all()) and offset[-1] == len(stream):
        return stream, offset
    index = np.repeat(first - offset[:-1], size) + np.arange(int(offset[-1]))
    return stream[index], offset
