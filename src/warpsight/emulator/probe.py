"""Probes: code that looks for chosen accesses and leaves the address of each of their lanes.

A trace keeps the sectors of an access, and not which lane asked for which. Code compiled with probes compares, at each load, store
and atomic, the running warp with those that are looked for; all other code has none of this and is as fast as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from warpsight.emulator.lanes import I32, I64, PTR, Builder, Value, at, load_as, store_as, vector
from warpsight.emulator.layout import WARP, Slot
from warpsight.emulator.recording import internal_function
from warpsight.isa.opcodes import is_async_copy, memory_access
from warpsight.isa.program import Address, Instruction
from warpsight.trace.schema import SECTOR_SPACES

if TYPE_CHECKING:
    from warpsight.emulator.emitter import Emitter

PER_INSTRUCTION = 2
# A row: the warp of the launch that is looked for (-1: none), how many of its accesses come before (-1: found), mask, addresses.
_SOUGHT, _BEFORE, _MASK, _ADDRESSES = 0, 1, 2, 3
_WORDS = _ADDRESSES + WARP
_PLAIN = ("ld", "ldu", "st", "atom", "red")


@dataclass(frozen=True)
class Wanted:
    """The access of warp `warp` of the launch at instruction `pc`, after `before` earlier ones of that warp there."""

    pc: int
    warp: int
    before: int


@dataclass(frozen=True)
class LaneAddresses:
    """Byte addresses of the 32 lanes, int64 [32], and the i32 `mask` of those that accessed memory; others' addresses say nothing.

    Generic addresses of shared and local memory lie in their windows; those of local memory are offsets within each lane's own.
    """

    mask: int
    addresses: npt.NDArray[np.int64]


class Probes:
    """What probes look for, and what they have found: memory that native code reads and writes."""

    def __init__(self, instructions: int, wanted: Sequence[Wanted]) -> None:
        self._wanted = list(wanted)
        self._table = np.zeros((instructions, PER_INSTRUCTION, _WORDS), dtype=np.int64)
        self._table[:, :, _SOUGHT] = -1
        taken = [0] * instructions
        self._rows = []
        for each in self._wanted:
            if taken[each.pc] == PER_INSTRUCTION:
                raise ValueError(f"instruction {each.pc} has {PER_INSTRUCTION} probes and no more")
            row = self._table[each.pc, taken[each.pc]]
            row[_SOUGHT], row[_BEFORE] = each.warp, each.before
            self._rows.append(row)
            taken[each.pc] += 1

    @property
    def pointer(self) -> int:
        """Host address of the table."""
        return int(self._table.ctypes.data)

    def end_block(self, warps_per_block: int) -> int:
        """Blocks up to this one have all that is looked for."""
        return max((each.warp // warps_per_block + 1 for each in self._wanted), default=0)

    def found(self) -> list[LaneAddresses | None]:
        """What was found of each that was looked for, in order."""
        return [
            LaneAddresses(int(row[_MASK]) & 0xFFFFFFFF, row[_ADDRESSES:].copy()) if row[_BEFORE] < 0 else None for row in self._rows
        ]


def emit_probe(emitter: Emitter, instruction: Instruction) -> None:
    """The probe of an instruction that accesses device or local memory by an address for each lane; nothing at any other."""
    operand = _address(instruction)
    if operand is None:
        return
    addresses = emitter.effective_address(operand)
    function = _probe(emitter.builder.module)
    emitter.builder.call(function, [emitter.context, emitter.pc, emitter.active_mask, addresses])


def _address(instruction: Instruction) -> Address | None:
    """Where an access with sectors goes: its only address, or the source of an asynchronous copy."""
    copies = is_async_copy(instruction)
    if not copies and instruction.opcode not in _PLAIN:
        return None
    access = memory_access(instruction)
    if access is None or access.space not in SECTOR_SPACES:
        return None
    found = [operand for operand in instruction.operands if isinstance(operand, Address)]
    return found[-1] if len(found) == 1 + copies else None


def _probe(module: ir.Module) -> ir.Function:
    """`void probe(context, pc, mask, addresses)`."""
    function, fresh = internal_function(module, "probe", ir.VoidType(), [PTR, I64, I32, vector(I64)])
    if not fresh:
        return function
    context, pc, mask, addresses = function.args
    builder = ir.IRBuilder(function.append_basic_block())

    def slot(slot: Slot) -> Value:
        return load_as(builder, at(builder, context, 8 * slot), I64, 8)

    warp = builder.add(builder.mul(slot(Slot.BLOCK), slot(Slot.WARPS_PER_BLOCK)), slot(Slot.WARP))
    table = load_as(builder, at(builder, context, 8 * Slot.PROBE_PTR), PTR, 8)
    for number in range(PER_INSTRUCTION):
        place = builder.mul(builder.add(builder.mul(pc, I64(PER_INSTRUCTION)), I64(number)), I64(8 * _WORDS))
        _look(builder, at(builder, table, place), warp, mask, addresses)
    builder.ret_void()
    return function


def _look(builder: Builder, row: Value, warp: Value, mask: Value, addresses: Value) -> None:
    """Count an access of the warp that `row` looks for, and keep it when it is the one. Continues in a new LLVM block."""
    own, keep, after = (builder.append_basic_block(name) for name in ("own", "keep", "after"))
    builder.cbranch(builder.icmp_signed("==", load_as(builder, row, I64, 8), warp), own, after)
    builder.position_at_end(own)
    left_at = at(builder, row, 8 * _BEFORE)
    left = load_as(builder, left_at, I64, 8)
    store_as(builder, builder.sub(left, I64(1)), left_at, 8)
    builder.cbranch(builder.icmp_signed("==", left, I64(0)), keep, after)
    builder.position_at_end(keep)
    store_as(builder, builder.zext(mask, I64), at(builder, row, 8 * _MASK), 8)
    store_as(builder, addresses, at(builder, row, 8 * _ADDRESSES), 8)
    builder.branch(after)
    builder.position_at_end(after)
