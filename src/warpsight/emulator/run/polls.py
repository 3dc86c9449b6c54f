"""Tests of mbarriers that fail, left out of what warps recorded.

A warp tests an mbarrier again and again until its phase is over. How often depends on the order in which the emulator runs warps,
and is no property of the kernel. A trace has the last test alone, which succeeds; models and simulator know what that waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from warpsight.base.compiled import jit
from warpsight.emulator.run.worker import Streams
from warpsight.traces.path_store import LANES_SHIFT
from warpsight.traces.schema import StaticInstruction

_BLOCK_MASK = (1 << LANES_SHIFT) - 1
_OTHER, _QUIET, _POLL = range(3)  # basic blocks: any other, one that a loop of tests may pass through, one with a test alone
_MOST_BETWEEN = 64  # entries of a path between two tests of a loop


class Polls:
    """The basic blocks of a kernel, as far as loops of tests are concerned, and how many instructions were left out."""

    def __init__(self, code: Sequence[StaticInstruction], block_start: Sequence[int]) -> None:
        blocks = [code[first:end] for first, end in pairwise(block_start)]
        self._kinds = np.array([_kind(block) for block in blocks], np.int64)
        self._lengths = np.diff(np.array(block_start, np.int64))
        rows = [[(int(i.has_sectors), i.event_bytes - int(i.has_sectors)) for i in block if i.event_bytes] for block in blocks]
        self._start = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        self._rows = np.array([row for block in rows for row in block], np.int64).reshape(-1, 2)
        self.instructions = 0

    @property
    def any(self) -> bool:
        """Whether the kernel tests mbarriers in blocks of their own, as loops do."""
        return bool((self._kinds == _POLL).any())

    def without_failed(self, part: Streams) -> Streams:
        """The streams with the last test of each loop of tests alone."""
        entries, events, sectors = part.entries.copy(), part.events.copy(), part.sectors.copy()
        offsets = part.offsets.copy()
        dropped = _drop(entries, events, sectors, offsets, self._kinds, self._lengths, self._start, self._rows)
        self.instructions += int(dropped)
        ends = offsets[-1]
        return Streams(part.first_warp, part.end_block, offsets, entries[: ends[0]], events[: ends[1]], sectors[: ends[2]])


def _kind(block: Sequence[StaticInstruction]) -> int:
    active = [i for i in block if i.event_bytes or i.is_block_barrier or i.closes_group or i.wait_groups >= 0]
    if not active:
        return _QUIET
    return _POLL if len(active) == 1 and active[0].polls_mbarrier else _OTHER


@jit(
    "int64(uint32[:, ::1], uint8[::1], uint32[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1])",
    cache=True, nogil=True,
)
def _drop(entries, events, sectors, offsets, kinds, lengths, start, rows):  # type: ignore[no-untyped-def]
    """Move the streams together in place, without the tests that fail; returns how many instructions were left out.

    `entries`, `events`, `sectors` and `offsets` as in `Streams`. `kinds` and `lengths` are by basic block, and rows `start[b]` to
    `start[b + 1]` the events of block b: whether the first byte counts sectors, and other bytes.
    """
    out, event_out, sector_out, dropped = 0, 0, 0, 0
    for warp in range(len(offsets) - 1):
        first, last = offsets[warp, 0], offsets[warp + 1, 0]
        event, sector = offsets[warp, 1], offsets[warp, 2]
        offsets[warp, 0], offsets[warp, 1], offsets[warp, 2] = out, event_out, sector_out
        begin = out
        for k in range(first, last):
            word, repeat = entries[k, 0], np.int64(entries[k, 1])
            block = np.int64(word) & _BLOCK_MASK
            if kinds[block] == _POLL:
                size = rows[start[block], 1]
                place = out - 1
                while place >= begin and place > out - _MOST_BETWEEN and kinds[np.int64(entries[place, 0]) & _BLOCK_MASK] == _QUIET:
                    place -= 1
                if place >= begin and entries[place, 0] == word:
                    # back to a test that has failed: what was between goes, too
                    event_out -= size
                    for gone in range(place, out):
                        dropped += lengths[np.int64(entries[gone, 0]) & _BLOCK_MASK] * np.int64(entries[gone, 1])
                    out = place
                dropped += (repeat - 1) * lengths[block]
                entries[out, 0], entries[out, 1] = word, 1
                out += 1
                event += (repeat - 1) * size
                for _ in range(size):
                    events[event_out] = events[event]
                    event, event_out = event + 1, event_out + 1
                continue
            entries[out, 0], entries[out, 1] = word, repeat
            out += 1
            for _ in range(repeat if start[block] < start[block + 1] else 0):
                for row in range(start[block], start[block + 1]):
                    count, others = np.int64(0), rows[row, 1]
                    if rows[row, 0] != 0:
                        count, others = np.int64(events[event]), others + 1
                    for _ in range(others):
                        events[event_out] = events[event]
                        event, event_out = event + 1, event_out + 1
                    for _ in range(count):
                        sectors[sector_out] = sectors[sector]
                        sector, sector_out = sector + 1, sector_out + 1
    offsets[len(offsets) - 1, 0], offsets[len(offsets) - 1, 1], offsets[len(offsets) - 1, 2] = out, event_out, sector_out
    return dropped
