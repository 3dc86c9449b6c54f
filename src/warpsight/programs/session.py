"""A connected program: answers what its runtime library asks, and executes its launches."""

from __future__ import annotations

import io
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LaunchFault, LimitError, UnsupportedError, UsageError, WarpsightError
from warpsight.base.findings import Finding
from warpsight.emulator.codegen.symbols import GLOBAL_ALIGN
from warpsight.emulator.run.launch import PreparedKernel, emulate, execute
from warpsight.emulator.run.memory import DeviceHeap, Memory, ResidentMemory
from warpsight.emulator.run.parallel import AccessTable, Marks
from warpsight.emulator.textures.objects import (
    Channels,
    Descriptor,
    DescriptorTable,
    TextureSettings,
    Use,
    array_image,
    linear_image,
    pitched_image,
    texture,
)
from warpsight.gpu.occupancy import WARP_SIZE, clusters_of, occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch import Launch, RunOptions, ScalarArgument
from warpsight.kernels.mangling import unscoped_name
from warpsight.kernels.registers import RegisterUse
from warpsight.kernels.toolkit import Architecture, parse_architecture
from warpsight.programs.checked import CheckedProgram
from warpsight.programs.modules import HEAP_MOST_BYTES, HEAP_START, WORKSPACE, Kernel, Modules
from warpsight.programs.wire import LAUNCH, PROTOCOL, SPAN, TOUCHED_FIELDS, Kind, SharedMemory, Spent, Status, Touching, Wire
from warpsight.traces.schema import KernelTrace, TraceSink

MEMORY_BYTES = 16 << 30
COMPUTE_CAPABILITY = (8, 0)  # what a program is told of a GPU that has none of its own
FIRST_WITH_CLUSTERS = (9, 0)
_VALUES, _NAME_BYTES = 64, 256
_BUS_BITS = 256
_DEFAULT_SHARED = 48 << 10  # without asking for more (CUDA C++ Programming Guide, cudaFuncAttributeMaxDynamicSharedMemorySize)


def device_bytes(gpu: GpuSpec) -> bytes:
    """The answer to HELLO: 64 int64 in the order of `enum device_value` in runtime.h, then the name."""
    sm = gpu.sm
    stated = gpu.compute_capability
    capability = COMPUTE_CAPABILITY if stated == "none" else divmod(parse_architecture(stated).number, 10)
    largest = sm.max_shared_memory_per_block_bytes or sm.shared_memory_bytes
    bandwidth, threads = int(gpu.dram.bandwidth_bytes_per_s), sm.max_warps * WARP_SIZE
    memory_clock = bandwidth * 8 // (2 * _BUS_BITS) // 1000  # kHz; two transfers a clock
    values = [
        *capability, gpu.sm_count, int(gpu.core_clock_hz / 1e3), MEMORY_BYTES, min(_DEFAULT_SHARED, largest), largest,
        sm.shared_memory_bytes, sm.shared_memory_reserved_bytes, sm.registers, min(sm.max_threads_per_block, threads), threads,
        sm.max_blocks, gpu.l2.size_bytes, _BUS_BITS, memory_clock, bandwidth, round(gpu.dispatch.launch_interval_ns),
        capability >= FIRST_WITH_CLUSTERS,
    ]  # fmt: skip
    values += [0] * (_VALUES - len(values))
    name = f"{gpu.name} (warpsight)".encode()[: _NAME_BYTES - 1]
    return struct.pack(f"<{_VALUES}q{_NAME_BYTES}s", *values, name)


# -- Texture and surface objects of a program: what `runtime/objects.c` asks, as rows of the emulator's table.

OBJECT = struct.Struct("<21q4d")
_ARRAY, _LINEAR, _PITCHED = 0, 2, 3  # cudaResourceType


def make_object(table: DescriptorTable, payload: bytes) -> int:
    """The handle of a new object. Raises UsageError for what CUDA refuses, UnsupportedError for what is not modelled."""
    use, kind, address, width, height, depth, pitch, flags, *rest = OBJECT.unpack(payload)
    channels = Channels((rest[0], rest[1], rest[2], rest[3]), rest[4])
    if kind == _ARRAY:
        image = array_image(Use(use), address, (width, height, depth), flags, channels, pitch)
    elif kind == _LINEAR:
        image = linear_image(address, width, channels)
    elif kind == _PITCHED:
        image = pitched_image(address, width, height, pitch, channels)
    else:
        raise UsageError(f"resource type {kind} does not exist")
    return table.add(_sampled(image, rest[5:]) if use == Use.TEXTURE else image)


def _sampled(image: Descriptor, fields: list[float]) -> Descriptor:
    """`image` with the fields of cudaTextureDesc from the address modes on."""
    x, y, z, filter_mode, read_mode, normalized, srgb, seamless = (int(field) for field in fields[:8])
    border = (fields[8], fields[9], fields[10], fields[11])
    settings = TextureSettings((x, y, z), filter_mode, read_mode, bool(normalized), border, bool(srgb), bool(seamless))
    return texture(image, settings)


# -- One program that is connected: answers what its runtime library asks, and executes its launches.

_OF_FAULT = {
    "misaligned": Status.MISALIGNED, "trap": Status.LAUNCH_FAILURE, "breakpoint": Status.LAUNCH_FAILURE,
    "assertion": Status.ASSERT, "barriers-differ": Status.LAUNCH_FAILURE, "deadlock": Status.TIMEOUT,
    "missing-lanes": Status.TIMEOUT, "stack-overflow": Status.LAUNCH_FAILURE,
}  # fmt: skip


@dataclass(frozen=True)
class ExecutedLaunch:
    """A launch that has been executed. `number` counts from 1 over the whole run; `arrays` are the sizes of what it points to, in
    bytes; `trace` is None where none was wanted. `touched` is the device memory that its last blocks have touched, as
    `Observer.touched` has it, where the trace has sampled blocks alone. `cooperative`: its blocks may wait for each other.
    """

    number: int
    kernel: str
    launch: Launch
    warp_instructions: int
    registers: RegisterUse
    arrays: tuple[int, ...]
    trace: KernelTrace | None
    touched: npt.NDArray[np.int64] | None = None
    cooperative: bool = False


class SampledLaunch(NamedTuple):
    """The trace of sampled blocks, and the block since which it has to be known what the launch touches."""

    trace: KernelTrace
    since: int


class Span(NamedTuple):
    """What was on a stream of a process from `start` to `end`, in seconds, or on stream 0 what the host did or waited for.

    `number` is that of a launch, of an event, or of the stream that the host waited for. A copy has `copied` bytes. What belongs
    to the launch of a graph has its number in `graph`. `call` is the number of the call of the interface that was made for it, by
    the host's `thread`. Of a call, and of what NVTX tells, `name` is the name, `stream` the domain of NVTX, and `copied` how often
    the function was called, or the number of a range.
    """

    process: int
    stream: int
    start: float
    end: float
    kind: Spent
    number: int = 0
    copied: int = 0
    graph: int = 0
    call: int = 0
    thread: int = 0
    name: str = ""


class Observer:
    """Who follows a program: what is traced, how long a launch takes, what watches it. This one traces nothing and asks nothing.

    `check` are the checks that watch the program, of `findings.WATCHING`; `order` is that of `RunOptions`. The blocks of a launch
    are spread over `threads` where that changes nothing.
    """

    check: frozenset[str] = frozenset()
    order: int = 0
    threads: int = 1

    def sink(
        self, number: int, kernel: str, prepared: PreparedKernel, launch: Launch, arrays: tuple[int, ...]
    ) -> TraceSink | None:
        """Where the trace of launch `number` goes; None if it needs none. `arrays` are the sizes of what it points to, in bytes."""
        return None

    def sampled(self, kernel: Kernel, prepared: PreparedKernel, launch: Launch, memory: Memory) -> SampledLaunch | None:
        """Sampled blocks of a launch that is wanted, before it is executed; None: all of it is recorded. `memory` is its own, and
        as it was afterwards.
        """
        return None

    def ran(self, launch: ExecutedLaunch) -> float:
        """A launch has been executed; its time on the GPU in seconds, 0 if that is not known."""
        return 0.0

    def touched(self, rows: npt.NDArray[np.int64]) -> None:
        """Device memory that copies and fills have touched since the launch before, int64 [n, 5] in order: address, pitch, bytes of
        a row, rows, and 1 if they were written, 0 if they were read.
        """

    def spent(self, span: Span) -> None:
        """A stream was occupied. What a program has done is told late, in order for each process."""

    def refused(self, number: int, kernel: str, error: WarpsightError) -> None:
        """A launch has failed; number 0 means a module or kernel that could not be loaded."""

    @property
    def out_of_bounds(self) -> Callable[[WarpsightError, int], None] | None:
        """See `RunOptions.out_of_bounds`."""
        return None

    def found(self, finding: Finding) -> None:
        """What a check has found, with the number of its launch, 0 for what is of none."""

    def inspect(self, number: int, kernel: str, memory: Memory) -> None:
        """The memory that a launch leaves, where it is not traced."""


class Session:
    """A connected program. `counter` numbers launches over all programs of a run; `architecture` is whose machine code is executed
    on `gpu`, None for PTX.
    """

    def __init__(
        self, wire: Wire, gpu: GpuSpec, architecture: Architecture | None, observer: Observer, program: str, max_instructions: int
    ) -> None:
        self.wire, self._gpu, self._observer = wire, gpu, observer
        chosen_for = None if gpu.compute_capability == "none" else parse_architecture(gpu.compute_capability)
        self._modules = Modules(program, architecture, observer.check, chosen_for)
        self._checked = CheckedProgram(observer.check, MEMORY_BYTES, observer.found) if observer.check else None
        self._limit = max_instructions
        self._memory: SharedMemory | None = None
        self._named: dict[int, str] = {}  # functions of the interface, and ranges of NVTX
        self._objects = DescriptorTable()
        self._heap: DeviceHeap | None = None  # made when a kernel first needs it, of the size that the program has set until then
        self._handlers = {
            Kind.LOAD: self._load, Kind.RESOLVE: self._resolve, Kind.LAUNCH: self._launch, Kind.OCCUPANCY: self._occupancy,
            Kind.RESET: self._reset, Kind.MAKE_OBJECT: self._make_object, Kind.REMOVE_OBJECT: self._remove_object,
            Kind.TOUCH: self._touch, Kind.TIMELINE: self._timeline, Kind.LINK: self._link, Kind.NAME: self._name,
        }  # fmt: skip
        self._told = {
            Kind.FAILED: CheckedProgram.failed, Kind.LEAKED: CheckedProgram.leaked, Kind.COPIED_OUT: CheckedProgram.copied_out,
        }  # fmt: skip

    def serve(self, counter: list[int]) -> None:
        """Answer the next message. Raises Closed when the program has gone."""
        if self._memory is None:
            protocol, self._process, self._memory = self.wire.receive_hello()
            answer = device_bytes(self._gpu)
            self.wire.answer(Status.SUCCESS if protocol == PROTOCOL else Status.NOT_SUPPORTED, answer)
            return
        kind, payload = self.wire.receive()
        self._counter = counter
        if self._checked is not None and kind in self._told:
            self._told[Kind(kind)](self._checked, payload)
            self.wire.answer(Status.SUCCESS)
            return
        status, reply = self._handlers[Kind(kind)](payload)
        self.wire.answer(status, reply)

    def _load(self, payload: bytes) -> tuple[int, bytes]:
        assert self._memory is not None
        try:
            number = self._modules.load(payload)
        except WarpsightError as error:
            self._refuse(0, "", error)
            return Status.NO_KERNEL_IMAGE, b""
        rows = self._modules.modules[number].data.rows
        reply = struct.pack("<2q", number, len(rows))
        for name, address, size, writable, content in rows:
            self._memory.write(address, content)
            if self._checked is not None:
                self._checked.watch.set_written(address, size)
            encoded = name.encode()
            reply += struct.pack("<4q", address, size, writable, len(encoded)) + encoded
        kernels = self._modules.modules[number].source.module.kernels
        return Status.SUCCESS, reply + b"".join(name.encode() + b"\0" for name in kernels)

    def _link(self, payload: bytes) -> tuple[int, bytes]:
        """Several images become one: the kind and size of each, then all of them."""
        (count,) = struct.unpack_from("<q", payload)
        images, at = [], 8 + 16 * count
        for kind, size in struct.iter_unpack("<2q", payload[8:at]):
            images.append((kind, payload[at : at + size]))
            at += size
        try:
            return Status.SUCCESS, self._modules.link(images)
        except WarpsightError as error:
            self._refuse(0, "", error)
            return Status.NOT_SUPPORTED if isinstance(error, UnsupportedError) else Status.NO_KERNEL_IMAGE, b""

    def _resolve(self, payload: bytes) -> tuple[int, bytes]:
        (module,) = struct.unpack_from("<q", payload)
        try:
            number = self._modules.kernel(module, payload[8:].decode())
            if number is None:
                return Status.INVALID_DEVICE_FUNCTION, b""
            kernel = self._modules.kernels[number]
            registers, maker = kernel.registers, kernel.maker
        except WarpsightError as error:
            self._refuse(0, "", error)
            return Status.NOT_SUPPORTED, b""
        layout, version = kernel.layout, kernel.source.module.version
        target = parse_architecture(kernel.source.target.partition(",")[0]) if kernel.architecture is None else kernel.architecture
        constants = self._modules.modules[module].data.constant_bytes
        end = layout[-1][0] + layout[-1][1] if layout else 0
        given = len(layout) - bool(maker)
        head = [number, given, end, registers.registers, registers.static_shared_bytes, registers.local_bytes, constants]
        head += [kernel.max_threads, version[0] * 10 + version[1], target.number]
        head += [*kernel.required_cluster, kernel.function.max_cluster_blocks or 0, *kernel.required_block, len(maker)]
        return Status.SUCCESS, struct.pack("<18q", *head) + b"".join(struct.pack("<2q", *row) for row in layout[:given]) + maker

    def _occupancy(self, payload: bytes) -> tuple[int, bytes]:
        number, threads, shared, cluster = struct.unpack("<4q", payload)
        blocks = self._blocks_per_sm(self._modules.kernels[number], threads, shared)
        return Status.SUCCESS, struct.pack("<2q", blocks, clusters_of(self._gpu.sm_count, self._gpu.gpc_count, blocks, cluster))

    def _blocks_per_sm(self, kernel: Kernel, threads: int, shared: int) -> int:
        try:
            use = kernel.registers
            return occupancy(self._gpu, threads, use.registers, use.static_shared_bytes + shared).blocks_per_sm
        except UsageError:
            return 0

    def _reset(self, _: bytes) -> tuple[int, bytes]:
        self._modules.reset()
        self._objects, self._heap = DescriptorTable(), None
        if self._checked is not None:
            self._checked.reset()
        return Status.SUCCESS, b""

    def _touch(self, payload: bytes) -> tuple[int, bytes]:
        rows = np.frombuffer(payload, np.int64).reshape(-1, TOUCHED_FIELDS)
        if self._checked is not None:
            self._checked.touched(rows)
            rows = rows[(rows[:, -1] != Touching.ALLOCATED) & (rows[:, -1] != Touching.ALLOCATED_WRITTEN)].copy()
            rows[:, -1] = rows[:, -1] != Touching.READ
        self._observer.touched(rows)
        return Status.SUCCESS, b""

    def _timeline(self, payload: bytes) -> tuple[int, bytes]:
        for kind, stream, number, copied, graph, call, thread, start, end in SPAN.iter_unpack(payload):
            name = self._named.get(number, "") if kind >= Spent.CALLED else ""
            self._observer.spent(Span(self._process, stream, start, end, Spent(kind), number, copied, graph, call, thread, name))
        return Status.SUCCESS, b""

    def _name(self, payload: bytes) -> tuple[int, bytes]:
        (number,) = struct.unpack_from("<q", payload)
        self._named[number] = payload[8:].decode("utf-8", "replace")
        return Status.SUCCESS, b""

    def _make_object(self, payload: bytes) -> tuple[int, bytes]:
        try:
            return Status.SUCCESS, struct.pack("<q", make_object(self._objects, payload))
        except WarpsightError as error:
            _complain(error)
            return Status.INVALID_VALUE if isinstance(error, UsageError) else Status.NOT_SUPPORTED, b""

    def _remove_object(self, payload: bytes) -> tuple[int, bytes]:
        try:
            self._objects.remove(*struct.unpack("<q", payload))
        except UsageError:
            return Status.INVALID_VALUE, b""
        return Status.SUCCESS, b""

    def _launch(self, payload: bytes) -> tuple[int, bytes]:
        number, gx, gy, gz, bx, by, bz, *shape, shared, allocations, cooperative, heap_bytes, size = LAUNCH.unpack_from(payload)
        kernel, parameters = self._modules.kernels[number], payload[LAUNCH.size : LAUNCH.size + size]
        grid, block, cluster = kernel.shape((gx, gy, gz), (bx, by, bz), (shape[0], shape[1], shape[2]))
        arguments = tuple(ScalarArgument(parameters[start : start + length]) for start, length in kernel.layout)
        launch = Launch(kernel.function.name, grid, block, arguments, shared, cluster)
        resident = self._blocks_per_sm(kernel, launch.threads_per_block, shared)
        if not resident:
            return Status.OUT_OF_RESOURCES, b""
        if cooperative and launch.blocks > resident * self._gpu.sm_count:
            return Status.COOPERATIVE_TOO_LARGE, b""
        self._counter[0] += 1
        if kernel.uses_heap and self._heap is None:
            self._heap = DeviceHeap(HEAP_START, max(0, min(heap_bytes, HEAP_MOST_BYTES)))
        printed = io.StringIO()  # written by the program itself, so that it comes between its own lines
        status, seconds = Status.SUCCESS, 0.0
        try:
            observer, number = self._observer, self._counter[0]
            options = RunOptions(
                output=printed, out_of_bounds=observer.out_of_bounds, check=observer.check, order=observer.order,
                found=lambda finding: observer.found(replace(finding, launch=number)),
            )
            ran = self._run(kernel, launch, parameters, allocations, options)
            seconds = self._observer.ran(replace(ran, cooperative=bool(cooperative)))
        except WarpsightError as error:
            self._refuse(self._counter[0], kernel.name, error)
            status = status_of(error)
        return status, struct.pack("<dq", seconds, self._counter[0]) + printed.getvalue().encode("utf-8", "surrogateescape")

    def _run(self, kernel: Kernel, launch: Launch, parameters: bytes, allocations: int, options: RunOptions) -> ExecutedLaunch:
        assert self._memory is not None
        table = self._memory.table(allocations)
        prepared = kernel.prepared_for(launch)
        workspace = WORKSPACE if kernel.needs_workspace(prepared) else 0
        watch = None if self._checked is None else self._checked.watch
        if workspace:
            self._memory.write(workspace, bytes(GLOBAL_ALIGN))
            if watch is not None:
                watch.set_written(workspace, GLOBAL_ALIGN)
        names = self._modules.names
        parameters = kernel.bank(parameters, prepared)
        shared = self._memory

        def memory() -> ResidentMemory:
            return ResidentMemory(table, shared, parameters, names, self._objects, self._heap, workspace, watch)

        ran = execute_observed(self._observer, self._counter[0], kernel.name, kernel, launch, memory, self._limit, options)
        if self._checked is not None:
            self._checked.launched(prepared.function, self._objects)
        return ran

    def _refuse(self, number: int, kernel: str, error: WarpsightError) -> None:
        """Everything about a failure goes to the observer and to stderr; the program learns only the code."""
        self._observer.refused(number, kernel, error)
        if self._checked is None or not isinstance(error, LaunchFault):  # of which checks have a finding
            _complain(error, kernel)


def execute_observed(
    observer: Observer, number: int, name: str, kernel: Kernel, launch: Launch, memory: Callable[[], ResidentMemory], limit: int,
    options: RunOptions,
) -> ExecutedLaunch:
    """Execute launch `number` of a program, and record of it what its observer wants. Each `memory` is that of the launch anew.

    Raises what `emulate` raises.
    """
    prepared, own = kernel.prepared_for(launch), memory()
    arrays = array_bytes(launch, own.table.rows())
    sink = observer.sink(number, name, prepared, launch, arrays)
    sample = None if sink is None else observer.sampled(kernel, prepared, launch, memory())
    trace, marks = None, None
    if sample is not None:
        trace, marks = sample.trace, Marks(AccessTable.of(prepared.code, prepared.native.graph), own.table.rows(), sample.since)
    threads = kernel.history.threads(launch, observer.threads)
    if sink is None or sample is not None:
        count = execute(
            prepared, launch, own, max_instructions=limit, options=options, threads=threads, marks=marks,
            inspect=lambda left: observer.inspect(number, name, left),
        )
    else:
        trace = emulate(
            kernel.source, launch, registers=kernel.registers, sink=sink, max_instructions=limit, options=options,
            prepared=prepared, memory=own, threads=threads,
        )
        count = trace.header.warp_instructions
    kernel.history.ran(launch, count, undone=own.undone)
    return ExecutedLaunch(number, name, launch, count, kernel.registers, arrays, trace, None if marks is None else marks.rows())


def array_bytes(launch: Launch, table: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """The sizes of the allocations that its arguments of 8 bytes point into, with `table` as `ResidentMemory` takes it."""
    found = []
    words = (each.data for each in launch.arguments if isinstance(each, ScalarArgument) and len(each.data) == 8)
    for address in (int.from_bytes(word, "little") for word in words):
        row = int(np.searchsorted(table[:, 0], address, side="right")) - 1
        if row >= 0 and address < table[row, 1]:
            found.append(int(table[row, 1] - table[row, 0]))
    return tuple(found)


_LONGEST_NAME = 100  # of a kernel in a message: those of CUTLASS have thousands of characters of template arguments


def _complain(error: WarpsightError, kernel: str = "") -> None:
    print(f"error: {_with_short_names(str(error), kernel)}", file=sys.stderr, flush=True)


def _with_short_names(text: str, kernel: str) -> str:
    """The message with the beginnings of long names: the kernel's as in CUDA C++, without namespaces, others as compilers write."""
    if len(kernel) > _LONGEST_NAME:
        own = unscoped_name(kernel)
        text = text.replace(kernel, own if len(own) <= _LONGEST_NAME else own[:_LONGEST_NAME] + "...")
    return re.sub(rf"(\w{{{_LONGEST_NAME}}})\w+", r"\1...", text)


def status_of(error: WarpsightError) -> Status:
    """The CUDA error code for what has happened."""
    if isinstance(error, LaunchFault):
        return _OF_FAULT.get(error.details.kind if error.details else "", Status.ILLEGAL_ADDRESS)
    if isinstance(error, LimitError):
        return Status.TIMEOUT
    if isinstance(error, UnsupportedError):
        return Status.NOT_SUPPORTED
    return Status.OUT_OF_RESOURCES
