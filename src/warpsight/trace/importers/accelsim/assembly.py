"""From the runs of distinct lines that warps went through to instructions, basic blocks and paths of a trace."""

from __future__ import annotations

import numpy as np

from warpsight.trace.importers.accelsim import layout as at
from warpsight.trace.importers.accelsim.layout import Static
from warpsight.trace.importers.accelsim.statics import Line
from warpsight.trace.schema import PathTable, StaticInstruction


class Code:
    """The instructions that were executed, in order of pc, and the basic blocks that every warp's stream is a sequence of.

    `rank` int64 [lines]: the instruction of a line, -1 if it never came. A basic block begins at a pc that was jumped to and
    behind a branch or an
    instruction that was jumped from.
    """

    def __init__(self, lines: list[Line], rows: at.Longs, fragments: at.Longs) -> None:
        executed = [k for k in range(len(lines)) if rows[k, Static.EXECUTED] > 0]
        self.order = sorted(executed, key=lambda k: (lines[k].pc, lines[k].part, k))
        self.rank = np.full(len(lines), -1, np.int64)
        self.rank[self.order] = np.arange(len(self.order))
        self.lines = [lines[k] for k in self.order]
        self._successor = rows[:, Static.SUCCESSOR]
        self._runs = [self._instructions(int(start), int(length)) for start, length in fragments]
        self.block_start = self._leaders(rows)
        self._blocks = [self._blocks_of(run) for run in self._runs]

    def _instructions(self, start: int, length: int) -> at.Longs:
        """The instructions of a fragment: each line's successor, from its first one on."""
        found = np.empty(length, np.int64)
        for k in range(length):
            found[k] = self.rank[start]
            start = int(self._successor[start])
        return found

    def _leaders(self, rows: at.Longs) -> at.Ints:
        count = len(self.order)
        leader = np.zeros(count + 1, np.bool_)
        leader[[0, count]] = True
        leader[1:][rows[self.order, Static.BRANCH] != 0] = True
        for run in self._runs:
            leader[run[0]] = leader[run[-1] + 1] = True
            jumps = np.flatnonzero(np.diff(run) != 1)
            leader[run[jumps] + 1] = leader[run[jumps + 1]] = True
        return np.flatnonzero(leader).astype(np.int32)

    def _blocks_of(self, run: at.Longs) -> at.Ints:
        """The basic blocks of a fragment, in order."""
        block = np.searchsorted(self.block_start, run, side="right") - 1
        found: at.Ints = block[self.block_start[block] == run].astype(np.int32)
        return found

    def paths(self, table: PathTable) -> PathTable:
        """The table of paths over fragments as one over basic blocks; equal runs in succession are counted once."""
        sizes = np.array([len(blocks) for blocks in self._blocks], np.int64)
        flat = np.concatenate(self._blocks) if self._blocks else np.zeros(0, np.int32)
        first = np.cumsum(sizes) - sizes
        single = sizes[table.block] == 1 if len(table.block) else np.zeros(0, np.bool_)
        times = np.where(single, 1, table.repeat).astype(np.int64)
        expanded = times * sizes[table.block] if len(table.block) else np.zeros(0, np.int64)
        entry = np.repeat(np.arange(len(table.block)), expanded)
        within = np.arange(len(entry)) - np.repeat(np.cumsum(expanded) - expanded, expanded)
        block = flat[first[table.block[entry]] + within % sizes[table.block[entry]]] if len(entry) else np.zeros(0, np.int32)
        repeat = np.where(single[entry], table.repeat[entry], 1).astype(np.int32) if len(entry) else np.zeros(0, np.int32)
        offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(expanded)))[table.offset]
        return _merged(offset, block, table.lanes[entry] if len(entry) else np.zeros(0, np.uint8), repeat)

    def instructions(self) -> tuple[StaticInstruction, ...]:
        """Rows in order of pc; registers are numbered in order of their first mention."""
        numbers: dict[str, int] = {}
        rows = []
        for pc, line in enumerate(self.lines):
            written = tuple(numbers.setdefault(name, len(numbers)) for name in line.destinations)
            read = tuple(numbers.setdefault(name, len(numbers)) for name in line.sources)
            rows.append(
                StaticInstruction(
                    pc, line.opcode, line.op_class, written, read, line.space if line.access else "", line.access, line.bytes,
                    "", line.source_line, pc + 1,
                )
            )  # fmt: skip
        return tuple(rows)


def _merged(offset: at.Longs, block: at.Ints, lanes: at.Bytes, repeat: at.Ints) -> PathTable:
    """Join equal neighbours within a path."""
    if not len(block):
        return PathTable(offset, block, lanes, repeat)
    starts = np.zeros(len(block) + 1, np.bool_)
    starts[offset] = True
    same = np.zeros(len(block), np.bool_)
    same[1:] = (block[1:] == block[:-1]) & (lanes[1:] == lanes[:-1]) & ~starts[1:-1]
    kept = np.flatnonzero(~same)
    total = np.add.reduceat(repeat.astype(np.int64), kept)
    if int(total.max(initial=0)) > at.MAX_REPEAT:
        return PathTable(offset, block, lanes, repeat)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(~same)))
    begins: at.Longs = before[offset].astype(np.int64)
    return PathTable(begins, block[kept], lanes[kept], total.astype(np.int32))
