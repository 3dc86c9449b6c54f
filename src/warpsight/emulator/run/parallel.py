"""Blocks on several threads, with the outcome of blocks in order: may they run at the same time, and did they touch the same
memory when they did?

Blocks that run apart must leave the memory, and the trace, that blocks one after the other leave. A kernel with atomics on device
memory, fences or volatile accesses means to exchange data between blocks and is never split. Any other kernel may be, provided
that no sector written by one worker was touched by another. That is seen from what the blocks recorded: every access to device
memory is in the trace.
"""

from __future__ import annotations

import mmap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import SECTOR_BYTES
from warpsight.base.compiled import jit
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.run.memory import Memory
from warpsight.emulator.run.worker import Streams, Worker
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.linking import ASSERTION
from warpsight.isa.ptx.program import Function, SpecialRegister, Symbol
from warpsight.traces.events import sectors_of_event
from warpsight.traces.path_store import LANES_SHIFT
from warpsight.traces.schema import ATOMIC, LOAD, STORE, StaticInstruction

READ, WRITTEN = 1, 2
_FIRST_SECTOR = ARENA_BASE // SECTOR_BYTES
_BLOCK_MASK = (1 << LANES_SHIFT) - 1
_TALKS = frozenset({"membar", "fence", "mbarrier", "red", "sured", "griddepcontrol"})
_ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"})
_COUNTERS = ("%clock", "%globaltimer", "%gridid", "%smid")


def why_in_order(function: Function, *, sums: bool = False) -> str:
    """Why the blocks of a kernel must run one after the other; empty if it does not say that they must.

    With `sums`, atomics are no reason: whether their results are used is known otherwise.
    """
    here = {ASSERTION, *function.callables}
    for instruction in function.instructions:
        modifiers = set(instruction.modifiers)
        if sums and instruction.opcode in ("atom", "red"):
            continue
        called = {operand.name for operand in instruction.operands if isinstance(operand, Symbol)}
        if instruction.opcode == "call" and not called & here:  # bodies that are here are looked at themselves
            return f'"{instruction.text}" may print, allocate or exchange data between blocks'
        on_chip = bool(modifiers & {"shared", "shared::cta", "local", "param", "param::func", "const"})
        if (instruction.opcode in _TALKS or "reduce" in modifiers) and not on_chip and "cta" not in modifiers:
            return f'"{instruction.text}" may order memory between blocks'
        if instruction.opcode in ("atom", "ld", "st") and not on_chip and (instruction.opcode == "atom" or modifiers & _ORDERED):
            return f'"{instruction.text}" may exchange data between blocks'
        if any(isinstance(o, SpecialRegister) and o.name.startswith(_COUNTERS) for o in instruction.operands):
            return f'"{instruction.text}" counts what ran before'
    return ""


@dataclass(frozen=True)
class AccessTable:
    """What each basic block does to memory: rows `start[b]` to `start[b + 1]`.

    A row is int64 (marks, bytes of its event that count sectors, all bytes of it).
    """

    start: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    @classmethod
    def of(cls, code: Sequence[StaticInstruction], graph: ControlFlowGraph) -> AccessTable:
        """The table of a kernel with this `code`."""
        rows = [_row(instruction) for instruction in code if instruction.event_bytes]
        before = np.cumsum([0, *(instruction.event_bytes > 0 for instruction in code)])  # rows before each instruction
        return cls(before[graph.block_start].astype(np.int64), np.array(rows, np.int64).reshape(-1, 3))


def _row(instruction: StaticInstruction) -> tuple[int, int, int]:
    marks = {LOAD: READ, STORE: WRITTEN, ATOMIC: READ | WRITTEN}[instruction.access] if instruction.has_sectors else 0
    return marks, instruction.sector_bytes, instruction.event_bytes


@jit(
    "void(uint32[:, ::1], uint8[::1], uint32[::1], int64[:, ::1], int64[::1], int64[:, ::1], uint8[::1], int64)",
    sources=("traces/events.py",), cache=True, nogil=True,
)
def mark(entries, events, sectors, offsets, start, rows, touched, first_sector):  # type: ignore[no-untyped-def]
    """Mark in `touched` (a byte a sector, from `first_sector` on) what warps did, from their three streams.

    `offsets` [warps + 1, 3]: where each warp's path entries, events and sectors begin. Sectors beyond the table are local memory.
    """
    for warp in range(len(offsets) - 1):
        event, sector = offsets[warp, 1], offsets[warp, 2]
        for k in range(offsets[warp, 0], offsets[warp + 1, 0]):
            block = np.int64(entries[k, 0]) & _BLOCK_MASK
            low, high = start[block], start[block + 1]
            if low == high:
                continue
            for _ in range(entries[k, 1]):
                for row in range(low, high):
                    count = sectors_of_event(events, event, rows[row, 1])
                    for s in range(sector, sector + count):
                        place = np.int64(sectors[s]) - first_sector
                        if 0 <= place < len(touched):
                            touched[place] |= np.uint8(rows[row, 0])
                    sector += count
                    event += rows[row, 2]


class Marks:
    """Which sectors of the `live` allocations, rows of a `LiveTable`, blocks from block `since` on have read and written, by what
    they recorded (with some blocks before it, which were recorded together with it).

    `touched`: a byte a sector of the arena, of READ and WRITTEN; takes memory where it is touched.
    """

    def __init__(self, table: AccessTable, live: npt.NDArray[np.int64], since: int = 0) -> None:
        self.parts = live_sectors(live) if len(live) else []
        self._table, self._since = table, since
        self.touched = np.zeros(self.parts[-1].stop if self.parts else 0, np.uint8)

    def note(self, part: Streams) -> None:
        """Mark what these warps did."""
        table = self._table
        if part.end_block <= self._since:
            return
        mark(part.entries, part.events, part.sectors, part.offsets, table.start, table.rows, self.touched, _FIRST_SECTOR)

    def clear(self) -> None:
        """Forget what was touched."""
        for part in self.parts:
            self.touched[part] = 0

    def rows(self) -> npt.NDArray[np.int64]:
        """The memory that was touched, as `Observer.touched` gives it: what was only read, then what was written."""
        found = [np.zeros((0, 5), np.int64)]
        for wanted in (READ, WRITTEN):
            for part in self.parts:
                marks = self.touched[part]
                which = marks == READ if wanted == READ else (marks & WRITTEN) != 0
                edges = np.flatnonzero(np.diff(which, prepend=False, append=False)).reshape(-1, 2) + part.start + _FIRST_SECTOR
                start, size = edges[:, 0] * SECTOR_BYTES, (edges[:, 1] - edges[:, 0]) * SECTOR_BYTES
                one = np.ones(len(edges), np.int64)
                found.append(np.stack([start, size, size, one, one * (wanted == WRITTEN)], axis=1))
        return np.concatenate(found)


def conflict(tables: Sequence[npt.NDArray[np.uint8]], parts: Iterable[slice]) -> bool:
    """Was a sector of one of the `parts` that one worker wrote touched by another?"""
    for part in parts:
        seen, *others = (table[part] for table in tables)
        for table in others:
            both = (seen != 0) & (table != 0)
            if bool(np.any((seen[both] | table[both]) & WRITTEN)):
                return True
            seen = seen | table
    return False


def live_sectors(rows: npt.NDArray[np.int64]) -> list[slice]:
    """The sectors of the arena that allocations lie in, in parts of at most `_COMPARED`; `rows` as in `LiveTable`."""
    first, end = (rows[:, 0] - ARENA_BASE) // SECTOR_BYTES, -((ARENA_BASE - rows[:, 1]) // SECTOR_BYTES)
    apart = np.flatnonzero(first[1:] > end[:-1] + _COMPARED // 16)  # what is close together is one stretch
    starts, ends = first[[0, *(apart + 1)]].tolist(), end[[*apart, -1]].tolist()
    return [
        slice(k, min(k + _COMPARED, stretch_end)) for start, stretch_end in zip(starts, ends, strict=True)
        for k in range(start, stretch_end, _COMPARED)
    ]  # fmt: skip


def _by_page(which: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Sectors by the pages of the host that they lie in; a last page may have too few."""
    per_page = mmap.PAGESIZE // SECTOR_BYTES
    return np.pad(which, (0, -len(which) % per_page)).reshape(-1, per_page)


# -- Blocks on several threads, with the outcome of blocks in order. Native code holds no interpreter lock.
#
# Chunks of consecutive blocks are handed out in order, so each worker's chunks follow each other as they would in order. What
# remains to be seen is whether two workers touched a sector that one of them wrote: then the outcome might have been another, and
# the launch is run again in order. The first two chunks run one after the other, so that a kernel whose blocks share sectors is
# found out before anything is lost.
#
# What is recorded is handed on piece by piece, and the pieces of later chunks wait for those of earlier ones. Beyond `MOST_WAITING`
# bytes of them the workers wait too, but for the one whose piece is the next to be taken: memory does not depend on the launch. A
# chunk therefore has no more blocks than record a part of these bytes, by the first two chunks.
#
# Pages that are written take memory until the memory of the launch has them. So once blocks have written `MOST_WRITTEN` bytes of
# pages, the workers stop; what was written is committed, and the blocks that follow begin with it, as in order.

MIN_BLOCKS = 16
MOST_WAITING = 64 << 20
MOST_WRITTEN = 128 << 20
_COMPARED = 1 << 20  # sectors at a time
CHUNKS_PER_WORKER = 32
# Consecutive blocks often write neighbouring words; eight 4-byte words are a sector.
CHUNK_MULTIPLE = 8
MIN_SECONDS = 0.03  # less work than this is not worth the threads


class Conflict(Exception):
    """Two workers touched what one of them wrote."""


class Apart:
    """The blocks of a launch on several workers, which attempt to write to its `memory`."""

    def __init__(self, workers: list[Worker], table: AccessTable, memory: Memory, blocks: int) -> None:
        self._workers, self._memory, self._blocks = workers, memory, blocks
        self._marks = {id(worker): Marks(table, memory.table.rows()) for worker in workers}
        self._parts = self._marks[id(workers[0])].parts
        share = -(-blocks // (len(workers) * CHUNKS_PER_WORKER))
        self._chunk = -(-share // CHUNK_MULTIPLE) * CHUNK_MULTIPLE

    def streams(self) -> Iterator[Streams]:
        """What all blocks record, in order. Raises Conflict, at the latest at the end, and Stopped."""
        first, second, *_ = self._workers
        started, recorded = time.perf_counter(), 0
        for part in chain(self._work(first, 0, self._chunk), self._work(second, self._chunk, self._chunk)):
            recorded += _size(part)
            yield part
        done = 2 * self._chunk
        per_block = (time.perf_counter() - started) / done
        left = self._blocks - done
        self._check()
        if left > 0 and per_block * left < MIN_SECONDS:
            yield from self._work(second, done, left)
        elif left > 0:
            chunk, begun, much = min(self._chunk, self._most_blocks(recorded / done)), 0, self._blocks_of_much(done)
            while done < self._blocks:
                end = min(self._blocks, done + chunk * max(1, (begun + much - done) // chunk))
                yield from self._spread(done, end, chunk)
                self._check()
                done, much = end, self._blocks_of_much(end - begun)
                if done < self._blocks and done - begun + chunk > much:
                    self._memory.commit(self.written())
                    for marks in self._marks.values():  # these blocks are done, in order: no conflict with what follows
                        marks.clear()
                    begun = done

    def _spread(self, first: int, end: int, chunk: int) -> Iterator[Streams]:
        """Blocks `first` to `end`, in chunks of so many."""
        return spread(
            self._workers, range(first, end, chunk), lambda worker, block: self._work(worker, block, min(chunk, end - block))
        )

    def _blocks_of_much(self, blocks: int) -> int:
        """How many blocks write `MOST_WRITTEN`, if they write as the `blocks` since the last commit have."""
        pages = sum(int(_by_page(which).any(axis=1).sum()) for _, which in self.written())
        return int(MOST_WRITTEN * blocks / max(1, pages * mmap.PAGESIZE))

    def _most_blocks(self, bytes_per_block: float) -> int:
        """Blocks of a chunk of which every worker can have two waiting."""
        blocks = int(MOST_WAITING / (2 * len(self._workers)) / max(1.0, bytes_per_block))
        return max(CHUNK_MULTIPLE, blocks // CHUNK_MULTIPLE * CHUNK_MULTIPLE)

    def _check(self) -> None:
        if conflict(self._touched(), self._parts):
            raise Conflict

    def _touched(self) -> list[npt.NDArray[np.uint8]]:
        return [marks.touched for marks in self._marks.values()]

    def written(self) -> Iterator[tuple[slice, npt.NDArray[np.bool_]]]:
        """Which sectors of each part of the arena the blocks have written."""
        for part in self._parts:
            yield part, np.bitwise_or.reduce([touched[part] for touched in self._touched()]) & WRITTEN != 0

    def _work(self, worker: Worker, block: int, chunk: int) -> Iterator[Streams]:
        """A chunk of so many blocks on one worker."""
        marks = self._marks[id(worker)]
        for part in worker.streams(block, min(block + chunk, self._blocks)):
            marks.note(part)
            yield part


def spread(workers: Sequence[Worker], starts: range, work: Callable[[Worker, int], Iterator[Streams]]) -> Iterator[Streams]:
    """What `work` records on the workers, from each of `starts` on, in their order. Raises what `work` raises."""
    waiting = _Waiting(len(starts))
    left, take = iter(enumerate(starts)), threading.Lock()

    def serve(worker: Worker) -> None:
        while True:
            with take:  # a worker's chunks are in order
                number, start = next(left, (-1, -1))
            if number < 0:
                return
            try:
                for part in work(worker, start):
                    if not waiting.put(number, part):
                        return
                waiting.end(number)
            except BaseException as error:  # raised again where the result is taken
                waiting.end(number, error)
                return

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield from waiting.in_order()
    finally:
        waiting.close()
        for thread in threads:
            thread.join()


class _Waiting:
    """What chunks have recorded and nobody has taken yet: queues of pieces, each closed by its end or an error."""

    def __init__(self, chunks: int) -> None:
        self._pieces: list[deque[Streams | BaseException | None]] = [deque() for _ in range(chunks)]
        self._changed = threading.Condition()
        self._bytes = self._earliest = 0
        self._closed = False

    def put(self, chunk: int, piece: Streams) -> bool:
        """Add a piece of a chunk once there is room; False if no more are wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._bytes < MOST_WAITING or self._is_wanted(chunk))
            self._bytes += _size(piece)
            self._pieces[chunk].append(piece)
            self._changed.notify_all()
            return not self._closed

    def _is_wanted(self, chunk: int) -> bool:
        return chunk == self._earliest and not self._pieces[chunk]

    def end(self, chunk: int, error: BaseException | None = None) -> None:
        """The chunk has no more pieces, because of an `error` or because it is done."""
        with self._changed:
            self._pieces[chunk].append(error)
            self._changed.notify_all()

    def close(self) -> None:
        """No more pieces are wanted."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def in_order(self) -> Iterator[Streams]:
        """The pieces of all chunks. Raises the error that ended one."""
        for pieces in self._pieces:
            while (piece := self._next(pieces)) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece

    def _next(self, pieces: deque[Streams | BaseException | None]) -> Streams | BaseException | None:
        with self._changed:
            self._changed.wait_for(lambda: len(pieces) > 0)
            piece = pieces.popleft()
            if piece is None:
                self._earliest += 1
            elif not isinstance(piece, BaseException):
                self._bytes -= _size(piece)
            self._changed.notify_all()
            return piece


def _size(piece: Streams) -> int:
    return piece.offsets.nbytes + piece.entries.nbytes + piece.events.nbytes + piece.sectors.nbytes
