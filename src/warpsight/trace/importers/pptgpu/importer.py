"""One kernel's files of PPT-GPU's or AMALI's tracer to one trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.isa.sass.semantics import SassTable
from warpsight.trace.importers.accelsim.importer import HELD_BYTES, Source, import_text
from warpsight.trace.importers.accelsim.statics import LineTable
from warpsight.trace.importers.launch import REMEDY, KernelHeader, Progress
from warpsight.trace.importers.pieces import BLOCK_ENDS, LineForm, Piece, PieceText, block_begins
from warpsight.trace.importers.pptgpu.blocks import BlockLines, ByOpcode, Form, in_order
from warpsight.trace.importers.pptgpu.config import KernelConfig
from warpsight.trace.importers.pptgpu.memory import Dropped, opcodes_with_records, read_records
from warpsight.trace.importers.pptgpu.names import memory_files, sass_file
from warpsight.trace.importers.pptgpu.notes import notes_of, origin
from warpsight.trace.importers.pptgpu.runs import Ints, align
from warpsight.trace.importers.pptgpu.sass import SassFile, read_sass
from warpsight.trace.schema import KernelTrace
from warpsight.trace.sink import TraceSink
from warpsight.trace.spill import SpillingSink

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
