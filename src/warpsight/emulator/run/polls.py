"""Tests of mbarriers that fail, and of words that other threads write, left out of what warps recorded.

A warp tests an mbarrier again and again until its phase is over, or loads a lock or a flag until another thread has stored it. How
often depends on the order in which the emulator runs warps, and is no property of the kernel. A trace has one test alone; models
and simulator know what one of an mbarrier waits for. A load takes its own time there, without the wait.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Any

import numpy as np

from warpsight.base.compiled import inlined, jit
from warpsight.base.errors import FormatError
from warpsight.emulator.run.worker import Streams
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function
from warpsight.isa.ptx.rules import register_names, writes
from warpsight.traces.events import sectors_of_event
from warpsight.traces.path_store import LANES_SHIFT
from warpsight.traces.schema import LOAD, StaticInstruction

_BLOCK_MASK = (1 << LANES_SHIFT) - 1
_OTHER, _QUIET, _POLL = range(3)  # basic blocks: any other, one that a loop of tests may pass through, one with tests alone
_MOST_BETWEEN = 64  # entries of a path between two tests of a loop


class Polls:
    """The basic blocks of a kernel, as far as loops of tests are concerned, and how many instructions were left out.

    `objects` by pc: what an instruction tests, as its operands say it. Loops often begin with a test of their own, and machine code
    tests twice in a block: once more after it has slept. `spins` are basic blocks that are such a loop of loads (`_spins`).
    """

    def __init__(
        self, code: Sequence[StaticInstruction], objects: Sequence[str], block_start: Sequence[int], kernel: str = "kernel",
        spins: Set[int] = frozenset(),
    ) -> None:
        self._kernel = kernel
        blocks = [code[first:end] for first, end in pairwise(block_start)]
        active = [[i for i in block if _has_effect(i)] for block in blocks]
        polled = [block[-1] if block and block[-1].polls_mbarrier else None for block in active]
        numbers = {name: k for k, name in enumerate(dict.fromkeys(objects))}
        alone = [len({objects[i.pc] for i in each}) == 1 and all(i.polls_mbarrier for i in each) for each in active]
        kinds = [_QUIET if not each else _POLL if only else _OTHER for each, only in zip(active, alone, strict=True)]
        self._kinds = np.array(kinds, np.int64)
        self._last = np.array([-1 if poll is None else numbers[objects[poll.pc]] for poll in polled], np.int64)
        for block in spins:
            self._kinds[block], self._last[block] = _POLL, len(numbers) + block
        self._lengths = np.diff(np.array(block_start, np.int64))
        rows = [[(i.sector_bytes, i.event_bytes) for i in block if i.event_bytes] for block in blocks]
        self._start = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        self._rows = np.array([row for block in rows for row in block], np.int64).reshape(-1, 2)
        self.instructions = 0

    @classmethod
    def of(cls, function: Function, code: Sequence[StaticInstruction], graph: ControlFlowGraph) -> Polls:
        """Those of a kernel and its `code`."""
        operands = [(i.operands if i.native is None else i.native.operands)[1:] for i in function.instructions]
        objects = [repr(each) if row.polls_mbarrier else "" for each, row in zip(operands, code, strict=True)]
        return cls(code, objects, graph.block_start.tolist(), function.name, _spins(function, code, graph))

    @property
    def any(self) -> bool:
        """Whether the kernel has tests in blocks of their own, as loops do."""
        return bool((self._kinds == _POLL).any())

    def without_failed(self, part: Streams) -> Streams:
        """The streams with one test of each loop of tests alone. Raises FormatError for events that do not fit a warp's path."""
        entries, events, sectors = part.entries.copy(), part.events.copy(), part.sectors.copy()
        offsets, blocks = part.offsets.copy(), (self._kinds, self._last, self._lengths)
        whole = (offsets[-1] <= (len(entries), len(events), len(sectors))).all()
        dropped = int(_drop(entries, events, sectors, offsets, blocks, self._start, self._rows)) if whole else 1 - len(offsets)
        if dropped < 0:
            what = f"warp {part.first_warp - 1 - dropped} has recorded other events or sectors than its path requires"
            raise FormatError(what, place=self._kernel, remedy="please report this, with the kernel")
        self.instructions += dropped
        ends = offsets[-1]
        return Streams(part.first_warp, part.end_block, offsets, entries[: ends[0]], events[: ends[1]], sectors[: ends[2]])


def _spins(function: Function, code: Sequence[StaticInstruction], graph: ControlFlowGraph) -> frozenset[int]:
    """Basic blocks that are a loop of their own and wait for what another thread stores: one load, always from the same address."""
    found = set()
    for block in (last for last, first in graph.waits.spinning if last == first):
        pcs = range(graph.block_start[block], graph.block_start[block + 1])
        effects = [pc for pc in pcs if _has_effect(code[pc])]
        if len(effects) == 1 and code[effects[0]].access == LOAD and not code[effects[0]].at_barrier:
            written = frozenset[str]().union(*(writes(function.instructions[pc]) for pc in pcs))
            if written.isdisjoint(register_names(function.instructions[effects[0]].operands[-1:])):
                found.add(block)
    return frozenset(found)


def _has_effect(instruction: StaticInstruction) -> bool:
    """An access, a barrier, or something with asynchronous copies."""
    return bool(instruction.event_bytes) or instruction.is_block_barrier or bool(instruction.ends) or instruction.wait_groups >= 0


@inlined
def _keep(events: Any, sectors: Any, rows: Any, places: Any, ends: Any) -> Any:
    """Move the events of a basic block (`rows`, as in `_drop`), and their sectors. `places`: the next event and sector, and where
    they go. The next ones after them; past `ends` if there are not as many.
    """
    event, sector, event_out, sector_out = places
    for row in range(len(rows)):
        size = rows[row, 1]
        count = sectors_of_event(events, event, rows[row, 0]) if event + size <= ends[0] else 0
        if event + size > ends[0] or sector + count > ends[1]:
            return ends[0] + 1, sector, event_out, sector_out
        for _ in range(size):
            events[event_out] = events[event]
            event, event_out = event + 1, event_out + 1
        for _ in range(count):
            sectors[sector_out] = sectors[sector]
            sector, sector_out = sector + 1, sector_out + 1
    return event, sector, event_out, sector_out


@inlined
def _skip(events: Any, rows: Any, event: Any, sector: Any, end: Any) -> Any:
    """The next event and sector after those of a basic block that is left out; past `end` if there are not as many."""
    for row in range(len(rows)):
        if event + rows[row, 1] > end:
            return end + 1, sector
        sector += sectors_of_event(events, event, rows[row, 0])
        event += rows[row, 1]
    return event, sector


@jit(sources=("traces/events.py",), cache=True, nogil=True)
def _drop(entries, events, sectors, offsets, blocks, start, rows):  # type: ignore[no-untyped-def]
    """Move the streams together in place, without the tests that fail; returns how many instructions were left out, or -1 - the
    number of a warp whose events or sectors are other than its path requires.

    `entries`, `events`, `sectors` and `offsets` as in `Streams`. `blocks`: by basic block its kind, what its last instruction with
    an effect tests (-1: it is no test), and its length. Rows `start[b]` to `start[b + 1]` are the events of block b: how many
    bytes count sectors, and how many it has.
    """
    kinds, last_test, lengths = blocks
    out, event_out, sector_out, dropped = 0, 0, 0, 0
    for warp in range(len(offsets) - 1):
        first, last = offsets[warp, 0], offsets[warp + 1, 0]
        event, sector = offsets[warp, 1], offsets[warp, 2]
        ends = offsets[warp + 1, 1], offsets[warp + 1, 2]
        offsets[warp, 0], offsets[warp, 1], offsets[warp, 2] = out, event_out, sector_out
        begin = out
        for k in range(first, last):
            word, repeat = entries[k, 0], np.int64(entries[k, 1])
            block = np.int64(word) & _BLOCK_MASK
            again = np.int64(0)  # tests of what was tested just before
            if kinds[block] == _POLL:
                again = repeat - 1
                place, least = out - 1, max(begin, out - _MOST_BETWEEN)
                while place >= least and kinds[np.int64(entries[place, 0]) & _BLOCK_MASK] == _QUIET:
                    place -= 1
                if place >= begin and last_test[np.int64(entries[place, 0]) & _BLOCK_MASK] == last_test[block]:
                    again = repeat
                    for gone in range(place + 1, out):
                        dropped += lengths[np.int64(entries[gone, 0]) & _BLOCK_MASK] * np.int64(entries[gone, 1])
                    out = place + 1
                dropped += again * lengths[block]
                for _ in range(again):
                    event, sector = _skip(events, rows[start[block] : start[block + 1]], event, sector, ends[0])
                repeat -= again
                if repeat == 0:
                    continue
            entries[out, 0], entries[out, 1] = word, repeat
            out += 1
            for _ in range(repeat if start[block] < start[block + 1] else 0):
                places = event, sector, event_out, sector_out
                event, sector, event_out, sector_out = _keep(events, sectors, rows[start[block] : start[block + 1]], places, ends)
        if event != ends[0] or sector != ends[1]:
            return -1 - warp
    offsets[len(offsets) - 1, 0], offsets[len(offsets) - 1, 1], offsets[len(offsets) - 1, 2] = out, event_out, sector_out
    return dropped
