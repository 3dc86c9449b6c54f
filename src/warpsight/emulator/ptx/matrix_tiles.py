"""`ldmatrix`, `stmatrix`, `movmatrix`: 8x8 matrices of 16-bit elements, and some of bytes, spread over a warp as `mma` wants them.

Lane 4 r + c holds elements 2 c and 2 c + 1 of row r. The rows are 16 bytes of shared memory whose addresses eight lanes give; the
addresses in other lanes are not looked at (PTX ISA asks them to be valid for sm_75). Of rows that overlap in a store, the last
matrix and its last row win. The conflict degree in the trace counts passes through the banks, a matrix after the other: 1 for each
when its rows lie in different banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.access import check_window
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.codegen.helpers import remembered_degree
from warpsight.emulator.codegen.lanes import I1, I32, I64, PTR, Value, gather, scatter, splat, splat_constant, vector
from warpsight.emulator.codegen.layout import SHARED_WINDOW, WARP, Fault, Slot
from warpsight.emulator.codegen.recording import emit_event_byte
from warpsight.emulator.codegen.watching import note_access
from warpsight.emulator.ptx.common import elements_of, operands
from warpsight.emulator.ptx.matrix_shapes import need_whole_warp
from warpsight.isa.ptx.program import Instruction

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_SPACES = ("shared", "shared::cta")
_ROW_BYTES = 16


def ldmatrix(emitter: Emitter, instruction: Instruction) -> None:
    """`ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 r, [p]`."""
    d, address = operands(emitter, instruction, 2)
    offsets = _offsets(emitter, instruction, address)
    if "b16" in instruction.modifiers:
        count, turned = _form(emitter, instruction)
        parts = _parts(emitter, d, count)
        values = load_matrices(emitter, count, turned, offsets)
    else:
        count, turned, bits = _byte_form(emitter, instruction)
        parts = _parts(emitter, d, count * (2 if turned else 1))
        values = load_byte_matrices(emitter, count, turned, bits, offsets)
    for part, value in zip(parts, values, strict=True):
        emitter.write(part, value, "b32")


def load_matrices(emitter: Emitter, count: int, turned: bool, offsets: Value) -> list[Value]:
    """The words of `count` matrices whose rows lie at <32 x i32> offsets in shared memory; `turned` ones are transposed."""

    def body(helper: HelperFrame) -> list[Value]:
        pointers, whole = _rows(helper, count, helper.arguments[0], writes=False)
        if not helper.moves:
            return [ir.Constant(vector(I32), None)] * count
        loaded = [gather(helper.builder, p, whole, I32) for p in pointers]
        return [transposed(helper, v) for v in loaded] if turned else loaded

    name = f"ldmatrix_{count}{'_trans' if turned else ''}"
    return call_helper(emitter, name, I64(emitter.kernel.next_site()), [offsets], [vector(I32)] * count, body)


def stmatrix(emitter: Emitter, instruction: Instruction) -> None:
    """`stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [p], r`."""
    address, source = operands(emitter, instruction, 2)
    if "b16" not in instruction.modifiers:
        count, _, _ = _byte_form(emitter, instruction)
        values = [emitter.read(part, "b32") for part in _parts(emitter, source, count)]
        store_byte_matrices(emitter, count, _offsets(emitter, instruction, address), values)
        return
    count, turned = _form(emitter, instruction)
    values = [emitter.read(part, "b32") for part in _parts(emitter, source, count)]
    store_matrices(emitter, count, turned, _offsets(emitter, instruction, address), values)


def store_matrices(emitter: Emitter, count: int, turned: bool, offsets: Value, values: list[Value]) -> None:
    """Store the words of `count` matrices; their rows lie at <32 x i32> offsets in shared memory."""

    def body(helper: HelperFrame) -> list[Value]:
        pointers, whole = _rows(helper, count, helper.arguments[0], writes=True)
        for pointer, value in zip(pointers, helper.arguments[1:], strict=True) if helper.moves else ():
            scatter(helper.builder, transposed(helper, value) if turned else value, pointer, whole)
        return []

    name = f"stmatrix_{count}{'_trans' if turned else ''}"
    call_helper(emitter, name, I64(emitter.kernel.next_site()), [offsets, *values], [], body)


def movmatrix(emitter: Emitter, instruction: Instruction) -> None:
    """`movmatrix.sync.aligned.m8n8.trans.b16 d, a`."""
    if set(instruction.modifiers) != {"sync", "aligned", "m8n8", "trans", "b16"}:
        raise emitter.unsupported("only .sync.aligned.m8n8.trans.b16 is modelled")
    d, a = operands(emitter, instruction, 2)
    emitter.write(d, transpose_matrix(emitter, emitter.read(a, "b32")), "b32")


def transpose_matrix(emitter: Emitter, value: Value) -> Value:
    """A matrix in registers, transposed."""

    def body(helper: HelperFrame) -> list[Value]:
        need_whole_warp(helper)
        return [transposed(helper, helper.arguments[0])]

    return call_helper(emitter, "movmatrix", I64(0), [value], [vector(I32)], body)[0]


def _form(emitter: Emitter, instruction: Instruction) -> tuple[int, bool]:
    """How many matrices of 16-bit elements, and whether `.trans`; refuses every other modifier."""
    modifiers = instruction.modifiers
    for modifier in modifiers:
        if modifier not in ("sync", "aligned", "m8n8", "trans", "b16", *_COUNTS, *_SPACES):
            raise emitter.unsupported(f"modifier .{modifier} is not modelled")
    counts = [_COUNTS[w] for w in modifiers if w in _COUNTS]
    if len(counts) != 1 or "m8n8" not in modifiers or "b16" not in modifiers:
        raise emitter.unsupported("needs .m8n8, .b16 and one of .x1, .x2, .x4")
    return counts[0], "trans" in modifiers


_PACKED = {"b8": 8, "b8x16.b6x16_p32": 6, "b8x16.b4x16_p64": 4}  # bits of an element in memory


def _byte_form(emitter: Emitter, instruction: Instruction) -> tuple[int, bool, int]:
    """How many matrices of bytes (sm_100), whether they are transposed, and the bits of an element in memory."""
    words = [m for m in instruction.modifiers if m not in ("sync", "aligned", *_SPACES)]
    counts = [_COUNTS[w] for w in words if w in _COUNTS]
    shape, *kind = [m for m in words if m not in ("trans", *_COUNTS)] or [""]
    bits, turned = _PACKED.get(".".join(kind), 0), "trans" in words
    loads = instruction.opcode == "ldmatrix"
    fits = (shape, turned) in ((("m16n16", True), ("m8n16", False)) if loads else (("m16n8", True),))
    if len(counts) != 1 or not fits or not bits or (bits == 8 and shape == "m8n16") or (bits < 8 and not loads):
        raise emitter.unsupported("this shape with these types is not modelled")
    if shape == "m16n16" and counts[0] == 4:
        raise emitter.unsupported("PTX has .x1 and .x2 of this shape")
    return counts[0], turned, bits


def _parts(emitter: Emitter, operand: Any, count: int) -> list[Any]:
    parts = elements_of(operand)
    if len(parts) != count:
        raise emitter.unsupported(f"it moves {count} matrices but names {len(parts)} registers")
    return parts


def _offsets(emitter: Emitter, instruction: Instruction, address: Any) -> Value:
    """Offsets in shared memory (i32); a generic address elsewhere becomes one that lies in no shared memory."""
    if not set(_SPACES).isdisjoint(instruction.modifiers):
        return emitter.effective_address(address, 32)
    builder = emitter.builder
    offset = builder.sub(emitter.effective_address(address), splat_constant(I64, SHARED_WINDOW))
    most = splat_constant(I64, 0xFFFFFFF0)
    inside = builder.icmp_unsigned("<", offset, most)
    return builder.trunc(builder.select(inside, offset, most), vector(I32))


def _row_starts(helper: HelperFrame, rows: int, offsets: Value, *, writes: bool) -> Value:
    """Check and record; then host addresses of the rows, in as many lanes, which alone are active from here on."""
    need_whole_warp(helper)
    builder = helper.builder
    helper.narrow((1 << rows) - 1)
    check_window(helper, offsets, _ROW_BYTES, helper.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS)
    emit_event_byte(helper, remembered_degree(helper, offsets, _ROW_BYTES))
    starts = builder.add(builder.zext(offsets, vector(I64)), splat(builder, helper.slot(Slot.SHARED_PTR)))
    note_access(helper, "shared", starts, offsets, 4, _ROW_BYTES // 4, reads=not writes, writes=writes)
    return starts


def _rows(helper: HelperFrame, count: int, offsets: Value, *, writes: bool) -> tuple[list[Value], Value]:
    """For each matrix the pointers to the word that belongs to each lane, and the lanes that take part."""
    builder, whole = helper.builder, helper.active
    starts = _row_starts(helper, 8 * count, offsets, writes=writes)
    within = ir.Constant(vector(I64), [4 * (lane % 4) for lane in range(WARP)])
    pointers = []
    for matrix in range(count):
        rows = _shuffled(helper, starts, [8 * matrix + lane // 4 for lane in range(WARP)])
        pointers.append(builder.inttoptr(builder.add(rows, within), vector(PTR)))
    return pointers, whole


def _shuffled(frame: Frame, value: Value, order: list[int]) -> Value:
    undefined = ir.Constant(value.type, ir.Undefined)
    return frame.builder.shuffle_vector(value, undefined, ir.Constant(vector(I32), order))


def transposed(frame: Frame, value: Value) -> Value:
    """The 8x8 matrix of halves in a register, transposed: lane 4 r + c gets elements (2 c, r) and (2 c + 1, r) of the old one."""
    builder = frame.builder
    shift = ir.Constant(vector(I32), [16 * (lane // 4 % 2) for lane in range(WARP)])
    words = (_shuffled(frame, value, [4 * (2 * (lane % 4) + s) + lane // 8 for lane in range(WARP)]) for s in range(2))
    low, high = (builder.and_(builder.lshr(word, shift), splat_constant(I32, 0xFFFF)) for word in words)
    return builder.or_(low, builder.shl(high, splat_constant(I32, 16)))


# -- Matrices of bytes (sm_100). Where their elements go, CUTLASS's `copy_traits_sm100.hpp` has as formulas.


def load_byte_matrices(emitter: Emitter, count: int, turned: bool, bits: int, offsets: Value) -> list[Value]:
    """`count` matrices whose rows of 16 elements, of 8, 6 or 4 bits each, lie at <32 x i32> offsets in shared memory.

    Those of 8 rows are spread as they are: lane 4 r + c holds elements 4 c to 4 c + 3 of row r. `turned` ones have 16 rows and fill
    two registers: byte k of the first is element (4 c + k % 2, r + 8 (k / 2)), and that of the second lies two rows below.
    """

    def body(helper: HelperFrame) -> list[Value]:
        builder, rows = helper.builder, (16 if turned else 8) * count
        starts = _row_starts(helper, rows, helper.arguments[0], writes=False)
        words = []
        for word in range(4):
            pointers = builder.inttoptr(builder.add(starts, splat_constant(I64, 4 * word)), vector(PTR))
            words.append(gather(builder, pointers, helper.active, I32))
        words = words if bits == 8 else [_spread(helper, words, bits, word) for word in range(4)]
        if not turned:
            return [_chosen(helper, words, [(8 * m + lane // 4, lane % 4, 0) for lane in range(WARP)]) for m in range(count)]
        return [_turned_bytes(helper, words, 16 * m + 2 * second) for m in range(count) for second in range(2)]

    name = f"ldmatrix_bytes_{count}_{bits}{'_trans' if turned else ''}"
    results = [vector(I32)] * count * (2 if turned else 1)
    return call_helper(emitter, name, I64(emitter.kernel.next_site()), [offsets], results, body)


def store_byte_matrices(emitter: Emitter, count: int, offsets: Value, values: list[Value]) -> None:
    """Store `count` transposed matrices, each of 8 rows of 16 bytes in memory: byte k of lane 4 r + c is element
    (2 c + k % 2, r + 8 (k / 2)).
    """

    def body(helper: HelperFrame) -> list[Value]:
        builder, sources = helper.builder, helper.arguments[1:]
        starts = _row_starts(helper, 8 * count, helper.arguments[0], writes=True)
        rows = [(lane % 8, min(lane // 8, count - 1)) for lane in range(WARP)]
        for word in range(4):
            whole: Value = splat_constant(I32, 0)
            for b in range(4):
                column = 4 * word + b
                places = [(4 * (column % 8) + row // 2, m, row % 2 + 2 * (column // 8)) for row, m in rows]
                byte = builder.and_(_chosen(helper, sources, places), splat_constant(I32, 255))
                whole = builder.or_(whole, builder.shl(byte, splat_constant(I32, 8 * b)))
            pointers = builder.inttoptr(builder.add(starts, splat_constant(I64, 4 * word)), vector(PTR))
            scatter(builder, whole, pointers, helper.active)
        return []

    call_helper(emitter, f"stmatrix_bytes_{count}", I64(emitter.kernel.next_site()), [offsets, *values], [], body)


def _turned_bytes(helper: HelperFrame, words: list[Value], first: int) -> Value:
    """Of rows in lanes from `first` on, the register that lanes get of the transposed matrix."""
    builder, whole = helper.builder, splat_constant(I32, 0)
    for k in range(4):
        columns = [lane // 4 + 8 * (k // 2) for lane in range(WARP)]
        places = [(first + 4 * (lane % 4) + k % 2, column // 4, column % 4) for lane, column in enumerate(columns)]
        byte = builder.and_(_chosen(helper, words, places), splat_constant(I32, 255))
        whole = builder.or_(whole, builder.shl(byte, splat_constant(I32, 8 * k)))
    return whole


def _chosen(helper: HelperFrame, words: Sequence[Value], places: list[tuple[int, int, int]]) -> Value:
    """For each lane what (lane, number of the word, byte) names: the word from that byte on."""
    builder, result = helper.builder, splat_constant(I32, 0)
    for number in sorted({word for _, word, _ in places}):
        here = ir.Constant(vector(I1), [int(word == number) for _, word, _ in places])
        result = builder.select(here, _shuffled(helper, words[number], [lane for lane, _, _ in places]), result)
    return builder.lshr(result, ir.Constant(vector(I32), [8 * byte for _, _, byte in places]))


def _spread(helper: HelperFrame, words: list[Value], bits: int, number: int) -> Value:
    """Elements 4 n to 4 n + 3, of 6 or 4 bits next to each other, in bytes of their own."""
    builder, start = helper.builder, 4 * bits * number

    def from_bit(bit: int) -> Value:
        low = builder.lshr(words[bit // 32], splat_constant(I32, bit % 32))
        if bit % 32 + bits <= 32:
            return low
        return builder.or_(low, builder.shl(words[bit // 32 + 1], splat_constant(I32, 32 - bit % 32)))

    whole: Value = splat_constant(I32, 0)
    for k in range(4):
        element = builder.and_(from_bit(start + bits * k), splat_constant(I32, (1 << bits) - 1))
        whole = builder.or_(whole, builder.shl(element, splat_constant(I32, 8 * k)))
    return whole
