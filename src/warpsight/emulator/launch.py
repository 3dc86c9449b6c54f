"""Runs a launch in native code and gives its trace. Python only sets up, drains buffers, and turns faults into errors."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from warpsight._version import __version__
from warpsight.base.errors import LimitError, UsageError
from warpsight.emulator.buffers import MAX_BUFFER_BYTES, Recorder
from warpsight.emulator.device import DeviceMemory
from warpsight.emulator.drain import PathStore, count_per_warp, gather_streams
from warpsight.emulator.faults import describe_fault, limit_error
from warpsight.emulator.interruption import Interruption
from warpsight.emulator.layout import PATTERN_BYTES, WARP, Fault, Slot
from warpsight.emulator.native import HOSTS, NativeKernel, compile_kernel
from warpsight.emulator.static import static_instructions
from warpsight.emulator.symbols import align_up, too_large
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
_POLL_INSTRUCTIONS = 1 << 22  # a fraction of a second, also for slow kernels


class _Run:
    """One launch in progress: the context and everything whose memory native code uses."""

    def __init__(
        self, source: KernelSource, launch: Launch, function: Function, native: NativeKernel, limit: int, progress: Progress | None
    ) -> None:
        self.source, self.launch, self.function, self.native = source, launch, function, native
        self.limit, self.progress = limit, progress
        self.name = display_name(launch.kernel)
        self.warps_per_block = -(-launch.threads_per_block // WARP)
        symbols = native.symbols
        self.shared_bytes = (
            symbols.dynamic_shared_offset if launch.shared_bytes else symbols.static_shared_bytes
        ) + launch.shared_bytes
        problem = too_large(symbols, self.shared_bytes)
        if problem:
            raise UsageError(f"kernel {self.name}: {problem}", remedy="use less shared or local memory")
        names = [(p.name, symbols.parameter_offset(p.name)) for p in function.parameters]
        self.memory = DeviceMemory(symbols, launch, names, source.path)
        self.context = np.zeros(Slot.COUNT, dtype=np.int64)
        self.recorder = Recorder(self.context)
        self._keep = self._fill_context()
        self.stopped_by: BaseException | None = None
        self.interruption = Interruption()

    def _fill_context(self) -> list[npt.NDArray[np.generic]]:
        """Set every slot; returns the arrays that the context points to."""
        launch, native, c = self.launch, self.native, self.context
        warps, local = self.warps_per_block, native.symbols.local_bytes
        shared = np.zeros(self.shared_bytes + 256, dtype=np.uint8)
        local_memory = np.zeros(warps * WARP * local + 256, dtype=np.uint8)
        table = self.memory.table()
        sites = np.zeros((native.site_count + 1, 2), dtype=np.int64)
        patterns = np.zeros((native.site_count + 1) * PATTERN_BYTES + 64, dtype=np.uint8)
        parameters = np.frombuffer(self.memory.parameters, dtype=np.uint8)
        states = np.zeros(warps * native.state_stride + 128, dtype=np.uint8)
        tids = np.zeros((warps, 3, WARP), dtype=np.int32)
        thread = np.arange(warps * WARP)
        x, y, z = launch.block
        tids[:] = np.stack([thread % x, thread // x % y, thread // (x * y) % max(z, 1)]).reshape(3, warps, WARP).swapaxes(0, 1)
        partial = launch.threads_per_block % WARP
        for slot, value in {
            Slot.ARENA_DELTA: self.memory.delta,
            Slot.PARAM_PTR: parameters.ctypes.data,
            Slot.SHARED_PTR: align_up(shared.ctypes.data, 64),
            Slot.SHARED_SIZE: self.shared_bytes,
            Slot.LOCAL_PTR: align_up(local_memory.ctypes.data, 64),
            Slot.LOCAL_SIZE: local,
            Slot.ALLOC_PTR: table.ctypes.data,
            Slot.ALLOC_COUNT: len(table),
            Slot.SITE_PTR: sites.ctypes.data,
            Slot.PATTERN_PTR: align_up(patterns.ctypes.data, 64),
            Slot.POLL_AT: min(self.limit + 1, _POLL_INSTRUCTIONS),
            Slot.WARPS_PER_BLOCK: warps,
            Slot.STATE_PTR: align_up(states.ctypes.data, 64),
            Slot.STATE_STRIDE: native.state_stride,
            Slot.TID_PTR: tids.ctypes.data,
            Slot.LAST_WARP_MASK: (1 << partial) - 1 if partial else 0xFFFFFFFF,
            Slot.DYNAMIC_SHARED: launch.shared_bytes,
        }.items():
            c[slot] = value
        c[Slot.NCTAID_X : Slot.NCTAID_Z + 1] = launch.grid
        c[Slot.NTID_X : Slot.NTID_Z + 1] = launch.block
        return [shared, local_memory, table, sites, patterns, parameters, states, tids]

    def host(self, room: int) -> int:
        """Native code asks: make room, and say 1 to go on. Nothing may be raised through native frames; if it is, they get 0."""
        try:
            if self.interruption.pending:
                raise KeyboardInterrupt
            if self.context[Slot.INSTRUCTIONS] >= self.context[Slot.POLL_AT]:
                if self.context[Slot.INSTRUCTIONS] > self.limit:
                    self.context[Slot.FAULT_KIND] = Fault.LIMIT
                    return 0
                self.context[Slot.POLL_AT] = min(self.limit + 1, int(self.context[Slot.INSTRUCTIONS]) + _POLL_INSTRUCTIONS)
                if self.progress is not None:
                    self.progress(int(self.context[Slot.BLOCK]), self.launch.blocks)
            self.recorder.make_room(room)
        except MemoryError:
            self.context[Slot.FAULT_KIND] = Fault.NO_MEMORY
            return 0
        except BaseException as error:  # KeyboardInterrupt included: raised again once native code has returned
            self.stopped_by = error
            self.context[Slot.FAULT_KIND] = Fault.INTERRUPTED
            return 0
        return 1

    def execute(self, sink: TraceSink) -> tuple[PathTable, npt.NDArray[np.int64]]:
        """Run all blocks, draining into the sink; returns the paths and how many warps took each."""
        paths = PathStore()
        taken: list[npt.NDArray[np.int32]] = []
        address = int(self.context.ctypes.data)
        HOSTS[address] = self.host
        try:
            block, end = 0, self.launch.blocks
            while block < end:
                following = int(self.native.run(address, block, end))
                if following < 0:
                    raise self._fault(-1 - following)
                chunk = self._drain(block, following, paths)
                taken.append(chunk.path)
                sink.add(chunk)
                block = following
                if self.progress is not None:
                    self.progress(block, end)
        finally:
            del HOSTS[address]
        table = paths.table()
        return table, np.bincount(np.concatenate(taken), minlength=len(table))

    def _drain(self, block: int, following: int, paths: PathStore) -> TraceChunk:
        recorder = self.recorder
        first = block * self.warps_per_block
        warps = (following - block) * self.warps_per_block
        segments = recorder.take_segments()
        totals = np.empty((warps, 3), dtype=np.int64)
        count_per_warp(segments, first, totals)
        offsets = np.zeros((warps + 1, 3), dtype=np.int64)
        np.cumsum(totals, axis=0, out=offsets[1:])
        entries = np.empty((int(offsets[-1, 0]), 2), dtype=np.uint32)
        events = np.empty(int(offsets[-1, 1]), dtype=np.uint8)
        sectors = np.empty(int(offsets[-1, 2]), dtype=np.uint32)
        place = offsets[:-1].copy()
        gather_streams(
            segments, first, recorder.path.array, recorder.events.array, recorder.sectors.array, place, entries, events, sectors
        )
        numbers = paths.number(entries, np.ascontiguousarray(offsets[:, 0]))
        recorder.rewind()
        return TraceChunk(first, numbers, np.ascontiguousarray(offsets[:, 1]), events, np.ascontiguousarray(offsets[:, 2]), sectors)

    def _fault(self, block: int) -> BaseException:
        c = self.context
        if c[Slot.FAULT_KIND] in (0, Fault.INTERRUPTED):
            return self.stopped_by or KeyboardInterrupt()
        kind = Fault(int(c[Slot.FAULT_KIND]))
        if kind == Fault.LIMIT:
            return limit_error(self.name, self.limit)
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
) -> KernelTrace:
    """Execute `launch` as a GPU would and return its trace; array arguments are written back when it has succeeded, else untouched.

    `registers` goes into the header. `progress(blocks done, blocks)` is called now and then. Raises UnsupportedError (exit 3) for
    an opcode that is not modelled, LaunchFault for a memory fault or trap, LimitError past `max_instructions` warp instructions.
    """
    with lines_of(source.path):
        function = inline_calls(source.module, source.module.functions[launch.kernel])
        native = compile_kernel(source.module, function, source.ptx)
    run = _Run(source, launch, function, native, max_instructions, progress)
    sink = sink if sink is not None else MemorySink()
    input_hash = _hash_inputs(launch)
    started = time.perf_counter()
    try:
        with run.interruption:
            paths, warps_of_path = run.execute(sink)
        seconds = time.perf_counter() - started
        run.memory.write_back()
    finally:
        run.memory.close()
    static = static_instructions(function)
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
        warp_instructions=int(run.context[Slot.INSTRUCTIONS]),
        thread_instructions=_thread_instructions(native, paths, warps_of_path),
        emulation_seconds=seconds,
        tool_version=__version__,
    )
    return sink.finish(header, static, native.graph.block_start.astype(np.int32), paths)


def _thread_instructions(native: NativeKernel, paths: PathTable, warps: npt.NDArray[np.int64]) -> int:
    """Instructions times active lanes at the entry of their block, over all warps."""
    lengths = np.diff(native.graph.block_start).astype(np.int64)
    work = lengths[paths.block] * paths.lanes.astype(np.int64) * paths.repeat
    per_path = np.add.reduceat(work, paths.offset[:-1]) if len(work) else np.zeros(len(paths), dtype=np.int64)
    return int((per_path * warps).sum())


def _hash_inputs(launch: Launch) -> str:
    digest = hashlib.blake2b(repr((launch.grid, launch.block, launch.shared_bytes)).encode(), digest_size=32)
    for argument in launch.arguments:
        if isinstance(argument, ArrayArgument):
            digest.update(f"array {argument.array.nbytes}".encode())
            digest.update(argument.array.reshape(-1).view(np.uint8).data)
        else:
            digest.update(b"scalar " + argument.data)
    return digest.hexdigest()
