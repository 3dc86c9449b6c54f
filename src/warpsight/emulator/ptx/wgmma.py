"""`wgmma`: products of a warp group, four warps whose first number is a multiple of four (sm_90a), and `setmaxnreg`.

A warp has 16 of the 64 rows of A and D, in the register layouts of `mma` with 16 rows. It computes them alone, as one `mma` of 16
rows for each eight columns, when the product is issued; `matrix_products.py` says how it sums. A correct program cannot see the
difference: between the issue of a product and the wait for its group, PTX forbids access to the registers of D, and writes to the
registers and the shared memory of A and B. Products with the same D are executed in the order of issue on a GPU, too.

On a GPU the four warps do a product together. A warp that has waited for it knows that the others have read shared memory, and
programs rely on that (CUTLASS's tutorial `wgmma_sm90.cu` has no other barrier in its loop). So `wgmma.fence` and `wgmma.wait_group`
are barriers of the warp group here. To `check` they are, too; it sees the reads of shared memory at the issue, and therefore not a
write by the same warp between a product and its wait.

Matrices in shared memory consist of pieces of 16 bytes (PTX ISA, "Shared Memory Matrix Layout" and "Matrix-descriptor"; CUTLASS has
the same layouts as formulas in `mma_traits_sm90_gmma.hpp`). The distance between the pieces of eight consecutive rows is 16 bytes,
or with a swizzle its width (32, 64 or 128). The two byte offsets of the descriptor give the other distances. A swizzle permutes the
pieces of a row: it combines bits 4 to 6 of a piece's address (as many as the width needs) by exclusive or with bits 7 to 9, which
count 128 bytes from the start of the pattern. The base offset is that count at an unaligned start.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.access import check_window
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper, call_library
from warpsight.emulator.codegen.lanes import (
    F64,
    I1,
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    gather,
    load_as,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import WARP, Fault, Slot
from warpsight.emulator.codegen.watching import note_access
from warpsight.emulator.ptx import matrix_products as products
from warpsight.emulator.ptx.common import operands
from warpsight.emulator.ptx.matrix_shapes import (
    BITS,
    EIGHT_BIT_FLOATS,
    Fragment,
    Product,
    accumulators,
    counted,
    dense_shapes,
    family,
    need_whole_warp,
    size_of,
    sparse_shapes,
)
from warpsight.emulator.ptx.mma import Matrices, MatrixModifiers, is_float, read_fragment, write_fragment
from warpsight.isa.ptx.program import Instruction, Vector

GROUP_WARPS, GROUP_ROWS = 4, 64
_COLUMNS = 8  # that are computed at once
_PIECE = 16  # bytes
_HELD = 4  # registers of A; with B it fills 32 bytes of k in every type
_REGISTER = 4 * WARP  # bytes
_MOST_COLUMNS = 256
_TYPES = ("f16", "bf16", "tf32", *EIGHT_BIT_FLOATS, "s8", "u8", "b1")
_HALVES = ("f16", "bf16")  # whose matrices may lie transposed in shared memory
REGISTERS, ALONG_K, ACROSS_K = "registers", "k", "mn"


@dataclass(frozen=True)
class GroupProduct:
    """D = A B + D as one warp computes it; how many columns it has is known when it runs.

    `part` is its product of 16 rows and 8 columns. `left` is where A is, `right` how B lies: `REGISTERS`, or in shared memory with
    consecutive elements along k or across (transposed). `negative`: the products are subtracted.
    """

    part: Product
    left: str
    right: str
    negative: bool = False

    @property
    def symbol(self) -> str:
        """The name of the function that computes it: all that distinguishes it from others."""
        sign = "minus" if self.negative else "plus"
        return ".".join(("warpsight.wgmma", self.left, self.right, sign, *self.part.symbol.split(".")[2:]))

    @classmethod
    def of_fields(cls, fields: list[str]) -> GroupProduct:
        """From the fields of a symbol."""
        left, right, sign, *part = fields
        return cls(Product.of_fields(part), left, right, sign == "minus")

    @functools.cached_property
    def a(self) -> _Pieces:
        """A of one warp in shared memory."""
        return _Pieces(self.left == ALONG_K, 16, self.part.stored_depth, BITS[self.part.a], True)

    @functools.cached_property
    def b(self) -> _Pieces:
        """Eight columns of B."""
        return _Pieces(self.right == ALONG_K, _COLUMNS, self.part.depth, BITS[self.part.b], False)


def group_product(
    emitter: Emitter, shape: str, a: str, b: str, d: str, left: str, right: str, *, variant: str = "", negative: bool = False,
    selector: int | None = None,
) -> tuple[GroupProduct, int]:
    """The product of a shape and types, and its number of columns; refuses those that PTX does not have."""
    m, n, k = size_of(shape)
    shapes = (dense_shapes if selector is None else sparse_shapes)(a)
    if a not in _TYPES or family(a) != family(b) or (a in _HALVES and a != b) or d not in accumulators(a):
        raise emitter.unsupported(f"a product of .{a} and .{b} into .{d} is not modelled")
    whole_numbers = accumulators(a) == ("s32",)
    fits = n % 16 == 0 or n in (8, 24) if whole_numbers else n % _COLUMNS == 0
    if m != GROUP_ROWS or not fits or not _COLUMNS <= n <= _MOST_COLUMNS or (a == "b1" and selector is not None):
        raise emitter.unsupported(f"shape .{shape} with .{a} is not modelled")
    if f"m16n8k{k}" != shapes[-1]:
        raise emitter.unsupported(f"shape .{shape} with .{a} is not modelled")
    if ACROSS_K in (left, right) and a not in _HALVES:
        raise emitter.unsupported(f"a transposed matrix of .{a} is not modelled")
    part = Product(shapes[-1], a, b, d, d, variant=variant, selector=selector, sums="sm_90")
    if selector is not None and selector not in products.selectors(part.depth, a):
        raise emitter.unsupported(f"a selector of {selector} is not defined for it")
    return GroupProduct(part, left, right, negative), n


def multiply_group(
    emitter: Emitter, group: GroupProduct, columns: int, held: list[Value], descriptors: tuple[Value, Value], before: list[Value],
    scale: Value, metadata: Value | None = None,
) -> list[Value]:
    """The registers of D (i32 lanes) from those `held` of A, descriptors of A and B, and D `before` where `scale` (i1) holds."""
    builder = emitter.builder
    results = at(builder, emitter.buffer("group_results", ir.ArrayType(I8, _REGISTER * len(before))), 0)
    for k, value in enumerate(before):
        store_as(builder, builder.select(scale, value, splat_constant(I32, 0)), at(builder, results, k * _REGISTER), 64)
    registers = at(builder, emitter.buffer("group_registers", ir.ArrayType(I8, _REGISTER * (_HELD + 1))), 0)
    for k, value in enumerate(held):
        store_as(builder, value, at(builder, registers, k * _REGISTER), 64)
    if metadata is not None:
        store_as(builder, metadata, at(builder, registers, _HELD * _REGISTER), 64)
    tiles = I64(columns // _COLUMNS)
    if emitter.checks:
        _note_reads(emitter, group, [tiles, *descriptors])
    call_library(emitter, group.symbol, I64(0), [tiles, *descriptors, registers, results])
    return [load_as(builder, at(builder, results, k * _REGISTER), vector(I32), 64) for k in range(len(before))]


GROUP_ARGUMENTS = [I64, I64, I64, PTR, PTR]


def multiply_group_inside(helper: HelperFrame, group: GroupProduct) -> None:
    """The whole out-of-line function. Arguments: the columns in eights, the descriptors of A and B, a pointer to the registers of A
    with the metadata behind them, and one to those of D, which are replaced.
    """
    tiles, left, right, registers, results = helper.arguments
    need_whole_warp(helper)
    _need_whole_group(helper)
    builder, part = helper.builder, group.part
    go, done = builder.append_basic_block("go"), builder.append_basic_block("multiplied")
    builder.cbranch(builder.icmp_signed("==", helper.active_mask, I32(0)), done, go)  # a guard that holds nowhere
    builder.position_at_end(go)
    matrices = Matrices(helper, part, I32)
    if group.left == REGISTERS:
        a = matrices.unpack("a", registers, part.left(), part.stored_depth, part.a)
    else:
        rows = builder.and_(builder.trunc(helper.slot(Slot.WARP), I32), I32(GROUP_WARPS - 1))
        fetched = _fetched(helper, "fetched_a", group.a, left, builder.shl(rows, I32(1)))
        a = matrices.unpack("a", fetched, group.a.fragment(), part.stored_depth, part.a)
    if group.negative:
        _negate(helper, a[0], 16 * part.stored_depth)
    if part.selector is not None:
        a = products.expanded(helper, part, a, at(builder, registers, _HELD * _REGISTER))
    each = len(part.result(part.d)) * _REGISTER
    d = helper.buffer("matrix_d", ir.ArrayType(I32, part.rows * _COLUMNS))

    def eight_columns(_: Builder, tile: Value) -> None:
        fetched = _fetched(helper, "fetched_b", group.b, right, builder.trunc(tile, I32))
        b = matrices.unpack("b", fetched, group.b.fragment(), _COLUMNS, part.b)
        place = at(builder, results, builder.mul(tile, I64(each)))
        c = matrices.unpack("c", place, part.result(part.c), _COLUMNS, part.c)
        (products.float_rows if is_float(part) else products.integer_rows)(helper, part, a, b, c, d)
        matrices.pack(place, part.result(part.d), d)

    counted(builder, tiles, 1, eight_columns)
    builder.branch(done)
    builder.position_at_end(done)
    helper.close([])


def _need_whole_group(helper: HelperFrame) -> None:
    """Stop where the block ends before the fourth warp of the group."""
    builder, last = helper.builder, I64(GROUP_WARPS - 1)
    missing = builder.icmp_unsigned(">=", builder.or_(helper.slot(Slot.WARP), last), helper.slot(Slot.WARPS_PER_BLOCK))
    some = builder.icmp_signed("!=", helper.active_mask, I32(0))
    helper.stop_if(builder.and_(missing, some), Fault.GROUP_INCOMPLETE, lambda: (I32(0), I64(0)))


def _negate(helper: HelperFrame, values: Value, count: int) -> None:
    def step(builder: Builder, first: Value) -> None:
        place = at(builder, values, builder.mul(first, I64(8)))
        store_as(builder, builder.fneg(load_as(builder, place, vector(F64), 64)), place, 64)

    counted(helper.builder, count, WARP, step)


# -- Matrices in shared memory.


@dataclass(frozen=True)
class _Pieces:
    """`rows` rows of A, or columns of B, in shared memory: up to 32 pieces of 16 bytes, each in the lane that fetches it.

    Where consecutive elements are `along` k, a piece is of one row; else it is of eight rows, all with the same k.
    """

    along: bool
    rows: int
    depth: int
    bits: int
    is_left: bool

    def count(self) -> int:
        """How many there are; further lanes fetch them again."""
        return self.rows * self.depth * self.bits // (8 * _PIECE)

    def where(self) -> list[tuple[int, int]]:
        """By lane, the row and which piece of it; or which eight rows, and k."""
        each = self.depth * self.bits // (8 * _PIECE) if self.along else self.rows // 8
        lanes = [lane % self.count() for lane in range(WARP)]
        return [(lane // each, lane % each) if self.along else (lane % each, lane // each) for lane in lanes]

    def fragment(self) -> Fragment:
        """Which elements lie where once they are fetched: a register for each of the four words of a piece."""
        e = 32 // self.bits
        words = [
            [
                [(row, (4 * piece + word) * e + s) if self.along else (8 * row + word * e + s, piece) for s in range(e)]
                for row, piece in self.where()
            ]
            for word in range(4)
        ]
        return words if self.is_left else [[[(k, row) for row, k in lane] for lane in word] for word in words]


def _fetched(helper: HelperFrame, name: str, pieces: _Pieces, descriptor: Value, first: Value) -> Value:
    """A pointer to four registers with the pieces whose rows begin at the `first` eight (i32)."""
    builder = helper.builder
    _, host = _checked(helper, pieces, descriptor, first)
    target = helper.buffer(name, ir.ArrayType(I8, 4 * _REGISTER))
    for word in range(4):
        pointers = builder.inttoptr(builder.add(host, splat_constant(I64, 4 * word)), vector(PTR))
        store_as(builder, gather(builder, pointers, splat_constant(I1, 1), I32), at(builder, target, word * _REGISTER), 64)
    return at(builder, target, 0)


def _checked(
    helper: HelperFrame, pieces: _Pieces, descriptor: Value, first: Value, *, drops: bool = False
) -> tuple[Value, Value]:
    """`_offsets` of pieces that lie in shared memory, and their addresses, <32 x i64>; `drops` as for `check_window`."""
    offsets = _offsets(helper, pieces, descriptor, first)
    check_window(helper, offsets, _PIECE, helper.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS, drops=drops)
    wide = helper.builder.zext(offsets, vector(I64))
    return offsets, helper.builder.add(wide, splat(helper.builder, helper.slot(Slot.SHARED_PTR)))


def _offsets(frame: Frame, pieces: _Pieces, descriptor: Value, first: Value) -> Value:
    """Offsets in shared memory of the pieces, <32 x i32>; `first` eight rows as for `_fetched`."""
    builder = frame.builder

    def field(bit: int, bits: int) -> Value:
        return builder.trunc(builder.and_(builder.lshr(descriptor, I64(bit)), I64((1 << bits) - 1)), I32)

    def constant(numbers: list[int]) -> Value:
        return ir.Constant(vector(I32), numbers)

    def times(numbers: Value, factor: Value) -> Value:
        return builder.mul(numbers, splat(builder, factor))

    start, leading, stride = (builder.shl(field(bit, 14), I32(4)) for bit in (0, 16, 32))
    base, mode = field(49, 3), field(62, 2)
    plain = builder.icmp_unsigned("==", mode, I32(0))
    width = builder.select(plain, I32(0), builder.sub(I32(4), mode))  # pieces in a row of the swizzle, as a power of two
    pitch, most = builder.shl(I32(_PIECE), width), builder.sub(builder.shl(I32(1), width), I32(1))
    where, offsets = pieces.where(), splat(builder, start)
    if pieces.along:
        eights = builder.add(constant([row // 8 for row, _ in where]), splat(builder, first))
        # Beyond a row of the swizzle, which the manual leaves open, pieces follow each other as within.
        step = builder.select(plain, leading, I32(_PIECE))
        below, ahead = constant([row % 8 for row, _ in where]), constant([piece for _, piece in where])
        terms = [(eights, stride), (below, pitch), (ahead, step)]
    else:
        eights = builder.add(constant([eight for eight, _ in where]), splat(builder, first))
        across, down = builder.select(plain, stride, leading), builder.select(plain, leading, stride)
        terms = [
            (builder.and_(eights, splat(builder, most)), I32(_PIECE)), (builder.lshr(eights, splat(builder, width)), across),
            (constant([k % 8 for _, k in where]), pitch), (constant([k // 8 for _, k in where]), down),
        ]  # fmt: skip
    for numbers, factor in terms:
        offsets = builder.add(offsets, times(numbers, factor))
    line = builder.sub(builder.lshr(offsets, splat_constant(I32, 7)), splat(builder, base))
    exchanged = builder.shl(builder.and_(line, splat(builder, most)), splat_constant(I32, 4))
    return builder.xor(offsets, exchanged)


def _note_reads(emitter: Emitter, group: GroupProduct, arguments: list[Value]) -> None:
    """Tell the checks of all pieces that the product reads. Each lane stands for the pieces that it fetches."""

    def body(helper: HelperFrame) -> list[Value]:
        tiles, left, right = helper.arguments
        builder = helper.builder
        if group.left != REGISTERS:
            rows = builder.and_(builder.trunc(helper.slot(Slot.WARP), I32), I32(GROUP_WARPS - 1))
            _note_pieces(helper, group.a, left, builder.shl(rows, I32(1)))
        counted(builder, tiles, 1, lambda _, tile: _note_pieces(helper, group.b, right, builder.trunc(tile, I32)))
        return []

    call_helper(emitter, f"note.{group.symbol}", I64(0), arguments, [], body)


def _note_pieces(helper: HelperFrame, pieces: _Pieces, descriptor: Value, first: Value) -> None:
    with helper.on_a_branch():
        helper.narrow((1 << pieces.count()) - 1)
        offsets, host = _checked(helper, pieces, descriptor, first, drops=True)
        note_access(helper, "shared", host, offsets, 4, 4, reads=True, writes=False)


# -- The instructions.

_SPARSE = "sp"
_LEAST_REGISTERS, _MOST_REGISTERS = 24, 256


def wgmma(emitter: Emitter, instruction: Instruction) -> None:
    """`wgmma.mma_async`, `fence`, `commit_group` and `wait_group`, all `.sync.aligned`. Barriers are emitted elsewhere."""
    modifiers = list(instruction.modifiers)
    if not {"sync", "aligned"} <= set(modifiers):
        raise emitter.unsupported("it needs .sync.aligned")
    rest = [m for m in modifiers if m not in ("sync", "aligned")]
    if rest == ["wait_group"]:
        (count,) = operands(emitter, instruction, 1)
        if emitter.immediate_value(count) < 0:
            raise emitter.unsupported("a number of groups is not negative")
    elif rest in (["fence"], ["commit_group"]):
        operands(emitter, instruction, 0, 0)
    elif rest[:1] == ["mma_async"]:
        _multiply(emitter, instruction, MatrixModifiers(emitter, rest[1:]))
    else:
        raise emitter.unsupported("only .mma_async, .fence, .commit_group and .wait_group are modelled")


def _multiply(emitter: Emitter, instruction: Instruction, form: MatrixModifiers) -> None:
    """`wgmma.mma_async[.sp].sync.aligned.shape.d.a.b d, a, b-desc[, metadata, selector], scale-d[, scales, transposes]`.

    a is a vector of registers or a descriptor. Floats have the scales of A and B, 1 or -1. Types of 16 bits have 0 or 1 for each
    matrix in shared memory: 1 transposes it.
    """
    sparse = bool(form.take(_SPARSE))
    if len(form.types) != 3:
        raise emitter.unsupported("it does not name three types")
    d, a, b = form.types
    variant = ""
    if a == "b1":
        variant = form.take("and")
        if not variant or not form.take("popc"):
            raise emitter.unsupported("a product of bits needs .and.popc")
    elif d == "s32":
        variant = form.take("satfinite")
    form.refuse_rest(emitter)
    in_registers = len(instruction.operands) > 1 and isinstance(instruction.operands[1], Vector)
    scales = 0 if d == "s32" else 2
    turns = 0 if a not in _HALVES else 1 if in_registers else 2
    count = 4 + 2 * sparse
    given = operands(emitter, instruction, count + scales + turns)
    target, first, second, *choice, scale = given[:count]
    signs, turned = (
        _choices(emitter, part, allowed)
        for part, allowed in ((given[count : count + scales], (1, -1)), (given[count + scales :], (0, 1)))
    )
    majors = [ALONG_K, ALONG_K]
    majors[2 - turns :] = [ACROSS_K if turn else ALONG_K for turn in turned]
    group, columns = group_product(
        emitter, form.shape, a, b, d, REGISTERS if in_registers else majors[0], majors[1], variant=variant,
        negative=signs.count(-1) == 1, selector=emitter.immediate_value(choice[1]) if sparse else None,
    )
    held = read_fragment(emitter, first, group.part.left(), a) if in_registers else []
    accumulator = group.part.result(d) * (columns // _COLUMNS)
    before = read_fragment(emitter, target, accumulator, a)
    metadata = emitter.read(choice[0], "b32") if sparse else None
    descriptors = (I64(0) if in_registers else _descriptor(emitter, first), _descriptor(emitter, second))
    values = multiply_group(emitter, group, columns, held, descriptors, before, emitter.read(scale, "pred"), metadata)
    write_fragment(emitter, target, values, a)


def _choices(emitter: Emitter, given: tuple[Any, ...], allowed: tuple[int, ...]) -> list[int]:
    numbers = [emitter.immediate_value(operand) for operand in given]
    for number in numbers:
        if number not in allowed:
            raise emitter.unsupported(f"a scale or transpose of {number} is not one of {allowed[0]} and {allowed[1]}")
    return numbers


def _descriptor(emitter: Emitter, operand: Any) -> Value:
    """The matrix descriptor (i64), which is the same in all lanes."""
    if isinstance(operand, Vector):
        raise emitter.unsupported("matrix B is not in registers")
    return emitter.builder.extract_element(emitter.read(operand, "b64"), I32(0))


def setmaxnreg(emitter: Emitter, instruction: Instruction) -> None:
    """`setmaxnreg.{inc,dec}.sync.aligned.u32`: no effect, as correct programs do not read registers beyond the new limit."""
    modifiers = [m for m in instruction.modifiers if m not in ("inc", "dec")]
    if modifiers != ["sync", "aligned", "u32"] or len(instruction.modifiers) != 4:
        raise emitter.unsupported("needs .inc or .dec, and .sync.aligned.u32")
    (count,) = operands(emitter, instruction, 1)
    number = emitter.immediate_value(count)
    if not _LEAST_REGISTERS <= number <= _MOST_REGISTERS or number % 8:
        raise emitter.unsupported(f"{number} registers: a multiple of 8 from {_LEAST_REGISTERS} to {_MOST_REGISTERS} is expected")
