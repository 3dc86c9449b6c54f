"""One kernel's file to one trace."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpsight._version import __version__
from warpsight.base.errors import FormatError
from warpsight.isa.sass.semantics import SassTable
from warpsight.trace.importers.accelsim import layout as at
from warpsight.trace.importers.accelsim.assembly import Code
from warpsight.trace.importers.accelsim.blocks import BlockOrder
from warpsight.trace.importers.accelsim.files import is_raw
from warpsight.trace.importers.accelsim.layout import Slot, Static
from warpsight.trace.importers.accelsim.notes import notes_of
from warpsight.trace.importers.accelsim.parser import OutOfOrder, Parser, Text
from warpsight.trace.importers.accelsim.regroup import RawLines, SortedBlocks
from warpsight.trace.importers.accelsim.statics import LineTable
from warpsight.trace.importers.accelsim.text import GroupedText, prefix_numbers
from warpsight.trace.importers.launch import KernelHeader
from warpsight.trace.path_store import PathStore
from warpsight.trace.schema import KernelTrace, TraceHeader
from warpsight.trace.sink import TraceSink
from warpsight.trace.spill import SpillingSink
from warpsight.workload.mangling import display_name

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
