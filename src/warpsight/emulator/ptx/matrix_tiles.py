"""`ldmatrix`, `stmatrix`, `movmatrix`: 8x8 matrices of 16-bit elements, spread over a warp as `mma` wants them.

Lane 4 r + c holds elements 2 c and 2 c + 1 of row r. The rows are 16 bytes of shared memory whose addresses eight lanes give; the
addresses in other lanes are not looked at (PTX ISA asks them to be valid for sm_75). Of rows that overlap in a store, the last
matrix and its last row win. The conflict degree in the trace counts passes through the banks, a matrix after the other: 1 for each
when its rows lie in different banks.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.access import check_window, remembered_degree
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.codegen.lanes import I32, I64, PTR, Value, gather, scatter, splat, splat_constant, vector
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
    count, turned = _form(emitter, instruction)
    d, address = operands(emitter, instruction, 2)
    parts = _parts(emitter, d, count)
    values = load_matrices(emitter, count, turned, _offsets(emitter, instruction, address))
    for part, value in zip(parts, values, strict=True):
        emitter.write(part, value, "b32")


def load_matrices(emitter: Emitter, count: int, turned: bool, offsets: Value) -> list[Value]:
    """The words of `count` matrices whose rows lie at <32 x i32> offsets in shared memory; `turned` ones are transposed."""

    def body(helper: HelperFrame) -> list[Value]:
        pointers, whole = _rows(helper, count, helper.arguments[0], writes=False)
        loaded = [gather(helper.builder, p, whole, I32) for p in pointers]
        return [transposed(helper, v) for v in loaded] if turned else loaded

    name = f"ldmatrix_{count}{'_trans' if turned else ''}"
    return call_helper(emitter, name, I64(emitter.kernel.next_site()), [offsets], [vector(I32)] * count, body)


def stmatrix(emitter: Emitter, instruction: Instruction) -> None:
    """`stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [p], r`."""
    count, turned = _form(emitter, instruction)
    address, source = operands(emitter, instruction, 2)
    values = [emitter.read(part, "b32") for part in _parts(emitter, source, count)]
    store_matrices(emitter, count, turned, _offsets(emitter, instruction, address), values)


def store_matrices(emitter: Emitter, count: int, turned: bool, offsets: Value, values: list[Value]) -> None:
    """Store the words of `count` matrices; their rows lie at <32 x i32> offsets in shared memory."""

    def body(helper: HelperFrame) -> list[Value]:
        pointers, whole = _rows(helper, count, helper.arguments[0], writes=True)
        for pointer, value in zip(pointers, helper.arguments[1:], strict=True):
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
    """How many matrices, and whether `.trans`; refuses every other modifier and the shapes of sm_100."""
    modifiers = instruction.modifiers
    for modifier in modifiers:
        if modifier not in ("sync", "aligned", "m8n8", "trans", "b16", *_COUNTS, *_SPACES):
            raise emitter.unsupported(f"modifier .{modifier} is not modelled")
    counts = [_COUNTS[w] for w in modifiers if w in _COUNTS]
    if len(counts) != 1 or "m8n8" not in modifiers or "b16" not in modifiers:
        raise emitter.unsupported("needs .m8n8, .b16 and one of .x1, .x2, .x4")
    return counts[0], "trans" in modifiers


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


def _rows(helper: HelperFrame, count: int, offsets: Value, *, writes: bool) -> tuple[list[Value], Value]:
    """Check and record; then for each matrix the pointers to the word that belongs to each lane, and the lanes that take part."""
    need_whole_warp(helper)
    builder, whole = helper.builder, helper.active
    helper.narrow((1 << 8 * count) - 1)
    check_window(helper, offsets, _ROW_BYTES, helper.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS)
    emit_event_byte(helper, remembered_degree(helper, offsets, _ROW_BYTES))
    starts = builder.add(builder.zext(offsets, vector(I64)), splat(builder, helper.slot(Slot.SHARED_PTR)))
    within = ir.Constant(vector(I64), [4 * (lane % 4) for lane in range(WARP)])
    note_access(helper, "shared", starts, offsets, 4, _ROW_BYTES // 4, reads=not writes, writes=writes)
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
