"""The launches of a folder of PPT-GPU's or AMALI's tracer, each read to one trace on demand, with notes on what is left out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.build import Source, build_trace
from warpsight.traces.importers.instructions import InstructionTable, InvalidInstruction
from warpsight.traces.importers.launch import REMEDY, KernelHeader, Launch, Progress, damaged
from warpsight.traces.importers.layout import Ints, Longs
from warpsight.traces.importers.pptgpu.files import (
    CONFIG,
    SASS,
    KernelConfig,
    Records,
    SassFile,
    WarpLines,
    memory_files,
    no_records,
    opcodes_with_records,
    place_of,
    read_config,
    read_records,
    read_sass,
    sass_file,
)
from warpsight.traces.importers.streams import ArrayProducer, WarpArrays, WarpStream, lanes_of_warp, ranges
from warpsight.traces.schema import KernelTrace, TraceSink


@dataclass(frozen=True)
class TracedKernel(Launch):
    """One launch: its entry in `app_config.py`, and the folder of its files."""

    folder: Path
    config: KernelConfig

    @property
    def header(self) -> KernelHeader:
        """The launch. Grid and block are totals: the trace does not contain their shape."""
        config = self.config
        return KernelHeader(
            config.name, config.number, (config.blocks, 1, 1), (config.threads, 1, 1), config.shared_bytes, config.registers, 0,
            max(0, config.stream), "",
        )  # fmt: skip

    def files(self) -> tuple[Path, ...]:
        """As `Launch.files`."""
        return (self.folder / CONFIG, self.path, *memory_files(self.folder, self.config.number).values())

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """As `Launch.trace`."""
        sass = read_sass(self.path, self.header.warps_per_block)
        header = dataclasses.replace(self.header, grid=_grid(sass, self.config), origin=origin(sass))
        reader = KernelReader(self.folder, self.config, header, sass, self.isa)
        source = Source(self.path, header, self.isa, lambda: notes_of(reader))
        return build_trace(source, ArrayProducer(header, reader.table, reader.warps(), self.path), sink, progress)


def import_pptgpu(path: str | Path, isa: SassTable | None = None) -> list[TracedKernel]:
    """The launches in the folder at `path`, or the one of a `.sass` file, in the order of `app_kernels_id`.

    Raises FormatError for an invalid `app_config.py` and for missing files, UsageError if there is no launch.
    """
    named = place_of(path)
    if named is None:
        raise UsageError("is not a trace of PPT-GPU's tracer", place=str(path), remedy=f"give a folder with {CONFIG} and {SASS}/")
    folder, only = named
    kernels = read_config(folder / CONFIG)
    if only is not None:
        kernels = [kernel for kernel in kernels if kernel.number == only]
    if not kernels:
        what = "there is no launch in it" if only is None else f"its app_kernels_id does not name kernel {only}"
        raise UsageError(what, place=str(folder / CONFIG), remedy="trace the program again")
    for kernel in kernels:
        if not os.path.isfile(sass_file(folder, kernel.number)):
            what = f"there is no {SASS}/kernel_{kernel.number}.sass"
            raise FormatError(what, place=f"{folder / CONFIG}:{kernel.line}", remedy=REMEDY)
    isa = isa or SassTable()
    return [TracedKernel(k, isa, sass_file(folder, kernel.number), folder, kernel) for k, kernel in enumerate(kernels, 1)]


# -- Which instruction of the program a line is, in a trace without program counters.
#
# Native code continues in a straight line up to the next branch, call, return, convergence barrier or exit (op class `branch`), and
# these are in the trace whether they are taken or not. A warp's stream is cut behind each of them into *runs*. Two runs that end at
# the same branch begin at different places before it, so one is the end of the other: a run that equals the end of a longer one is
# assigned to that place. What is left are the longest runs; their instructions, concatenated, are the executed part of the program.
# Two pieces of code with the same text up to their branch count as one; code that is entered by a call which the tracer leaves out
# counts once for each caller.

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Program:
    """`text` int32: the number of each instruction's text, in order of place. `streams`: the places of each warp's instructions."""

    text: Ints
    streams: list[Ints]


def align(warps: Iterable[Ints], ends_run: Bools) -> Program:
    """Places of the instructions of `warps` (each a stream of numbers of texts); `ends_run` says of each text if it ends a run."""
    runs: dict[bytes, int] = {}
    followed = []
    for stream in warps:
        stops = np.flatnonzero(ends_run[stream]) + 1
        if not len(stops) or stops[-1] < len(stream):
            stops = np.append(stops, len(stream))
        data, first, taken = np.ascontiguousarray(stream, np.int32).tobytes(), 0, []
        for stop in (4 * stops).tolist():
            taken.append(runs.setdefault(data[first:stop], len(runs)))
            first = stop
        followed.append(np.array(taken, np.int64))
    texts = list(runs)
    home = _homes(texts)
    start = np.zeros(len(texts), np.int64)
    size = np.array([len(text) // 4 for text in texts], np.int64)
    longest = [run for run, (whole, _) in enumerate(home) if whole == run]
    start[longest] = np.cumsum(size[longest]) - size[longest]
    for run, (whole, skipped) in enumerate(home):
        start[run] = start[whole] + skipped
    streams = [ranges(start[taken], size[taken]).astype(np.int32) for taken in followed]
    return Program(np.frombuffer(b"".join(texts[run] for run in longest), np.int32), streams)


def _homes(texts: list[bytes]) -> list[tuple[int, int]]:
    """For each run (the longest run that ends like it, instructions of that before it); of several the first that came."""
    home = [(run, 0) for run in range(len(texts))]
    by_length: dict[int, list[int]] = {}
    for run, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(run)
    longest: list[int] = []
    for length in sorted(by_length, reverse=True):
        ends: dict[bytes, int] = {}
        for whole in sorted(longest):
            ends.setdefault(texts[whole][-length:], whole)
        for run in by_length[length]:
            longer = ends.get(texts[run])
            if longer is None:
                longest.append(run)
            else:
                home[run] = (longer, (len(texts[longer]) - length) // 4)
    return home


# -- The streams of a block's warps: instructions that every block shares, and for each block its own addresses.
#
# The tracer writes the record of an access when it writes the line of the access. The records of a block are therefore in the
# order of its lines, over all its warps: if the lines of a block are in the trace, the n-th record belongs to the n-th line of an
# opcode that has records. Of blocks whose lines are not in the trace (PPT-GPU writes those of one block) the order of warps is
# not known: the n-th record of an opcode is assigned to the n-th line of that opcode in the block that was written.


class Block:
    """A block's streams. `opcodes` are those of its accesses with records, in the order of their lines; `line` these lines.

    Of each place in the program, `rows` is its row in the table, `opcodes` its opcode if its accesses have records, else "".
    """

    def __init__(
        self, sass: SassFile, warps: list[WarpLines], places: list[Ints], rows: Longs, opcodes: list[str], threads: int
    ) -> None:
        self._sass, self._warps, self._places, self._rows, self._threads = sass, warps, places, rows, threads
        recorded = np.array([bool(opcode) for opcode in opcodes], np.bool_)
        self._steps = [np.flatnonzero(recorded[place]) for place in places]  # of each warp, those that are accesses
        line = np.concatenate([sass.lines.line[warp.index[steps]] for warp, steps in zip(warps, self._steps, strict=True)])
        place = np.concatenate([place[steps] for place, steps in zip(places, self._steps, strict=True)])
        order = np.argsort(line, kind="stable")
        self.line: Longs = line[order].astype(np.int64)
        self.opcodes = [opcodes[k] for k in place[order].tolist()]
        slot = np.argsort(order, kind="stable")  # of each access, warp by warp, its place in the order of lines
        self._slots = np.split(slot, np.cumsum([len(steps) for steps in self._steps])[:-1])

    def warps(self, number: int, records: Records, assigned: Longs) -> Iterator[WarpStream]:
        """The streams of block `number` with the records `assigned` to its accesses (-1: none, no lane was active)."""
        for warp, places, steps, slots in zip(self._warps, self._places, self._steps, self._slots, strict=True):
            record = np.full(len(places), -1, np.int64)
            record[steps] = assigned[slots]
            access = np.zeros(len(places), np.bool_)
            access[steps] = True
            yield WarpStream(number, warp.warp, *self._arrays(warp, places, access, record, records))

    def _arrays(
        self, warp: WarpLines, places: Ints, access: Bools, record: Longs, records: Records
    ) -> tuple[WarpArrays, Callable[[int], str]]:
        """A warp's instructions. An LDGSTS is two, the store to shared memory before the load, where both have addresses."""
        there = record >= 0
        first = np.where(there, records.offset[record], 0)
        size = np.where(there, records.offset[record + 1] - first, 0)
        shared = np.zeros(len(places), np.int64)
        shared[there] = records.shared[record[there]]
        times = 1 + (shared > 0)
        k = np.repeat(np.arange(len(places)), times)  # the instruction in the file of each one in the stream
        last = np.cumsum(times) - 1
        begin, count = first[k], shared[k]
        begin[last], count[last] = first + shared, size - shared
        mask = np.where(access[k], (1 << count) - 1, lanes_of_warp(warp.warp, self._threads))
        addresses = records.address[ranges(begin, count)]
        arrays = WarpArrays(self._rows[places[k]], mask, np.append(0, np.cumsum(count)), addresses)

        def place(step: int) -> str:
            if there[k[step]]:
                return f"{records.path}:{int(records.line[record[k[step]]])}"
            return f"{self._sass.path}:{int(self._sass.lines.line[warp.index[k[step]]])}"

        return arrays, place


def in_order(block: Block, records: Records, sass: SassFile) -> Longs:
    """The record of each access of a block whose lines are in the trace. Raises FormatError at the first that does not fit."""
    for k, (expected, opcode) in enumerate(zip(block.opcodes, records.opcodes, strict=False)):
        if expected != opcode:
            what = f"the record is of {opcode}, where the block's next access is {expected} ({sass.path}:{block.line[k]})"
            raise FormatError(what, place=f"{records.path}:{records.line[k]}", remedy=REMEDY)
    if len(records.opcodes) != len(block.opcodes):
        what = f"{len(records.opcodes):,} records of accesses, and the block's lines have {len(block.opcodes):,}"
        place = f"{records.path}:{records.line[-1]}" if records.opcodes else str(records.path)
        raise FormatError(what, place=place, remedy=f"one of them is cut: {REMEDY}")
    return np.arange(len(block.opcodes))


class ByOpcode:
    """Assigns the records of other blocks to the accesses of one block by their opcodes.

    `lacking` accesses have no record and `surplus` records no access, in `odd` blocks, the first of which is `first`. `exact` is
    whether some block has its records in the very order of the lines, as the block of the lines has.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._slots: dict[str, list[int]] = {}
        for slot, opcode in enumerate(block.opcodes):
            self._slots.setdefault(opcode, []).append(slot)
        self.lacking = self.surplus = self.odd = 0
        self.first = ""
        self.exact = False

    def assign(self, records: Records) -> Longs:
        """The record of each access of the block, -1 if it has none."""
        self.exact = self.exact or records.opcodes == self._block.opcodes
        record = np.full(len(self._block.opcodes), -1, np.int64)
        left = {opcode: iter(slots) for opcode, slots in self._slots.items()}
        for number, opcode in enumerate(records.opcodes):
            slot = next(left.get(opcode, iter(())), None)
            if slot is not None:
                record[slot] = number
        lacking = int((record < 0).sum())
        surplus = len(records.opcodes) - (len(record) - lacking)
        if lacking or surplus:
            self.odd += 1
            self.first = self.first or str(records.path)
        self.lacking += lacking
        self.surplus += surplus
        return record


# -- One kernel's files of PPT-GPU's or AMALI's tracer as the streams of its warps.

_PC_BYTES = 16
_EXITS = ("EXIT", "KILL", "PEXIT", "BPT", "RTT")


class KernelReader:
    """A kernel's warps, and what reading them shows: `count` instructions of the program, `dropped` addresses beyond any memory."""

    def __init__(self, folder: Path, config: KernelConfig, header: KernelHeader, sass: SassFile, isa: SassTable) -> None:
        self.config, self.header, self.sass = config, header, sass
        self.files = memory_files(folder, config.number)
        self.dropped = 0
        self.by_opcode: ByOpcode | None = None
        for number, file in self.files.items():
            if number >= config.blocks:
                what = f"records of block {number}, and the grid has {config.blocks:,} blocks"
                raise FormatError(what, place=str(file), remedy="remove the files of an earlier run, and trace the program again")
        recorded = opcodes_with_records(self.files.values())
        opcodes = [text.split(" ", 1)[0] for text in sass.lines.texts]
        rows = [isa.meaning(opcode).row for opcode in opcodes]
        self._check_ends(opcodes)
        flat = [warp for warps in sass.blocks.values() for warp in warps]
        program = align(
            (sass.lines.text[warp.index] for warp in flat), np.array([row.op_class == "branch" for row in rows], np.bool_)
        )
        self._places, self.count = iter(program.streams), len(program.text)
        self.table = InstructionTable(isa, bulk=False)
        self._rows, self._opcodes = self._enter(program.text, recorded)
        expected = any(row.access and row.space in ("global", "local", "generic") for row in rows)
        if expected and not self.files:
            what = f"there is no memory_traces/kernel_{config.number}_block_N.mem, and the kernel accesses memory"
            raise FormatError(what, place=str(sass.path), remedy="give the folder memory_traces too")

    def _enter(self, texts: Ints, recorded: frozenset[str]) -> tuple[Longs, list[str]]:
        """Enter the instructions of the program, given by their texts, into the table. Raises FormatError for what is none."""
        rows, opcodes = np.zeros(len(texts), np.int64), []
        for place, text in enumerate(texts.tolist()):
            opcode, *names = self.sass.lines.texts[text].split()
            try:
                rows[place] = self.table.add_listed(_PC_BYTES * place, opcode, names, addressed=opcode in recorded)
            except InvalidInstruction as error:
                line = int(self.sass.lines.line[int(np.argmax(self.sass.lines.text == text))])
                raise damaged(str(error), f"{self.sass.path}:{line}") from None
            opcodes.append(opcode if opcode in recorded else "")
        return rows, opcodes

    def _check_ends(self, opcodes: list[str]) -> None:
        """Raise FormatError if the last line of a warp is not an exit: the file is cut there."""
        lines = self.sass.lines
        for warps in self.sass.blocks.values():
            for warp in warps:
                last = int(warp.index[-1])
                opcode = opcodes[int(lines.text[last])]
                if opcode.split(".")[0] not in _EXITS:
                    what = f"the last line of a warp is {opcode}, not EXIT"
                    raise FormatError(what, place=f"{self.sass.path}:{int(lines.line[last])}", remedy=f"the trace is cut: {REMEDY}")

    def warps(self) -> Iterator[WarpStream]:
        """The warps of all blocks that are in the trace, in order of the blocks' numbers."""
        yield from self._every_block() if self.sass.amali else self._one_for_all()

    def _read(self, path: Path) -> Records:
        records = read_records(path)
        self.dropped += records.dropped
        return records

    def _one_for_all(self) -> Iterator[WarpStream]:
        """PPT-GPU: the lines of the one block for each block that has records; without any, that one block only."""
        (warps,) = self.sass.blocks.values()
        block = Block(self.sass, warps, list(self._places), self._rows, self._opcodes, self.config.threads)
        if not block.opcodes and not self.files:
            yield from block.warps(0, no_records(self.sass.path), np.zeros(0, np.int64))
            return
        self.by_opcode = ByOpcode(block)
        for number, file in self.files.items():
            records = self._read(file)
            yield from block.warps(number, records, self.by_opcode.assign(records))
        if not self.by_opcode.exact:
            what = "no block's records are in the order of these lines, as those of the block that was written must be"
            raise FormatError(what, place=str(self.sass.path), remedy=f"this file or one of memory_traces is cut: {REMEDY}")

    def _every_block(self) -> Iterator[WarpStream]:
        """AMALI: each block with its own lines."""
        x, y, _ = self.header.grid
        numbered = {
            bx + x * (by + y * bz): (warps, [next(self._places) for _ in warps]) for (bx, by, bz), warps in self.sass.blocks.items()
        }
        for number, file in self.files.items():
            if number not in numbered:
                what = "the block of these records has no lines"
                raise FormatError(what, place=str(file), remedy=f"{self.sass.path} is cut: {REMEDY}")
        for number in sorted(numbered):
            warps, places = numbered.pop(number)
            block = Block(self.sass, warps, places, self._rows, self._opcodes, self.config.threads)
            records = self._read(self.files[number]) if number in self.files else no_records(self.sass.path)
            if block.opcodes and number not in self.files:
                what = f"block {number} has accesses, and there is no memory_traces/kernel_{self.config.number}_block_{number}.mem"
                raise FormatError(what, place=f"{self.sass.path}:{block.line[0]}", remedy=REMEDY)
            yield from block.warps(number, records, in_order(block, records, self.sass))


def _grid(sass: SassFile, config: KernelConfig) -> tuple[int, int, int]:
    """The shape of the grid: by the blocks' places if all are there (AMALI), else the total along x. Raises FormatError."""
    x, y, z = (1 + max(place[axis] for place in sass.blocks) for axis in range(3))
    if not sass.amali or (y == z == 1 and x <= config.blocks):
        return (config.blocks, 1, 1)
    if x * y * z != config.blocks:
        what = f"its blocks go up to {(x - 1, y - 1, z - 1)}, which is not the shape of {config.blocks:,} blocks (grid_size)"
        raise FormatError(what, place=str(sass.path), remedy=f"the trace is cut: {REMEDY}")
    return (x, y, z)


# -- What a reader of results must know about a trace of PPT-GPU's or AMALI's tracer: above all what it does not contain.

def origin(sass: SassFile) -> str:
    """The first note."""
    tool = "AMALI's" if sass.amali else "PPT-GPU's"
    return (
        f"SASS of a GPU that {tool} tracer does not name: addresses and the order of instructions carry over to other GPUs, "
        "opcodes do not"
    )


def notes_of(reader: KernelReader) -> tuple[str, ...]:
    """The notes of this format, once all is read."""
    amali, cluster, assigned = reader.sass.amali, reader.config.cluster, reader.by_opcode
    shape = "the shape of blocks" if amali else "the shapes of grid and blocks"
    notes = [
        f"this tracer writes no program counters: the {reader.count:,} instructions are the distinct straight runs between "
        "branches, where one that equals the end of a longer one is assigned to that place",
        "this tracer writes no masks: every lane of a warp counts as active, and an access has as many lanes as addresses that are "
        "not zero, including those of inactive lanes",
        f"this tracer does not write {shape}: their totals are along x",
        "warps are numbered in the order of the warp slots of their SM",
    ]
    if not amali:
        notes.append("uniform registers are written like others, so some dependences are not the program's")
    if cluster > 1:
        notes.append(f"a cluster has {cluster} blocks; clusters are ignored")
    if assigned is not None:
        notes.append(
            "the instructions of all blocks are those of one block; accesses of the others are assigned to instructions by opcode, "
            "in the order of the tracer, so warps of a block may have each other's addresses"
        )
        if assigned.odd:
            notes.append(
                f"warning: {assigned.odd:,} blocks do not have as many accesses as the block with the instructions (the first: "
                f"{assigned.first}): {assigned.lacking:,} instructions have no addresses, {assigned.surplus:,} accesses have no "
                "instruction and are left out"
            )
    if reader.dropped:
        notes.append(f"{reader.dropped:,} addresses beyond any memory, of inactive lanes, are left out")
    return tuple(notes)
