"""One kernel's file to one trace, and the launches of a folder: its list of kernels, or the files that are there."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from warpsight._version import __version__
from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.opcodes import SassTable
from warpsight.kernels.mangling import display_name
from warpsight.traces.importers.accelsim import layout as at
from warpsight.traces.importers.accelsim.files import LIST, is_kernel_file, is_raw
from warpsight.traces.importers.accelsim.header import GroupedText, header_of, prefix_numbers
from warpsight.traces.importers.accelsim.instructions import Code, LineTable
from warpsight.traces.importers.accelsim.layout import Slot, Static
from warpsight.traces.importers.accelsim.notes import notes_of
from warpsight.traces.importers.accelsim.parser import BlockOrder, OutOfOrder, Parser, Text
from warpsight.traces.importers.accelsim.raw import RawLines, SortedBlocks
from warpsight.traces.importers.launch import KernelHeader, Launch, select
from warpsight.traces.path_store import PathStore
from warpsight.traces.schema import KernelTrace, TraceHeader, TraceSink
from warpsight.traces.spill import SpillingSink

Progress = Callable[[int, int], None]
HELD_BYTES = 128 << 20  # of a trace that has no folder of its own, before it goes to a temporary one


def import_kernel(
    path: Path, header: KernelHeader, isa: SassTable, sink: TraceSink | None = None, progress: Progress | None = None,
    notes: tuple[str, ...] = (),
) -> KernelTrace:  # fmt: skip
    """The trace in the file at `path`, whose header has been read, into `sink` or kept in memory or a temporary folder.

    `notes` are added to those on the file.
    Raises FormatError with file and line for what is damaged or contradicts itself, LimitError past what a trace can hold.
    """
    sink = sink or SpillingSink(HELD_BYTES)
    text: Text = GroupedText(path, header)
    prefix = prefix_numbers(path, header)
    if is_raw(path):
        text = RawLines(GroupedText(path, header), header)
    source = Source(path, header, isa, prefix, lambda: notes)
    try:
        return import_text(source, text, LineTable(isa, one_register=header.one_register), sink, progress)
    except OutOfOrder:
        sink.restart()
        table = LineTable(isa, one_register=header.one_register)
        return import_text(source, SortedBlocks(GroupedText(path, header), header), table, sink, progress)


@dataclass(frozen=True)
class Source:
    """What is read: `prefix` numbers stand before each line; `notes` gives, once all is read, what to add to those on the text."""

    path: Path
    header: KernelHeader
    isa: SassTable
    prefix: int
    notes: Callable[[], tuple[str, ...]]


def import_text(
    source: Source, text: Text, table: LineTable, sink: TraceSink, progress: Progress | None = None
) -> KernelTrace:
    """The trace that `text` gives, the lines of a file or what another tool's trace was put into. `table` is a new one.

    Raises FormatError with place, LimitError, OutOfOrder.
    """
    started = time.perf_counter()
    path, header, isa = source.path, source.header, source.isa
    parser = Parser(header, table, text, source.prefix)
    paths, order = PathStore(), BlockOrder(header, text)
    digest = hashlib.blake2b(digest_size=32)
    for streams in parser.streams():
        chunk = order.chunk(streams, paths)
        columns: tuple[Any, ...] = (chunk.path, chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors)
        for column in columns:
            digest.update(np.ascontiguousarray(column).data)
        sink.add(chunk)
        if progress is not None:
            progress(order.blocks, header.blocks)
    rows = parser.lines.native.rows[: len(parser.lines.lines)]
    if not order.blocks or not rows[:, Static.EXECUTED].any():
        raise FormatError("the trace holds no instruction", place=str(path), remedy="trace the program again")
    code = Code(parser.lines.lines, rows, parser.fragments.rows[: parser.state[Slot.FRAGMENTS]])
    instructions = code.instructions()
    found = _header(path, header, code, rows, order.blocks, digest.hexdigest(), time.perf_counter() - started)
    told = (*notes_of(header, code, rows, order, isa, parser), *_cut(text), *source.notes())
    extra = _extra(header, code, parser, order)
    describe = getattr(sink, "describe", None)  # a folder keeps them, and must have them before it is closed
    if describe is not None:
        describe(told, extra)
    trace = sink.finish(found, instructions, code.block_start, code.paths(paths.table()))
    return dataclasses.replace(trace, notes=told, extra=extra)


def _cut(text: Text) -> tuple[str, ...]:
    """A note on a raw file that does not end with a line: nothing else tells that one is cut."""
    place = text.cut if isinstance(text, RawLines) else ""
    return (f"the file's last line ({place}) has no end: the trace may be cut there",) if place else ()


def _header(path: Path, header: KernelHeader, code: Code, rows: at.Longs, blocks: int, content: str, seconds: float) -> TraceHeader:
    """The launch as a trace says it. With blocks missing, counts of the whole launch are scaled from those that are there."""
    counts, lanes = int(rows[:, Static.EXECUTED].sum()), int(rows[:, Static.LANE_SUM].sum())
    partial = blocks != header.blocks
    threads = header.thread_instructions if header.thread_instructions >= 0 else _scaled(lanes, header.blocks, blocks)
    name = hashlib.sha256("\n".join([header.name, *(line.text for line in code.lines)]).encode()).hexdigest()
    shape = repr((header.grid, header.block, header.shared_bytes, content))
    return TraceHeader(
        kernel=display_name(header.name), mangled=header.name, source=str(path), grid=header.grid, block=header.block,
        static_shared_bytes=header.shared_bytes, dynamic_shared_bytes=0, registers_per_thread=header.registers,
        registers_from="trace", target=f"sm_{header.binary}" if header.binary else "sass", kernel_hash=name,
        input_hash=hashlib.blake2b(shape.encode(), digest_size=32).hexdigest(),
        warp_instructions=_scaled(counts, header.blocks, blocks), thread_instructions=threads,
        emulation_seconds=seconds, tool_version=__version__,
        sampled_blocks=blocks if partial else 0, sampled_instructions=counts if partial else 0,
    )  # fmt: skip


def _scaled(count: int, blocks: int, recorded: int) -> int:
    return (2 * count * blocks + recorded) // (2 * recorded)


def _extra(header: KernelHeader, code: Code, parser: Parser, order: BlockOrder) -> dict[str, object]:
    """What is kept beside the trace: the text of each instruction by pc, and what the numbers of sectors and registers stood
    for.
    """
    places = parser.places.regions[: parser.state[Slot.REGIONS]]
    return {
        "ptx": {str(pc): line.text for pc, line in enumerate(code.lines)},
        "accelsim": {
            "pcs": [line.pc for line in code.lines],
            "operands": [[list(names) for names in line.operands] for line in code.lines],
            "blocks": order.numbers,
            "regions": [int(region) for region in places],
            "binary": header.binary,
            "tracer": header.version,
            "nvbit": header.nvbit,
            "shared_base": header.shared_base,
            "local_base": header.local_base,
            "stream": header.stream,
            "number": header.number,
            **({"one_register": True} if header.one_register else {}),
        },
    }


# -- The launches of a folder: its list of kernels, or the files that are there; each becomes a trace when it is asked for.

_COPY = re.compile(r"MemcpyHtoD\s*,\s*(0[xX])?[0-9a-fA-F]+\s*,\s*(\d{1,18})\s*")
_UNPACKED = re.compile(r"(\.gz|\.xz)$")
_MOST_LIST_BYTES = 1 << 26


@dataclass(frozen=True)
class KernelFile(Launch):
    """One launch of a program: the file of its kernel. `notes` are on the list that names it."""

    notes: tuple[str, ...] = ()

    @cached_property
    def header(self) -> KernelHeader:
        """What the file says of the launch, read at first use. Raises FormatError."""
        return header_of(self.path)

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """Read the file: its trace, in `sink` or held in memory and, beyond 128 MiB, in a temporary folder.

        `progress(done, total)` counts blocks. Raises FormatError with file and line, LimitError.
        """
        return import_kernel(self.path, self.header, self.isa, sink, progress, self.notes)


def import_accelsim(path: str | Path, isa: SassTable | None = None) -> list[KernelFile]:
    """The launches in the folder, list or kernel's file at `path`, in order; `isa` says what opcodes are.

    No trace is read yet but for lists. Raises FormatError where a list names a file that is not there, UsageError where there is
    nothing.
    """
    path, isa = Path(path), isa or SassTable()
    if is_kernel_file(path) and path.is_file():
        return [KernelFile(1, isa, path)]
    lists = [path] if path.is_file() else _lists(path)
    if lists:
        files, notes = _listed(lists)
    else:
        files, notes = _loose(path), ()
    if not files:
        remedy = "give a folder with kernelslist.g or kernel-N.traceg files"
        raise UsageError("there is no kernel's trace in it", place=str(path), remedy=remedy)
    return [KernelFile(number, isa, file, notes) for number, file in enumerate(files, 1)]


def _lists(folder: Path) -> list[Path]:
    """The lists in a folder: grouped ones (`.g`) if there are any, else raw ones."""
    try:
        found = sorted(p for p in folder.iterdir() if p.name.startswith(LIST) and p.is_file())
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=str(folder), remedy="check the path") from None
    return [p for p in found if p.suffix == ".g"] or found


def _listed(lists: list[Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The kernels' files of some lists, and notes on what else they say."""
    files: list[Path] = []
    copies = size = 0
    other: list[str] = []
    for list_file in lists:
        known = set(files)  # of the lists before this one; in one list a file may stand for several launches
        for number, line in enumerate((each.strip() for each in _text(list_file).splitlines()), 1):
            copy = _COPY.fullmatch(line)
            if line.startswith("kernel"):
                file = _file(list_file, number, line)
                if file not in known:  # the lists of a program's contexts and the one of all of them
                    files.append(file)
            elif copy:
                copies, size = copies + 1, size + int(copy[2])
            elif line:
                other.append(f"{list_file.name}:{number}: {line[:60]}")
    notes = []
    if copies:
        notes.append(
            f"the program also copies {size:,} bytes to the device in {copies:,} transfers, which are not part of the kernels' time"
        )
    if other:
        named = "; ".join(other[:3])
        notes.append(f"{len(other)} lines of the list are no kernels or copies to the device and have no part in this: {named}")
    return files, tuple(notes)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_LIST_BYTES:
            raise FormatError("is larger than any list of kernels", place=str(path), remedy="give a list of Accel-Sim's tracer")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None


def _file(list_file: Path, number: int, line: str) -> Path:
    """The file that a line names, packed or not. A list may be older than the packing of its files."""
    named = list_file.parent / line
    if not is_kernel_file(named):
        what = f'"{line[:80]}" is no file of a kernel\'s trace'
        raise FormatError(what, place=f"{list_file}:{number}", remedy="write kernel-N.traceg, .traceg.xz or .traceg.gz")
    bare = _UNPACKED.sub("", str(named))
    for candidate in (named, Path(bare), Path(f"{bare}.xz"), Path(f"{bare}.gz")):
        if candidate.is_file():
            return candidate
    raise FormatError(
        f'"{line[:80]}" is not there', place=f"{list_file}:{number}", remedy="put it beside the list, or remove the line"
    )


def _loose(folder: Path) -> list[Path]:
    """The kernels' files of a folder without a list, in order of their numbers; a grouped file stands for the raw one of the
    same name.
    """
    by_name: dict[str, Path] = {}
    for path in sorted((p for p in folder.iterdir() if is_kernel_file(p) and p.is_file()), key=lambda p: (not is_raw(p), p.name)):
        by_name[path.name.split(".trace")[0]] = path  # grouped ones come last and replace raw ones
    return sorted(
        by_name.values(), key=lambda p: [int(part) if part.isdigit() else 0 for part in re.split(r"(\d+)", p.name)[:2]] + [0]
    )


__all__ = ["KernelFile", "import_accelsim", "select"]
