"""May some blocks of a launch run without the others? Only if none of them reads what another block writes.

What the kernel says of itself is seen before (`why_whole`). The rest is seen from what the blocks that ran have recorded: an array
that one of them writes may be read only where the block itself has written, and no other. A store that none of them has executed
may write to every array that its address can come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import SECTOR_BYTES
from warpsight.base.compiled import jit
from warpsight.base.errors import UnsupportedError
from warpsight.base.room import drop_pages
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.codegen.native import NativeKernel
from warpsight.emulator.run.memory import Allocation
from warpsight.emulator.run.parallel import READ, AccessTable, why_in_order
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.isa.ptx.pointers import PointerSources
from warpsight.isa.ptx.program import Function
from warpsight.isa.ptx.slicing import Sources
from warpsight.kernels.launch import KernelSource, Launch, ScalarArgument
from warpsight.traces.events import sectors_of_event
from warpsight.traces.packing import loops_of
from warpsight.traces.schema import ACCESSES, ATOMIC, LOAD, PathTable, StaticInstruction, TraceChunk

_FIRST_SECTOR = ARENA_BASE // SECTOR_BYTES
_SEVERAL = -1  # blocks have written a sector, or read it


def why_whole(function: Function, native: NativeKernel, launch: Launch, code: Sequence[StaticInstruction]) -> str:
    """Why all blocks of a launch have to run, from its kernel alone; empty if nothing says so."""
    if launch.cluster_blocks > 1:
        return "its blocks are in clusters"
    if native.graph.waits.spinning:
        return "its threads wait for other threads"
    read = {register for instruction in code for register in instruction.sources}
    for instruction in code:
        if instruction.access == ATOMIC and instruction.has_sectors and read.intersection(instruction.destinations):
            return f'it uses the result of "{instruction.opcode}"'
    return why_in_order(function, sums=True)


# -- Where the address of an access can come from, by the PTX.

def address_sources(source: KernelSource, launch: Launch) -> Sources:
    """Which parameters and variables the address of an access can come from; nothing where the PTX does not say it, or where two
    of them may be the same memory.
    """
    arrays = [a.array for a in launch.arguments if not isinstance(a, ScalarArgument)]
    shared = any(np.may_share_memory(one, other) for one, other in combinations(arrays, 2))
    try:
        ptx = None if source.cubin or shared else inline_calls(source.module, source.module.functions[launch.kernel])
    except UnsupportedError:  # machine code may do without what PTX cannot
        ptx = None
    if ptx is None:
        return lambda instruction: frozenset()
    pointers = PointerSources(ptx)
    return lambda instruction: pointers.of_accesses(instruction.ptx_line, ACCESSES)


# -- What the blocks did.

_SIGNATURE = (
    "int64(Tuple((int64[::1], int32[::1], int32[::1])), "
    "Tuple((int32[::1], int64[::1], uint8[::1], int64[::1], uint32[::1], int64[:, ::1])), "
    "int64, int64, Tuple((int64[::1], int64[:, ::1])), int32[:, ::1], boolean[::1], boolean[::1], "
    "Tuple((int64[::1], boolean[::1], boolean[::1])))"
)


@jit(cache=True, nogil=True)
def _use(sector, stride, laps, marks, block, users, guarded):  # type: ignore[no-untyped-def]
    """Note in `users` that a block reads or writes a sector, and in further laps those that lie strides behind it; or, of `guarded`
    sectors, whether it reads one which it alone has not written.
    """
    use = 1 if marks == READ else 0
    for lap in range(laps):
        place = ((np.int64(sector) + lap * np.int64(stride)) & 0xFFFFFFFF) - _FIRST_SECTOR
        if place < 0 or place >= len(users):
            continue
        if len(guarded) > 0:
            if marks == READ and guarded[place] and users[place, 0] != block:
                return True
        elif users[place, use] != block:
            users[place, use] = block if users[place, use] == 0 else _SEVERAL
    return False


@jit(cache=True, nogil=True)
def _is_left_out(sector, stride, laps, marks, arrays):  # type: ignore[no-untyped-def]
    """Whether a block only reads a sector, and those that lie strides behind it, of one array whose readers are not noted; that it
    is left out is noted.
    """
    starts, noted, left_out = arrays
    if marks != READ:
        return False
    number = np.searchsorted(starts, np.int64(sector), side="right") - 1
    if number < 0 or noted[number]:
        return False
    last = (np.int64(sector) + (laps - 1) * np.int64(stride)) & 0xFFFFFFFF
    if laps > 1 and np.searchsorted(starts, last, side="right") - 1 != number:
        return False
    left_out[number] = True
    return True


@jit(_SIGNATURE, sources=("traces/events.py",), cache=True, nogil=True)
def _look(paths, chunk, first_block, per_block, table, users, guarded, seen, arrays):  # type: ignore[no-untyped-def]
    """Note who writes and who reads each sector in `users` (a block's number + 1, or several), and which rows of the table have
    accessed anything in `seen`; or, of `guarded` sectors, return the first row that reads one which its block alone has not
    written, else -1.

    `paths`: offset, basic block, repetitions; `chunk`: as in `TraceChunk`, packed, its first warp that of block `first_block`. Of a
    packed loop the first lap is followed, and what the warp before has done in the same block is not noted again. `arrays`: the
    first sector of each, in order, whether its readers are noted, and whether there were any that were not.
    """
    offset, blocks, repeat = paths
    path, event_offset, events, sector_offset, sectors, loops = chunk
    start, rows = table
    for warp in range(len(path)):
        event, sector, block = event_offset[warp], sector_offset[warp], np.int32(first_block + warp // per_block + 1)
        begin, period, laps = event + loops[warp, 0], loops[warp, 3], loops[warp, 4]
        end, looping, first_entry, first_turn = begin + loops[warp, 1], False, 0, 0
        back_events = back = np.int64(0)  # to the same place in the streams of the warp before
        if warp % per_block > 0 and path[warp] == path[warp - 1] and (loops[warp] == loops[warp - 1]).all():
            back_events, back = event - event_offset[warp - 1], sector - sector_offset[warp - 1]
        entry, turn, last = offset[path[warp]], 0, offset[path[warp] + 1]
        while entry < last:
            low, high = start[blocks[entry]], start[blocks[entry] + 1]
            if low == high or turn >= repeat[entry]:
                entry, turn = entry + 1, 0
                continue
            if looping and event == end:  # the other laps have been noted with the first
                turn += (laps - 1) * (turn - first_turn) if entry == first_entry else 0
                entry += (laps - 1) * (entry - first_entry)
                sector, laps, looping = sector + period, 1, False
                continue
            if laps > 1 and event == begin and not looping:
                looping, first_entry, first_turn = True, entry, turn
            for row in range(low, high):
                count = sectors_of_event(events, event, rows[row, 1])
                if back > 0 and sectors_of_event(events, event - back_events, rows[row, 1]) != count:
                    back = np.int64(0)
                event += rows[row, 2]
                seen[row] |= count > 0
                for s in range(sector, sector + count):
                    stride = sectors[s + period] if looping else np.uint32(0)
                    is_known = back > 0 and sectors[s - back] == sectors[s]
                    if is_known and (not looping or sectors[s - back + period] == stride):
                        continue
                    times = laps if looping else np.int64(1)
                    if _is_left_out(sectors[s], stride, times, rows[row, 0], arrays):
                        continue
                    if _use(sectors[s], stride, times, rows[row, 0], block, users, guarded):
                        return row
                sector += count
            turn += 1
    return -1


class Independence:
    """Whether the blocks of a launch that have run depend on others.

    Most arrays are only read, and who reads them decides nothing. So once the first blocks have shown what is written, readers of
    other arrays are left out. `leaves_out` tells if one of these is written after all.
    """

    def __init__(
        self, code: Sequence[StaticInstruction], native: NativeKernel, per_block: int, allocations: Sequence[Allocation]
    ) -> None:
        """`allocations`: the arrays in the order of their addresses."""
        table = AccessTable.of(code, native.graph)
        self._table, self._per_block = (table.start, table.rows), per_block
        self._accesses = [instruction for instruction in code if instruction.event_bytes]
        self._sectors = [(each, each.address // SECTOR_BYTES, -(-each.end // SECTOR_BYTES)) for each in allocations]
        end = max((end for _, _, end in self._sectors), default=_FIRST_SECTOR)
        self._users = np.zeros((end - _FIRST_SECTOR, 2), np.int32)  # who writes, who reads
        self._seen = np.zeros(len(self._accesses), np.bool_)
        self._starts = np.array([first for _, first, _ in self._sectors], np.int64)
        self._noted, self._left_out = np.ones(len(allocations), np.bool_), np.zeros(len(allocations), np.bool_)
        self._is_first = True

    def note(self, paths: PathTable, chunk: TraceChunk, first_block: int) -> None:
        """Note what the blocks of a chunk, from `first_block` on, have written and read."""
        self._look(paths, chunk, first_block, np.zeros(0, np.bool_))
        if self._is_first:
            self._is_first = False
            self._noted = np.array([self._is_written(first, end) for _, first, end in self._sectors], np.bool_)

    def leaves_out(self, guarded: npt.NDArray[np.bool_]) -> bool:
        """Whether readers of `guarded` sectors were left out."""
        return bool(len(guarded)) and bool(guarded[self._starts[self._left_out] - _FIRST_SECTOR].any())

    def note_all(self) -> None:
        """From now on readers of all arrays are noted; those that were left out have to be noted by their chunks again."""
        self._noted[:], self._left_out[:], self._is_first = True, False, False

    def _is_written(self, first: int, end: int) -> bool:
        return bool(self._users[first - _FIRST_SECTOR : end - _FIRST_SECTOR, 0].any())

    def depends(self, guarded: npt.NDArray[np.bool_]) -> bool:
        """Whether a block has read a `guarded` sector that it alone has not written."""
        writer, reader = self._users[: len(guarded)].T
        return bool((guarded & (reader != 0) & ((reader != writer) | (reader == _SEVERAL))).any())

    def first_dependent(self, paths: PathTable, chunk: TraceChunk, first_block: int, guarded: npt.NDArray[np.bool_]) -> str:
        """The opcode of an access of the chunk that reads a `guarded` sector which its block alone has not written; else empty."""
        row = self._look(paths, chunk, first_block, guarded)
        return "" if row < 0 else self._accesses[row].opcode

    def _look(self, paths: PathTable, chunk: TraceChunk, first_block: int, guarded: npt.NDArray[np.bool_]) -> int:
        streams = (chunk.path, chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors, loops_of(chunk))
        row = int(_look(
            (paths.offset, paths.block, paths.repeat), tuple(np.ascontiguousarray(each) for each in streams), first_block,
            self._per_block, self._table, self._users, guarded, self._seen, (self._starts, self._noted, self._left_out),
        ))  # fmt: skip
        drop_pages(paths.block, paths.repeat)
        return row

    def unseen_stores(self) -> list[StaticInstruction]:
        """Stores and atomics to device memory that no block has executed."""
        rows = zip(self._accesses, self._seen.tolist(), strict=True)
        return [each for each, seen in rows if not seen and each.has_sectors and each.access != LOAD and each.space != "local"]

    def guarded(self, named: Iterable[Allocation]) -> npt.NDArray[np.bool_]:
        """The sectors of the arrays that blocks have written, and of those `named`; bool, empty if there are none."""
        guarded = np.zeros(len(self._users), np.bool_)
        chosen = {each.address for each in named}
        for each, first, end in self._sectors:
            if each.writable and (each.address in chosen or self._is_written(first, end)):
                guarded[first - _FIRST_SECTOR : end - _FIRST_SECTOR] = True
        return guarded if guarded.any() else np.zeros(0, np.bool_)
