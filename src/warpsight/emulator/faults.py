"""Turns the fault that native code recorded into an error: kernel, source line, block, thread, address and what is near."""

from __future__ import annotations

from warpsight.base.errors import LaunchFault, LimitError, UnsupportedError, WarpsightError
from warpsight.emulator.device import DeviceMemory
from warpsight.emulator.layout import WARP, Fault
from warpsight.isa.program import Function, Instruction
from warpsight.workload.launch import Launch

_WHAT = {
    Fault.OUT_OF_BOUNDS: "access out of bounds",
    Fault.MISALIGNED: "misaligned access",
    Fault.READ_ONLY: "write to constant memory",
    Fault.SHARED_BOUNDS: "access past the end of shared memory",
    Fault.LOCAL_BOUNDS: "access past the end of a thread's local memory",
    Fault.PARAM_BOUNDS: "access past the end of the kernel's parameters",
    Fault.TRAP: "trap",
    Fault.BRANCH_INDEX: "indexed branch past the end of its table",
    Fault.BARRIERS_DIFFER: "threads of one warp wait at different barriers",
}


def coordinates(number: int, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """A linear number as (x, y, z), x fastest."""
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def place_of(path: str, instruction: Instruction) -> str:
    """Source line if known, else the PTX line."""
    return f"{instruction.file}:{instruction.line}" if instruction.file else f"{path}:{instruction.ptx_line}"


def describe_fault(
    record: dict[str, int], function: Function, name: str, path: str, launch: Launch, memory: DeviceMemory, shared_bytes: int
) -> WarpsightError:
    """The error for a recorded fault. `record` has kind, pc, lane, address, warp, block."""
    kind = Fault(record["kind"])
    instruction = function.instructions[record["pc"]]
    block = coordinates(record["block"], launch.grid)
    thread = coordinates(record["warp"] * WARP + record["lane"], launch.block)
    where = f"block ({block[0]},{block[1]},{block[2]}) thread ({thread[0]},{thread[1]},{thread[2]})"
    if kind == Fault.MIXED_SPACES:
        return UnsupportedError(
            f'kernel {name}: "{instruction.text}" of {where} reaches several state spaces at once through generic addresses',
            place=place_of(path, instruction),
            remedy="cast the pointer to one address space",
        )
    detail = f'kernel {name}: {_WHAT[kind]} by "{instruction.text}" (PTX line {instruction.ptx_line}), {where}'
    remedy = "check the index against the array's size"
    if kind in (Fault.OUT_OF_BOUNDS, Fault.MISALIGNED, Fault.READ_ONLY):
        detail += f", address 0x{record['address'] % (1 << 64):x}{_near(memory, record['address'])}"
    elif kind == Fault.SHARED_BOUNDS:
        detail += f", offset {record['address']:,} of {shared_bytes:,} bytes"
        remedy = "check the index, or give more dynamic shared memory with --shared"
    elif kind == Fault.TRAP:
        remedy = "the kernel itself asked to stop: look at the condition before this line"
    elif kind == Fault.BARRIERS_DIFFER:
        remedy = "let all threads of a block that have not ended reach the same barrier"
    else:
        detail += f", offset {record['address']:,}"
    return LaunchFault(detail, place=place_of(path, instruction), remedy=remedy)


def _near(memory: DeviceMemory, address: int) -> str:
    found = memory.nearest(address)
    if found is None:
        return "; the launch has no device memory at all"
    allocation, distance = found
    if distance > 0:
        return f", {distance - 1:,} bytes past the end of the {allocation.name} at 0x{allocation.address:x}"
    if distance < 0:
        return f", {-distance:,} bytes before the {allocation.name} at 0x{allocation.address:x}"
    return f", in the {allocation.name} at 0x{allocation.address:x}"


def limit_error(name: str, limit: int) -> LimitError:
    """The launch ran more instructions than it was allowed."""
    return LimitError(
        f"kernel {name} passed {limit:,} warp instructions; it may never end",
        remedy="raise --max-instructions if it is meant to run that long",
    )
