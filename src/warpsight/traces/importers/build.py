"""What a producer reads becomes a trace: chunks of whole blocks with numbered paths, then header, instructions and notes."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
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
from warpsight.traces.importers.layout import LOCAL_PAGES, Bytes, Longs, Words
from warpsight.traces.importers.streams import BlockStreams, Producer
from warpsight.traces.path_store import PathStore
from warpsight.traces.schema import KernelTrace, TraceChunk, TraceHeader, TraceSink
from warpsight.traces.store import SpillingSink

_HELD_BYTES = 128 << 20  # of a trace without a folder of its own, before it moves to a temporary one


@dataclass(frozen=True)
class Source:
    """What is imported: its file, the launch, the meaning of opcodes, and a function that gives the format's notes at the end."""

    path: Path
    header: KernelHeader
    isa: SassTable
    notes: Callable[[], tuple[str, ...]]


def build_trace(source: Source, producer: Producer, sink: TraceSink | None, progress: Progress | None) -> KernelTrace:
    """The trace of what `producer` reads, in `sink` or held in memory and, beyond 128 MiB, in a temporary folder.

    `progress(done, total)` counts blocks. Raises FormatError with place, LimitError.
    """
    started = time.perf_counter()
    header, sink = source.header, sink or SpillingSink(_HELD_BYTES)
    paths, order = PathStore(), _BlockOrder(header, producer)
    digest = hashlib.blake2b(digest_size=32)
    for streams in producer.streams():
        chunk = order.chunk(streams, paths)
        for column in (chunk.path, chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors):
            digest.update(np.ascontiguousarray(column).data)
        sink.add(chunk)
        if progress is not None:
            progress(order.blocks, header.blocks)
    buffer = producer.buffer
    if not order.blocks or not producer.table.rows["executed"].any():
        raise FormatError("the trace contains no instructions", place=str(source.path), remedy="trace the program again")
    code = Code(producer.table, buffer.fragments.rows[: buffer.state["fragments"]])
    instructions = code.instructions()
    launch = _header(source.path, header, code, order.blocks, digest.hexdigest(), time.perf_counter() - started)
    notes = (*_notes(source, code, order, int(buffer.state["local_pages"])), *source.notes())
    extra = _extra(header, code, producer, order)
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
        registers_from="trace", target=f"sm_{header.binary}" if header.binary else "sass", level="sass", kernel_hash=name,
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
    """Makes chunks, and counts `blocks` and `empty` warps, those without instructions, the first of which is at `first_empty`."""

    def __init__(self, header: KernelHeader, producer: Producer) -> None:
        self._warps, self._producer = header.warps_per_block, producer
        self.blocks = self.empty = 0
        self.first_empty = ""
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
            what = f"warp {twice['warp']} of the block occurs twice"
            raise FormatError(what, place=self._producer.place(int(twice["line"])), remedy="trace the program again")
        executed = np.zeros(total, np.int64)
        executed[slot] = rows["executed"][here]
        empty = np.flatnonzero(executed == 0)
        if len(empty) and not self.empty:
            last = int(np.flatnonzero(block == int(empty[0]) // self._warps)[-1])
            self.first_empty = self._producer.place(int(rows["line"][last]) + 1)
        self.empty += len(empty)
        parts: list[tuple[Any, Longs]] = []
        for name in ("entries", "events", "sectors"):
            begins = np.append(0, rows[name][:-1])
            first, size = np.zeros(total, np.int64), np.zeros(total, np.int64)
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


def _gathered(stream: Words | Bytes, first: Longs, size: Longs) -> tuple[Any, Longs]:
    """The pieces of `stream` that begin at `first` and have `size` items, one after the other, and their offsets [n + 1]."""
    offset = np.append(0, np.cumsum(size))
    if bool((first[size > 0] == offset[:-1][size > 0]).all()) and offset[-1] == len(stream):
        return stream, offset
    index = np.repeat(first - offset[:-1], size) + np.arange(int(offset[-1]))
    return stream[index], offset


# -- What a reader of results must know about an imported trace, whatever its format.

_STRAIGHT = (0, 8, 16)  # bytes from an instruction to the next; before sm_70, control words stand between some
_SHOWN = 4


def _notes(source: Source, code: Code, order: _BlockOrder, local_pages: int) -> Iterator[str]:
    """The notes that every format needs, most important first; `local_pages` of local memory are in use."""
    header = source.header
    if header.origin:
        yield header.origin
    target = f"sm_{header.binary}" if header.binary else "the GPU of the trace, which the trace does not name"
    yield (
        f"registers and shared memory, and therefore occupancy, are as compiled for {target}; the L1's share of an SM is that "
        "of the GPU description"
    )
    if order.blocks != header.blocks:
        yield (
            f"{order.blocks:,} of {header.blocks:,} blocks are in the trace ({order.blocks / header.blocks:.2%}); "
            "instructions of the launch are scaled from them"
        )
    yield from _opcode_notes(code, source.isa)
    if order.empty:
        yield f"{order.empty:,} warps have no instructions (the first: {order.first_empty})"
    yield from _omission_notes(code)
    bulk = [k for k, each in enumerate(code.executed) if each.part == 1 and each.row.name != "LDGSTS"]
    if count := int(code.rows["executed"][bulk].sum()):
        yield f"bulk copies of more than 255 sectors count as several instructions: {count:,} more than were executed"
    if local_pages > LOCAL_PAGES:
        yield "the warps use more than 64 GiB of local memory in all: later warps reuse the places of earlier ones, as on hardware"
    missing = [name for name, base in (("shared", header.shared_base), ("local", header.local_base)) if not base]
    if missing and any(each.access and each.space == "generic" for each in code.executed):
        named = " and ".join(missing)
        yield f"the header gives no base address of {named} memory: generic accesses to it count as accesses to device memory"


def _opcode_notes(code: Code, isa: SassTable) -> Iterator[str]:
    total = int(code.rows["executed"].sum())
    unknown: Counter[tuple[str, str]] = Counter()
    for instruction, count in zip(code.executed, code.rows["executed"].tolist(), strict=True):
        if not instruction.meaning.known:
            unknown[instruction.opcode, instruction.row.name] += count
    if unknown:
        named = ", ".join(f"{opcode} as {row} ({count / total:.2%})" for (opcode, row), count in unknown.most_common())
        yield (
            f"warning: {len(unknown)} opcodes are not in the table and are priced by the nearest name, with their share of warp "
            f"instructions: {named}; a file of opcodes can say what they are"
        )
    if own := sorted({each.row.name for each in code.executed if isa.own.get(each.row.name) is each.row}):
        yield f"opcodes defined by the given file: {', '.join(own)}"


def _omission_notes(code: Code) -> Iterator[str]:
    """What the tracer leaves out: calls, whose instruction is not a branch and not followed by the next pc; and addresses."""
    jumps = []
    for instruction, successor in zip(code.executed, code.rows["successor"].tolist(), strict=True):
        if successor >= 0 and instruction.row.op_class != "branch":
            after = code.executed[int(code.rank[successor])].pc
            if after - instruction.pc not in _STRAIGHT:
                jumps.append(f"{instruction.pc:04x} to {after:04x}")
    if jumps:
        more = f" and {len(jumps) - _SHOWN} more" if len(jumps) > _SHOWN else ""
        yield (
            f"the pc jumps {len(jumps)} times where no branch was recorded ({', '.join(jumps[:_SHOWN])}{more}): the tracer "
            "leaves out some calls (CALL.REL.NOINC), which are then not counted"
        )
    unaddressed: Counter[str] = Counter()
    for instruction, count in zip(code.executed, code.rows["executed"].tolist(), strict=True):
        if instruction.row.access and instruction.row.space != "const" and not instruction.access:
            unaddressed[instruction.opcode.split(".")[0]] += count
    if unaddressed:
        named = ", ".join(f"{base} ({count:,})" for base, count in sorted(unaddressed.items()))
        yield f"executed without addresses in the trace, so without memory traffic: {named}"
