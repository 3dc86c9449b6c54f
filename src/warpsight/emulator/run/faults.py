"""Turns the fault that native code recorded, or a deadlock, into an error, and what checks have noted into findings: kernel, source
line, block, thread, address and what is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import Assertion, FaultDetails, LaunchFault, LimitError, UnsupportedError, WarpsightError
from warpsight.base.findings import INITCHECK, MEMCHECK, SYNCCHECK, Caller, Finding, Site
from warpsight.emulator.codegen import layout, watcher
from warpsight.emulator.codegen.layout import LOCAL_WINDOW, SHARED_WINDOW, WARP, WINDOW_BYTES, Fault
from warpsight.emulator.codegen.symbols import STACK_LIMIT, SharedMemory, SymbolTable
from warpsight.emulator.run.memory import Allocation, Memory, nearest
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function, Instruction
from warpsight.isa.ptx.rules import memory_access, says_bytes
from warpsight.kernels.launch import Launch
from warpsight.kernels.mangling import display_name

# Kind to (name for programs, words for people).
_DESCRIPTIONS = {
    Fault.OUT_OF_BOUNDS: ("out-of-bounds", "access out of bounds"),
    Fault.MISALIGNED: ("misaligned", "misaligned access"),
    Fault.READ_ONLY: ("read-only", "write to constant memory"),
    Fault.SHARED_BOUNDS: ("shared-out-of-bounds", "access past the end of shared memory"),
    Fault.CLUSTER_RANK: ("cluster-rank", "access to shared memory of a block that is not in the cluster"),
    Fault.TENSOR_RANGE: ("tensor-out-of-bounds", "copy past the end of the allocation in which the tensor begins"),
    Fault.TENSOR_MAP: ("tensor-map", "use of a value that is not a tensor map of the instruction's rank and mode"),
    Fault.LOCAL_BOUNDS: ("local-out-of-bounds", "access past the end of a thread's local memory"),
    Fault.PARAM_BOUNDS: ("param-out-of-bounds", "access past the end of the kernel's parameters"),
    Fault.TRAP: ("trap", "trap"),
    Fault.BREAKPOINT: ("breakpoint", "breakpoint"),
    Fault.ASSERTION: ("assertion", "failed assertion"),
    Fault.BRANCH_INDEX: ("branch-index", "indexed branch past the end of its table"),
    Fault.BARRIERS_DIFFER: ("barriers-differ", "threads of one warp wait at different barriers"),
    Fault.USE_AFTER_FREE: ("use-after-free", "use after free"),
    Fault.DOUBLE_FREE: ("double-free", "free of memory that is free already"),
    Fault.BAD_FREE: ("bad-free", "free of an address that malloc did not give"),
    Fault.UNWRITTEN: ("uninitialised", "read of memory that was never written"),
    Fault.LIMIT: ("instruction-limit", "instruction limit"),
    Fault.MBARRIER_STATE: ("mbarrier-state", "use of shared memory that holds no mbarrier object"),
    Fault.MBARRIER_COUNT: ("mbarrier-count", "more arrivals or bytes than the mbarrier object can count"),
    Fault.ALLOCA_OVERFLOW: ("alloca-overflow", "use of a thread's stack past its end"),
    Fault.BULK_SIZE: ("bulk-size", "copy of a size that PTX does not allow"),
    Fault.WARP_INCOMPLETE: ("warp-incomplete", "use of only some of the 32 threads of a warp"),
    Fault.GROUP_INCOMPLETE: ("warp-group-incomplete", "use of only some of the 4 warps of a warp group"),
    Fault.TENSOR_MEMORY: ("tensor-memory", "access outside of tensor memory, or of the lanes that its warp reaches,"),
    Fault.TENSOR_COLUMNS: ("tensor-columns", "allocation of columns of tensor memory that the block does not have"),
    Fault.PRODUCT_FORM: ("product-form", "product whose descriptors say what its kind does not have"),
    Fault.BAD_IMAGE: ("bad-image", "use of a value that is not a texture, surface or sampler object"),
    Fault.IMAGE_KIND: ("image-kind", "use of a texture or surface object that the instruction does not suit"),
    Fault.SURFACE_BOUNDS: ("surface-out-of-bounds", "access outside of a surface"),
    Fault.STACK_OVERFLOW: ("stack-overflow", "call stack overflow"),
    Fault.CALL_DEPTH: ("stack-overflow", "call stack overflow"),
    Fault.CALL_TARGET: ("call-target", "call of an address that is not a function of this prototype"),
    Fault.RETURN_TARGET: ("return-target", "return to a call that was never made (the call stack was overwritten)"),
    Fault.BARRIER_OPERAND: ("barrier-operand", "barrier number above 15, or thread count that is not a multiple of 32,"),
}
# What the recorded number is, for kinds where it is not an address.
_NUMBERED_FAULTS = {
    Fault.CLUSTER_RANK: "rank {0}",
    Fault.TENSOR_MAP: "address 0x{0:x}",
    Fault.TENSOR_MEMORY: "address 0x{0:08x}",
    Fault.TENSOR_COLUMNS: "columns {0:,}",
    Fault.PRODUCT_FORM: "instruction descriptor 0x{0:08x}",
    Fault.MBARRIER_STATE: "offset {0:,}",
    Fault.MBARRIER_COUNT: "offset {0:,}",
    Fault.ALLOCA_OVERFLOW: "bytes {0:,}",
    Fault.BULK_SIZE: "bytes {0:,}",
    Fault.BAD_IMAGE: "handle 0x{0:x}",
    Fault.IMAGE_KIND: "handle 0x{0:x}",
    Fault.SURFACE_BOUNDS: "offset {0:,}",
    Fault.STACK_OVERFLOW: "{0:,} bytes per thread with this call, {1:,} available",
    Fault.CALL_DEPTH: "{0:,} calls and branches of its warp are waiting",
    Fault.CALL_TARGET: "value 0x{0:x}",
    Fault.RETURN_TARGET: "value 0x{0:x}",
    Fault.BARRIER_OPERAND: "thread count {0:,}",
}
_REMEDY = {
    Fault.MISALIGNED: "access it at an address that is a multiple of the access's size",
    Fault.SHARED_BOUNDS: "check the index, or give more dynamic shared memory with `shared` (a program: <<<grid, block, bytes>>>)",
    Fault.CLUSTER_RANK: "launch larger clusters (`cluster`), or take ranks below %cluster_nctarank",
    Fault.TENSOR_RANGE: "give the tensor map the address, sizes and strides of the array",
    Fault.TENSOR_MAP: "pass a map that cuTensorMapEncodeTiled, Im2col or Im2colWide has made for this mode and as many dimensions",
    Fault.TRAP: "the kernel itself asked to stop: look at the condition before this line",
    Fault.BREAKPOINT: "no debugger can continue here: compile the kernel without the breakpoint",
    Fault.ASSERTION: "the kernel itself asked to stop: look at the values that the condition names",
    Fault.BARRIERS_DIFFER: "let all threads of a block that have not ended reach the same barrier",
    Fault.USE_AFTER_FREE: "keep the memory until its last use",
    Fault.DOUBLE_FREE: "free each block once",
    Fault.UNWRITTEN: "write it first, and let other threads wait for it at a barrier",
    Fault.BAD_FREE: "free the address that malloc gave, and no other",
    Fault.MBARRIER_STATE: "initialise the object first, and let all threads see it (__syncthreads) before its use",
    Fault.MBARRIER_COUNT: "arrive as often as mbarrier.init says, and count at most 1,048,575",
    Fault.ALLOCA_OVERFLOW: f"allocate at most {STACK_LIMIT:,} bytes with alloca",
    Fault.BULK_SIZE: "copy a multiple of 16 bytes, and read no more than is written",
    Fault.WARP_INCOMPLETE: "use whole warps (a block size that is a multiple of 32) and no branch in which lanes of a warp differ",
    Fault.GROUP_INCOMPLETE: "use a block size that is a multiple of 128: a warp group is four warps, the first with a number 4 k",
    Fault.TENSOR_MEMORY: "allocate the columns first; warp w reaches lanes 32 (w % 4) to 32 (w % 4) + 31 of 128",
    Fault.TENSOR_COLUMNS: "allocate 32, 64, 128, 256 or 512 columns, at most 512 at a time in a block, and free them",
    Fault.PRODUCT_FORM: "check M, N, types and majors of the instruction descriptor, and swizzles of the matrix descriptors",
    Fault.BAD_IMAGE: "pass a live object of the dimensions, layers and format that the kernel fetches from",
    Fault.IMAGE_KIND: "pass a live object of the dimensions, layers and format that the kernel fetches from",
    Fault.STACK_OVERFLOW: "end the recursion sooner, or give a larger stack with `stack_bytes`",
    Fault.CALL_DEPTH: "end the recursion sooner: more calls at a time are not modelled, however large the stack",
    Fault.CALL_TARGET: "check that the pointer was set, and to a function of this type in the same PTX",
    Fault.RETURN_TARGET: "check indices into local arrays: they share memory with the call stack",
    Fault.BARRIER_OPERAND: "give a barrier from 0 to 15 and a multiple of 32; bar.arrive needs a count",
}
_UNSUPPORTED = {
    Fault.GENERIC_SPACE: (
        "{0} of {1} reaches shared memory through a generic address, which is not modelled for this instruction",
        "name the state space: `.shared::cta`",
    ),
    Fault.TENSOR_FORM: (
        "{0} of {1} is not modelled: slices of 16 bytes with a swizzle, of 32 without that of 32 bytes, or several of channels at "
        "once; four rows with a box of several; a halo from 512 pixels on (`::w::128`: 32), or an offset from 32",
        "give an interleaved map a box of one slice and no swizzle (16 bytes) or that of 32 bytes, and gather4 a box of one row",
    ),
    Fault.MEETING_APART: (
        "lanes of one warp come to {0} in different places ({1})",
        "let all lanes of the member mask execute the same line",
    ),
}
_DEVICE = (Fault.OUT_OF_BOUNDS, Fault.MISALIGNED, Fault.READ_ONLY, Fault.USE_AFTER_FREE, Fault.DOUBLE_FREE, Fault.BAD_FREE,
           Fault.UNWRITTEN, Fault.TENSOR_RANGE)  # fmt: skip
_NO_ADDRESS = (Fault.TRAP, Fault.BREAKPOINT, Fault.ASSERTION, Fault.BARRIERS_DIFFER, Fault.WARP_INCOMPLETE, Fault.GROUP_INCOMPLETE)


@dataclass(frozen=True)
class FaultScene:
    """The launch in which a fault happened: what is needed to describe it. `assertion` describes a failed one."""

    function: Function
    name: str
    path: str
    launch: Launch
    memory: Memory
    symbols: SymbolTable
    shared: SharedMemory
    assertion: Assertion | None = None


def coordinates(number: int, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """A linear number as (x, y, z), x fastest."""
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def thread_of(block: int, thread: int, launch: Launch) -> tuple[tuple[int, int, int], tuple[int, int, int], str]:
    """The coordinates of a block, and of a thread of it, from their linear numbers; and both as text."""
    at_block, at_thread = coordinates(block, launch.grid), coordinates(thread, launch.block)
    return at_block, at_thread, thread_text(at_block, at_thread)


def thread_text(block: tuple[int, int, int], thread: tuple[int, int, int]) -> str:
    """A block and a thread of it, by their coordinates."""
    return "block ({},{},{}) thread ({},{},{})".format(*block, *thread)


def place_of(path: str, instruction: Instruction) -> str:
    """Source line if known, else the PTX line, or where the instruction is in machine code."""
    if instruction.file or instruction.ptx_line:
        file = path if path.startswith("<") and instruction.file.endswith(f"/{path}") else instruction.file  # a text has no folder
        return f"{file}:{instruction.line}" if file else f"{path}:{instruction.ptx_line}"
    return f"{path}: {_line_of(instruction)}"


def _line_of(instruction: Instruction) -> str:
    """The PTX line, or the address in machine code for which none is known."""
    native = instruction.native
    if native is None or instruction.ptx_line:
        return f"PTX line {instruction.ptx_line}"
    return f"{display_name(native.section)}+{native.address:#x}"


def describe_fault(record: dict[str, int], scene: FaultScene) -> WarpsightError:
    """The error for a recorded fault. `record` has kind, pc, lane, address, warp, block; the error's `details` say it in fields."""
    kind, address = Fault(record["kind"]), record["address"] % (1 << 64)
    instruction = scene.function.instructions[record["pc"]]
    place = place_of(scene.path, instruction)
    block, thread, where = thread_of(record["block"], record["warp"] * WARP + record["lane"], scene.launch)
    if kind in _UNSUPPORTED:
        description, remedy = _UNSUPPORTED[kind]
        message = description.format(f'"{instruction.text}"', where, address)
        return UnsupportedError(f"kernel {scene.name}: {message}", place=place, remedy=remedy)
    if kind == Fault.OUT_OF_BOUNDS and scene.memory.heap.freed_at(address) is not None:
        kind = Fault.USE_AFTER_FREE
    near = _nearby(kind, instruction, address, scene)
    if kind in _NUMBERED_FAULTS:
        near = _Near(", " + _NUMBERED_FAULTS[kind].format(address, record.get("stack", 0)), address)
    name, description = _DESCRIPTIONS[kind]
    detail = f'kernel {scene.name}: {description} by "{instruction.text}" ({_line_of(instruction)}), {where}{near.text}'
    if kind == Fault.ASSERTION and scene.assertion is not None:
        detail = f"kernel {scene.name}: {assertion_text(scene.assertion, block, thread)} ({_line_of(instruction)})"
    error = LaunchFault(detail, place=place, remedy=_REMEDY.get(kind, "check the index against the array's size"))
    error.details = FaultDetails(
        name, scene.name, instruction.ptx_line, instruction.file, instruction.line, block, thread, near.address, near.allocation,
        near.distance, scene.assertion if kind == Fault.ASSERTION else None,
    )
    return error


def assertion_text(assertion: Assertion, block: tuple[int, int, int], thread: tuple[int, int, int]) -> str:
    """The line that CUDA's runtime prints for a failed assertion."""
    (bx, by, bz), (x, y, z) = block, thread
    head = f"{assertion.file}:{assertion.line}: {assertion.function}: block: [{bx},{by},{bz}], thread: [{x},{y},{z}]"
    return f"{head} Assertion `{assertion.message}` failed."


@dataclass(frozen=True)
class _Near:
    """Where an address lies: the end of a message, and the same in fields."""

    text: str = ""
    address: int | None = None
    allocation: str = ""
    distance: int | None = None


def _nearby(kind: Fault, instruction: Instruction, address: int, scene: FaultScene) -> _Near:
    if kind in _NO_ADDRESS:
        return _Near()
    access = memory_access(instruction)
    space = access.space if access else ""
    if kind in _DEVICE and space != "param":
        for window, named in ((SHARED_WINDOW, "shared"), (LOCAL_WINDOW, "local")):
            # A copy accesses device memory, and its other address is one of shared memory.
            reaches = space in (named, "generic") or (instruction.opcode == "cp" and named == "shared")
            if kind in (Fault.MISALIGNED, Fault.UNWRITTEN) and reaches and 0 <= address - window < WINDOW_BYTES:
                return _in_window(named, address - window, scene)
        return _in_device_memory(scene.memory, address)
    named = {Fault.SHARED_BOUNDS: "shared", Fault.LOCAL_BOUNDS: "local", Fault.PARAM_BOUNDS: "param"}.get(kind, space)
    return _in_window(named, address, scene) if named else _Near(f", index {address:,}", address)


def _in_window(space: str, offset: int, scene: FaultScene) -> _Near:
    """An offset in shared, local or parameter memory, and the nearest variable there."""
    symbols = scene.symbols
    total = {"shared": scene.shared.asked, "local": symbols.local_bytes}.get(space, symbols.param_bytes)
    known = [Allocation(v.offset, v.size, True, f'.{space} variable "{v.name}"') for v in symbols.placed if v.space == space]
    if space == "shared" and scene.launch.shared_bytes:
        known.append(Allocation(symbols.dynamic_shared_offset, scene.launch.shared_bytes, True, "dynamic shared memory"))
    text = f", offset {offset:,} of {total:,} bytes"
    if space == "shared" and total < scene.shared.room <= offset:
        text += f" ({scene.shared.room:,} are allocated)"
    return _beside(text, nearest(known, offset), offset, "offset {:,}")


def _in_device_memory(memory: Memory, address: int) -> _Near:
    text = f", address 0x{address:x}"
    freed = memory.heap.freed_at(address)
    if freed is not None:
        block = freed.allocation
        text += f", byte {address - block.address:,} of {block.name} at 0x{block.address:x}, freed at {freed.by}"
        return _Near(text, address, block.name, 0)
    neighbour = memory.nearest(address - (1 << 64) if address >> 63 else address)  # a negative index leads below zero
    return _beside(text if neighbour else f"{text}; the launch has no device memory at all", neighbour, address, "0x{:x}")


def _beside(text: str, neighbour: tuple[Allocation, int] | None, address: int, form: str) -> _Near:
    """`text`, and how far the address is from its nearest allocation, whose start is written in `form`."""
    if neighbour is None:
        return _Near(text, address)
    allocation, distance = neighbour
    side = f"{distance - 1:,} bytes past the end of" if distance > 0 else f"{-distance:,} bytes before" if distance < 0 else "in"
    return _Near(f"{text}, {side} the {allocation.name} at {form.format(allocation.address)}", address, allocation.name, distance)


def limit_error(limit: int, record: dict[str, int], scene: FaultScene) -> LimitError:
    """The launch ran more instructions than it was allowed. `record` as for a fault; its lane is the warp's first."""
    instruction = scene.function.instructions[record["pc"]]
    block, thread, where = thread_of(record["block"], record["warp"] * WARP, scene.launch)
    error = LimitError(
        f"kernel {scene.name} passed {limit:,} warp instructions near {_line_of(instruction)}, in the warp of {where}; "
        "it may never end",
        place=place_of(scene.path, instruction),
        remedy="raise `max_instructions` if it is meant to run that long",
    )
    error.details = FaultDetails(
        _DESCRIPTIONS[Fault.LIMIT][0], scene.name, instruction.ptx_line, instruction.file, instruction.line, block, thread
    )
    return error


# -- Which lanes of a block wait where, when none can go on, as an error.

_SHOWN = 8
_BLOCK_NUMBER_MASK = layout.GRANTED - 1


@dataclass(frozen=True)
class Waiting:
    """Lanes (a mask) of a warp that wait at instruction `pc`: at a barrier of the block, or (None) for lanes of their warp."""

    warp: int
    lanes: int
    pc: int
    barrier: int | None


def find_waiting(states: npt.NDArray[np.int32], graph: ControlFlowGraph) -> list[Waiting]:
    """All that wait in a block, from its warps' states (int32 [warps, words]), in the order of the warps."""
    waiting = []
    for warp, state in enumerate(states.tolist()):
        if state[layout.RESUME] == layout.DONE_RESUME:
            continue
        present = state[layout.START] & ~state[layout.GONE] & 0xFFFFFFFF
        for entry in range(state[layout.DEPTH]):
            first = layout.STATE_HEADER_BYTES // 4 + layout.STACK_ENTRY_WORDS * entry
            block, mask, _, use = state[first : first + layout.STACK_ENTRY_WORDS]
            number = block & _BLOCK_NUMBER_MASK
            if block & layout.PARKED:  # continues behind the barrier, which ends its block
                waiting.append(Waiting(warp, mask & present, int(graph.block_start[number]) - 1, use & 31))
            elif block & layout.MEETING:
                waiting.append(Waiting(warp, mask & present, int(graph.block_start[number]), None))
    return waiting


def describe_deadlock(waiting: list[Waiting], block: int, function: Function, name: str, path: str, launch: Launch) -> LaunchFault:
    """The error for block number `block`, in which nothing can go on: where the first eight groups of lanes wait."""
    x, y, z = coordinates(block, launch.grid)
    lines = []
    for wait in waiting[:_SHOWN]:
        instruction = function.instructions[wait.pc]
        place = f"{place_of(path, instruction)}, {_line_of(instruction)}"
        if wait.barrier is None:
            reason = f'for lanes of its warp at "{instruction.text}"'
        else:
            reason = "at the cluster's barrier" if wait.barrier == layout.CLUSTER_ROW else f"at barrier {wait.barrier}"
            reason = "for its warp group" if wait.barrier >= layout.GROUP_ROW else reason
        lines.append(f"warp {wait.warp} {lanes_text(wait.lanes)} {reason} ({place})")
    # Lanes of a warp that are waited for by their mask are the cause where there are any.
    first = next((wait for wait in waiting if wait.barrier is None), waiting[0] if waiting else None)
    if len(waiting) > _SHOWN:
        lines.append(f"and {len(waiting) - _SHOWN} more")
    error = LaunchFault(
        f"kernel {name}: deadlock: every running thread of block ({x},{y},{z}) waits: {'; '.join(lines)}",
        place=place_of(path, function.instructions[first.pc]) if first else path,
        remedy="let all threads that a barrier counts reach it; threads that have ended are not waited for",
    )
    if first:
        instruction = function.instructions[first.pc]
        _, thread, _ = thread_of(block, first.warp * WARP + first_lane(first.lanes), launch)
        kind = "missing-lanes" if first.barrier is None else "deadlock"
        error.details = FaultDetails(kind, name, instruction.ptx_line, instruction.file, instruction.line, (x, y, z), thread)
    return error


def first_lane(mask: int) -> int:
    """The lowest lane of a mask, 0 for none."""
    return max(0, (mask & -mask).bit_length() - 1)


def lanes_text(mask: int) -> str:
    """The lanes of a mask as ranges: `lanes 0-3,7`."""
    firsts = [lane for lane in range(WARP) if mask >> lane & 1 and not mask << 1 >> lane & 1]
    lasts = [lane for lane in range(WARP) if mask >> lane & 1 and not mask >> lane + 1 & 1]
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))
    return f"{'lane' if mask.bit_count() == 1 else 'lanes'} {text}"


# -- What checks have found.

_BARRIER_KINDS = (
    "barriers-differ", "deadlock", "missing-lanes", "barrier-operand", "mbarrier-state", "mbarrier-count", "warp-incomplete",
)  # fmt: skip
# Who finds what has such a kind; memcheck all else.
_TOOL_OF_KIND = {"uninitialised": INITCHECK} | dict.fromkeys(_BARRIER_KINDS, SYNCCHECK)


def site_of(scene: FaultScene, pc: int, block: int, warp: int, lane: int) -> Site:
    """Instruction `pc` of the lane of a warp of a block."""
    instruction = scene.function.instructions[pc]
    at_block, thread, _ = thread_of(block, warp * WARP + lane, scene.launch)
    access = memory_access(instruction)
    what = "" if access is None else {"load": "read", "store": "write"}.get(access.access, access.access)
    function, callers = _back_trace(scene.name, instruction)
    return Site(
        place_of(scene.path, instruction), instruction.text, instruction.file, instruction.line, instruction.ptx_line, what,
        at_block, thread, warp, lane, function, callers,
    )  # fmt: skip


_UNIT = re.compile(r"^_INTERNAL_\w+::")  # where nvcc puts what is local to a file


def _back_trace(kernel: str, instruction: Instruction) -> tuple[str, tuple[Caller, ...]]:
    """The function that an instruction was written in, "" for the kernel, and the calls of it that were expanded."""
    calls = instruction.calls
    functions = [*(_UNIT.sub("", display_name(call.function)) if call.function else "" for call in calls), kernel]
    callers = (Caller(function, call.file, call.line) for function, call in zip(functions[1:], calls, strict=True))
    return (functions[0] if calls else ""), tuple(callers)


def wrong_access(row: list[int], scene: FaultScene) -> Finding:
    """A row of a kind of `Fault`."""
    record = {
        "kind": row[watcher.KIND], "pc": row[watcher.PC], "lane": row[watcher.LANE], "address": row[watcher.ADDRESS],
        "warp": row[watcher.WARP], "block": row[watcher.BLOCK],
    }  # fmt: skip
    site = site_of(scene, row[watcher.PC], row[watcher.BLOCK], row[watcher.WARP], row[watcher.LANE])
    return _finding(describe_fault(record, scene), site, scene, row[watcher.PC], row[watcher.LANES])


def finding_of_fault(error: LaunchFault, scene: FaultScene, record: dict[str, int] | None) -> Finding:
    """The finding for what has ended a launch; `record` as for `describe_fault`, None for a deadlock."""
    assert error.details is not None
    if record is None:
        details = error.details
        tool = _TOOL_OF_KIND.get(details.kind, MEMCHECK)
        site = Site(error.place, "", details.file, details.line, details.ptx_line, "", details.block, details.thread)
        return Finding(tool, details.kind, error.what, details.kernel, site, remedy=error.remedy)
    site = site_of(scene, record["pc"], record["block"], record["warp"], record["lane"])
    in_device = record["kind"] in (Fault.OUT_OF_BOUNDS, Fault.READ_ONLY)
    return _finding(error, site, scene, record["pc"], 1, record["bytes"] if in_device else 0)


def _finding(error: WarpsightError, site: Site, scene: FaultScene, pc: int, count: int, moved: int = 0) -> Finding:
    details, access = error.details, memory_access(scene.function.instructions[pc])
    tool = MEMCHECK if details is None else _TOOL_OF_KIND.get(details.kind, MEMCHECK)
    space = "" if access is None else access.space
    for name in ("shared", "local"):
        if details is not None and (f".{name} " in details.allocation or details.kind == f"{name}-out-of-bounds"):
            space = name
    space = "global" if space == "generic" else space
    remedy = _UNWRITTEN_DEVICE_MEMORY if (tool, space) == (INITCHECK, "global") else error.remedy
    return Finding(
        tool, "fault" if details is None else details.kind, error.what, scene.name, site, space=space,
        bytes=access.bytes_per_lane if access is not None and says_bytes(scene.function.instructions[pc]) else moved,
        address=None if details is None else details.address, allocation="" if details is None else details.allocation,
        distance=None if details is None else details.distance, count=count, remedy=remedy,
    )  # fmt: skip


_UNWRITTEN_DEVICE_MEMORY = "write it first: by a copy, cudaMemset or an earlier kernel"
