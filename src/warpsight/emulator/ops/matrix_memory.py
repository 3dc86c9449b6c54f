"""`wmma.load` and `wmma.store` in memory: a matrix is lines (rows or columns) of consecutive elements, equally far apart.

All lanes give one address and one stride; here lane 0's count. Each line is checked whole. It must be aligned to 16 bytes, or to
the fragment's bytes where they are fewer: CUDA's `load_matrix_sync` asks for lines 16 bytes apart, the PTX ISA for more. The trace
gets, of device memory, the distinct sectors of all lines in order; of shared memory the passes through the banks, 8 lines of
16 bytes (fewer lines: more bytes of each) at a time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from llvmlite import ir

from warpsight.emulator.frame import HelperFrame
from warpsight.emulator.lanes import (
    I8,
    I32,
    I64,
    IOTA64,
    PTR,
    Value,
    at,
    load_as,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.layout import SHARED_WINDOW, WARP, WINDOW_BYTES, Fault, Slot
from warpsight.emulator.ops.access import check_global, check_window
from warpsight.emulator.ops.matrix_loops import constant_table, counted, need_whole_warp
from warpsight.emulator.ops.matrix_shapes import BITS, size_of, wmma_fragment
from warpsight.emulator.recording import emit_event_byte
from warpsight.emulator.runtime import bank_degree

_LINE_SHIFT = 16  # entries of the table of elements: number of the line, then offset in it


@dataclass(frozen=True)
class MatrixAccess:
    """A kind of `wmma.load` or `wmma.store`. `operand` is a, b, c or d, `layout` row or col, `space` global, shared or generic."""

    shape: str
    operand: str
    element: str
    layout: str
    space: str

    @property
    def symbol(self) -> str:
        """The function that performs it, by all that tells it from others."""
        return ".".join(("warpsight.wmma", self.shape, self.operand, self.element, self.layout, self.space))

    @property
    def writes(self) -> bool:
        """Is it a store?"""
        return self.operand == "d"

    @property
    def lines(self) -> int:
        """Rows of a row-major matrix, columns of another."""
        return self._size()[0 if self.layout == "row" else 1]

    @property
    def line_elements(self) -> int:
        """Elements of a line: the stride where none is given."""
        return self._size()[1 if self.layout == "row" else 0]

    @property
    def element_bits(self) -> int:
        """Bits of an element in memory."""
        return 1 if self.element == "b1" else BITS[self.element]

    @property
    def line_bytes(self) -> int:
        """Bytes of a line."""
        return self.line_elements * self.element_bits // 8

    def _size(self) -> tuple[int, int]:
        m, n, k = size_of(self.shape)
        return {"a": (m, k), "b": (k, n)}.get(self.operand, (m, n))

    def registers(self) -> int:
        """Registers of the fragment."""
        return len(wmma_fragment(self.shape, self.operand, self.element))

    def align(self) -> int:
        """What the start of a line must be a multiple of, in bytes."""
        return min(16, self.registers() * (8 if self.element == "f64" else 4))

    @functools.cache  # noqa: B019  kinds of accesses are few
    def pieces(self) -> tuple[int, list[int]]:
        """Bytes that lie together both in memory and in a register, and where each such piece of the registers is in memory."""
        bits = BITS[self.element]
        fragment = wmma_fragment(self.shape, self.operand, self.element)
        if self.operand in ("a", "b") and self.element == "f16":  # the registers after these hold the same again
            fragment = fragment[: self.lines * self.line_elements // (2 * WARP)]
        places = [[p if self.layout == "row" else p[::-1] for p in lane] for register in fragment for lane in register]
        together = all(p == (lane[0][0], lane[0][1] + s) for lane in places for s, p in enumerate(lane))
        chosen = [lane[:1] if together else lane for lane in places]
        entries = [(line << _LINE_SHIFT) + where * bits // 8 for lane in chosen for line, where in lane]
        return max(bits, 32) // 8 if together else bits // 8, entries


def move_matrix(helper: HelperFrame, access: MatrixAccess) -> None:
    """The whole out-of-line function. Arguments: address (i64), stride in elements (i64), a buffer of the fragment's registers."""
    address, stride, registers = helper.arguments
    need_whole_warp(helper)
    builder = helper.builder
    step = builder.lshr(builder.mul(stride, I64(access.element_bits)), I64(3))
    go, quiet, done = (builder.append_basic_block(n) for n in ("go", "quiet", "moved"))
    builder.cbranch(builder.icmp_signed("==", helper.active_mask, I32(0)), quiet, go)
    builder.position_at_end(quiet)
    for _ in range(2 if access.space == "generic" else 1):
        emit_event_byte(helper, I32(0))
    builder.branch(done)
    builder.position_at_end(go)
    helper.narrow((1 << access.lines) - 1)
    if access.space == "generic":
        offset = builder.sub(address, I64(SHARED_WINDOW))
        in_shared, in_global = builder.append_basic_block("in_shared"), builder.append_basic_block("in_global")
        builder.cbranch(builder.icmp_unsigned("<", offset, I64(WINDOW_BYTES)), in_shared, in_global)
        builder.position_at_end(in_shared)
        emit_event_byte(helper, I32(0))
        host = _shared_lines(helper, access, offset, step)
        _then_copy(helper, access, host, step, registers, done)
        builder.position_at_end(in_global)
        _then_copy(helper, access, _global_lines(helper, access, address, step), step, registers, done)
    elif access.space == "shared":
        _then_copy(helper, access, _shared_lines(helper, access, address, step), step, registers, done)
    else:
        _then_copy(helper, access, _global_lines(helper, access, address, step), step, registers, done)
    builder.position_at_end(done)
    helper.close([])


def _then_copy(helper: HelperFrame, access: MatrixAccess, host: Value, step: Value, registers: Value, done: ir.Block) -> None:
    """Move all pieces between registers and host memory, then go to `done`."""
    builder = helper.builder
    size, entries = access.pieces()
    kind = ir.IntType(8 * size)
    table = constant_table(builder.module, "pieces", entries)

    def body(_: object, number: Value) -> None:
        entry = builder.zext(load_as(builder, at(builder, table, builder.mul(number, I64(4))), I32, 4), I64)
        line, where = builder.lshr(entry, I64(_LINE_SHIFT)), builder.and_(entry, I64((1 << _LINE_SHIFT) - 1))
        memory = at(builder, host, builder.add(builder.mul(line, step), where))
        register = at(builder, registers, builder.mul(number, I64(size)))
        source, target = (register, memory) if access.writes else (memory, register)
        store_as(builder, load_as(builder, source, kind, 1), target, 1)

    counted(builder, len(entries), 1, body)
    builder.branch(done)


def _starts(helper: HelperFrame, first: Value, step: Value) -> Value:
    """Where 32 lines start, <32 x i64>."""
    builder = helper.builder
    return builder.add(splat(builder, first), builder.mul(IOTA64, splat(builder, step)))


def _shared_lines(helper: HelperFrame, access: MatrixAccess, first: Value, step: Value) -> Value:
    """Check and record a matrix in shared memory; the host's pointer to its first line."""
    builder = helper.builder
    starts = _starts(helper, first, step)
    most = splat_constant(I64, 0xFFFFFFF0)  # in no shared memory
    offsets = builder.trunc(builder.select(builder.icmp_unsigned("<", starts, most), starts, most), vector(I32))
    limit = helper.slot(Slot.SHARED_SIZE)
    check_window(helper, offsets, access.line_bytes, limit, Fault.SHARED_BOUNDS, access.align())
    together = min(8, access.lines)
    words = min(access.line_bytes, 128 // together) // 4
    order = [min(lane // words, together - 1) for lane in range(WARP)]
    within = ir.Constant(vector(I32), [lane % words for lane in range(WARP)])
    line = builder.shuffle_vector(offsets, ir.Constant(offsets.type, ir.Undefined), ir.Constant(vector(I32), order))
    banked = builder.add(builder.lshr(line, splat_constant(I32, 2)), within)
    mask = (1 << together * words) - 1
    degree = builder.call(bank_degree(builder.module), [banked, I32(mask)])
    # The lines are equally far apart: every other pass is this one, with its banks rotated.
    passes = access.lines // together * (access.line_bytes // (4 * words))
    emit_event_byte(helper, builder.mul(degree, I32(passes)))
    return builder.inttoptr(builder.add(helper.slot(Slot.SHARED_PTR), first), PTR)


def _global_lines(helper: HelperFrame, access: MatrixAccess, first: Value, step: Value) -> Value:
    """Check and record a matrix in device memory; the host's pointer to its first line."""
    builder = helper.builder
    starts = _starts(helper, first, step)
    check_global(helper, starts, access.line_bytes, access.writes, helper.site, access.align())
    _record_sectors(helper, access, first, step)
    if access.space == "generic":
        emit_event_byte(helper, I32(0))
    return builder.inttoptr(builder.add(helper.slot(Slot.ARENA_DELTA), first), PTR)


def _record_sectors(helper: HelperFrame, access: MatrixAccess, first: Value, step: Value) -> None:
    """Append the sectors of all lines, which rise from line to line: only what lies above the last one is new."""
    builder = helper.builder
    pointer = at(builder, helper.context, 8 * Slot.SECTOR_CURSOR)
    begin = load_as(builder, pointer, I64, 8)
    following = helper.buffer("following_sector", I64)
    store_as(builder, I64(0), following, 8)

    def body(_: object, line: Value) -> None:
        start = builder.add(first, builder.mul(line, step))
        sector, last = builder.lshr(start, I64(5)), builder.lshr(builder.add(start, I64(access.line_bytes - 1)), I64(5))
        new = load_as(builder, following, I64, 8)
        sector = builder.select(builder.icmp_unsigned(">", sector, new), sector, new)
        for _word in range(access.line_bytes // 32 + 2 if access.line_bytes % 32 else access.line_bytes // 32 + 1):
            cursor = load_as(builder, pointer, I64, 8)
            store_as(builder, builder.trunc(sector, I32), builder.inttoptr(cursor, PTR), 4)
            valid = builder.zext(builder.icmp_unsigned("<=", sector, last), I64)
            store_as(builder, builder.add(cursor, builder.shl(valid, I64(2))), pointer, 8)
            sector = builder.add(sector, valid)
        store_as(builder, sector, following, 8)

    counted(builder, access.lines, 1, body)
    count = builder.lshr(builder.sub(load_as(builder, pointer, I64, 8), begin), I64(2))
    emit_event_byte(helper, builder.trunc(count, I32))


FRAGMENT = ir.ArrayType(I8, 8 * 4 * WARP)
