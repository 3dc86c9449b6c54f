"""Runs some blocks of a launch and no others, for predictions, which need no results; `independence` says when that is right."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from time import perf_counter
from types import TracebackType

import numpy as np
import numpy.typing as npt

from warpsight.base.progress import Progress
from warpsight.base.room import give_back
from warpsight.emulator.run.independence import Independence, why_whole
from warpsight.emulator.run.launch import PreparedKernel, Run, trace_header
from warpsight.emulator.run.memory import Allocation, Memory
from warpsight.emulator.run.parallel import spread
from warpsight.emulator.run.worker import Stopped, Streams
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.isa.ptx.pointers import PointerSources
from warpsight.kernels.launch import DEFAULT_OPTIONS, Launch, RunOptions, input_hash
from warpsight.kernels.registers import RegisterUse
from warpsight.traces.packing import Packed, Packer, unpacked
from warpsight.traces.path_store import PathStore
from warpsight.traces.schema import ATOMIC, STORE, ChunkSource, KernelTrace, TraceChunk, TraceHeader
from warpsight.traces.store import MEMORY_LIMIT_BYTES, SpillingSink
from warpsight.traces.waves import part_of

Blocks = tuple[int, int]
"""Blocks from the first to before the second."""

_PIECES = 16  # of a range of blocks, which workers take in turn
# Bytes of a sample in memory, a third of what a trace may take: it is kept while its waves are simulated and evaluated.
_IN_MEMORY = MEMORY_LIMIT_BYTES // 3
_RANGES_IN_MEMORY = 8  # that have so much even where others have taken all of that; what is beyond goes to disk


class Dependent(Exception):
    """The blocks that ran may depend on others; the text says why."""


class SampledRun:
    """A launch of which the blocks run that `execute` is told of. Used in a `with` statement."""

    def __init__(
        self, prepared: PreparedKernel, launch: Launch, *, registers: RegisterUse, max_instructions: int, threads: int = 1,
        progress: Progress | None = None, options: RunOptions = DEFAULT_OPTIONS, memory: Memory | None = None,
    ) -> None:
        """Arguments as for `emulate`; what blocks write to a `memory` that exists is undone at the end.

        Raises Dependent for a kernel whose blocks all have to run.
        """
        self._prepared, self._launch, self._registers, self._inputs = prepared, launch, registers, input_hash(launch)
        self._progress, self._threads, self._seconds = progress, threads, 0.0
        self._paths, self._parts = PathStore(), dict[Blocks, ChunkSource]()  # the warps of each part are numbered from 0
        self._run = Run(prepared, launch, memory, max_instructions, None, options)
        self._memory, self._is_lent = self._run.memory, memory is not None
        self._per_block = -(-launch.threads_per_block // 32)
        # of machine code the PTX that it was made from: there, a division is no call of a function
        source = prepared.source
        ptx = prepared.function if source.cubin else inline_calls(source.module, source.module.functions[launch.kernel])
        self._ptx = None if source.cubin else ptx
        reason = why_whole(ptx, prepared.native, launch, self._run.code)
        if not reason and self._is_lent and not self._memory.attempt():
            reason = "its memory cannot be as it was before"
        if reason:
            self._memory.close()
            raise Dependent(reason)
        self._packer = Packer(self._run.code, prepared.native.graph.block_start.astype(np.int32))
        rows = self._memory.table.rows().tolist()
        self._allocations = [Allocation(start, end - start, bool(writable), "memory") for start, end, writable in rows]
        self._independence = Independence(self._run.code, prepared.native, self._per_block, self._allocations)

    def __enter__(self) -> SampledRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_lent:
            self._memory.undo()
        self._run.__exit__(kind, error, trace)

    def execute(self, ranges: Sequence[Blocks]) -> None:
        """Run these blocks too. Raises what `emulate` raises, and Dependent if blocks that ran may depend on others."""
        started, run = perf_counter(), self._run
        total, done = sum(end - first for first, end in ranges), 0
        while len(run.workers) < self._threads:
            run.new_worker()
        with run.interruption:
            for blocks in ranges:
                left = _IN_MEMORY - sum(each.nbytes for each in self._parts.values() if isinstance(each, Packed))
                sink, before = SpillingSink(max(left, _IN_MEMORY // _RANGES_IN_MEMORY)), self._paths.warps.copy()
                first_warp = blocks[0] * self._per_block
                for chunk in self._packed(run.chunk(part, self._paths, first_warp) for part in self._streams(blocks)):
                    self._note(chunk, blocks)
                    sink.add(chunk)
                    done += len(chunk.path) // self._per_block
                    if self._progress is not None:
                        self._progress(done, total)
                taken = self._paths.warps.copy()
                taken[: len(before)] -= before
                self._parts[blocks] = self._kept(sink, taken, blocks)
        self._seconds += perf_counter() - started
        give_back()
        self._check()

    def _packed(self, chunks: Iterator[TraceChunk]) -> Iterator[TraceChunk]:
        """The chunks with their loops packed, in order. Meanwhile the next ones are packed, one for each thread at most."""
        with ThreadPoolExecutor(self._threads) as pool:
            waiting = deque[Future[TraceChunk]]()
            for chunk in chunks:
                waiting.append(pool.submit(self._packer.packed, chunk, self._paths))
                if len(waiting) > self._threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def trace(self, ranges: Sequence[Blocks] | None = None) -> KernelTrace:
        """The trace of the blocks of these ranges that have run, or of all, in their order; its counts of instructions are scaled
        to the launch.
        """
        order = sorted(self._parts if ranges is None else ranges)
        blocks, paths = sum(end - first for first, end in order), self._paths.table()
        header = self._header(self._paths.warps, blocks)
        chunks = _Joined([self._parts[each] for each in order])
        executed = KernelTrace(header, self._run.code, self._prepared.native.graph.block_start.astype(np.int32), paths, chunks)
        return part_of(executed, np.ones(blocks, np.bool_))

    @property
    def ranges(self) -> list[Blocks]:
        """The blocks that have run, in order."""
        return sorted(self._parts)

    def _streams(self, blocks: Blocks) -> Iterator[Streams]:
        """What the blocks record, in order."""
        first, end = blocks
        size = -(-(end - first) // _PIECES)
        try:
            yield from spread(
                self._run.workers, range(first, end, size), lambda worker, block: worker.streams(block, min(block + size, end))
            )
        except Stopped as stopped:
            raise self._run.fault(stopped.worker, stopped.block) from None

    def _kept(self, sink: SpillingSink, taken: npt.NDArray[np.int64], blocks: Blocks) -> ChunkSource:
        """What a range of blocks has recorded, in memory or on disk; `taken` by so many warps is each path."""
        return sink.chunks(self._header(taken, blocks[1] - blocks[0]))

    def _header(self, taken: npt.NDArray[np.int64], blocks: int) -> TraceHeader:
        paths = self._paths.table()
        return trace_header(self._prepared, self._run, self._registers, paths, taken, self._inputs, self._seconds, blocks)

    # -- Do the blocks depend on each other?

    def _note(self, chunk: TraceChunk, blocks: Blocks) -> None:
        """Note what a chunk of a range of blocks has written and read."""
        self._independence.note(self._paths.table(), chunk, blocks[0] + chunk.first_warp // self._per_block)

    def _check(self) -> None:
        guarded = self._independence.guarded(self._of_unseen_stores())
        if self._independence.leaves_out(guarded):
            self._independence.note_all()
            for blocks, part in self._parts.items():
                for chunk in part.packed():
                    self._note(chunk, blocks)
        if not self._independence.depends(guarded):
            return
        paths = self._paths.table()
        for (first, _), part in self._parts.items():
            for chunk in part.packed():
                first_block = first + chunk.first_warp // self._per_block
                if opcode := self._independence.first_dependent(paths, chunk, first_block, guarded):
                    raise Dependent(f'"{opcode}" reads an array that other blocks may write')

    def _of_unseen_stores(self) -> list[Allocation]:
        """The arrays and variables that stores which no block has executed may write to."""
        unseen = self._independence.unseen_stores()
        if not unseen:
            return []
        if self._ptx is None:
            raise Dependent(f'no sampled block has executed "{unseen[0].opcode}", which may write anywhere')
        pointers, found = PointerSources(self._ptx), list[Allocation]()
        places = dict(zip((p.name for p in self._ptx.parameters), self._parameters(), strict=True))
        known = self._prepared.native.symbols.addresses
        for instruction in unseen:
            names = pointers.of_accesses(instruction.ptx_line, (STORE, ATOMIC))
            if not names or not names <= places.keys() | known.keys():
                raise Dependent(f'no sampled block has executed "{instruction.opcode}", which may write anywhere')
            addresses = {word for name in names for word in places.get(name, ())}
            addresses |= {known[name] for name in names - set(places)}
            found += [each for each in self._allocations if any(each.address <= word < each.end for word in addresses)]
        return found

    def _parameters(self) -> list[list[int]]:
        """The 64-bit words of each parameter: its pointers are among them."""
        placed = [each for each in self._prepared.native.symbols.placed if each.space == "param"]
        values = (bytes(self._memory.parameters[each.offset : each.offset + each.size]) for each in placed)
        return [[int.from_bytes(value[k : k + 8], "little") for k in range(0, len(value) - 7, 8)] for value in values]


class _Joined(ChunkSource):
    """Chunks of several sources, one after the other; those of each are numbered from 0."""

    def __init__(self, sources: Sequence[ChunkSource]) -> None:
        self._sources = sources

    def __iter__(self) -> Iterator[TraceChunk]:
        return map(unpacked, self.packed())

    def packed(self) -> Iterator[TraceChunk]:
        """As `ChunkSource.packed`."""
        first = 0
        for source in self._sources:
            end = first
            for chunk in source.packed():
                end = first + chunk.first_warp + len(chunk.path)
                yield replace(chunk, first_warp=first + chunk.first_warp)
            first = end
