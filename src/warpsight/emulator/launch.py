"""Runs a launch in native code and gives its trace. Python only sets up, drains buffers, and turns faults into errors."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from warpsight._version import __version__
from warpsight.base.errors import LimitError, UsageError
from warpsight.emulator.buffers import MAX_BUFFER_BYTES
from warpsight.emulator.conflicts import AccessTable, why_in_order
from warpsight.emulator.device import DeviceMemory
from warpsight.emulator.drain import PathStore
from warpsight.emulator.faults import describe_fault, limit_error
from warpsight.emulator.interruption import Interruption
from warpsight.emulator.layout import Fault, Slot
from warpsight.emulator.native import NativeKernel, compile_kernel
from warpsight.emulator.parallel import MIN_BLOCKS, Apart, Conflict
from warpsight.emulator.sampling import choose_blocks, keep_blocks
from warpsight.emulator.static import static_instructions
from warpsight.emulator.symbols import too_large
from warpsight.emulator.worker import POLL_INSTRUCTIONS, Stopped, Streams, Worker
from warpsight.isa.inline import inline_calls
from warpsight.isa.places import lines_of
from warpsight.isa.program import Function
from warpsight.trace.schema import KernelTrace, PathTable, TraceChunk, TraceHeader
from warpsight.trace.sink import MemorySink, TraceSink
from warpsight.workload.launch import ArrayArgument, KernelSource, Launch
from warpsight.workload.mangling import display_name
from warpsight.workload.registers import RegisterUse

Progress = Callable[[int, int], None]
DEFAULT_MAX_INSTRUCTIONS = 10**10


class _Run:
    """One launch in progress."""

    def __init__(
        self, source: KernelSource, launch: Launch, function: Function, native: NativeKernel, limit: int, progress: Progress | None
    ) -> None:
        self.source, self.launch, self.function, self.native = source, launch, function, native
        self.limit, self.progress = limit, progress
        self.name = display_name(launch.kernel)
        symbols = native.symbols
        self.shared_bytes = (
            symbols.dynamic_shared_offset if launch.shared_bytes else symbols.static_shared_bytes
        ) + launch.shared_bytes
        problem = too_large(symbols, self.shared_bytes)
        if problem:
            raise UsageError(f"kernel {self.name}: {problem}", remedy="use less shared or local memory")
        names = [(p.name, symbols.parameter_offset(p.name)) for p in function.parameters]
        self.memory = DeviceMemory(symbols, launch, names, source.path)
        self.workers: list[Worker] = []
        self.chosen: npt.NDArray[np.bool_] | None = None
        self.interruption = Interruption()

    @property
    def instructions(self) -> int:
        """Warp instructions so far."""
        return sum(worker.instructions for worker in self.workers)

    def _new_worker(self) -> Worker:
        worker = Worker(self.native, self.launch, self.memory, self.shared_bytes, self._poll)
        worker.context[Slot.POLL_AT] = min(self.limit + 1, POLL_INSTRUCTIONS)
        self.workers.append(worker)
        return worker

    def _poll(self, worker: Worker) -> None:
        """Native code asks whether to go on."""
        if self.interruption.pending:
            raise KeyboardInterrupt
        if worker.instructions < worker.context[Slot.POLL_AT]:
            return
        total = self.instructions
        if total > self.limit:
            raise limit_error(self.name, self.limit)
        worker.context[Slot.POLL_AT] = worker.instructions + min(self.limit + 1 - total, POLL_INSTRUCTIONS)
        if self.progress is not None and len(self.workers) == 1:
            self.progress(worker.block, self.launch.blocks)

    def execute(self, sink: TraceSink, threads: int) -> tuple[PathTable, npt.NDArray[np.int64]]:
        """Run all blocks, draining into the sink; returns the paths and how many warps took each."""
        if threads > 1 and self.launch.blocks >= MIN_BLOCKS and not why_in_order(self.function):
            table = AccessTable.of(self.function, self.native.graph)
            apart = Apart([self._new_worker() for _ in range(threads)], table, self.memory.size, self.launch.blocks)
            try:
                return self._collect(apart.streams(), sink)
            except Stopped as stopped:
                if stopped.worker.stopped_by is not None:
                    raise stopped.worker.stopped_by from None
            except Conflict:
                pass
            # In order every fault is the first, and every race has the outcome that it always has.
            self.workers.clear()
            self.memory.fill()
            sink.restart()
        try:
            return self._collect(self._new_worker().streams(0, self.launch.blocks), sink)
        except Stopped as stopped:
            raise self._fault(stopped.worker, stopped.block) from None

    def _collect(self, streams: Iterable[Streams], sink: TraceSink) -> tuple[PathTable, npt.NDArray[np.int64]]:
        paths = PathStore()
        taken: list[npt.NDArray[np.int32]] = []
        for part in streams:
            if self.chosen is not None:
                part = keep_blocks(part, self.chosen, self.workers[0].warps_per_block)  # noqa: PLW2901
            offsets = [np.ascontiguousarray(part.offsets[:, k]) for k in range(3)]
            numbers = paths.number(part.entries, offsets[0])
            taken.append(numbers)
            sink.add(TraceChunk(part.first_warp, numbers, offsets[1], part.events, offsets[2], part.sectors))
            if self.progress is not None:
                self.progress(part.end_block, self.launch.blocks)
        table = paths.table()
        return table, np.bincount(np.concatenate(taken), minlength=len(table))

    def _fault(self, worker: Worker, block: int) -> BaseException:
        c = worker.context
        if c[Slot.FAULT_KIND] in (0, Fault.INTERRUPTED):
            return worker.stopped_by or KeyboardInterrupt()
        kind = Fault(int(c[Slot.FAULT_KIND]))
        if kind == Fault.NO_MEMORY:
            return LimitError(
                f"kernel {self.name}: the trace of one block is larger than {MAX_BUFFER_BYTES >> 30} GiB",
                remedy="use a smaller input",
            )
        record = {
            "kind": kind,
            "pc": int(c[Slot.FAULT_PC]),
            "lane": int(c[Slot.FAULT_LANE]),
            "address": int(c[Slot.FAULT_ADDRESS]),
            "warp": int(c[Slot.FAULT_WARP]),
            "block": block,
        }
        return describe_fault(record, self.function, self.name, self.source.path, self.launch, self.memory, self.shared_bytes)


def emulate(
    source: KernelSource,
    launch: Launch,
    *,
    registers: RegisterUse,
    sink: TraceSink | None = None,
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS,
    progress: Progress | None = None,
    threads: int = 1,
    sample: int = 0,
    seed: int = 0,
) -> KernelTrace:
    """Execute `launch` as a GPU would and return its trace; array arguments are written back when it has succeeded, else untouched.

    `registers` goes into the header. Blocks are spread over `threads` where that changes nothing. With `sample` so many blocks,
    chosen by `seed`, are recorded; all are executed.
    `progress(blocks done, blocks)` is called now and then. Raises UnsupportedError (exit 3) for
    an opcode that is not modelled, LaunchFault for a memory fault or trap, LimitError past `max_instructions` warp instructions.
    """
    with lines_of(source.path):
        function = inline_calls(source.module, source.module.functions[launch.kernel])
        native = compile_kernel(source.module, function, source.ptx)
    run = _Run(source, launch, function, native, max_instructions, progress)
    if sample:
        run.chosen = choose_blocks(launch.blocks, sample, seed)
    sink = sink if sink is not None else MemorySink()
    input_hash = _hash_inputs(launch)
    started = time.perf_counter()
    try:
        with run.interruption:
            paths, warps_of_path = run.execute(sink, threads)
        seconds = time.perf_counter() - started
        run.memory.write_back()
    finally:
        run.memory.close()
    static = static_instructions(function)
    recorded, threads_in_step = _recorded(native, paths, warps_of_path)
    header = TraceHeader(
        kernel=run.name,
        mangled=launch.kernel,
        source=source.path,
        grid=launch.grid,
        block=launch.block,
        static_shared_bytes=native.symbols.static_shared_bytes,
        dynamic_shared_bytes=launch.shared_bytes,
        registers_per_thread=registers.registers,
        registers_from=registers.origin,
        target=source.target,
        kernel_hash=hashlib.sha256(f"{launch.kernel}\n{source.ptx}".encode()).hexdigest(),
        input_hash=input_hash,
        warp_instructions=run.instructions,
        thread_instructions=round(threads_in_step * run.instructions / max(1, recorded)) if sample else threads_in_step,
        emulation_seconds=seconds,
        tool_version=__version__,
        sampled_blocks=sample,
        sampled_instructions=recorded if sample else 0,
    )
    return sink.finish(header, static, native.graph.block_start.astype(np.int32), paths)


def _recorded(native: NativeKernel, paths: PathTable, warps: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Warp instructions in the trace, and those times active lanes at the entry of their block."""
    work = np.diff(native.graph.block_start).astype(np.int64)[paths.block] * paths.repeat
    totals = []
    for each in (work, work * paths.lanes.astype(np.int64)):
        per_path = np.add.reduceat(each, paths.offset[:-1]) if len(each) else np.zeros(len(paths), dtype=np.int64)
        totals.append(int((per_path * warps).sum()))
    return totals[0], totals[1]


def _hash_inputs(launch: Launch) -> str:
    digest = hashlib.blake2b(repr((launch.grid, launch.block, launch.shared_bytes)).encode(), digest_size=32)
    for argument in launch.arguments:
        if isinstance(argument, ArrayArgument):
            digest.update(f"array {argument.array.nbytes}".encode())
            digest.update(argument.array.reshape(-1).view(np.uint8).data)
        else:
            digest.update(b"scalar " + argument.data)
    return digest.hexdigest()
