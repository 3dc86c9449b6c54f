"""`wmma.load`, `wmma.store` and `wmma.mma`. A matrix in memory is lines (rows or columns) of consecutive elements; a product is
one or two of those of `mma`.

All lanes give one address and one stride; here lane 0's count. Each line is checked whole. It must be aligned to 16 bytes, or to
the fragment's bytes where they are fewer: CUDA's `load_matrix_sync` asks for lines 16 bytes apart, the PTX ISA for more. The trace
gets, of device memory, the distinct sectors of all lines in order; of shared memory the passes through the banks, 8 lines of
16 bytes (fewer lines: more bytes of each) at a time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.access import check_global, check_window
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import HelperFrame, PartFrame, call_library
from warpsight.emulator.codegen.helpers import bank_degree
from warpsight.emulator.codegen.lanes import (
    I1,
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
from warpsight.emulator.codegen.layout import SHARED_WINDOW, WARP, WINDOW_BYTES, Fault, Slot
from warpsight.emulator.codegen.recording import emit_event_byte
from warpsight.emulator.codegen.watching import note_access
from warpsight.emulator.ptx.common import operands
from warpsight.emulator.ptx.matrix_shapes import (
    BITS,
    Product,
    accumulators,
    constant_table,
    counted,
    is_turned,
    need_whole_warp,
    size_of,
    wmma_fragment,
    wmma_shapes,
    wmma_tile,
)
from warpsight.emulator.ptx.mma import MatrixModifiers, multiply, read_fragment, variant_of, write_fragment
from warpsight.isa.ptx.program import Instruction

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
        """The name of the function that performs it: all that distinguishes it from others."""
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
        _then_copy(helper, access, _shared_lines(helper, access, offset, step), step, registers, done)
        builder.position_at_end(in_global)
    lines = _shared_lines if access.space == "shared" else _global_lines
    _then_copy(helper, access, lines(helper, access, address, step), step, registers, done)
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


# -- The instructions. A product is one or two of `mma`'s, on the layouts of `matrix_shapes`.

FRAGMENT = ir.ArrayType(I8, 8 * 4 * WARP)
_SPACES = ("global", "shared", "shared::cta")
_MULTIPLICANDS = ("f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "b1")


def wmma(emitter: Emitter, instruction: Instruction) -> None:
    """`wmma.load`, `wmma.mma` and `wmma.store`."""
    operation, *modifiers = instruction.modifiers or ("",)
    if operation == "mma":
        _multiply(emitter, instruction, modifiers)
    elif operation == "load" and modifiers and modifiers[0] in ("a", "b", "c"):
        _load(emitter, instruction, modifiers)
    elif operation == "store" and modifiers and modifiers[0] == "d":
        _store(emitter, instruction, modifiers)
    else:
        raise emitter.unsupported("only wmma.load.a, .b and .c, wmma.store.d and wmma.mma are modelled")


def _load(emitter: Emitter, instruction: Instruction, modifiers: list[str]) -> None:
    """`wmma.load.a.sync.aligned.layout.shape{.space}.type r, [p]{, stride}`."""
    access = _access(emitter, modifiers)
    d, address, *stride = operands(emitter, instruction, 2, 3)
    buffer = emitter.buffer("fragment", FRAGMENT)
    _call(emitter, access, address, stride, buffer)
    kind = I64 if access.element == "f64" else I32
    step = WARP * kind.width // 8
    size, entries = access.pieces()
    places = (at(emitter.builder, buffer, r % (len(entries) * size // step) * step) for r in range(access.registers()))
    values = [load_as(emitter.builder, place, vector(kind), 64) for place in places]
    write_fragment(emitter, d, values, access.element)


def _store(emitter: Emitter, instruction: Instruction, modifiers: list[str]) -> None:
    """`wmma.store.d.sync.aligned.layout.shape{.space}.type [p], r{, stride}`."""
    access = _access(emitter, modifiers)
    address, source, *stride = operands(emitter, instruction, 2, 3)
    fragment = wmma_fragment(access.shape, "d", access.element)
    values = read_fragment(emitter, source, fragment, access.element)
    buffer = emitter.buffer("fragment", FRAGMENT)
    for r, value in enumerate(values):
        store_as(emitter.builder, value, at(emitter.builder, buffer, r * WARP * (8 if access.element == "f64" else 4)), 64)
    _call(emitter, access, address, stride, buffer)


def _access(emitter: Emitter, modifiers: list[str]) -> MatrixAccess:
    operand, form = modifiers[0], MatrixModifiers(emitter, modifiers[1:])
    space = form.take(*_SPACES).split("::")[0] or "generic"
    form.refuse_rest(emitter)
    if len(form.types) != 1 or len(form.layouts) != 1:
        raise emitter.unsupported("it does not name one layout and one type")
    element, layout = form.types[0], form.layouts[0]
    if operand in ("a", "b"):
        fits = element in _MULTIPLICANDS and form.shape in wmma_shapes(element)
    else:
        fits = any(element in accumulators(m) and form.shape in wmma_shapes(m) for m in _MULTIPLICANDS)
    if not fits:
        raise emitter.unsupported(f"shape .{form.shape} with .{element} is not modelled")
    if element in ("s4", "u4", "b1") and layout != {"a": "row", "b": "col"}[operand]:
        raise emitter.unsupported(f"layout .{layout} with .{element} is not modelled")
    return MatrixAccess(form.shape, operand, element, layout, space)


def _call(emitter: Emitter, access: MatrixAccess, address: Any, stride: list[Any], buffer: Value) -> None:
    builder = emitter.builder
    bits = 32 if access.space == "shared" else 64
    first = builder.extract_element(emitter.effective_address(address, bits), I32(0))
    if bits == 32:
        first = builder.zext(first, I64)
    step: Value = I64(access.line_elements)
    if stride:
        step = builder.zext(builder.extract_element(emitter.read(stride[0], "u32"), I32(0)), I64)
    if emitter.checks:
        _note_lines(emitter, access, first, builder.lshr(builder.mul(step, I64(access.element_bits)), I64(3)))
    call_library(emitter, access.symbol, I64(emitter.kernel.next_site()), [first, step, at(builder, buffer, 0)])


def _note_lines(emitter: Emitter, access: MatrixAccess, first: Value, step: Value) -> None:
    """Tell the checks of a matrix: a lane for each of its lines, that it names as a whole."""
    builder, words = emitter.builder, access.line_bytes // 4
    starts = builder.add(splat(builder, first), builder.mul(IOTA64, splat(builder, step)))
    lines = builder.and_(emitter.active_mask, I32((1 << access.lines) - 1))
    offset = builder.sub(first, I64(0 if access.space == "shared" else SHARED_WINDOW))
    in_shared = I1(access.space == "shared")
    if access.space == "generic":
        in_shared = builder.icmp_unsigned("<", offset, I64(WINDOW_BYTES))
    if access.space != "global":
        lanes = PartFrame(emitter, builder.select(in_shared, lines, I32(0)))
        wide = builder.add(splat(builder, offset), builder.mul(IOTA64, splat(builder, step)))
        most = splat_constant(I64, 0xFFFFFFF0)  # in no shared memory
        offsets = builder.trunc(builder.select(builder.icmp_unsigned("<", wide, most), wide, most), vector(I32))
        limit = emitter.slot(Slot.SHARED_SIZE)
        check_window(lanes, offsets, access.line_bytes, limit, Fault.SHARED_BOUNDS, access.align(), drops=True)
        host = builder.add(wide, splat(builder, emitter.slot(Slot.SHARED_PTR)))
        note_access(lanes, "shared", host, wide, 4, words, reads=not access.writes, writes=access.writes)
    if access.space != "shared":
        lanes = PartFrame(emitter, builder.select(in_shared, I32(0), lines))
        site = I64(emitter.kernel.next_site())
        check_global(lanes, starts, access.line_bytes, access.writes, site, access.align(), replaces=True)
        host = builder.add(starts, splat(builder, emitter.slot(Slot.ARENA_DELTA)))
        note_access(lanes, "global", host, starts, 4, words, reads=not access.writes, writes=access.writes)


def _multiply(emitter: Emitter, instruction: Instruction, modifiers: list[str]) -> None:
    """`wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype d, a, b, c`."""
    form = MatrixModifiers(emitter, modifiers)
    types = form.types if len(form.types) != 2 else [form.types[0], "f16", "f16", form.types[1]]
    if len(types) != 4 or len(form.layouts) != 2:
        raise emitter.unsupported("it does not name two layouts and two or four types")
    d_type, a_type, b_type, c_type = types
    shape = form.shape
    if a_type != b_type or a_type not in _MULTIPLICANDS or shape not in wmma_shapes(a_type):
        raise emitter.unsupported(f"shape .{shape} with .{a_type} and .{b_type} is not modelled")
    if not {c_type, d_type} <= set(accumulators(a_type)):
        raise emitter.unsupported(f"a sum of .{c_type} into .{d_type} is not modelled")
    if a_type in ("s4", "u4", "b1") and form.layouts != ["row", "col"]:
        raise emitter.unsupported(f"layouts .{'.'.join(form.layouts)} with .{a_type} are not modelled")
    product = Product(wmma_tile(shape), a_type, b_type, c_type, d_type, variant=variant_of(emitter, form, a_type))
    d, *sources = operands(emitter, instruction, 4)
    kinds = (("a", a_type), ("b", b_type), ("c", c_type))
    a, b, c = (
        read_fragment(emitter, source, wmma_fragment(shape, operand, element), a_type)
        for source, (operand, element) in zip(sources, kinds, strict=True)
    )
    if is_turned(shape):
        a, b = b, a
    tiles = _tiles(product, a, b, c, is_turned(shape) or shape.startswith("m32"))
    write_fragment(emitter, d, [register for tile in tiles for register in multiply(emitter, product, tile)], a_type)


def _tiles(product: Product, a: list[Value], b: list[Value], c: list[Value], tall: bool) -> list[list[list[Value]]]:
    """The registers of A, B and C of each `mma`: parts of A with all of B when `tall`, else A with parts of B."""
    sizes = [len(f) for f in (product.left(), product.right(), product.result(product.c))]
    places = [(t, 0, t) if tall else (0, t, t) for t in range(len(c) // sizes[2])]
    return [[x[k * n : (k + 1) * n] for x, k, n in zip((a, b, c), place, sizes, strict=True)] for place in places]
