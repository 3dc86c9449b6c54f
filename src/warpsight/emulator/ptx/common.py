"""What the families share: the types an instruction names, the modifiers it may have, flushing denormals, saturation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    F32,
    F64,
    I32,
    I64,
    Builder,
    Value,
    bits_of,
    call_same,
    internal_function,
    is_float,
    is_signed,
    splat_constant,
    vector,
    vector_suffix,
)
from warpsight.isa.ptx.opcodes import OPCODES
from warpsight.isa.ptx.program import Instruction, Vector

_TYPE = re.compile(r"^(?:pred|[bus](?:8|16|32|64|128)|f16|f16x2|bf16|bf16x2|tf32|f32|f32x2|f64|[us]16x2|e4m3x2|e5m2x2)$")
EMULATED = frozenset(["pred", "f16", "f32", "f64", *(f"{k}{n}" for k in "bus" for n in (8, 16, 32, 64))])


def kinds_of(instruction: Instruction) -> list[str]:
    """The PTX types among the modifiers, in order, whether or not every opcode knows them."""
    return [m for m in instruction.modifiers if _TYPE.match(m)]


def types_of(emitter: Emitter, instruction: Instruction) -> list[str]:
    """The PTX types among the modifiers, in order; refuses types that are not emulated."""
    kinds = kinds_of(instruction)
    for name in kinds:
        if name not in EMULATED:
            raise emitter.unsupported(f"type .{name} is not modelled")
    return kinds


def the_type(emitter: Emitter, instruction: Instruction) -> str:
    """The instruction's single (last) type."""
    kinds = types_of(emitter, instruction)
    if not kinds:
        raise emitter.unsupported("it names no type")
    return kinds[-1]


def allow(emitter: Emitter, instruction: Instruction, *known: str) -> None:
    """Refuse any modifier that is neither a type nor in `known`: nothing is parsed and ignored."""
    for modifier in instruction.modifiers:
        if not _TYPE.match(modifier) and modifier not in known:
            raise emitter.unsupported(f"modifier .{modifier} is not modelled")


def roundings(emitter: Emitter) -> tuple[str, ...]:
    """The rounding modifiers that PTX has for the current instruction's opcode, `rn` first; none for most opcodes."""
    assert emitter.instruction is not None
    return tuple(OPCODES[emitter.instruction.opcode].rounding.split())


def operands(emitter: Emitter, instruction: Instruction, low: int, high: int | None = None) -> tuple[Any, ...]:
    """The operands, checked for their number."""
    count = len(instruction.operands)
    if not low <= count <= (high or low):
        raise emitter.unsupported(f"it has {count} operands; {low if not high else f'{low} to {high}'} expected")
    return instruction.operands


def typed_operands(emitter: Emitter, instruction: Instruction, count: int, *known: str) -> tuple[Any, ...]:
    """The instruction's type, then its `count` operands; refuses modifiers that are neither types nor in `known`."""
    kind = the_type(emitter, instruction)
    allow(emitter, instruction, *known)
    return kind, *operands(emitter, instruction, count)


def extended(builder: Builder, value: Value, element: Any, signed: bool) -> Value:
    """Integer lanes in the wider type `element`, extended by their sign or by zeros."""
    return (builder.sext if signed else builder.zext)(value, vector(element))


def integer_range(kind: str) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    bits = bits_of(kind)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(kind) else (0, (1 << bits) - 1)


def elements_of(operand: Any) -> list[Any]:
    """The registers of a vector operand, or the one register."""
    return list(operand.elements) if isinstance(operand, Vector) else [operand]


def flush(emitter: Emitter, value: Value) -> Value:
    """`.ftz` of f32 lanes: denormals become zero of the same sign."""
    builder = emitter.builder
    bits = builder.bitcast(value, vector(I32))
    exponent = builder.and_(bits, splat_constant(I32, 0x7F800000))
    sign = builder.and_(bits, splat_constant(I32, 0x80000000))
    tiny = builder.icmp_unsigned("==", exponent, splat_constant(I32, 0))
    return builder.bitcast(builder.select(tiny, sign, bits), vector(F32))


def flush_if(emitter: Emitter, instruction: Instruction, ptx_type: str, value: Value) -> Value:
    """`flush` when the instruction says `.ftz` and the type is f32."""
    return flush(emitter, value) if "ftz" in instruction.modifiers and ptx_type == "f32" else value


def saturate(emitter: Emitter, value: Value) -> Value:
    """`.sat` of a float: clamp to [0, 1]; NaN and -0 become +0."""
    builder = emitter.builder
    zero, one = (ir.Constant(value.type, [x] * value.type.count) for x in (0.0, 1.0))
    below = builder.select(builder.fcmp_ordered("<", value, one), value, one)
    return builder.select(builder.fcmp_ordered(">", value, zero), below, zero)


def canonical(emitter: Emitter, value: Value) -> Value:
    """NaNs among lanes of f32 or f64 become 0x7FFFFFFF or 0x7FF8000000000000."""
    builder = emitter.builder
    width, nan = (I32, 0x7FFFFFFF) if value.type.element == F32 else (I64, 0x7FF8 << 48)
    kind = vector(width, value.type.count)
    pattern = builder.bitcast(ir.Constant(kind, [nan] * kind.count), value.type)
    return builder.select(builder.fcmp_unordered("uno", value, value), pattern, value)


def extreme(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    """`min` or `max` of floats: the other operand if one is a NaN (with `.NaN`: a NaN), and -0 below +0.

    `.xorsign.abs` takes magnitudes and gives the result, unless it is a NaN, the product of the signs. `.abs` alone is of three
    sources.
    """
    builder, modifiers = emitter.builder, instruction.modifiers
    if ("xorsign" in modifiers) != ("abs" in modifiers) and len(instruction.operands) != 4:
        raise emitter.unsupported("PTX has .xorsign together with .abs only")
    name = instruction.opcode + ("imum" if "NaN" in modifiers else "imumnum")
    x, y = (call_same(builder, "fabs", v) for v in (a, b)) if "abs" in modifiers else (a, b)
    value = call_same(builder, name, x, y)
    if "xorsign" in modifiers:
        kind = vector({F32: I32, F64: I64}[value.type.element], value.type.count)
        sign = builder.bitcast(builder.xor(builder.bitcast(a, kind), builder.bitcast(b, kind)), value.type)
        value = call_same(builder, "copysign", value, sign)
    return canonical(emitter, value)


def finish_float(emitter: Emitter, instruction: Instruction, ptx_type: str, value: Value) -> Value:
    """Apply `.ftz` and `.sat` to a float result."""
    value = flush_if(emitter, instruction, ptx_type, value)
    return saturate(emitter, value) if "sat" in instruction.modifiers and is_float(ptx_type) else value


# -- Code that is too long to repeat at each instruction: functions of the module, made once and called.

def outlined(builder: Builder, name: str, result: Any, values: Sequence[Value], body: Callable[[Any, list[Value]], Value]) -> Value:
    """Call the function `name` of `values`; `body(builder, arguments)` emits it on first use. The name must say the types too."""
    function, fresh = internal_function(builder.module, name, ir.FunctionType(result, [v.type for v in values]))
    if fresh:
        inner = ir.IRBuilder(function.append_basic_block())
        inner.ret(body(inner, list(function.args)))
    return builder.call(function, list(values))


def call_math(builder: Builder, name: str, value: Value) -> Value:
    """`sin`, `cos`, `log2`, `exp2` or `tanh` of each lane: the C library's, within 1 unit in the last place of the type."""
    title = f"each_{name}_{vector_suffix(value.type)}"
    return outlined(builder, title, value.type, [value], lambda inner, arguments: call_same(inner, name, *arguments))
