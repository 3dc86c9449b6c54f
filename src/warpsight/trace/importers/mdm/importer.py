"""One kernel's files of MDM's tools to one trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.trace.importers.accelsim.importer import HELD_BYTES, Source, import_text
from warpsight.trace.importers.accelsim.statics import LineTable
from warpsight.trace.importers.launch import REMEDY, Progress
from warpsight.trace.importers.lines import Lines, read_lines
from warpsight.trace.importers.mdm.caches import CacheFile, read_cache_file
from warpsight.trace.importers.mdm.launches import TracedKernel
from warpsight.trace.importers.mdm.memory import Accesses, Longs, read_accesses
from warpsight.trace.importers.mdm.names import CACHE_FILES, FUNCTIONAL, INSTRUCTIONS, MEMORY
from warpsight.trace.importers.mdm.notes import notes_of
from warpsight.trace.importers.mdm.program import Program, clean, program_of
from warpsight.trace.importers.pieces import (
    BLOCK_ENDS,
    WARP_LINES,
    LineForm,
    Piece,
    PieceText,
    block_begins,
    lanes_of_warp,
    listed,
    masked,
    warp_begins,
)
from warpsight.trace.schema import KernelTrace
from warpsight.trace.sink import TraceSink
from warpsight.trace.spill import SpillingSink

LINE_BYTES = 128  # of the tool, where no cache file says otherwise
_SECTOR_BYTES = 32


def import_kernel(kernel: TracedKernel, sink: TraceSink | None, progress: Progress | None) -> KernelTrace:
    """The trace of a kernel, into `sink` or kept in memory or a temporary folder. Raises FormatError, UsageError with place."""
    reader = KernelReader(kernel)
    path = reader.path
    source = Source(path, kernel.header, reader.program.isa, 0, lambda: notes_of(reader))
    table = LineTable(reader.program.isa, bulk=False, request_bytes=reader.line_bytes)
    return import_text(source, PieceText(reader.pieces(), str(path)), table, sink or SpillingSink(HELD_BYTES), progress)


class KernelReader:
    """A kernel's warps as pieces of text, and what is learnt on the way. `lacking` executions had no access in the memory trace."""

    def __init__(self, kernel: TracedKernel) -> None:
        self.kernel, self.header = kernel, kernel.header
        folder, number = kernel.folder, kernel.file_number
        self.path = folder / INSTRUCTIONS.format(number)
        self.caches = {name: read_cache_file(folder / name) for name in CACHE_FILES if (folder / name).is_file()}
        self.line_bytes = self._line_bytes(self.caches, folder)
        self.accesses = self._read_accesses(folder, number)
        self.lines: Lines = read_lines(self.path, 1, b",", clean)
        self.program: Program = program_of(
            self.path, self.lines, self.accesses, {**kernel.log.opcodes, **kernel.isa.numbers}, kernel.isa
        )
        self.lacking = 0
        self._check_loads()

    def _line_bytes(self, caches: dict[str, CacheFile], folder: Path) -> int:
        """Bytes of the cache lines that accesses are told in."""
        if CACHE_FILES[0] not in caches:
            return LINE_BYTES
        size = caches[CACHE_FILES[0]].line_bytes
        if size % _SECTOR_BYTES or not _SECTOR_BYTES <= size <= 1024:
            what = f"a line of {size} bytes is no whole number of sectors of {_SECTOR_BYTES} bytes"
            raise FormatError(what, place=str(folder / CACHE_FILES[0]), remedy="give the file that the trace was made for")
        return size

    def _read_accesses(self, folder: Path, number: int) -> Accesses | None:
        """The accesses in `mem_trace_<k>.txt`, or in the functional simulator's `memory_access_<k>.txt`."""
        own, other = folder / MEMORY.format(number), folder / FUNCTIONAL.format(number)
        if own.is_file() and other.is_file():
            raise FormatError(f"{own.name} and {other.name} both give its accesses", place=str(folder), remedy="keep one of them")
        if own.is_file() or other.is_file():
            return read_accesses(own if own.is_file() else other, self.line_bytes, functional=not own.is_file())
        return None

    def _check_loads(self) -> None:
        """Raise FormatError where accesses are loads and their instruction a store, or the other way round."""
        accesses, isa = self.accesses, self.program.isa
        rows = {i.pc: (isa.meaning(i.opcode).row, i.opcode) for i in self.program.instructions}
        if accesses is None:
            accessing = sorted({i.opcode for i in self.program.instructions if isa.meaning(i.opcode).row.space == "global"})
            if accessing:
                name = MEMORY.format(self.kernel.file_number)
                what = f"there is no {name}, and the kernel accesses device memory ({accessing[0]})"
                raise FormatError(what, place=str(self.path), remedy="trace the program with MDM's memory tool too (MDM_mem-trace)")
            return
        for pc, load, line in zip(accesses.pc.tolist(), accesses.load.tolist(), accesses.line.tolist(), strict=True):
            row, opcode = rows.get(pc, (None, ""))
            if row is None:
                what = f"an access of pc {pc:#x}, which no warp executed"
                raise FormatError(what, place=f"{accesses.path}:{line}", remedy=f"a file is cut: {REMEDY}")
            if not row.access or (row.access in ("load", "store") and load != (row.access == "load")):
                kind = "a load" if load else "a store"
                what = f"{kind} of pc {pc:#x}, where the instruction is {opcode}"
                raise FormatError(what, place=f"{accesses.path}:{line}", remedy="are both files of one program and its launch?")

    def pieces(self) -> Iterator[Piece]:
        """The text of the blocks that are in the trace, in order of their numbers."""
        header, lines = self.header, self.lines
        warps = np.array([key[0] for key in lines.keys], np.int64)
        per_block, total = header.warps_per_block, header.blocks * header.warps_per_block
        if int(warps.max()) >= total:
            at = int(lines.line[int(np.argmax(warps[lines.who] >= total))])
            what = f"warp {int(warps.max())}, and the launch has {total:,} warps"
            raise FormatError(what, place=f"{self.path}:{at}", remedy="give the grid and block of this launch")
        order = np.argsort(warps[lines.who], kind="stable")
        of_warp = warps[lines.who][order]
        there = np.unique(of_warp)
        cuts = np.searchsorted(of_warp, there)
        ends = np.append(cuts[1:], len(of_warp))
        given = self._by_warp(there)
        forms = LineForm(self.program.isa)
        self._forms = [forms.of(i.pc, i.opcode, list(i.names), addressed=i.addressed) for i in self.program.instructions]
        block = -1
        for warp, first, end in zip(there.tolist(), cuts.tolist(), ends.tolist(), strict=True):
            if warp // per_block != block:
                if block >= 0:
                    yield Piece(BLOCK_ENDS, self._whole)
                block = warp // per_block
                yield Piece(block_begins(header.grid, block), self._whole)
            yield self._warp(warp, order[first:end], given.get(warp, ()))
        yield Piece(BLOCK_ENDS, self._whole)

    def _whole(self, line: int) -> str:
        return str(self.path)

    def _by_warp(self, there: Longs) -> dict[int, list[int]]:
        """The accesses of each warp, in order. Raises FormatError for those of a warp without instructions."""
        accesses = self.accesses
        if accesses is None:
            return {}
        strange = np.flatnonzero(~np.isin(accesses.warp, there))
        if len(strange):
            what = f"an access of warp {int(accesses.warp[strange[0]])}, which has no instructions in {self.path.name}"
            raise FormatError(what, place=f"{accesses.path}:{int(accesses.line[strange[0]])}", remedy=f"a file is cut: {REMEDY}")
        order = np.argsort(accesses.warp, kind="stable")
        cuts = np.searchsorted(accesses.warp[order], there)
        ends = np.append(cuts[1:], len(order))
        return {w: order[a:b].tolist() for w, a, b in zip(there.tolist(), cuts.tolist(), ends.tolist(), strict=True)}

    def _warp(self, warp: int, index: Longs, given: list[int] | tuple[()]) -> Piece:
        """One warp's lines. The n-th access of a pc belongs to its n-th execution by this warp."""
        number = warp % self.header.warps_per_block
        threads = self.header.block[0] * self.header.block[1] * self.header.block[2]
        mask = lanes_of_warp(number, threads)
        accesses = self.accesses
        waiting: dict[int, list[int]] = {}
        for k in reversed(given):
            assert accesses is not None
            waiting.setdefault(int(accesses.pc[k]), []).append(k)
        out = [warp_begins(number, len(index))]
        where: dict[int, int] = {}
        for k, place in enumerate(self.program.of_text[self.lines.text[index]].tolist()):
            instruction, form = self.program.instructions[place], self._forms[place]
            if not instruction.addressed:
                out.append(masked(form, mask))
                continue
            queue = waiting.get(instruction.pc)
            if not queue or accesses is None:
                self.lacking += 1
                out.append(masked(form, 0, b" 0"))
                continue
            access = queue.pop()
            where[k] = access
            touched = accesses.touched[int(accesses.offset[access]) : int(accesses.offset[access + 1])] * self.line_bytes
            out.append(listed(form, len(touched), b" ".join(b"%#x" % address for address in touched.tolist())))
        for queue in waiting.values():
            if queue:
                assert accesses is not None
                what = f"warp {warp} has more accesses of pc {int(accesses.pc[queue[-1]]):#x} than executions of it"
                place = f"{accesses.path}:{int(accesses.line[queue[-1]])}"
                raise FormatError(what, place=place, remedy=f"{self.path} is cut, or of another run: {REMEDY}")
        return Piece(b"".join(out), lambda line: self._place(index, where, line))

    def _place(self, index: Longs, where: dict[int, int], line: int) -> str:
        """Where a line of a warp came from: its access, else its instruction."""
        k = min(max(line - WARP_LINES, 0), len(index) - 1)
        if k in where and self.accesses is not None:
            return f"{self.accesses.path}:{int(self.accesses.line[where[k]])}"
        return f"{self.path}:{int(self.lines.line[index[k]])}"
