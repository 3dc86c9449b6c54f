"""The launches of a folder of MDM's tools, each read to one trace when it is asked for, with notes on what the format leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import numpy as np

from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.opcodes import SassTable
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.values import parse_integer
from warpsight.traces.importers.accelsim.importer import HELD_BYTES, Source, import_text
from warpsight.traces.importers.accelsim.instructions import LineTable
from warpsight.traces.importers.launch import REMEDY, KernelHeader, Launch, LaunchFacts, Progress
from warpsight.traces.importers.lines import Lines, read_lines
from warpsight.traces.importers.mdm.files import (
    CACHE_FILES,
    FUNCTIONAL,
    INSTRUCTIONS,
    MEMORY,
    Accesses,
    CacheFile,
    Log,
    LoggedKernel,
    Longs,
    Program,
    clean,
    kernel_of,
    program_of,
    read_accesses,
    read_cache_file,
    read_log,
)
from warpsight.traces.importers.pieces import (
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
from warpsight.traces.schema import KernelTrace, TraceSink
from warpsight.traces.spill import SpillingSink

_ORIGIN = (
    "SASS of a GPU that MDM's tool does not name: addresses and control flow carry over to other GPUs, opcodes do not"
)
_MOST_SHARED = 1 << 30


@dataclass(frozen=True)
class TracedKernel(Launch):
    """One launch: the folder, its number in the names of files, what the tool printed, and what the user says."""

    folder: Path
    file_number: int
    log: Log
    facts: LaunchFacts

    @cached_property
    def header(self) -> KernelHeader:
        """The launch as printed or as the user says. Raises UsageError for what neither says or both say differently."""
        printed = self._printed()
        grid = self._shape("grid", self.facts.grid, printed.grid if printed else None)
        block = self._shape("block", self.facts.block, printed.block if printed else None)
        registers = self._number("registers", self.facts.registers, printed.registers if printed else None, 255)
        shared = self._number("shared", self.facts.shared, printed.shared_bytes if printed else None, _MOST_SHARED)
        if block[0] * block[1] * block[2] > 1024 or grid[0] * grid[1] * grid[2] > 1 << 40:
            place = printed.place if printed else "--block"
            raise UsageError(f"grid {grid} of blocks {block} is larger than any GPU launches", place=place, remedy="correct it")
        name = printed.name if printed else f"kernel_{self.file_number}"
        return KernelHeader(
            name, self.file_number, grid, block, shared, registers, 0, printed.stream if printed else 0, 0, 0, "", 6, False, "", -1,
            False, (), 0, 0, _ORIGIN,
        )  # fmt: skip

    def files(self) -> tuple[Path, ...]:
        """As `Launch.files`."""
        other = (self.folder / name.format(self.file_number) for name in (MEMORY, FUNCTIONAL))
        named = (self.folder / name for name in CACHE_FILES)
        log = (self.log.path,) if self.log.path else ()
        return (self.path, *(file for file in (*other, *named, *log) if Path(file).is_file()))

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """As `Launch.trace`."""
        return import_kernel(self, sink, progress)

    def _printed(self) -> LoggedKernel | None:
        """The launch in what the tool printed: the tool counts from 1 what it has launched."""
        kernels = self.log.kernels
        if not kernels:
            return None
        if not 1 <= self.file_number <= len(kernels):
            what = f"the tool printed {len(kernels)} launches, of which kernel {self.file_number} is none"
            raise FormatError(what, place=str(self.log.path), remedy="keep the output of the run that made the trace")
        return kernels[self.file_number - 1]

    def _shape(
        self, name: str, given: str | int | object, printed: tuple[int, int, int] | None
    ) -> tuple[int, int, int]:
        found = printed if given is None else parse_dim3(given, f"--{name}")  # type: ignore[arg-type]
        if found is None:
            self._missing(name, "64" if name == "block" else "128")
        if min(found) < 1 or (printed is not None and found != printed):
            self._contradiction(name, found, printed or "at least 1 in each dimension")
        return found

    def _number(self, name: str, given: str | int | None, printed: int | None, most: int) -> int:
        found = parse_integer(given, f"--{name}") if isinstance(given, str) else given
        found = printed if found is None else found
        if found is None:
            self._missing(name, "0" if name == "shared" else "32")
        if not 0 <= found <= most or (printed is not None and found != printed):
            self._contradiction(name, found, f"0 to {most:,}" if printed is None else printed)
        return found

    def _missing(self, name: str, example: str) -> NoReturn:
        what = f"is missing: {self.folder / INSTRUCTIONS.format(self.file_number)} does not say it"
        remedy = (
            f"put what the tool printed (Kernel NAME - grid size ...) beside it as a .log file, or give --{name}, e.g. {example}"
        )
        raise UsageError(what, place=f"--{name}", remedy=remedy)

    def _contradiction(self, name: str, found: object, printed: object) -> NoReturn:
        where = f" ({self.log.path})" if self.log.path else ""
        what = f"{found} cannot be: it is {printed}{where}"
        raise UsageError(what, place=f"--{name}", remedy="leave the option out, or correct it")


def import_mdm(path: str | Path, isa: SassTable | None, facts: LaunchFacts) -> list[TracedKernel]:
    """The launches in the folder at `path`, or the one of an `instruction_trace_<k>.txt`, in order of their numbers.

    `isa.numbers` are opcodes by number, over those that the tool printed. Raises FormatError for a log that contradicts itself, and
    where there are only addresses.
    """
    path = Path(path)
    folder = path.parent if path.is_file() else path
    names = [path.name] if path.is_file() else [entry.name for entry in path.iterdir()]
    kinds = [kind for kind in map(kernel_of, names) if kind]
    numbers = sorted(number for kind, number in kinds if kind == "instruction_trace")
    if not numbers:
        what = f"has {', '.join(sorted({kind for kind, _ in kinds}))} files and no instruction_trace_<k>.txt: no instructions"
        raise FormatError(what, place=str(path), remedy="trace the program with MDM's instruction tool too (MDM-inst-trace)")
    if numbers[0] == 0:
        what = "instruction_trace_0.txt holds lines of a launch that was running while its number was given out"
        raise FormatError(what, place=str(folder / INSTRUCTIONS.format(0)), remedy=f"append them to the next file, or {REMEDY}")
    log = read_log(folder)
    table = isa or SassTable()
    paths = [folder / INSTRUCTIONS.format(number) for number in numbers]
    return [
        TracedKernel(k, table, path, folder, number, log, facts)
        for k, (number, path) in enumerate(zip(numbers, paths, strict=True), 1)
    ]


# -- One kernel's files of MDM's tools to one trace.

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


# -- What a reader of results must know about a trace of MDM's tools: above all what it does not say.

def notes_of(reader: KernelReader) -> tuple[str, ...]:
    """The notes that only this format needs, once all is read."""
    accesses, varying = reader.accesses, reader.program.varying
    functional = accesses is not None and accesses.path.name.startswith("memory_access")
    return tuple(
        note
        for note in (
            f"accesses are told as lines of {reader.line_bytes} B: each counts as all of its {reader.line_bytes // 32} sectors, so "
            "that traffic of L2 and DRAM is as of whole lines",
            "this tool writes no masks: every lane of a warp counts as active; shared and local memory have no addresses",
            "this tool writes operands as numbers, whatever they are: immediates and constants below 256 count as registers, so "
            "that some dependences are not the program's",
            f"{varying:,} operand fields hold something else each time, which is no operand, and are left out" if varying else "",
            f"{reader.lacking:,} executions of accesses have none in the memory trace: no lane was on, or another run was traced"
            if reader.lacking
            else "",
            f"{accesses.dropped:,} lines beyond any memory, or line 0, of lanes that were off, are left out"
            if accesses is not None and accesses.dropped
            else "",
            "the numbers in memory_access are taken for cache lines, as in mem_trace" if functional else "",
            *(_cache(name, reader) for name in reader.caches),
        )
        if note
    )


def _cache(name: str, reader: KernelReader) -> str:
    """What a cache file says; the GPU description has its own caches."""
    cache = reader.caches[name]
    size = cache.lines * cache.line_bytes
    return (
        f"{name}: {size:,} B in {cache.lines:,} lines of {cache.line_bytes} B, {cache.ways} ways, {cache.policy}; it is not used, "
        "the caches are the GPU description's (--set)"
    )
