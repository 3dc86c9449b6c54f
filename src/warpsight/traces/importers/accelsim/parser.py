"""A kernel's trace file read piece by piece: text in, streams of whole thread blocks out, then chunks of a trace; errors in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from warpsight.base.errors import FormatError, LimitError, WarpsightError
from warpsight.traces.importers.accelsim import layout as at
from warpsight.traces.importers.accelsim.files import MOST_LINE_BYTES
from warpsight.traces.importers.accelsim.instructions import LineTable, WrongLine
from warpsight.traces.importers.accelsim.layout import ADDRESS_LIMIT, MOST_SECTORS, Answer, Phase, Row, Slot
from warpsight.traces.importers.accelsim.native import parse
from warpsight.traces.importers.accelsim.native_text import code_of
from warpsight.traces.importers.launch import REMEDY, KernelHeader
from warpsight.traces.path_store import PathStore
from warpsight.traces.schema import TraceChunk

_WHAT = {
    Answer.NO_LINE: "no line of a trace",
    Answer.NO_MASK: "the active mask is no hexadecimal number of 32 bits",
    Answer.FIELDS: "the fields after the mask are not registers, opcode, registers and memory width",
    Answer.MODE: "the form of the addresses is none of 0 (list), 1 (base and stride) and 2 (base and deltas)",
    Answer.ADDRESS: f"too few addresses for the active lanes, or one that is no number below {ADDRESS_LIMIT:#x}",
    Answer.TAIL: "what follows the memory fields are not numbers, Val or NoVal",
    Answer.NUMBER: "a number is missing after =",
    Answer.NESTED: "a block begins before the last one has ended",
    Answer.NOT_IN_BLOCK: "this stands outside of #BEGIN_TB and #END_TB",
    Answer.NO_BLOCK_NUMBER: "the line thread block = x,y,z is missing before it",
    Answer.OUTSIDE_GRID: "the block is not in the grid",
    Answer.NOT_IN_WARP: "an instruction, or insts =, that belongs to no warp",
    Answer.NO_SUCH_WARP: "a block of this launch has no warp of that number",
    Answer.TWICE: "the block is there twice",
    Answer.LOCAL_WINDOW: "a local address is in no window of local memory",
    Answer.NO_COUNT: "the line insts = of the warp is missing before it",
    Answer.PREFIX: "the line begins with another block or warp than the one that it stands in",
    Answer.STRIDE: "a base and a stride for lanes that do not follow each other",
    Answer.BULK: "the fields of a bulk copy are not barrier, multicast, bytes, mode 3 or 4, and addresses",
    Answer.SECTOR_COUNT: f"one access touches more than {MOST_SECTORS} sectors",
}
_LIMITS = {
    Answer.REGIONS: "the kernel's addresses lie in more than 255 regions of 256 MiB, more than a trace can number",
    Answer.TOO_MANY_FRAGMENTS: "the kernel has more than 16 million distinct runs of instructions",
}


def refusal(answer: int, place: str, text: str, got: int, declared: int, warp: int) -> WarpsightError:
    """The error for `answer` at `place`, with the line's `text`; `got` of `declared` lines of `warp` had come."""
    kind = Answer(answer)
    if kind in _LIMITS:
        return LimitError(_LIMITS[kind], place=place, remedy="trace fewer instructions or a smaller launch")
    if kind is Answer.MISCOUNT:
        what = f"warp {warp} has {got:,} instructions, and insts = says {declared:,}"
        return FormatError(what, place=place, remedy=f"the trace is cut or damaged here: {REMEDY}")
    shown = text if len(text) <= 70 else f"{text[:67]}..."
    return FormatError(f"{_WHAT[kind]}: {shown!r}", place=place, remedy=f"the trace is cut or damaged here: {REMEDY}")


# -- A kernel's trace file read piece by piece: pieces of text in, streams of whole thread blocks out.

_ENTRIES, _EVENTS, _SECTORS, _ROWS = 1 << 19, 1 << 21, 1 << 21, 1 << 16
_MOST_GROWTH = 1 << 27


class Text(Protocol):
    """Lines of a trace, grouped by block and warp."""

    ordered: bool

    def __iter__(self) -> Iterator[bytes]:
        """The text in pieces, from the line after the header on."""

    def place(self, line: int) -> str:
        """Where the line is that came as number `line`, from 1."""


class OutOfOrder(Exception):
    """The blocks of a file are not in order of their numbers."""


class Streams:
    """The warps of some whole blocks, in the order of the file.

    `rows` int64 [warps, Row.WIDTH] with ends in the streams, and rows of warp -1 that end the blocks.
    """

    def __init__(self, rows: at.Longs, entries: at.Words, events: at.Bytes, sectors: at.Words) -> None:
        self.rows, self.entries, self.events, self.sectors = rows, entries, events, sectors


class Parser:
    """Reads one kernel. `streams()` gives the blocks as they come; afterwards the tables hold what all of them share.

    `odd` is the place of the first memory line whose last fields are more or fewer than those of the first one.
    """

    def __init__(self, header: KernelHeader, lines: LineTable, text: Text, prefix: int) -> None:
        self.header, self.text, self.lines = header, text, lines
        self.fragments = at.Fragments(np.zeros((1 << 13, 2), np.int64), np.zeros(1 << 14, np.int64))
        self.places = at.Places(
            np.zeros(at.REGION_LIMIT, np.int64), np.zeros((at.LOCAL_WINDOW_BYTES // (4 * at.LOCAL_PAGE_ROWS) + 2, 2), np.int64)
        )
        self.out = at.Out(
            np.zeros((_ENTRIES, 2), np.uint32), np.zeros(_EVENTS, np.uint8), np.zeros(_SECTORS, np.uint32),
            np.zeros((_ROWS, Row.WIDTH), np.int64),
        )  # fmt: skip
        self._scratch = at.Scratch(
            *(np.zeros(n, np.int64) for n in (32, 32, 128, 4)), *(np.zeros((32, 2), np.int64) for _ in range(2))
        )
        self.state = np.zeros(Slot.COUNT, np.int64)
        self._set(prefix)
        self._stuck = -1
        self.odd = ""

    def _set(self, prefix: int) -> None:
        header, st = self.header, self.state
        st[[Slot.BLOCK, Slot.WARP, Slot.DECLARED, Slot.LAST, Slot.PREVIOUS_BLOCK, Slot.REGION]] = -1
        st[Slot.PREFIX], st[Slot.LINEINFO], st[Slot.ORDERED] = prefix, header.lineinfo, self.text.ordered
        st[Slot.SHARED_BASE], st[Slot.LOCAL_BASE] = header.shared_base, header.local_base
        # The blocks of a cluster (sm_90 and up, at most 16) have their shared memory side by side in the window.
        st[Slot.SHARED_BYTES] = at.SHARED_WINDOW_BYTES * (16 if header.binary >= 90 else 1)
        st[[Slot.GRID_X, Slot.GRID_Y, Slot.GRID_Z]] = header.grid
        st[Slot.WARPS_PER_BLOCK] = header.warps_per_block

    def streams(self) -> Iterator[Streams]:
        """The launch in parts of whole blocks. Raises FormatError with file and line, LimitError, OutOfOrder."""
        buffer = np.zeros(1 << 23, np.uint8)
        held = 0
        for piece in self.text:
            if held > MOST_LINE_BYTES:
                raise FormatError("a line that does not end", place=self._place(), remedy=f"the trace is damaged here: {REMEDY}")
            while held + len(piece) + 2 > len(buffer):
                buffer = np.concatenate((buffer, np.zeros_like(buffer)))
            buffer[held : held + len(piece)] = np.frombuffer(piece, np.uint8)
            held += len(piece)
            newest = piece.rfind(b"\n")
            if newest < 0:
                continue
            end = held - len(piece) + newest + 1
            yield from self._read(buffer, end)
            done = int(self.state[Slot.POS])
            buffer[: held - done] = buffer[done:held].copy()
            held -= done
            self.state[Slot.POS] = 0
        self.state[Slot.FINAL] = 1
        if held:
            buffer[held] = ord("\n")
            yield from self._read(buffer, held + 1)
        self._is_whole()
        yield from self._drained()

    def _read(self, buffer: at.Bytes, end: int) -> Iterator[Streams]:
        """Parse `buffer[:end]`, which ends with a line."""
        while True:
            answer = int(parse(buffer, end, self.state, self.lines.native, self.fragments, self.out, self.places, self._scratch))
            if self.state[Slot.ODD_LINES] and not self.odd:
                self.odd = self.text.place(int(self.state[Slot.ODD_LINE]))
            if answer == Answer.MORE:
                return
            if answer == Answer.NEW_LINE:
                self._enter(buffer)
            elif answer == Answer.FRAGMENTS_FULL:
                self._more_fragments()
            elif answer == Answer.FULL:
                yield from self._drained()
                self._make_room()
            elif answer == Answer.ORDER:
                raise OutOfOrder
            else:
                self._refuse(answer, buffer)

    def _enter(self, buffer: at.Bytes) -> None:
        """Take up a line whose text is new."""
        head, head_end, text, text_end = (int(self.state[Slot.HEAD + k]) for k in range(4))
        code = int(code_of(buffer, head, head_end, text, text_end))
        try:
            self.lines.add(buffer[head:head_end].tobytes(), buffer[text:text_end].tobytes(), code, bool(self.state[Slot.LINEINFO]))
        except WrongLine as error:
            raise FormatError(str(error), place=self._place(), remedy=f"the trace is cut or damaged here: {REMEDY}") from None
        except LimitError as error:
            raise LimitError(error.what, place=self._place(), remedy=error.remedy) from None

    def _more_fragments(self) -> None:
        rows, old = self.fragments
        count = int(self.state[Slot.FRAGMENTS])
        table = np.zeros(4 * len(old), np.int64)
        for number in range(count):
            start, length = rows[number].tolist()
            slot = (start * 40503 + length * 2654435761) & (len(table) - 1)
            while table[slot]:
                slot = (slot + 1) & (len(table) - 1)
            table[slot] = number + 1
        self.fragments = at.Fragments(np.vstack((rows, np.zeros_like(rows), np.zeros_like(rows), np.zeros_like(rows))), table)

    def _drained(self) -> Iterator[Streams]:
        """Hand out the blocks that are complete; what is left moves to the front."""
        out, st = self.out, self.state
        rows = out.rows[: st[Slot.ROWS]]
        ends = np.flatnonzero(rows[:, Row.WARP] < 0)
        if not len(ends):
            return
        last = int(ends[-1])
        done = rows[: last + 1].copy()
        e, v, s = (int(done[-1, k]) for k in (Row.ENTRIES, Row.EVENTS, Row.SECTORS))
        yield Streams(done, out.entries[:e].copy(), out.events[:v].copy(), out.sectors[:s].copy())
        left = len(rows) - last - 1
        for stream, first, slot in ((out.entries, e, Slot.ENTRIES), (out.events, v, Slot.EVENTS), (out.sectors, s, Slot.SECTORS)):
            kept = int(st[slot]) - first
            stream[:kept] = stream[first : first + kept].copy()
            st[slot] = kept
        st[Slot.FIRST_ENTRY] = max(0, int(st[Slot.FIRST_ENTRY]) - e)
        out.rows[:left] = out.rows[last + 1 : last + 1 + left].copy()
        out.rows[:left, [Row.ENTRIES, Row.EVENTS, Row.SECTORS]] -= np.array([e, v, s])
        st[Slot.ROWS] = left

    def _make_room(self) -> None:
        """Twice the room in each stream that is more than half full of one block, or where one line needs it."""
        st, parts = self.state, list[Any](self.out)
        stuck = self._stuck == int(st[Slot.LINE])
        self._stuck = int(st[Slot.LINE])
        for k, slot in enumerate((Slot.ENTRIES, Slot.EVENTS, Slot.SECTORS, Slot.ROWS)):
            if stuck or 2 * int(st[slot]) > len(parts[k]):
                if len(parts[k]) > _MOST_GROWTH:
                    what = "one thread block has more instructions than can be held in memory at a time"
                    raise LimitError(what, place=self._place(), remedy="trace fewer instructions of each block")
                parts[k] = np.concatenate((parts[k], np.zeros_like(parts[k])))
        self.out = at.Out(*parts)

    def _is_whole(self) -> None:
        if self.state[Slot.PHASE] == Phase.OUTSIDE:
            return
        what = f"the file ends inside thread block {int(self.state[Slot.BLOCK])}"
        raise FormatError(what, place=self._place(), remedy=f"the trace is cut: {REMEDY}")

    def _place(self) -> str:
        return self.text.place(int(self.state[Slot.LINE]) + 1)

    def _refuse(self, answer: int, buffer: at.Bytes) -> None:
        st = self.state
        p = int(st[Slot.POS])
        text = buffer[p : p + 200].tobytes().split(b"\n")[0].decode("ascii", "replace").strip()
        raise refusal(answer, self._place(), text, int(st[Slot.GOT]), int(st[Slot.DECLARED]), int(st[Slot.WARP]))


# -- The warps of finished blocks as chunks of a trace: in order, all warps of a block there, paths numbered.

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
