"""Files whose lines are not in order of blocks and warps: sorted with temporary files, never held in memory as a whole.

Raw files of the tracer have the lines of all warps mixed. A grouped file may have its blocks in any order.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from warpsight.base.errors import FormatError, UsageError
from warpsight.base.temporary import TemporaryFolder
from warpsight.traces.importers.accelsim.files import MOST_LINE_BYTES, GroupedText, TraceFileHeader
from warpsight.traces.importers.accelsim.native_text import LF, blanks, decimal, line_end
from warpsight.traces.importers.layout import Bytes, Longs, compiled_and_kept


@compiled_and_kept
def raw_lines(buf: Any, end: int, grid: Any, warps: int, keys: Any, starts: Any, number: Any) -> Any:
    """The warp (block * warps + warp of the block) and the start of each line in `buf[:end]`, which ends with a line.

    Key -1 for lines that are blank or comments. Returns the number of lines, or -1 - the number of the line that has no block and
    warp of the grid. `starts` has one more entry, the end; `number` int64 [4] is work space.
    """
    p = np.int64(0)
    n = 0
    while p < end:
        starts[n] = p
        keys[n] = -1
        q = blanks(buf, p)
        if buf[q] != LF and buf[q] != 35:
            for k in range(4):
                number[k], q = decimal(buf, q)
                if q < 0 or number[k] < 0 or (k < 3 and number[k] >= grid[k]) or (k == 3 and number[k] >= warps):
                    return np.int64(-1 - n)
            keys[n] = (number[0] + grid[0] * (number[1] + grid[1] * number[2])) * warps + number[3]
        p = line_end(buf, p) + 1
        n += 1
    starts[n] = p
    return np.int64(n)


@compiled_and_kept
def gather_lines(buf: Any, starts: Any, order: Any, out: Any) -> None:
    """Copy the lines `order` of `buf` one after the other to `out`."""
    copied = np.int64(0)
    for k in range(len(order)):
        for p in range(starts[order[k]], starts[order[k] + 1]):
            out[copied] = buf[p]
            copied += 1


_PARTS = 128
_END = b"#END_TB"
_BLOCK = re.compile(rb"thread block\s*=\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})")


class _Parts:
    """Temporary files, deleted with this object: each has the text of a range of blocks, beside it an int64 table of its items."""

    def __init__(self, blocks: int, columns: int) -> None:
        self.count = min(_PARTS, blocks)
        self._blocks, self._columns = blocks, columns
        try:
            self._owner = TemporaryFolder()
        except OSError as error:
            raise _disk_refuses(error) from None
        self._folder = self._owner.path

    def part_of(self, block: Longs) -> Longs:
        """The part that a block belongs to: ranges of equal size, in order."""
        return np.asarray(block, np.int64) * self.count // self._blocks

    def append(self, part: int, text: bytes, items: Longs) -> None:
        """Add text and its items."""
        try:
            for kind, data in (("text", text), ("items", np.ascontiguousarray(items, np.int64).tobytes())):
                with (self._folder / f"{part}.{kind}").open("ab") as file:
                    file.write(data)
        except OSError as error:
            raise _disk_refuses(error) from None

    def read(self, part: int) -> tuple[Bytes, Longs]:
        """Text and items of a part; both empty if it has none."""
        text, items = self._folder / f"{part}.text", self._folder / f"{part}.items"
        if not text.exists():
            return np.zeros(0, np.uint8), np.zeros((0, self._columns), np.int64)
        table = np.fromfile(items, np.int64).reshape(-1, self._columns)
        return np.concatenate((np.fromfile(text, np.uint8), np.full(1, 10, np.uint8))), table


class _SortedText:
    """Text in order, with the lines of the file that its own lines come from."""

    ordered = False

    def __init__(self, source: GroupedText, header: TraceFileHeader) -> None:
        self._source, self._header = source, header
        self._lines: list[tuple[int, Longs]] = []  # of the last pieces: number of the first line, and the lines in the file
        self._given = 0

    def place(self, line: int) -> str:
        """File and line."""
        for first, lines in self._lines:
            if first <= line - 1 < first + len(lines):
                return self._source.place(int(lines[line - 1 - first]))
        return self._source.place(0)

    def _give(self, text: bytes, lines: Longs) -> bytes:
        self._lines = [*self._lines[-2:], (self._given, lines)]
        self._given += len(lines)
        return text


class SortedBlocks(_SortedText):
    """A grouped file with its blocks in order of their numbers."""

    def __iter__(self) -> Iterator[bytes]:
        header = self._header
        parts = _Parts(header.blocks, 3)  # block, first line, bytes
        for block, line, text in self._sections():
            parts.append(int(parts.part_of(np.array([block]))[0]), text, np.array([[block, line, len(text)]]))
        for part in range(parts.count):
            held, items = parts.read(part)
            ends = np.cumsum(items[:, 2])
            for k in np.argsort(items[:, 0], kind="stable").tolist():
                section = held[ends[k] - items[k, 2] : ends[k]].tobytes()
                yield self._give(section, np.arange(section.count(b"\n")) + items[k, 1])

    def _sections(self) -> Iterator[tuple[int, int, bytes]]:
        """(block, first line, text from #BEGIN_TB to #END_TB) of each block."""
        x, y, z = self._header.grid
        held, line = b"", 1
        for piece in self._source:
            looked = max(0, len(held) - len(_END))
            held += piece
            begin = 0
            while (end := held.find(_END, max(begin, looked))) >= 0 and (stop := held.find(b"\n", end)) >= 0:
                text, begin = held[begin : stop + 1], stop + 1
                match = _BLOCK.search(text)
                block = [int(number) for number in match.groups()] if match else [x, y, z]
                if block[0] >= x or block[1] >= y or block[2] >= z:
                    what = "a block without a number that lies in the grid"
                    raise FormatError(what, place=self._source.place(line), remedy="trace the program again")
                yield block[0] + x * (block[1] + y * block[2]), line, text
                line += text.count(b"\n")
            held = held[begin:]
        if held.strip():
            yield self._header.blocks - 1, line, held  # cut: the parser says where


class RawLines(_SortedText):
    """A raw file, grouped by block and warp. `cut`: the place of the last line if it has no end."""

    cut = ""

    def __iter__(self) -> Iterator[bytes]:
        parts = self._split()
        warps = self._header.warps_per_block
        for part in range(parts.count):
            text, items = parts.read(part)
            if not len(items):
                continue
            starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(text == 10) + 1))
            order = np.argsort(items[:, 0], kind="stable")
            keys = items[order, 0]
            cuts = np.flatnonzero(np.diff(keys // warps, prepend=-1, append=-2))
            for first, last in pairwise(cuts.tolist()):
                yield self._block(text, starts, order[first:last], items)

    def _block(self, text: Bytes, starts: Longs, order: Longs, items: Longs) -> bytes:
        """One block in the form of a grouped file."""
        x, y, _ = self._header.grid
        warps = self._header.warps_per_block
        keys, lines = items[order, 0], items[order, 1]
        ends = np.append(0, np.cumsum(starts[order + 1] - starts[order]))
        buffer = np.empty(int(ends[-1]), np.uint8)
        gather_lines(text, starts, order, buffer)
        block = int(keys[0]) // warps
        out = [f"#BEGIN_TB\nthread block = {block % x},{block // x % y},{block // (x * y)}\n".encode()]
        origin = [np.full(2, lines[0])]
        for first, last in pairwise(np.flatnonzero(np.diff(keys, prepend=-1, append=-1)).tolist()):
            out.append(f"warp = {int(keys[first]) % warps}\ninsts = {last - first}\n".encode())
            out.append(buffer[ends[first] : ends[last]].tobytes())
            origin += [np.full(2, lines[first]), lines[first:last]]
        out.append(b"#END_TB\n")
        return self._give(b"".join(out), np.concatenate([*origin, np.full(1, lines[-1])]))

    def _split(self) -> _Parts:
        """Write each line to the part of its block."""
        header = self._header
        parts = _Parts(header.blocks, 2)  # warp of the launch, line of the file
        line, held = 1, b""
        for piece in self._source:
            held += piece
            end = held.rfind(b"\n") + 1
            if end:
                line = self._split_lines(np.frombuffer(held[:end], np.uint8), line, parts)
                held = held[end:]
            elif len(held) > MOST_LINE_BYTES:
                what = "a line that does not end"
                raise FormatError(what, place=self._source.place(line), remedy="copy the trace again, or trace the program again")
        if held.strip():
            self.cut = self._source.place(line)
            self._split_lines(np.frombuffer(held + b"\n", np.uint8), line, parts)
        return parts

    def _split_lines(self, buffer: Bytes, line: int, parts: _Parts) -> int:
        header = self._header
        most = int((buffer == 10).sum())
        keys, starts = np.empty(most + 1, np.int64), np.empty(most + 2, np.int64)
        grid, warps = np.array(header.grid), header.warps_per_block
        count = int(raw_lines(buffer, len(buffer), grid, warps, keys, starts, np.zeros(4, np.int64)))
        if count < 0:
            what = "a line that does not begin with a block of the grid and a warp of the block"
            place = self._source.place(line - 1 - count)
            raise FormatError(what, place=place, remedy="trace the program again, or give grouped files")
        part_of_line = np.where(keys[:count] < 0, -1, parts.part_of(keys[:count] // warps))
        order = np.argsort(part_of_line, kind="stable").astype(np.int64)
        out = np.empty(len(buffer), np.uint8)
        gather_lines(buffer, starts, order, out)
        ends = np.append(0, np.cumsum(starts[order + 1] - starts[order]))
        for first, last in pairwise(np.flatnonzero(np.diff(part_of_line[order], prepend=-2, append=-2)).tolist()):
            part = int(part_of_line[order[first]])
            if part >= 0:
                items = np.stack((keys[order[first:last]], line + order[first:last]), axis=1)
                parts.append(part, out[ends[first] : ends[last]].tobytes(), items)
        return line + count


def _disk_refuses(error: OSError) -> UsageError:
    what = f"the lines cannot be sorted on disk ({error.strerror or error})"
    return UsageError(what, place=tempfile.gettempdir(), remedy="make space there, or name another place with TMPDIR")
