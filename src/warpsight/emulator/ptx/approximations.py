"""The special function unit, and PTX's approximations as the assembler makes them of it.

NVIDIA states the errors of the approximations, not their bits. Here the unit gives correctly rounded reciprocals and roots, the C
library's `exp2`, `log2` and `tanh`, and a polynomial for sine and cosine. An approximation of PTX is the unit's result with the
scaling that the assembler puts around it where the unit would take or give a denormal, so that PTX and the machine code that is
made of it give the same bits.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import F32, F64, I32, I64, Builder, Value, call_same, splat_constant, vector
from warpsight.emulator.ptx.common import call_math, canonical, flush, outlined

_LEAST_NORMAL, _LARGEST_DIVISOR = 2.0**-126, 2.0**126
# sin(2 pi t) / t in powers of t * t: the least squares fit at 4000 Chebyshev nodes of t * t in [0, 1/16], rounded to single. With
# single arithmetic the error is below 2**-22.6.
_SINE = (6.2831854820251465, -41.34168243408203, 81.60247802734375, -76.58128356933594, 39.76072311401367)
_QUARTER_TURN, _HALF_TURN = 0.25, 0.5
TURNS_PER_RADIAN = 0.15915493667125701904  # 1 / (2 pi) in single


# -- The unit.


def unit(emitter: Emitter, name: str, value: Value) -> Value:
    """`MUFU.name` of singles: `RCP`, `RSQ`, `SQRT`, `EX2`, `LG2`, `SIN`, `COS`, `TANH`.

    Sine and cosine are of turns. All but `TANH` take and give zero in place of denormals. NaNs are canonical.
    """
    if name == "TANH":
        return canonical(emitter, call_math(emitter.builder, "tanh", value))
    return canonical(emitter, flush(emitter, _unit(emitter.builder, name, flush(emitter, value))))


def _unit(builder: Builder, name: str, value: Value) -> Value:
    one = splat_constant(F32, 1.0)
    if name == "RCP":
        return builder.fdiv(one, value)
    if name == "RSQ":
        return builder.fdiv(one, call_same(builder, "sqrt", value))
    if name == "SQRT":
        return call_same(builder, "sqrt", value)
    if name in ("EX2", "LG2"):
        return call_math(builder, {"EX2": "exp2", "LG2": "log2"}[name], value)
    body = {"SIN": _sine, "COS": _cosine}[name]
    return outlined(builder, f"turns_{name}", value.type, [value], lambda inner, arguments: body(inner, arguments[0]))


def _fraction_of_turn(builder: Builder, value: Value) -> Value:
    """The distance of a magnitude to the nearest whole number of turns, exactly: in [-1/2, 1/2]; a NaN of infinity."""
    magnitude = call_same(builder, "fabs", value)
    return builder.fsub(magnitude, call_same(builder, "rint", magnitude))


def _sine(builder: Builder, value: Value) -> Value:
    """The sine of turns. An angle beyond a quarter turn has the sine of its supplement."""
    angle = _fraction_of_turn(builder, value)
    beyond = builder.fcmp_ordered(">", call_same(builder, "fabs", angle), splat_constant(F32, _QUARTER_TURN))
    half = call_same(builder, "copysign", splat_constant(F32, _HALF_TURN), angle)
    result = _sine_of_quarter(builder, builder.select(beyond, builder.fsub(half, angle), angle))
    sign = builder.and_(builder.bitcast(value, vector(I32)), splat_constant(I32, 1 << 31))
    return builder.bitcast(builder.xor(builder.bitcast(result, vector(I32)), sign), vector(F32))


def _cosine(builder: Builder, value: Value) -> Value:
    """The cosine of turns: the sine of the complement."""
    angle = call_same(builder, "fabs", _fraction_of_turn(builder, value))
    return _sine_of_quarter(builder, builder.fsub(splat_constant(F32, _QUARTER_TURN), angle))


def _sine_of_quarter(builder: Builder, angle: Value) -> Value:
    """The sine of at most a quarter turn to either side."""
    square = builder.fmul(angle, angle)
    series = splat_constant(F32, _SINE[-1])
    for coefficient in reversed(_SINE[:-1]):
        series = call_same(builder, "fma", series, square, splat_constant(F32, coefficient))
    result, one = builder.fmul(series, angle), splat_constant(F32, 1.0)
    beyond = builder.fcmp_ordered(">", call_same(builder, "fabs", result), one)  # by the last rounding
    return builder.select(beyond, call_same(builder, "copysign", one, result), result)


def coarse(emitter: Emitter, name: str, value: Value) -> Value:
    """`MUFU.RCP64H`, `MUFU.RSQ64H`: the upper 32 bits of a double from the upper 32 of another (i32 lanes), without denormals."""
    builder, one = emitter.builder, splat_constant(F64, 1.0)
    x = _upper(builder, builder.shl(builder.zext(value, vector(I64)), splat_constant(I64, 32)))
    result = builder.fdiv(one, x if name == "RCP64H" else call_same(builder, "sqrt", x))
    bits = builder.bitcast(canonical(emitter, _upper(builder, builder.bitcast(result, vector(I64)))), vector(I64))
    return builder.trunc(builder.lshr(bits, splat_constant(I64, 32)), vector(I32))


def _upper(builder: Builder, bits: Value) -> Value:
    """The upper 32 bits of doubles and zeros below, denormals as zeros of their sign; a NaN stays one."""
    exponent = builder.and_(bits, splat_constant(I64, 0x7FF << 52))
    kept = builder.and_(bits, splat_constant(I64, 0xFFFFFFFF << 32))
    sign = builder.and_(bits, splat_constant(I64, 1 << 63))
    tiny = builder.icmp_signed("==", exponent, splat_constant(I64, 0))
    cut = builder.bitcast(builder.select(tiny, sign, kept), vector(F64))
    value = builder.bitcast(bits, vector(F64))
    return builder.select(builder.fcmp_unordered("uno", value, value), value, cut)


# -- Approximations of PTX.


def approximate(emitter: Emitter, opcode: str, x: Value, flushes: bool) -> Value:
    """`opcode.approx.f32` (`flushes`: with `.ftz`) of singles."""
    builder = emitter.builder
    if opcode in ("sin", "cos"):
        turns = _toward_zero(builder, x)
        return unit(emitter, opcode.upper(), turns)
    name = {"rcp": "RCP", "sqrt": "SQRT", "rsqrt": "RSQ", "lg2": "LG2", "ex2": "EX2", "tanh": "TANH"}[opcode]
    if flushes or opcode == "tanh":
        return unit(emitter, name, x)
    if opcode == "ex2":  # the square of the root, where the power may be a denormal
        low = builder.fcmp_ordered("<", x, splat_constant(F32, -126.0))
        power = unit(emitter, name, builder.select(low, builder.fmul(x, splat_constant(F32, 0.5)), x))
        return builder.select(low, builder.fmul(power, power), power)
    tiny = _is_tiny(builder, x)
    if opcode == "rcp":
        scale = builder.select(tiny, splat_constant(F32, 2.0**24), splat_constant(F32, 1.0))
        scale = builder.select(_is_huge(builder, x), splat_constant(F32, 0.25), scale)
        return builder.fmul(unit(emitter, name, builder.fmul(x, scale)), scale)
    value = unit(emitter, name, _where(builder, tiny, x, 2.0**24))
    if opcode == "lg2":
        return builder.select(tiny, builder.fadd(value, splat_constant(F32, -24.0)), value)
    return _where(builder, tiny, value, {"sqrt": 2.0**-12, "rsqrt": 2.0**12}[opcode])


def quotient(emitter: Emitter, x: Value, y: Value, full: bool, flushes: bool) -> Value:
    """`div.approx.f32`, with `full` `div.full.f32`: a product with the reciprocal.

    Without `full` that is 0 of a divisor above 2^126: the result is then 0, of infinity a NaN.
    """
    builder = emitter.builder
    x, y = (flush(emitter, v) if flushes else v for v in (x, y))
    huge, tiny = _is_huge(builder, y), _is_tiny(builder, y)
    if full:
        x, y = (_where(builder, huge, v, 0.25) for v in (x, y))
    if not flushes:
        x, y = (_where(builder, tiny, v, 2.0**24) for v in (x, y))
    elif full:
        x, y = (flush(emitter, v) for v in (x, y))
    value = builder.fmul(unit(emitter, "RCP", y), x)
    return canonical(emitter, flush(emitter, value)) if flushes else value


def _where(builder: Builder, condition: Value, value: Value, factor: float) -> Value:
    """The product with a factor where a condition holds."""
    return builder.select(condition, builder.fmul(value, splat_constant(F32, factor)), value)


def _is_tiny(builder: Builder, value: Value) -> Value:
    return builder.fcmp_ordered("<", call_same(builder, "fabs", value), splat_constant(F32, _LEAST_NORMAL))


def _is_huge(builder: Builder, value: Value) -> Value:
    return builder.fcmp_ordered(">", call_same(builder, "fabs", value), splat_constant(F32, _LARGEST_DIVISOR))


def _toward_zero(builder: Builder, radians: Value) -> Value:
    """Radians in turns, rounded toward zero. The product of two singles is exact in double."""
    product = builder.fmul(builder.fpext(radians, vector(F64)), splat_constant(F64, TURNS_PER_RADIAN))
    near = builder.fptrunc(product, vector(F32))
    back = builder.fpext(near, vector(F64))
    beyond = builder.fcmp_ordered(">", call_same(builder, "fabs", back), call_same(builder, "fabs", product))
    bits = builder.bitcast(near, vector(I32))
    return builder.bitcast(builder.select(beyond, builder.sub(bits, splat_constant(I32, 1)), bits), vector(F32))


def reciprocal_root(emitter: Emitter, x: Value) -> Value:
    """`rsqrt.approx.f64`: a step of third order from the unit's coarse value, denormals scaled."""
    builder = emitter.builder
    exact = builder.fdiv(splat_constant(F64, 1.0), call_same(builder, "sqrt", x))  # of zero, infinity, negative numbers and NaNs
    tiny = builder.fcmp_ordered("<", call_same(builder, "fabs", x), splat_constant(F64, 2.0**-1022))
    scaled = builder.select(tiny, builder.fmul(x, splat_constant(F64, 2.0**54)), x)
    high = builder.trunc(builder.lshr(builder.bitcast(scaled, vector(I64)), splat_constant(I64, 32)), vector(I32))
    bits = builder.shl(builder.zext(coarse(emitter, "RSQ64H", high), vector(I64)), splat_constant(I64, 32))
    y = builder.bitcast(bits, vector(F64))
    error = call_same(builder, "fma", scaled, builder.fneg(builder.fmul(y, y)), splat_constant(F64, 1.0))
    factor = call_same(builder, "fma", error, splat_constant(F64, 0.375), splat_constant(F64, 0.5))
    root = call_same(builder, "fma", factor, builder.fmul(y, error), y)
    root = builder.select(tiny, builder.fmul(root, splat_constant(F64, 2.0**27)), root)
    positive = builder.fcmp_ordered(">", x, ir.Constant(x.type, None))
    finite = builder.fcmp_ordered("<", x, splat_constant(F64, float("inf")))
    return builder.select(builder.and_(positive, finite), root, exact)
