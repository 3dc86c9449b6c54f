"""The launches of a folder of MDM's tools, each read to one trace on demand, with notes on what the format leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import numpy as np

from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.opcodes import SassTable
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.values import parse_integer
from warpsight.traces.importers.build import Source, build_trace
from warpsight.traces.importers.instructions import InstructionTable, InvalidInstruction
from warpsight.traces.importers.launch import REMEDY, KernelHeader, Launch, LaunchFacts, Progress, damaged
from warpsight.traces.importers.layout import Longs
from warpsight.traces.importers.lines import Lines, read_lines
from warpsight.traces.importers.mdm.files import (
    CACHE_FILES,
    FUNCTIONAL,
    INSTRUCTIONS,
    MEMORY,
    NO_ACCESSES,
    Accesses,
    CacheFile,
    Log,
    LoggedKernel,
    Program,
    clean,
    kernel_of,
    program_of,
    read_accesses,
    read_cache_file,
    read_log,
)
from warpsight.traces.importers.streams import ArrayProducer, WarpArrays, WarpStream, lanes_of_warp, ranges
from warpsight.traces.schema import SECTOR_BYTES, KernelTrace, TraceSink

_ORIGIN = "SASS of a GPU that MDM's tool does not name: addresses and control flow carry over to other GPUs, opcodes do not"
_MOST_SHARED = 1 << 30


@dataclass(frozen=True)
class TracedKernel(Launch):
    """One launch: the folder, its number in the names of files, what the tool printed, and what the user states."""

    folder: Path
    file_number: int
    log: Log
    facts: LaunchFacts

    @cached_property
    def header(self) -> KernelHeader:
        """The launch as printed or as the user states. Raises UsageError for what neither or both, differently, state."""
        printed = self._printed()
        grid = self._shape("grid", self.facts.grid, printed.grid if printed else None)
        block = self._shape("block", self.facts.block, printed.block if printed else None)
        registers = self._number("registers", self.facts.registers, printed.registers if printed else None, 255)
        shared = self._number("shared", self.facts.shared, printed.shared_bytes if printed else None, _MOST_SHARED)
        if block[0] * block[1] * block[2] > 1024 or grid[0] * grid[1] * grid[2] > 1 << 40:
            place = printed.place if printed else "block"
            raise UsageError(f"grid {grid} of blocks {block} exceeds CUDA's launch limits", place=place, remedy="correct it")
        name = printed.name if printed else f"kernel_{self.file_number}"
        return KernelHeader(name, self.file_number, grid, block, shared, registers, 0, printed.stream if printed else 0, _ORIGIN)

    def files(self) -> tuple[Path, ...]:
        """As `Launch.files`."""
        other = (self.folder / name.format(self.file_number) for name in (MEMORY, FUNCTIONAL))
        named = (self.folder / name for name in CACHE_FILES)
        log = (self.log.path,) if self.log.path else ()
        return (self.path, *(file for file in (*other, *named, *log) if Path(file).is_file()))

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """As `Launch.trace`."""
        reader = KernelReader(self)
        source = Source(reader.path, self.header, reader.program.isa, lambda: notes_of(reader))
        return build_trace(source, ArrayProducer(self.header, reader.table, reader.warps(), reader.path), sink, progress)

    def _printed(self) -> LoggedKernel | None:
        """The launch in what the tool printed: the tool counts from 1 what it has launched."""
        kernels = self.log.kernels
        if not kernels:
            return None
        if not 1 <= self.file_number <= len(kernels):
            what = f"the tool printed {len(kernels)} launches; kernel {self.file_number} is not among them"
            raise FormatError(what, place=str(self.log.path), remedy="keep the output of the run that made the trace")
        return kernels[self.file_number - 1]

    def _shape(
        self, name: str, stated: str | int | Sequence[int] | None, printed: tuple[int, int, int] | None
    ) -> tuple[int, int, int]:
        shape = printed if stated is None else parse_dim3(stated, name)
        if shape is None:
            self._missing(name, "64" if name == "block" else "128")
        if min(shape) < 1 or (printed is not None and shape != printed):
            self._contradiction(name, shape, printed or "at least 1 in each dimension")
        return shape

    def _number(self, name: str, stated: str | int | None, printed: int | None, most: int) -> int:
        number = parse_integer(stated, name) if isinstance(stated, str) else stated
        number = printed if number is None else number
        if number is None:
            self._missing(name, "0" if name == "shared" else "32")
        if not 0 <= number <= most or (printed is not None and number != printed):
            self._contradiction(name, number, f"0 to {most:,}" if printed is None else printed)
        return number

    def _missing(self, name: str, example: str) -> NoReturn:
        what = f"is missing: {self.folder / INSTRUCTIONS.format(self.file_number)} does not contain it"
        remedy = f"put the tool's output (Kernel NAME - grid size ...) beside it as a .log file, or give `{name}`, e.g. {example}"
        raise UsageError(what, place=name, remedy=remedy)

    def _contradiction(self, name: str, stated: object, printed: object) -> NoReturn:
        where = f" ({self.log.path})" if self.log.path else ""
        raise UsageError(f"{stated} contradicts {printed}{where}", place=name, remedy="leave it out, or correct it")


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
    return [TracedKernel(k, table, folder / INSTRUCTIONS.format(n), folder, n, log, facts) for k, n in enumerate(numbers, 1)]


# -- One kernel's files of MDM's tools as the streams of its warps.

LINE_BYTES = 128  # of the tool, if no cache file says otherwise


class KernelReader:
    """A kernel's warps, and what reading them shows. `lacking` executions of accesses are not in the memory trace."""

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
        self.table = InstructionTable(self.program.isa, bulk=False, request_bytes=self.line_bytes)
        self._rows = np.array([self._add(k) for k in range(len(self.program.instructions))], np.int64)
        self._addressed = np.array([each.addressed for each in self.program.instructions], np.bool_)
        pcs = np.array([each.pc for each in self.program.instructions], np.int64)
        self._accessing = np.searchsorted(pcs, self.accesses.pc)  # the instruction of each access

    def _add(self, number: int) -> int:
        """Enter an instruction of the program into the table. Raises FormatError if there is no such instruction."""
        instruction = self.program.instructions[number]
        try:
            names = list(instruction.names)
            return self.table.add_listed(instruction.pc, instruction.opcode, names, addressed=instruction.addressed)
        except InvalidInstruction as error:
            line = int(self.lines.line[int(np.argmax(self.program.of_text[self.lines.text] == number))])
            raise damaged(str(error), f"{self.path}:{line}") from None

    def _line_bytes(self, caches: dict[str, CacheFile], folder: Path) -> int:
        """Bytes of the cache lines that the memory trace is in."""
        if CACHE_FILES[0] not in caches:
            return LINE_BYTES
        size = caches[CACHE_FILES[0]].line_bytes
        if size % SECTOR_BYTES or not SECTOR_BYTES <= size <= 1024:
            what = f"a line of {size} bytes is not a whole number of sectors of {SECTOR_BYTES} bytes"
            raise FormatError(what, place=str(folder / CACHE_FILES[0]), remedy="give the file that the trace was made for")
        return size

    def _read_accesses(self, folder: Path, number: int) -> Accesses:
        """The accesses in `mem_trace_<k>.txt`, or in the functional simulator's `memory_access_<k>.txt`; none without either."""
        own, other = folder / MEMORY.format(number), folder / FUNCTIONAL.format(number)
        if own.is_file() and other.is_file():
            raise FormatError(f"{own.name} and {other.name} both give its accesses", place=str(folder), remedy="keep one of them")
        if own.is_file() or other.is_file():
            return read_accesses(own if own.is_file() else other, self.line_bytes, functional=not own.is_file())
        return NO_ACCESSES

    def _check_loads(self) -> None:
        """Raise FormatError where accesses are loads and their instruction a store, or the other way round."""
        accesses, isa = self.accesses, self.program.isa
        rows = {i.pc: (isa.meaning(i.opcode).row, i.opcode) for i in self.program.instructions}
        if accesses is NO_ACCESSES:
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

    def warps(self) -> Iterator[WarpStream]:
        """The warps in the trace, in order of their numbers. Raises FormatError for those that the launch does not have."""
        header, lines = self.header, self.lines
        warps = np.array([key[0] for key in lines.keys], np.int64)
        total = header.blocks * header.warps_per_block
        if int(warps.max()) >= total:
            line = int(lines.line[int(np.argmax(warps[lines.who] >= total))])
            what = f"warp {int(warps.max())}, and the launch has {total:,} warps"
            raise FormatError(what, place=f"{self.path}:{line}", remedy="give the grid and block of this launch")
        order = np.argsort(warps[lines.who], kind="stable")
        present, first = np.unique(warps[lines.who][order], return_index=True)
        cuts = np.append(first, len(order))
        accesses = self.accesses
        strange = np.flatnonzero(~np.isin(accesses.warp, present))
        if len(strange):
            what = f"an access of warp {int(accesses.warp[strange[0]])}, which has no instructions in {self.path.name}"
            raise FormatError(what, place=f"{accesses.path}:{int(accesses.line[strange[0]])}", remedy=f"a file is cut: {REMEDY}")
        access_order = np.argsort(accesses.warp, kind="stable")
        access_cuts = np.searchsorted(accesses.warp[access_order], np.append(present, total))
        for k, warp in enumerate(present.tolist()):
            own = access_order[access_cuts[k] : access_cuts[k + 1]]
            yield self._warp(warp, order[cuts[k] : cuts[k + 1]], own)

    def _warp(self, warp: int, index: Longs, own: Longs) -> WarpStream:
        """The stream of one warp: its lines `index` with its accesses `own`."""
        accesses, per_block = self.accesses, self.header.warps_per_block
        instruction = self.program.of_text[self.lines.text[index]].astype(np.int64)
        access = self._matched(warp, instruction, own)
        addressed = self._addressed[instruction]
        self.lacking += int((addressed & (access < 0)).sum())
        count = np.where(access >= 0, accesses.offset[access + 1] - accesses.offset[access], 0)
        full = lanes_of_warp(warp % per_block, self.header.threads_per_block)
        mask = np.where(addressed, (1 << count) - 1, full)
        addresses = accesses.touched[ranges(accesses.offset[access], count)] * self.line_bytes
        arrays = WarpArrays(self._rows[instruction], mask, np.append(0, np.cumsum(count)), addresses)

        def place(k: int) -> str:
            if access[k] >= 0:
                return f"{accesses.path}:{int(accesses.line[access[k]])}"
            return f"{self.path}:{int(self.lines.line[index[k]])}"

        return WarpStream(warp // per_block, warp % per_block, arrays, place)

    def _matched(self, warp: int, instruction: Longs, own: Longs) -> Longs:
        """Of each execution its access, -1 if it has none: the n-th access of a pc is the n-th execution of it by this warp.

        Raises FormatError where a pc has more accesses than executions.
        """
        access = np.full(len(instruction), -1, np.int64)
        executed = np.argsort(instruction, kind="stable")
        first = np.searchsorted(instruction[executed], np.arange(len(self._rows) + 1))
        accessing = self._accessing[own]
        order = np.argsort(accessing, kind="stable")
        begins = np.searchsorted(accessing[order], np.arange(len(self._rows)))
        turn = np.empty(len(own), np.int64)
        turn[order] = np.arange(len(own)) - begins[accessing[order]]
        surplus = np.flatnonzero(turn >= first[accessing + 1] - first[accessing])
        if len(surplus):
            excess = own[surplus[0]]
            what = f"warp {warp} has more accesses of pc {int(self.accesses.pc[excess]):#x} than executions of it"
            place = f"{self.accesses.path}:{int(self.accesses.line[excess])}"
            raise FormatError(what, place=place, remedy=f"{self.path} is cut, or of another run: {REMEDY}")
        access[executed[first[accessing] + turn]] = own
        return access


# -- What a reader of results must know about a trace of MDM's tools: above all what it does not contain.

def notes_of(reader: KernelReader) -> tuple[str, ...]:
    """The notes of this format, once all is read."""
    accesses, varying = reader.accesses, reader.program.varying
    notes = [
        f"accesses are recorded as lines of {reader.line_bytes} B: each counts as all its {reader.line_bytes // 32} sectors, "
        "so L2 and DRAM traffic is that of whole lines",
        "this tool writes no masks: every lane of a warp counts as active; shared and local memory have no addresses",
        "this tool writes operands as numbers of any kind: immediates and constants below 256 count as registers, so "
        "some dependences are not the program's",
    ]
    if varying:
        notes.append(f"{varying:,} operand fields differ from one execution to the next and are left out: they are not operands")
    if reader.lacking:
        absent = "are not in the memory trace: no lane was active, or it is of another run"
        notes.append(f"{reader.lacking:,} executions of accesses {absent}")
    if accesses.dropped:
        notes.append(f"{accesses.dropped:,} lines beyond any memory, or line 0, of inactive lanes, are left out")
    if accesses.path.name.startswith("memory_access"):
        notes.append("the numbers in memory_access are read as cache lines, as in mem_trace")
    for name, cache in reader.caches.items():
        size = cache.lines * cache.line_bytes
        notes.append(
            f"{name}: {size:,} B in {cache.lines:,} lines of {cache.line_bytes} B, {cache.ways} ways, {cache.policy}; "
            "it is not used, the caches are those of the GPU description"
        )
    return tuple(notes)
