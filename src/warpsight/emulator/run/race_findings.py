"""What racecheck has found, in words: hazards between two accesses. Other rows of `watcher.py` are wrong accesses (`faults.py`)."""

from __future__ import annotations

from warpsight.base.findings import MEMCHECK, RACECHECK, Finding
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.layout import ARENA_BASE, TENSOR_COLUMNS, WARP
from warpsight.emulator.run.faults import FaultScene, first_lane, site_of, thread_of, wrong_access
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.ptx.rules import memory_access, says_bytes

_HAZARDS = {
    kind + more: (name, f"{form}, {otherwise}")
    for kind, name, form in (
        (watcher.READ_AFTER_WRITE, "read-after-write", "read of what {other} writes"),
        (watcher.WRITE_AFTER_READ, "write-after-read", "write over what {other} reads"),
        (watcher.WRITE_AFTER_WRITE, "write-after-write", "write over what {other} writes otherwise"),
    )
    for more, otherwise in (
        (0, "with nothing that orders the two"), (watcher.UNDER_LOCK, "under a lock taken without a fence"),
        (watcher.NOT_DONE, "{what} that has not been waited for"),
    )
} | {
    watcher.NOT_FENCED: ("read-after-write", "asynchronous read of what {other} writes, without a fence of the proxy between"),
}  # fmt: skip
_ABOUT_TENSOR_MEMORY = ("UTC", "LDTM", "STTM")


def findings(rows: list[list[int]], dropped: int, scene: FaultScene) -> list[Finding]:
    """The rows that `LaunchWatch.rows` gives, in words."""
    found = [_hazard(row, scene) if row[watcher.KIND] in _HAZARDS else wrong_access(row, scene) for row in rows]
    if dropped:
        found.append(Finding(
            MEMCHECK, "not-listed", f"{dropped:,} more were found at other places", scene.name, severity="warning",
            remedy="fix those above first", count=dropped,
        ))  # fmt: skip
    return found


def _hazard(row: list[int], scene: FaultScene) -> Finding:
    """A row of racecheck."""
    warps = -(-scene.launch.threads_per_block // WARP)
    lanes = row[watcher.OTHER_LANES]
    block, warp = divmod(row[watcher.OTHER_WARP], warps)
    if block == row[watcher.BLOCK] and warp == row[watcher.WARP]:  # another lane than the one that has the finding
        lanes = lanes & ~(1 << row[watcher.LANE]) or lanes
    first = first_lane(lanes)
    site = site_of(scene, row[watcher.PC], row[watcher.BLOCK], row[watcher.WARP], row[watcher.LANE])
    other = site_of(scene, row[watcher.OTHER_PC], block, warp, first)
    kind, form = _HAZARDS[row[watcher.KIND]]
    in_device = row[watcher.ADDRESS] >= ARENA_BASE
    in_tensor = watcher.TENSOR_ADDRESS <= row[watcher.ADDRESS] < ARENA_BASE
    near = scene.memory.nearest(row[watcher.ADDRESS]) if in_device else None
    instruction = scene.function.instructions[row[watcher.PC]]
    access = memory_access(instruction)
    whose = thread_of(block, warp * WARP + first, scene.launch)[2]
    of_tensor_memory = _is_of_tensor_memory(scene.function.instructions[row[watcher.OTHER_PC]])
    what = "an operation on tensor memory" if of_tensor_memory else "a copy"
    message = f"kernel {scene.name}: {form.format(other=f'{whose} ({other.place})', what=what)}"
    remedy = "let the threads wait for each other at a barrier between the two"
    if row[watcher.KIND] == watcher.NOT_FENCED:
        remedy = "execute fence.proxy.async in the threads that wrote, before the barrier at which the operation's thread waits"
    elif row[watcher.KIND] >= watcher.READ_AFTER_WRITE + watcher.NOT_DONE and of_tensor_memory:
        remedy = "wait first: for the mbarrier object of a tcgen05.commit behind it, or by tcgen05.wait::ld or ::st in its thread"
    elif row[watcher.KIND] >= watcher.READ_AFTER_WRITE + watcher.NOT_DONE:
        remedy = "wait for the copy first: for the phase of its mbarrier object, or for its bulk group (wait_group.read)"
    elif row[watcher.KIND] >= watcher.READ_AFTER_WRITE + watcher.UNDER_LOCK:
        scope = "__threadfence_block" if other.block == site.block else "__threadfence"
        remedy = f"call {scope}() in each thread that takes the lock, before its first access under it"
    elif other.block != site.block:
        remedy = "blocks cannot wait for each other here: use atomics, or two launches"
    elif other.warp == site.warp:
        remedy = "let the lanes of the warp meet between the two: __syncwarp()"
    return Finding(
        RACECHECK, kind, message, scene.name, site, other, space="global" if in_device else "tensor" if in_tensor else "shared",
        bytes=access.bytes_per_lane if access is not None and says_bytes(instruction) else 0,
        address=_tensor_address(row[watcher.ADDRESS]) if in_tensor else row[watcher.ADDRESS],
        allocation="" if near is None else near[0].name, distance=None if near is None else near[1], count=row[watcher.LANES],
        remedy=remedy,
    )  # fmt: skip


def _is_of_tensor_memory(instruction: Instruction) -> bool:
    native = instruction.native
    return instruction.opcode == "tcgen05" or (native is not None and native.base.startswith(_ABOUT_TENSOR_MEMORY))


def _tensor_address(address: int) -> int:
    """The first lane and the column, as an address in tensor memory has them."""
    part, column = divmod((address - watcher.TENSOR_ADDRESS) // 4, TENSOR_COLUMNS)
    return part * watcher.TENSOR_PART << 16 | column
