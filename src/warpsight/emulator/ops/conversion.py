"""`cvt` between integers and floats, with rounding and saturation."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import (
    F64,
    Value,
    bits_of,
    call_same,
    intrinsic,
    is_float,
    is_signed,
    scalar_type,
    splat_constant,
    vector,
    vector_suffix,
)
from warpsight.emulator.ops.common import allow, finish_float, flush_if, operands, types_of
from warpsight.emulator.ops.rounding import DIRECTED, convert
from warpsight.isa.program import Instruction

_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _cvt(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, "rn", "rni", "rzi", "rmi", "rpi", "sat", "ftz", *DIRECTED)
    kinds = types_of(emitter, instruction)
    if len(kinds) != 2:
        raise emitter.unsupported("a conversion names two types")
    to, source = kinds
    d, a = operands(emitter, instruction, 2)
    value = emitter.read(a, source)
    if is_float(source):
        value = flush_if(emitter, instruction, source, value)
        result = (
            _float_to_float(emitter, instruction, value, to) if is_float(to) else _float_to_integer(emitter, instruction, value, to)
        )
    elif is_float(to):
        name = "sitofp" if is_signed(source) else "uitofp"
        converted = convert(emitter, instruction, name, value, vector(scalar_type(to)))
        result = finish_float(emitter, instruction, to, converted)
    else:
        result = _integer_to_integer(emitter, instruction, value, to, source)
    emitter.write(d, result, to)


def _rounded(emitter: Emitter, instruction: Instruction, value: Value) -> Value:
    """To an integral value, if the modifiers ask for it."""
    name = next((_TO_INTEGRAL[m] for m in instruction.modifiers if m in _TO_INTEGRAL), "")
    return call_same(emitter.builder, name, value) if name else value


def _float_to_float(emitter: Emitter, instruction: Instruction, value: Value, to: str) -> Value:
    element, have, want = scalar_type(to), value.type.element, bits_of(to)
    value = _rounded(emitter, instruction, value)
    if have != element:
        if want > {"half": 16, "float": 32, "double": 64}[str(have)]:
            value = emitter.builder.fpext(value, vector(element))
        else:
            value = convert(emitter, instruction, "fptrunc", value, vector(element))
    return finish_float(emitter, instruction, to, value)


def _float_to_integer(emitter: Emitter, instruction: Instruction, value: Value, to: str) -> Value:
    """Out of range clamps. A NaN gives 0, or the top bit alone where source or destination has 64 bits (PTX ISA, cvt)."""
    builder = emitter.builder
    if not any(m in _TO_INTEGRAL for m in instruction.modifiers):
        raise emitter.unsupported("a conversion to integer needs .rni, .rzi, .rmi or .rpi")
    value = _rounded(emitter, instruction, value)
    kind = vector(scalar_type(to))
    name = "fptosi" if is_signed(to) else "fptoui"
    full = f"llvm.{name}.sat.{vector_suffix(kind)}.{vector_suffix(value.type)}"
    result = builder.call(intrinsic(builder.module, full, kind, [value.type]), [value])
    if bits_of(to) == 64 or value.type.element == F64:
        nan = builder.fcmp_unordered("uno", value, value)
        result = builder.select(nan, splat_constant(scalar_type(to), 1 << (bits_of(to) - 1)), result)
    return result


def _integer_to_integer(emitter: Emitter, instruction: Instruction, value: Value, to: str, source: str) -> Value:
    builder = emitter.builder
    have, want = bits_of(source), bits_of(to)
    if "sat" in instruction.modifiers:
        value = _clamped(emitter, value, to, source)
    if want == have:
        return value
    if want < have:
        return builder.trunc(value, vector(ir.IntType(want)))
    return (builder.sext if is_signed(source) else builder.zext)(value, vector(ir.IntType(want)))


def _clamped(emitter: Emitter, value: Value, to: str, source: str) -> Value:
    """Limit a source integer to what the destination can hold, where it can exceed it."""
    builder, element = emitter.builder, scalar_type(source)
    have, want = bits_of(source), bits_of(to)
    low = -(1 << (want - 1)) if is_signed(to) else 0
    high = (1 << (want - 1)) - 1 if is_signed(to) else (1 << want) - 1
    source_high = (1 << (have - 1)) - 1 if is_signed(source) else (1 << have) - 1
    if high < source_high:
        value = call_same(builder, "smin" if is_signed(source) else "umin", value, splat_constant(element, high))
    if is_signed(source) and low > -(1 << (have - 1)):
        value = call_same(builder, "smax", value, splat_constant(element, low & ((1 << have) - 1)))
    return value


HANDLERS = {"cvt": _cvt}
