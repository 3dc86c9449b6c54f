"""Runs a launch in native code and gives its trace. Python only sets up, drains buffers, and turns faults into errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpsight._version import __version__
from warpsight.base.compile_budget import compiling
from warpsight.base.compiled import copy_entries, jit
from warpsight.base.errors import CheckFault, LaunchFault, LimitError, UnsupportedError, UsageError
from warpsight.base.progress import Progress
from warpsight.base.signals import Interruption
from warpsight.emulator.codegen.layout import ARENA_BASE, SEGMENT_MARK, WINDOW_BYTES, Fault, Slot
from warpsight.emulator.codegen.native import NativeKernel, compile_kernel
from warpsight.emulator.codegen.recording import LaneAddresses, ProbedAccess, Probes
from warpsight.emulator.codegen.symbols import NativeSymbolTable, SharedMemory, SymbolTable, align_up
from warpsight.emulator.ptx.instruction_set import PTX
from warpsight.emulator.ptx.system import needs_workspace
from warpsight.emulator.ptx.tensor_memory import product_shapes
from warpsight.emulator.run.buffers import MAX_BUFFER_BYTES
from warpsight.emulator.run.externals import Externals, show_printed, uses_heap
from warpsight.emulator.run.faults import FaultScene, describe_deadlock, describe_fault, find_waiting, finding_of_fault, limit_error
from warpsight.emulator.run.independence import address_sources
from warpsight.emulator.run.memory import DeviceMemory, Memory
from warpsight.emulator.run.parallel import CHUNK_MULTIPLE, MIN_BLOCKS, AccessTable, Apart, Conflict, Marks, why_in_order
from warpsight.emulator.run.polls import Polls
from warpsight.emulator.run.race_findings import findings
from warpsight.emulator.run.static import static_instructions
from warpsight.emulator.run.sync_findings import is_about_meeting, sync_findings
from warpsight.emulator.run.worker import POLL_INSTRUCTIONS, Stopped, Streams, Worker, band_of, empty_streams
from warpsight.emulator.sass.instruction_set import SASS
from warpsight.emulator.sass.system import fill_launch_words, has_half_atomics, reads_workspace
from warpsight.isa.architectures import refuse_missing
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.isa.ptx.lexer import lines_of
from warpsight.isa.ptx.program import Function
from warpsight.isa.sass.listing import AT_LEVEL_PTX
from warpsight.kernels.launch import DEFAULT_OPTIONS, ArrayArgument, Dim3, KernelSource, Launch, RunOptions, input_hash, kernel_hash
from warpsight.kernels.machine_code import machine_code
from warpsight.kernels.mangling import display_name
from warpsight.kernels.registers import RegisterUse
from warpsight.kernels.toolkit import Architecture
from warpsight.traces.packing import Packer
from warpsight.traces.path_store import LANES_SHIFT, PathStore, executions_of_blocks
from warpsight.traces.schema import KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader, TraceSink
from warpsight.traces.store import MEMORY_LIMIT_BYTES, SpillingSink

# -- Recording some blocks of a launch, chosen at random, while all are executed.

MOST_BLOCKS = 1 << 28


def choose_blocks(blocks: int, count: int, seed: int, cluster: Dim3 = (1, 1, 1)) -> npt.NDArray[np.bool_]:
    """Which of `blocks` blocks are recorded: `count` of them, each set of that size as likely as any other. bool [blocks].

    Of a launch in clusters, whole clusters are chosen. Raises LimitError for more than `MOST_BLOCKS`, UsageError for a count that
    is not of whole clusters, and for clusters whose blocks do not follow each other in the order of the grid.
    """
    if max(cluster[1:]) > 1:
        what = f"blocks of a launch in clusters of {'x'.join(map(str, cluster))} cannot be chosen: those of a cluster are apart"
        raise UsageError(what, place="sample", remedy="record all blocks: leave `sample` out")
    if count % cluster[0]:
        what = f"a sample of {count:,} blocks is not whole clusters of {cluster[0]}"
        raise UsageError(what, place="sample", remedy=f"give a multiple of {cluster[0]}")
    if blocks > MOST_BLOCKS:
        what = f"a sample of {blocks:,} blocks cannot be chosen: at most {MOST_BLOCKS:,} can be numbered"
        raise LimitError(what, place="sample", remedy="launch fewer blocks, or record all of them")
    units = blocks // cluster[0]
    chosen = np.zeros(units, np.bool_)
    chosen[np.random.default_rng(abs(seed)).choice(units, count // cluster[0], replace=False)] = True
    return np.repeat(chosen, cluster[0])


@jit(
    "void(int64[:, ::1], boolean[::1], uint32[:, ::1], uint8[::1], uint32[::1], uint32[:, ::1], uint8[::1], uint32[::1])",
    cache=True, nogil=True,
)
def _copy(offsets, kept, entries, events, sectors, out_entries, out_events, out_sectors):  # type: ignore[no-untyped-def]
    to_entry = to_event = to_sector = 0
    for warp in range(len(kept)):
        if kept[warp]:
            entry, event, sector = offsets[warp]
            last_entry, last_event, last_sector = offsets[warp + 1]
            for k in range(last_entry - entry):
                for column in range(entries.shape[1]):
                    out_entries[to_entry + k, column] = entries[entry + k, column]
            copy_entries(events, event, last_event, out_events, to_event)
            copy_entries(sectors, sector, last_sector, out_sectors, to_sector)
            to_entry += last_entry - entry
            to_event += last_event - event
            to_sector += last_sector - sector


def keep_blocks(part: Streams, chosen: npt.NDArray[np.bool_], warps_per_block: int) -> Streams:
    """The streams of the chosen blocks alone. Their warps are numbered as if there were no others."""
    first = part.first_warp // warps_per_block
    kept = np.repeat(chosen[first : part.end_block], warps_per_block)
    streams = empty_streams(int(chosen[:first].sum()) * warps_per_block, part.end_block, np.diff(part.offsets, axis=0)[kept])
    _copy(part.offsets, kept, part.entries, part.events, part.sectors, streams.entries, streams.events, streams.sectors)
    return streams


# -- A launch.

T = TypeVar("T")
DEFAULT_MAX_INSTRUCTIONS = 10**10


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel ready to be launched, as often as wanted: its source, its function with calls expanded, its machine code."""

    source: KernelSource
    function: Function
    native: NativeKernel
    level: str
    target: str

    @cached_property
    def code(self) -> tuple[StaticInstruction, ...]:
        """Its instructions as traces have them."""
        return static_instructions(self.function)


def prepare_kernel(
    source: KernelSource, kernel: str, *, architecture: Architecture | None = None, checks: frozenset[str] = frozenset(),
    global_base: int = ARENA_BASE, probes: frozenset[int] = frozenset(), assembler: tuple[str, ...] = (), clustered: bool = False,
    traced: Launch | None = None, briefly: bool = False,
) -> PreparedKernel:
    """Compile `kernel` (mangled name), the module's variables from device address `global_base` on. Raises UnsupportedError.

    With an `architecture` its machine code is executed, made with the options `assembler`, else its PTX. `probes` are pcs, for
    `lane_addresses`. `clustered`: for launches in clusters of several blocks, and no others. `traced`: for this launch alone, of
    which only the trace is wanted; what decides nothing in it is not computed (docs/adr/0039-address-slices.md). `briefly`: short.
    """
    module, built = source.module, architecture
    try:
        with lines_of(source.path), compiling(source.path):
            if architecture is None:
                function = inline_calls(module, module.functions[kernel])
                refuse_missing(function, source.target.partition(",")[0], source.path)
                symbols, text, instructions, target = SymbolTable(module, function, global_base), source.ptx, PTX, source.target
            else:
                code = machine_code(source, architecture, assembler, kernel)
                built = code.architecture
                function = code.function(kernel)
                symbols = NativeSymbolTable(module, function, code.image(kernel), global_base)
                text, instructions, target = f"{source.identity}\0{code.text}", SASS, code.architecture.real
            how = symbols, checks, probes, clustered, None if traced is None else address_sources(source, traced)
            native = compile_kernel(module, function, text, instructions, *how, briefly=briefly)
    except UnsupportedError as error:
        if built is None:
            raise
        own = error.remedy not in ("", AT_LEVEL_PTX)  # names something better than another level
        remedy = f"give the source or its PTX, and {AT_LEVEL_PTX}" if source.cubin and not own else error.remedy
        place = f"{error.place or source.path} (machine code for {built.real})"
        raise UnsupportedError(error.what, place=place, remedy=remedy) from error
    return PreparedKernel(source, function, native, instructions.level, target)


def execute(
    prepared: PreparedKernel, launch: Launch, memory: Memory | None, *, max_instructions: int = DEFAULT_MAX_INSTRUCTIONS,
    progress: Progress | None = None, options: RunOptions = DEFAULT_OPTIONS, inspect: Callable[[Memory], None] | None = None,
    threads: int = 1, marks: Marks | None = None,
) -> int:
    """Execute `launch` with no trace; the number of warp instructions. Raises as `emulate` does.

    `memory` is device memory that exists; with None the launch gets its own, and its arrays stay as they are. `inspect` is shown
    the memory that it leaves; what it has touched there is marked in `marks`. Blocks are spread over `threads` as by `emulate`.
    """
    with Run(prepared, launch, memory, max_instructions, progress, options) as run, run.interruption:
        count = run.execute_unrecorded(threads=threads, marks=marks)
        if inspect is not None:
            inspect(run.memory)
        return count


def lane_addresses(
    source: KernelSource, launch: Launch, accesses: Sequence[ProbedAccess], *, architecture: Architecture | None = None,
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS, progress: Progress | None = None, options: RunOptions = DEFAULT_OPTIONS,
) -> list[LaneAddresses | None]:
    """Execute the launch as far as the last of `accesses`; of each the lanes' addresses, None where it was not made.

    With an `architecture` they are accesses of its machine code, else of PTX. Blocks run in order, on one thread; array arguments
    stay as they are. What is not a plain load, store or atomic has no probe, and nothing is found of a kernel whose blocks may wait
    for each other, as their order is not that of the trace.
    Raises as `emulate` does, and ValueError for more than two accesses of one instruction.
    """
    how: Any = {"checks": options.check, "clustered": launch.cluster_blocks > 1, "traced": None if options.check else launch}
    probed = frozenset(access.pc for access in accesses)
    prepared = prepare_kernel(source, launch.kernel, architecture=architecture, probes=probed, briefly=True, **how)
    if prepared.native.graph.waits.spinning:
        return [None] * len(accesses)
    probes = Probes(len(prepared.function.instructions), accesses)
    with Run(prepared, launch, None, max_instructions, progress, options) as run, run.interruption:
        run.execute_unrecorded(probes)
    return probes.results()


def _own_memory(prepared: PreparedKernel, launch: Launch, options: RunOptions) -> DeviceMemory:
    """The memory of a launch that is given none."""
    source, function, symbols = prepared.source, prepared.function, prepared.native.symbols
    native_level = prepared.level == "sass"
    return DeviceMemory(
        symbols, launch, source.path, checks=options.check, whole_words=native_level and has_half_atomics(source.module),
        with_workspace=reads_workspace(function, symbols.parameters_start) if native_level else needs_workspace(function),
        heap_bytes=options.heap_bytes if uses_heap(function, source) else 0,
    )  # fmt: skip


class Run:
    """One launch in progress."""

    def __init__(
        self, prepared: PreparedKernel, launch: Launch, memory: Memory | None, limit: int, progress: Progress | None,
        options: RunOptions,
    ) -> None:
        source, function, native = prepared.source, prepared.function, prepared.native
        self.source, self.launch, self.function, self.native = source, launch, function, native
        self.limit, self.options, self.progress = limit, options, progress or (lambda done, blocks: None)
        self.name = display_name(launch.kernel)
        if (launch.cluster_blocks > 1) is not native.clustered:
            raise ValueError("whether the kernel is launched in clusters of several blocks must be said when it is prepared")
        symbols = native.symbols
        self.stack_bytes = align_up(max(options.stack_bytes, function.frame), 16) if function.frame else 0
        self.local_bytes = symbols.local_bytes + self.stack_bytes
        self.shared = SharedMemory.of(symbols, launch.shared_bytes, prepared.target)
        if max(self.local_bytes, self.shared.room) > WINDOW_BYTES:
            what = f"{self.shared.asked} bytes of shared and {self.local_bytes} of local memory exceed the 16 MiB windows"
            raise UsageError(f"kernel {self.name}: {what}", remedy="use less shared or local memory")
        self.memory = memory or _own_memory(prepared, launch, options)
        if prepared.level == "sass":
            fill_launch_words(self.memory, launch, self.local_bytes, symbols.parameters_start, self.shared.system)
        self.workers: list[Worker] = []  # they know this object too: cleared at the end, so that their memory goes at once
        self.chosen: npt.NDArray[np.bool_] | None = None
        self.code, self.interruption = prepared.code, Interruption()
        self.polls = Polls.of(function, self.code, native.graph)
        self._fault_record: dict[str, int] | None = None
        if self.memory.watch is not None:
            self.memory.watch.begin(function, launch, native.graph, lanes_apart=prepared.level == "ptx")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        show_printed(self.options.output)
        if self.native.tensor_memory:
            shapes = product_shapes(self.function, [worker.products for worker in self.workers])
            self.code = tuple(replace(row, opcode=row.opcode + shapes.get(row.pc, "")) for row in self.code)
        self._tell_outside()
        try:
            self._tell_found(error)
        finally:
            self.memory.close()
            self.workers.clear()

    @property
    def instructions(self) -> int:
        """Warp instructions so far."""
        return sum(worker.instructions for worker in self.workers)

    def new_worker(self) -> Worker:
        """A further worker of the launch. Raises LimitError where there is no memory for it."""
        options, place = self.options, (self.memory, self.shared, self.local_bytes)
        try:
            worker = Worker(self.native, self.launch, *place, self._poll, options.check, options.out_of_bounds is not None)
        except MemoryError as error:
            what = f"kernel {self.name}: there is no memory for the blocks and traces of {len(self.workers) + 1:,} threads"
            raise LimitError(what, place="threads", remedy="run on fewer threads, or with smaller blocks and stacks") from error
        worker.externals = Externals(
            worker.context, self.memory, worker.sites, self.function, self.source.path, self.launch, self.options.output
        )
        if self.options.order:
            worker.follow(self.options.order)
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
            record = {"pc": self._last_pc(worker), "warp": int(worker.context[Slot.WARP]), "block": worker.block}
            raise limit_error(self.limit, record, self._scene(worker))
        worker.context[Slot.POLL_AT] = worker.instructions + min(self.limit + 1 - total, POLL_INSTRUCTIONS)
        if len(self.workers) == 1:
            self.progress(worker.block, self.launch.blocks)

    def execute_unrecorded(self, probes: Probes | None = None, threads: int = 1, marks: Marks | None = None) -> int:
        """Run all blocks, or those that `probes` need, and throw away what they record but for `marks`; the warp instructions."""
        look = marks.note if marks else None
        if self._on_threads(threads, lambda streams: sum(1 for _ in self._reported(streams, look))) is not None:
            return self.instructions
        if marks is not None:
            marks.clear()  # of an attempt
        worker, blocks = self.new_worker(), self.launch.blocks
        if probes is not None:
            worker.context[Slot.PROBE_PTR] = probes.pointer
        end = blocks if probes is None else align_up(probes.end_block(worker.warps_per_block), band_of(self.launch))
        try:
            for done in worker.discard(0, end, look):
                self.progress(done, blocks)
        except Stopped as stopped:
            raise self.fault(stopped.worker, stopped.block) from None
        return self.instructions

    def execute(self, sink: TraceSink, threads: int) -> tuple[PathTable, npt.NDArray[np.int64]]:
        """Run all blocks, draining into the sink; returns the paths and how many warps took each."""
        collected = self._on_threads(threads, lambda streams: self._collect(streams, sink))
        if collected is not None:
            return collected
        try:
            return self._collect(self.new_worker().streams(0, self.launch.blocks), sink)
        except Stopped as stopped:
            raise self.fault(stopped.worker, stopped.block) from None

    def _on_threads(self, threads: int, take: Callable[[Iterable[Streams]], T]) -> T | None:
        """What `take` makes of the records of blocks on several threads; None if they have to run in order."""
        blocks, in_order = self.launch.blocks, self.native.graph.waits.spinning or self.native.clustered
        if threads == 1 or blocks < MIN_BLOCKS or in_order or self.options.check or self.options.order:
            return None
        if why_in_order(self.function) or not self.memory.attempt():
            return None
        workers = [self.new_worker() for _ in range(min(threads, -(-blocks // CHUNK_MULTIPLE)))]
        try:
            apart = Apart(workers, AccessTable.of(self.code, self.native.graph), self.memory, blocks)
            taken = take(apart.streams())
            self.memory.keep(apart.written())
            return taken
        except (Stopped, Conflict) as ended:  # in order every fault is the first, and every race has the outcome it always has
            self.memory.undo()
            if isinstance(ended, Stopped) and ended.worker.stopped_by is not None:
                raise ended.worker.stopped_by from None
        self.workers.clear()
        return None

    def _reported(self, streams: Iterable[Streams], look: Callable[[Streams], None] | None = None) -> Iterable[Streams]:
        """The streams, which `look` sees; the progress of each is told when the next one is wanted."""
        for part in streams:
            if look:
                look(part)
            yield part
            self.progress(part.end_block, self.launch.blocks)

    def _collect(self, streams: Iterable[Streams], sink: TraceSink) -> tuple[PathTable, npt.NDArray[np.int64]]:
        paths = PathStore()
        self.polls.instructions = 0  # this may be the second time
        packer = Packer(self.code, self.native.graph.block_start.astype(np.int32)) if isinstance(sink, SpillingSink) else None
        try:
            for part in self._reported(streams):
                chunk = self.chunk(part, paths)
                sink.add(chunk if packer is None else packer.packed(chunk, paths))
        except (Stopped, Conflict):
            sink.restart()  # the blocks may run again
            raise
        return paths.table(), paths.warps

    def chunk(self, part: Streams, paths: PathStore, first_warp: int = 0) -> TraceChunk:
        """What `part` has recorded for the trace, its paths in `paths`, its warps numbered from `first_warp` of the launch on."""
        if self.polls.any:
            part = self.polls.without_failed(part)
        if self.chosen is not None:
            part = keep_blocks(part, self.chosen, self.workers[0].warps_per_block)
        offsets = [np.ascontiguousarray(part.offsets[:, k]) for k in range(3)]
        numbers = paths.number(part.entries, offsets[0])
        return TraceChunk(part.first_warp - first_warp, numbers, offsets[1], part.events, offsets[2], part.sectors)

    def _tell_outside(self) -> None:
        """Tell `RunOptions.out_of_bounds` of the accesses that were let through: by instruction, that of the first block first."""
        if self.options.out_of_bounds is None:
            return
        found: dict[int, list[tuple[int, ...]]] = {}
        for worker in self.workers:
            for count, pc, lane, address, warp, block in worker.outside[worker.outside[:, 0] > 0].tolist():
                found.setdefault(pc, []).append((block, warp, lane, address, count))
        for pc, places in sorted(found.items()):
            block, warp, lane, address, _ = min(places)
            record = {"kind": Fault.OUT_OF_BOUNDS, "pc": pc, "lane": lane, "address": address, "warp": warp, "block": block}
            error = describe_fault(record, self._scene(self.workers[0]))
            self.options.out_of_bounds(error, sum(count for *_, count in places))

    def _tell_found(self, error: BaseException | None) -> None:
        """Tell `RunOptions.found` what the checks have found, or raise CheckFault; what has ended the launch comes last."""
        if self.memory.watch is None or not self.workers:
            return
        scene = self._scene(self.workers[0])
        rows, dropped = self.memory.watch.rows()
        found = findings([row for row in rows if not is_about_meeting(row)], dropped, scene)
        found += sync_findings([row for row in rows if is_about_meeting(row)], scene)
        if isinstance(error, LaunchFault) and error.details is not None:
            found.append(finding_of_fault(error, scene, self._fault_record))
        if self.options.found is not None:
            for finding in found:
                self.options.found(finding)
        elif (error is None or isinstance(error, LaunchFault)) and any(each.severity == "error" for each in found):
            raise CheckFault.of(found) from None

    def fault(self, worker: Worker, block: int) -> BaseException:
        """Why a worker has stopped at a block, as the error to raise."""
        c = worker.context
        if c[Slot.FAULT_KIND] in (0, Fault.INTERRUPTED):
            return worker.stopped_by or KeyboardInterrupt()
        kind = Fault(int(c[Slot.FAULT_KIND]))
        if kind == Fault.NO_MEMORY:
            what = f"kernel {self.name}: the trace of one block is larger than {MAX_BUFFER_BYTES >> 30} GiB"
            return LimitError(what, remedy="use a smaller input")
        if kind == Fault.DEADLOCK:
            waiting = find_waiting(worker.residents.states(), self.native.graph)
            return describe_deadlock(waiting, block, self.function, self.name, self.source.path, self.launch)
        slots = {"pc": Slot.FAULT_PC, "lane": Slot.FAULT_LANE, "address": Slot.FAULT_ADDRESS, "warp": Slot.FAULT_WARP,
                 "bytes": Slot.FAULT_BYTES}  # fmt: skip
        record = {name: int(c[slot]) for name, slot in slots.items()}
        self._fault_record = record | {"kind": kind, "block": block, "stack": self.stack_bytes}
        return describe_fault(self._fault_record, self._scene(worker))

    def _scene(self, worker: Worker) -> FaultScene:
        return FaultScene(
            self.function, self.name, self.source.path, self.launch, self.memory, self.native.symbols, self.shared,
            None if worker.externals is None else worker.externals.assertion,
        )  # fmt: skip

    def _last_pc(self, worker: Worker) -> int:
        """The first instruction of the basic block that was entered last."""
        last = int(worker.recorder.path.array[max(0, worker.recorder.path.used - 1), 0])
        starts = self.native.graph.block_start
        block = 0 if last == SEGMENT_MARK else last & ((1 << LANES_SHIFT) - 1)
        return int(starts[min(block, len(starts) - 2)])


def emulate(
    source: KernelSource, launch: Launch, *, registers: RegisterUse, sink: TraceSink | None = None,
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS, progress: Progress | None = None, threads: int = 1, sample: int = 0,
    seed: int = 0, options: RunOptions = DEFAULT_OPTIONS, prepared: PreparedKernel | None = None, memory: Memory | None = None,
) -> KernelTrace:
    """Execute `launch` as a GPU would and return its trace; array arguments are written back when it has succeeded, else untouched.

    `registers` goes into the header. Blocks are spread over `threads` where that changes nothing. With `sample` so many blocks,
    chosen by `seed`, are recorded; all are executed. `prepared` is the kernel where it has been compiled before, `memory` device
    memory that exists already. `progress(blocks done, blocks)` is called now and then. `options` are of the device runtime: heap,
    stack and `printf`. Of a kernel prepared for its trace alone nothing is written back. Raises UnsupportedError (exit 3) for an
    opcode that is not modelled, LaunchFault for a memory fault or trap, LimitError past `max_instructions` warp instructions.
    """
    prepared = prepared or prepare_kernel(source, launch.kernel, checks=options.check, clustered=launch.cluster_blocks > 1)
    native = prepared.native
    if sink is None:  # large arrays leave less room for the trace
        arrays = sum(each.array.nbytes for each in launch.arguments if isinstance(each, ArrayArgument))
        sink = SpillingSink(max(MEMORY_LIMIT_BYTES // 2, MEMORY_LIMIT_BYTES - arrays))
    inputs = input_hash(launch)
    with Run(prepared, launch, memory, max_instructions, progress, options) as run:
        if sample:
            run.chosen = choose_blocks(launch.blocks, sample, seed, launch.cluster or (1, 1, 1))
        started = time.perf_counter()
        with run.interruption:
            paths, warps_of_path = run.execute(sink, threads)
        seconds = time.perf_counter() - started
        sound = options.found is not None or run.memory.watch is None or not run.memory.watch.found
        if sound and native.computes:
            run.memory.write_back()
        recorded = 0 if run.chosen is None else int(run.chosen.sum())
        header = trace_header(prepared, run, registers, paths, warps_of_path, inputs, seconds, recorded)
    return sink.finish(header, run.code, native.graph.block_start.astype(np.int32), paths)


def trace_header(
    prepared: PreparedKernel, run: Run, registers: RegisterUse, paths: PathTable, warps_of_path: npt.NDArray[np.int64], inputs:
    str, seconds: float, sampled: int,
) -> TraceHeader:
    """The header of what `run` has recorded: warps on each path, of `sampled` blocks (0: of all)."""
    source, launch, native = run.source, run.launch, run.native
    # what the system keeps of a block's shared memory is in the description of the GPU
    static = native.symbols.static_shared_bytes - native.symbols.system_shared_bytes
    recorded, threads_in_step = _recorded(native, paths, warps_of_path)
    executed = run.instructions - run.polls.instructions
    return TraceHeader(
        kernel=run.name, mangled=launch.kernel, source=source.path, grid=launch.grid, block=launch.block,
        cluster=launch.cluster or (1, 1, 1), static_shared_bytes=static, dynamic_shared_bytes=launch.shared_bytes,
        registers_per_thread=registers.registers, registers_from=registers.origin, target=prepared.target, level=prepared.level,
        kernel_hash=kernel_hash(launch.kernel, source), input_hash=inputs, warp_instructions=executed,
        thread_instructions=round(threads_in_step * executed / max(1, recorded)) if sampled else threads_in_step,
        emulation_seconds=seconds, tool_version=__version__, sampled_blocks=sampled,
        sampled_instructions=recorded if sampled else 0,
    )


def _recorded(native: NativeKernel, paths: PathTable, warps: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Warp instructions in the trace, and those times active lanes at the entry of their block."""
    sizes = np.diff(native.graph.block_start).astype(np.int64)
    of_warps, of_lanes = (executions_of_blocks(paths, warps, len(sizes), of_lanes=each) for each in (False, True))
    return int(of_warps @ sizes), int(of_lanes @ sizes)
