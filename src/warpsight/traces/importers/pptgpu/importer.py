"""The launches of a folder of PPT-GPU's or AMALI's tracer, each read to one trace when it is asked for, with notes on what the
format leaves out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.accelsim.importer import HELD_BYTES, Source, import_text
from warpsight.traces.importers.accelsim.instructions import LineTable
from warpsight.traces.importers.launch import REMEDY, KernelHeader, Launch, Progress
from warpsight.traces.importers.pieces import BLOCK_ENDS, LineForm, Piece, PieceText, block_begins
from warpsight.traces.importers.pptgpu.blocks import BlockLines, ByOpcode, Form, Ints, align, in_order
from warpsight.traces.importers.pptgpu.files import (
    CONFIG,
    SASS,
    Dropped,
    KernelConfig,
    SassFile,
    memory_files,
    opcodes_with_records,
    place_of,
    read_config,
    read_records,
    read_sass,
    sass_file,
)
from warpsight.traces.schema import KernelTrace, TraceSink
from warpsight.traces.spill import SpillingSink


@dataclass(frozen=True)
class TracedKernel(Launch):
    """One launch: what `app_config.py` says of it, and the folder that its files are in."""

    folder: Path
    config: KernelConfig

    @property
    def header(self) -> KernelHeader:
        """The launch. Grid and block are given as totals: the trace does not say their shape."""
        config = self.config
        return KernelHeader(
            config.name, config.number, (config.blocks, 1, 1), (config.threads, 1, 1), config.shared_bytes, config.registers, 0,
            max(0, config.stream), 0, 0, "", 6, False, "", -1, False, (), 0, 0, "SASS",
        )  # fmt: skip

    def files(self) -> tuple[Path, ...]:
        """As `Launch.files`."""
        return (self.folder / CONFIG, self.path, *memory_files(self.folder, self.config.number).values())

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """As `Launch.trace`."""
        return import_kernel(self.folder, self.config, self.header, self.isa, sink, progress)


def import_pptgpu(path: str | Path, isa: SassTable | None = None) -> list[TracedKernel]:
    """The launches in the folder at `path`, or the one of a `.sass` file, in the order of `app_kernels_id`.

    Raises FormatError for an `app_config.py` that is none and for files that are not there, UsageError where there is no launch.
    """
    found = place_of(path)
    if found is None:
        raise UsageError("is no trace of PPT-GPU's tracer", place=str(path), remedy=f"give a folder with {CONFIG} and {SASS}/")
    folder, only = found
    kernels = read_config(folder / CONFIG)
    if only is not None:
        kernels = [kernel for kernel in kernels if kernel.number == only]
    if not kernels:
        what = "there is no launch in it" if only is None else f"its app_kernels_id does not name kernel {only}"
        raise UsageError(what, place=str(folder / CONFIG), remedy="trace the program again")
    for kernel in kernels:
        if not sass_file(folder, kernel.number).is_file():
            what = f"there is no {SASS}/kernel_{kernel.number}.sass"
            raise FormatError(what, place=f"{folder / CONFIG}:{kernel.line}", remedy=REMEDY)
    isa = isa or SassTable()
    return [
        TracedKernel(number, isa, sass_file(folder, kernel.number), folder, kernel) for number, kernel in enumerate(kernels, 1)
    ]


# -- One kernel's files of PPT-GPU's or AMALI's tracer to one trace.

_PC_BYTES = 16
_EXITS = ("EXIT", "KILL", "PEXIT", "BPT", "RTT")


def import_kernel(
    folder: Path, config: KernelConfig, header: KernelHeader, isa: SassTable, sink: TraceSink | None, progress: Progress | None
) -> KernelTrace:
    """The trace of a kernel, into `sink` or kept in memory or a temporary folder. Raises FormatError with file and line."""
    path = sass_file(folder, config.number)
    sass = read_sass(path, header.warps_per_block)
    header = dataclasses.replace(header, grid=_grid(sass, config), origin=origin(sass))
    reader = KernelReader(folder, config, header, sass, isa)
    text = PieceText(reader.pieces(), str(path))
    source = Source(path, header, isa, 0, lambda: notes_of(reader))
    return import_text(source, text, LineTable(isa, bulk=False), sink or SpillingSink(HELD_BYTES), progress)


class KernelReader:
    """The blocks of a kernel as pieces of text, and what is learnt on the way."""

    def __init__(self, folder: Path, config: KernelConfig, header: KernelHeader, sass: SassFile, isa: SassTable) -> None:
        self.config, self.header, self.sass = config, header, sass
        self.files = memory_files(folder, config.number)
        self.dropped = Dropped()
        self.by_opcode: ByOpcode | None = None
        for number, file in self.files.items():
            if number >= config.blocks:
                what = f"records of block {number}, and the grid has {config.blocks:,} blocks"
                raise FormatError(what, place=str(file), remedy="remove the files of an earlier run, and trace the program again")
        recorded = opcodes_with_records(self.files.values())
        opcodes = [text.split(" ", 1)[0] for text in sass.lines.texts]
        rows = [isa.meaning(opcode).row for opcode in opcodes]
        self._check_ends(opcodes)
        flat = [stream for streams in sass.blocks.values() for stream in streams]
        program = align(
            (sass.lines.text[stream.index] for stream in flat), np.array([row.op_class == "branch" for row in rows], np.bool_)
        )
        self.instructions = len(program.text)
        self._places = iter(program.streams)
        self._forms, self._addressed = self._compose(program.text, recorded, isa)
        expected = any(row.access and row.space in ("global", "local", "generic") for row in rows)
        if expected and not self.files:
            what = f"there is no memory_traces/kernel_{config.number}_block_N.mem, and the kernel accesses memory"
            raise FormatError(what, place=str(sass.path), remedy="give the folder memory_traces too")

    def _compose(self, texts: Ints, recorded: frozenset[str], isa: SassTable) -> tuple[list[Form], list[str]]:
        """Of each instruction the form of its line, and its opcode if its accesses have records, else nothing."""
        form = LineForm(isa)
        forms, addressed = [], []
        for place, text in enumerate(texts.tolist()):
            opcode, *names = self.sass.lines.texts[text].split()
            has_records = opcode in recorded
            forms.append(form.of(_PC_BYTES * place, opcode, names, addressed=has_records))
            addressed.append(opcode if has_records else "")
        return forms, addressed

    def _check_ends(self, opcodes: list[str]) -> None:
        """Raise FormatError where the last line of a warp is no exit: the file is cut there."""
        lines = self.sass.lines
        for streams in self.sass.blocks.values():
            for stream in streams:
                last = int(stream.index[-1])
                opcode = opcodes[int(lines.text[last])]
                if opcode.split(".")[0] not in _EXITS:
                    what = f"the last line of a warp is {opcode}, not EXIT"
                    raise FormatError(what, place=f"{self.sass.path}:{int(lines.line[last])}", remedy=f"the trace is cut: {REMEDY}")

    def pieces(self) -> Iterator[Piece]:
        """The text of all blocks that are in the trace, in order of their numbers."""
        if self.sass.amali:
            yield from self._all_blocks()
        else:
            yield from self._one_for_all()

    def _block(self, number: int, pieces: Iterator[Piece]) -> Iterator[Piece]:
        yield Piece(block_begins(self.header.grid, number), lambda _: str(self.sass.path))
        yield from pieces
        yield Piece(BLOCK_ENDS, lambda _: str(self.sass.path))

    def _one_for_all(self) -> Iterator[Piece]:
        """PPT-GPU: the lines of the one block for each block that has records; without any, that one block alone."""
        (streams,) = self.sass.blocks.values()
        block = BlockLines(
            self.sass, streams, list(self._places), self._forms, self._addressed, self.config.threads
        )
        if not block.slots and not self.files:
            yield from self._block(0, block.pieces([], self.sass.path))
            return
        self.by_opcode = ByOpcode(block)
        for number, file in self.files.items():
            yield from self._block(number, block.pieces(self.by_opcode.assign(read_records(file, self.dropped), file), file))
        if not self.by_opcode.exact:
            what = "no block's records are in the order of these lines, as those of the block that was written must be"
            raise FormatError(what, place=str(self.sass.path), remedy=f"this file or one of memory_traces is cut: {REMEDY}")

    def _all_blocks(self) -> Iterator[Piece]:
        """AMALI: each block with its own lines."""
        x, y, _ = self.header.grid
        numbered = {}
        for (bx, by, bz), streams in self.sass.blocks.items():
            numbered[bx + x * (by + y * bz)] = (streams, [next(self._places) for _ in streams])
        for number, file in self.files.items():
            if number not in numbered:
                what = "the block of these records has no lines"
                raise FormatError(what, place=str(file), remedy=f"{self.sass.path} is cut: {REMEDY}")
        for number in sorted(numbered):
            streams, places = numbered.pop(number)
            block = BlockLines(self.sass, streams, places, self._forms, self._addressed, self.config.threads)
            place = self.files.get(number, self.sass.path)
            records = read_records(place, self.dropped) if number in self.files else []
            if block.slots and number not in self.files:
                what = f"block {number} has accesses, and there is no memory_traces/kernel_{self.config.number}_block_{number}.mem"
                raise FormatError(what, place=f"{self.sass.path}:{block.slots[0].line}", remedy=REMEDY)
            yield from self._block(number, block.pieces(in_order(block, records, self.sass, place), place))


def _grid(sass: SassFile, config: KernelConfig) -> tuple[int, int, int]:
    """The shape of the grid: by the blocks' places where all are there (AMALI), else the total along x.

    Raises FormatError where neither can be.
    """
    x, y, z = (1 + max(place[axis] for place in sass.blocks) for axis in range(3))
    if not sass.amali or (y == z == 1 and x <= config.blocks):
        return (config.blocks, 1, 1)
    if x * y * z != config.blocks:
        what = f"its blocks go up to {(x - 1, y - 1, z - 1)}, which is not the shape of {config.blocks:,} blocks (grid_size)"
        raise FormatError(what, place=str(sass.path), remedy=f"the trace is cut: {REMEDY}")
    return (x, y, z)


# -- What a reader of results must know about a trace of PPT-GPU's or AMALI's tracer: above all what it does not say.

def origin(sass: SassFile) -> str:
    """The first note."""
    tool = "AMALI's" if sass.amali else "PPT-GPU's"
    return (
        f"SASS of a GPU that {tool} tracer does not name: addresses and the order of instructions carry over to other GPUs, "
        "opcodes do not"
    )


def notes_of(reader: KernelReader) -> tuple[str, ...]:
    """The notes that only this format needs, once all is read."""
    return tuple(note for note in (*_missing(reader), *_assigned(reader), *_odd(reader)) if note)


def _missing(reader: KernelReader) -> tuple[str, ...]:
    shape = "the shape of blocks" if reader.sass.amali else "the shapes of grid and blocks"
    cluster = reader.config.cluster
    return (
        f"this tracer writes no program counters: the {reader.instructions:,} instructions are the distinct straight runs between "
        "branches, of which one that ends like a longer one is taken for that place",
        "this tracer writes no masks: every lane of a warp counts as active, and an access has as many lanes as addresses that are "
        "not zero, among which are those of lanes that were off",
        f"this tracer does not write {shape}: their totals are along x",
        "warps are numbered in the order of the SM's slots that they sat in",
        "" if reader.sass.amali else "uniform registers are written like others, so that some dependences are not the program's",
        f"a cluster has {cluster} blocks; clusters have no part in this" if cluster > 1 else "",
    )


def _assigned(reader: KernelReader) -> tuple[str, ...]:
    if reader.by_opcode is None:
        return ()
    return (
        "the instructions are those of one block, taken for all; accesses of the others are given to instructions by opcode, in "
        "the order of the tracer, so that warps of a block may have each other's addresses",
    )


def _odd(reader: KernelReader) -> tuple[str, ...]:
    given, dropped = reader.by_opcode, reader.dropped.addresses
    notes = []
    if given is not None and given.odd:
        notes.append(
            f"warning: {given.odd:,} blocks have not as many accesses as the block whose instructions are taken for all (the "
            f"first: {given.first}): {given.lacking:,} instructions have no addresses, {given.surplus:,} accesses have no "
            "instruction and are left out"
        )
    if dropped:
        notes.append(f"{dropped:,} addresses beyond any memory, of lanes that were off, are left out")
    return tuple(notes)
