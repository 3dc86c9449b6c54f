"""Parts of a trace: some of its blocks alone, and its blocks with the instructions of the sampled wave that each belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpsight.traces.packing import unpacked
from warpsight.traces.path_store import executions_of_blocks, selected
from warpsight.traces.schema import ChunkSource, KernelTrace, StaticInstruction, TraceChunk


def part_of(trace: KernelTrace, kept: npt.NDArray[np.bool_]) -> KernelTrace:
    """The `kept` blocks of those that `trace` has recorded, as a sample of the launch. bool [recorded blocks].

    Its counts of instructions are those of the kept blocks, scaled to the launch by blocks.
    """
    chunks = _Kept(trace, kept)
    taken = np.zeros(len(trace.paths), np.int64)
    for chunk in chunks.packed():
        taken += np.bincount(chunk.path, minlength=len(taken))
    sizes = np.diff(np.asarray(trace.block_start)).astype(np.int64)
    instructions = int(executions_of_blocks(trace.paths, taken, len(sizes)) @ sizes)
    header, blocks = trace.header, int(kept.sum())
    whole = instructions * header.blocks / blocks
    lanes = header.thread_instructions / header.warp_instructions
    sample = replace(
        header, sampled_blocks=blocks, sampled_instructions=instructions, warp_instructions=round(whole),
        thread_instructions=round(whole * lanes),
    )
    return replace(trace, header=sample, chunks=chunks)


class _Kept(ChunkSource):
    """The warps of some blocks of a trace."""

    def __init__(self, trace: KernelTrace, kept: npt.NDArray[np.bool_]) -> None:
        self._chunks, self._kept = trace.chunks, np.repeat(kept, trace.header.warps_per_block)

    def __iter__(self) -> Iterator[TraceChunk]:
        return map(unpacked, self.packed())

    def packed(self) -> Iterator[TraceChunk]:
        """As `ChunkSource.packed`."""
        first = 0
        for chunk in self._chunks.packed():
            kept = self._kept[chunk.first_warp : chunk.first_warp + len(chunk.path)]
            if not kept.any():
                continue
            yield replace(chunk if kept.all() else only(chunk, kept), first_warp=first)
            first += int(kept.sum())


def only(chunk: TraceChunk, kept: npt.NDArray[np.bool_]) -> TraceChunk:
    """The `kept` warps of a chunk, bool [warps], as if they followed its first one."""
    events, sectors = np.diff(chunk.event_offset), np.diff(chunk.sector_offset)
    low, high = chunk.event_offset[[0, -1]].tolist(), chunk.sector_offset[[0, -1]].tolist()
    return TraceChunk(
        chunk.first_warp, np.asarray(chunk.path)[kept],
        np.concatenate([[0], np.cumsum(events[kept])]), np.asarray(chunk.events)[low[0] : low[1]][np.repeat(kept, events)],
        np.concatenate([[0], np.cumsum(sectors[kept])]), np.asarray(chunk.sectors)[high[0] : high[1]][np.repeat(kept, sectors)],
        None if chunk.loops is None else chunk.loops[kept],
    )  # fmt: skip


# -- Counts of each wave apart.

def labelled(trace: KernelTrace, label: npt.NDArray[np.int64]) -> KernelTrace:
    """The trace with instructions of its own for each label from 0 on: of label k pc n k + pc, n being their number, on registers
    of their own. int64 [recorded blocks]. So whatever counts by instruction counts the blocks of each label apart.
    """
    labels = int(label.max()) + 1
    code = trace.instructions
    registers = 1 + max((r for i in code for r in i.sources + i.destinations), default=0)
    instructions = tuple(_moved(i, k * len(code), k * registers) for k in range(labels) for i in code)
    starts = np.asarray(trace.block_start)
    block_start = np.concatenate([*(starts[:-1] + k * len(code) for k in range(labels)), starts[-1:] + (labels - 1) * len(code)])
    chunks = _Labelled(trace, np.repeat(label, trace.header.warps_per_block))
    number, path = np.divmod(chunks.pairs, len(trace.paths))
    paths = selected(trace.paths, path, number * (len(starts) - 1))
    return replace(trace, instructions=instructions, block_start=block_start.astype(np.int32), paths=paths, chunks=chunks)


def _moved(instruction: StaticInstruction, pcs: int, registers: int) -> StaticInstruction:
    return replace(
        instruction, pc=instruction.pc + pcs, destinations=tuple(r + registers for r in instruction.destinations),
        sources=tuple(r + registers for r in instruction.sources),
    )


class _Labelled(ChunkSource):
    """Chunks whose paths are numbers of `pairs` of label and path, label x paths + path."""

    def __init__(self, trace: KernelTrace, label: npt.NDArray[np.int64]) -> None:
        self._chunks, self._label, self._paths = trace.chunks, label, len(trace.paths)
        found = [np.unique(self._pairs(chunk)) for chunk in trace.chunks.packed()]
        self.pairs = np.unique(np.concatenate(found))

    def _pairs(self, chunk: TraceChunk) -> npt.NDArray[np.int64]:
        label = self._label[chunk.first_warp : chunk.first_warp + len(chunk.path)]
        return np.asarray(label * self._paths + chunk.path)

    def __iter__(self) -> Iterator[TraceChunk]:
        return map(unpacked, self.packed())

    def packed(self) -> Iterator[TraceChunk]:
        """As `ChunkSource.packed`."""
        for chunk in self._chunks.packed():
            yield replace(chunk, path=np.searchsorted(self.pairs, self._pairs(chunk)).astype(np.int32))
