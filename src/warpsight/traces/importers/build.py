"""What a producer reads becomes a trace: chunks of whole blocks with numbered paths, then header, instructions and notes."""

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
from warpsight.isa.sass.opcodes import SassTable
from warpsight.kernels.mangling import display_name
from warpsight.traces.importers.instructions import Code
from warpsight.traces.importers.launch import KernelHeader, Progress
from warpsight.traces.importers.layout import Bytes, Longs, Records, Words
from warpsight.traces.importers.notes import notes_of
from warpsight.traces.importers.streams import BlockStreams, Producer
from warpsight.traces.path_store import PathStore
from warpsight.traces.schema import KernelTrace, TraceChunk, TraceHeader, TraceSink
from warpsight.traces.spill import SpillingSink

_HELD_BYTES = 128 << 20  # of a trace without a folder of its own, before it moves to a temporary one


@dataclass(frozen=True)
class Source:
    """What is imported: the file that stands for it, the launch, the meaning of opcodes. `notes` gives the format's own notes when
    all is read.
    """

    path: Path
    header: KernelHeader
    isa: SassTable
    notes: Callable[[], tuple[str, ...]]


def build_trace(
    source: Source, producer: Producer, sink: TraceSink | None = None, progress: Progress | None = None
) -> KernelTrace:
    """The trace of what `producer` reads, in `sink` or held in memory and, beyond 128 MiB, in a temporary folder.

    `progress(done, total)` counts blocks. Raises FormatError with place, LimitError.
    """
    started = time.perf_counter()
    header, sink = source.header, sink or SpillingSink(_HELD_BYTES)
    paths, order = PathStore(), _BlockOrder(header, producer)
    digest = hashlib.blake2b(digest_size=32)
    for streams in producer.streams():
        chunk = order.chunk(streams, paths)
        columns: tuple[Any, ...] = (chunk.path, chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors)
        for column in columns:
            digest.update(np.ascontiguousarray(column).data)
        sink.add(chunk)
        if progress is not None:
            progress(order.blocks, header.blocks)
    buffer = producer.buffer
    if not order.blocks or not producer.table.rows["executed"].any():
        raise FormatError("the trace holds no instruction", place=str(source.path), remedy="trace the program again")
    code = Code(producer.table, buffer.fragments.rows[: buffer.state["fragments"]])
    instructions = code.instructions()
    launch = _header(source.path, header, code, order.blocks, digest.hexdigest(), time.perf_counter() - started)
    common = notes_of(header, code, source.isa, order.blocks, order.empty_note, int(buffer.state["local_pages"]))
    notes, extra = (*common, *source.notes()), _extra(header, code, producer, order)
    describe = getattr(sink, "describe", None)  # a folder stores them, and needs them before it is closed
    if describe is not None:
        describe(notes, extra)
    trace = sink.finish(launch, instructions, code.block_start, code.paths(paths.table()))
    return dataclasses.replace(trace, notes=notes, extra=extra)


def _header(path: Path, header: KernelHeader, code: Code, blocks: int, content: str, seconds: float) -> TraceHeader:
    """The launch as a trace describes it. If blocks are missing, counts of the whole launch are scaled from those present."""
    counts, lanes = int(code.rows["executed"].sum()), int(code.rows["lane_sum"].sum())
    partial = blocks != header.blocks
    threads = header.thread_instructions if header.thread_instructions >= 0 else _scaled(lanes, header.blocks, blocks)
    name = hashlib.sha256("\n".join([header.name, *(each.text for each in code.executed)]).encode()).hexdigest()
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


def _extra(header: KernelHeader, code: Code, producer: Producer, order: _BlockOrder) -> dict[str, object]:
    """What is stored beside the trace: the text of each instruction by pc, and what the numbers of sectors and registers mean."""
    buffer = producer.buffer
    return {
        "ptx": {str(pc): each.text for pc, each in enumerate(code.executed)},
        "accelsim": {
            "pcs": [each.pc for each in code.executed],
            "operands": [[list(names) for names in each.operands] for each in code.executed],
            "blocks": order.numbers,
            "regions": buffer.places.regions[: buffer.state["regions"]].tolist(),
            "binary": header.binary,
            "tracer": header.tracer,
            "nvbit": header.nvbit,
            "shared_base": header.shared_base,
            "local_base": header.local_base,
            "stream": header.stream,
            "number": header.number,
            **({"one_register": True} if header.one_register else {}),
        },
    }


class _BlockOrder:
    """Makes chunks, and counts `blocks` and the warps without instructions."""

    def __init__(self, header: KernelHeader, producer: Producer) -> None:
        self._warps, self._producer = header.warps_per_block, producer
        self.blocks = self._empty = 0
        self._first_empty = ""
        self._numbers: list[Longs] = []

    def chunk(self, streams: BlockStreams, paths: PathStore) -> TraceChunk:
        """The next chunk. Raises FormatError if a warp of a block occurs twice."""
        rows = streams.warps
        ends = rows["warp"] < 0
        block: Longs = np.cumsum(ends) - ends  # ordinal number of the block in this part
        count = int(ends.sum())
        here = np.flatnonzero(~ends)
        slot = block[here] * self._warps + rows["warp"][here]
        total = count * self._warps
        times = np.bincount(slot, minlength=total)
        if len(here) and int(times.max()) > 1:
            twice = rows[here[int(np.flatnonzero(times[slot] > 1)[1])]]
            what = f"warp {twice['warp']} of the block is there twice"
            raise FormatError(what, place=self._producer.place(int(twice["line"])), remedy="trace the program again")
        executed = np.zeros(total, np.int64)
        executed[slot] = rows["executed"][here]
        self._note_empty(executed, block, rows)
        parts: list[tuple[Any, Longs]] = []
        for name in ("entries", "events", "sectors"):
            begins = np.concatenate((np.zeros(1, np.int64), rows[name][:-1]))
            first = np.zeros(total, np.int64)
            size = np.zeros(total, np.int64)
            first[slot], size[slot] = begins[here], rows[name][here] - begins[here]
            parts.append(_gathered(getattr(streams, name), first, size))
        (entries, entry_offset), (events, event_offset), (sectors, sector_offset) = parts
        chunk = TraceChunk(
            self.blocks * self._warps, paths.number(np.ascontiguousarray(entries), entry_offset), event_offset, events,
            sector_offset, sectors,
        )  # fmt: skip
        self.blocks += count
        self._numbers.append(rows["block"][ends])
        return chunk

    @property
    def numbers(self) -> list[int] | None:
        """The numbers of the blocks if some are missing, else None."""
        numbers = np.concatenate(self._numbers) if self._numbers else np.zeros(0, np.int64)
        return None if bool((numbers == np.arange(len(numbers))).all()) else [int(number) for number in numbers]

    @property
    def empty_note(self) -> str:
        """The note on warps without instructions, if there are any."""
        return f"{self._empty:,} warps have no instructions (the first: {self._first_empty})" if self._empty else ""

    def _note_empty(self, executed: Longs, block: Longs, rows: Records) -> None:
        empty = np.flatnonzero(executed == 0)
        if len(empty) and not self._empty:
            last = int(np.flatnonzero(block == int(empty[0]) // self._warps)[-1])
            self._first_empty = self._producer.place(int(rows["line"][last]) + 1)
        self._empty += len(empty)


def _gathered(stream: Words | Bytes, first: Longs, size: Longs) -> tuple[Any, Longs]:
    """The pieces of `stream` that begin at `first` and have `size` items, one after the other, and their offsets [n + 1]."""
    offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    if bool((first[size > 0] == offset[:-1][size > 0]).all()) and offset[-1] == len(stream):
        return stream, offset
    index = np.repeat(first - offset[:-1], size) + np.arange(int(offset[-1]))
    return stream[index], offset
