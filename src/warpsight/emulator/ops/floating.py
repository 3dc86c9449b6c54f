"""Floating-point arithmetic in f32 and f64, and the approximations, which are computed exactly rounded.

Which NaN an operation gives the PTX ISA leaves open; here it is the host's: a quieted operand, or for an invalid operation the
host's default. `min`, `max` and conversions give the canonical one.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import F32, F64, I32, I64, Value, call_same, scalar_type, splat_constant, vector
from warpsight.emulator.ops.common import allow, canonical, extreme, finish_float, flush_if, integer_view, operands, the_type
from warpsight.emulator.ops.library import call_library
from warpsight.emulator.ops.rounding import DIRECTED, compute
from warpsight.isa.program import Instruction


def _check(emitter: Emitter, instruction: Instruction, kind: str, *more: str) -> None:
    """Refuse other modifiers than `more` and, of f32, `.ftz`."""
    if kind not in ("f32", "f64"):
        raise emitter.unsupported(f"PTX has no {instruction.opcode} of .{kind}")
    allow(emitter, instruction, *more, *(("ftz",) if kind == "f32" else ()))


def _with_sat(kind: str) -> tuple[str, ...]:
    return ("rn", *DIRECTED, *(("sat",) if kind == "f32" else ()))


def _read(emitter: Emitter, instruction: Instruction, operand: object, kind: str) -> Value:
    return flush_if(emitter, instruction, kind, emitter.read(operand, kind))  # type: ignore[arg-type]


def add_sub_mul(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`add`, `sub`, `mul`: never contracted, so that the rounding is PTX's."""
    _check(emitter, instruction, kind, *_with_sat(kind))
    d, a, b = operands(emitter, instruction, 3)
    x, y = _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind)
    result = compute(emitter, instruction, f"f{instruction.opcode}", x, y)
    emitter.write(d, finish_float(emitter, instruction, kind, result), kind)


def fma(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`fma`, and `mad` of floats, which is a fused multiply-add from sm_20 on."""
    _check(emitter, instruction, kind, *_with_sat(kind))
    d, *sources = operands(emitter, instruction, 4)
    values = [_read(emitter, instruction, s, kind) for s in sources]
    emitter.write(d, finish_float(emitter, instruction, kind, compute(emitter, instruction, "fma", *values)), kind)


def _fma(emitter: Emitter, instruction: Instruction) -> None:
    fma(emitter, instruction, the_type(emitter, instruction))


def divide(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`div.rn`, `.approx`, `.full`: always correctly rounded, within the error that the approximations allow.

    `.approx` multiplies by a reciprocal, which is 0 where the divisor is above 2^126: the result is then 0, of infinity a NaN.
    """
    _check(emitter, instruction, kind, "rn", *DIRECTED, *(("approx", "full") if kind == "f32" else ()))
    d, a, b = operands(emitter, instruction, 3)
    builder = emitter.builder
    x, y = _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind)
    value = compute(emitter, instruction, "fdiv", x, y)
    if "approx" in instruction.modifiers:
        zero = call_same(builder, "copysign", splat_constant(F32, 0.0), y)
        huge = builder.fcmp_ordered(">", call_same(builder, "fabs", y), splat_constant(F32, 2.0**126))
        value = builder.select(huge, builder.fmul(x, zero), value)
    emitter.write(d, finish_float(emitter, instruction, kind, value), kind)


def refuse(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """An opcode that PTX does not define for floats."""
    raise emitter.unsupported(f"PTX has no {instruction.opcode} of .{kind}")


def sign(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`neg`, `abs`: only the sign bit changes, also of a NaN."""
    _check(emitter, instruction, kind)
    d, a = operands(emitter, instruction, 2)
    value = _read(emitter, instruction, a, kind)
    emitter.write(
        d, emitter.builder.fneg(value) if instruction.opcode == "neg" else call_same(emitter.builder, "fabs", value), kind
    )


def min_max(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`min`, `max`: see `extreme`."""
    allow(emitter, instruction, *(("ftz", "NaN", "xorsign", "abs") if kind == "f32" else ()))
    d, a, b = operands(emitter, instruction, 3)
    value = extreme(emitter, instruction, _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind))
    emitter.write(d, finish_float(emitter, instruction, kind, value), kind)


def _unary(emitter: Emitter, instruction: Instruction) -> None:
    """rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh."""
    kind = the_type(emitter, instruction)
    opcode, words = instruction.opcode, instruction.modifiers
    d, a = operands(emitter, instruction, 2)
    if kind == "f64" and {"approx", "ftz"} <= set(words) and opcode in ("rcp", "rsqrt"):
        emitter.write(d, _coarse(emitter, instruction, emitter.read(a, kind)), kind)
        return
    roundings = ("rn", *DIRECTED) if opcode in ("rcp", "sqrt") else ()
    _check(emitter, instruction, kind, *roundings, *(("approx",) if kind == "f32" or opcode == "rsqrt" else ()))
    if not set(words) & {"approx", *roundings}:
        raise emitter.unsupported("it needs .approx or a rounding")
    if opcode == "tanh" and "ftz" in words:
        raise emitter.unsupported("PTX has no .ftz of tanh")
    if kind == "f64" and not roundings and opcode != "rsqrt":
        raise emitter.unsupported("PTX has it of .f32 only")
    builder, x = emitter.builder, _read(emitter, instruction, a, kind)
    one = splat_constant(scalar_type(kind), 1.0)
    if opcode == "rcp":
        value = compute(emitter, instruction, "fdiv", one, x)
    elif opcode == "sqrt":
        value = compute(emitter, instruction, "sqrt", x)
    elif opcode == "rsqrt":
        value = builder.fdiv(one, call_same(builder, "sqrt", x))
    else:
        value = call_library(builder, {"lg2": "log2", "ex2": "exp2"}.get(opcode, opcode), x)
    emitter.write(d, finish_float(emitter, instruction, kind, value), kind)


def _coarse(emitter: Emitter, instruction: Instruction, value: Value) -> Value:
    """`rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: from the upper and to the upper 32 bits of a double, without denormals."""
    allow(emitter, instruction, "approx", "ftz")
    builder = emitter.builder
    one = splat_constant(F64, 1.0)
    x = _upper(emitter, value)
    result = builder.fdiv(one, x if instruction.opcode == "rcp" else call_same(builder, "sqrt", x))
    return canonical(emitter, _upper(emitter, result))


def _upper(emitter: Emitter, value: Value) -> Value:
    """The upper 32 bits of doubles and zeros below, denormals as zeros of their sign; a NaN stays one."""
    builder = emitter.builder
    bits = builder.bitcast(value, vector(I64))
    exponent = builder.and_(bits, splat_constant(I64, 0x7FF << 52))
    kept = builder.and_(bits, splat_constant(I64, 0xFFFFFFFF << 32))
    sign = builder.and_(bits, splat_constant(I64, 1 << 63))
    tiny = builder.icmp_signed("==", exponent, splat_constant(I64, 0))
    cut = builder.bitcast(builder.select(tiny, sign, kept), vector(F64))
    return builder.select(builder.fcmp_unordered("uno", value, value), value, cut)


def _copysign(emitter: Emitter, instruction: Instruction) -> None:
    """`copysign d, a, b`: the sign of a on the magnitude of b."""
    kind = the_type(emitter, instruction)
    _check(emitter, instruction, kind)
    d, a, b = operands(emitter, instruction, 3)
    emitter.write(d, call_same(emitter.builder, "copysign", emitter.read(b, kind), emitter.read(a, kind)), kind)


def _testp(emitter: Emitter, instruction: Instruction) -> None:
    """`testp.{finite,infinite,number,notanumber,normal,subnormal}`."""
    kind = the_type(emitter, instruction)
    tests = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    _check(emitter, instruction, kind, *tests)
    d, a = operands(emitter, instruction, 2)
    builder = emitter.builder
    bits = integer_view(emitter, emitter.read(a, kind))
    width, fraction = (I32, 23) if scalar_type(kind) == F32 else (I64, 52)
    total = width.width
    magnitude = builder.and_(bits, splat_constant(width, (1 << (total - 1)) - 1))
    infinity = splat_constant(width, ((1 << (total - 1 - fraction)) - 1) << fraction)
    normal_least = splat_constant(width, 1 << fraction)
    below = builder.icmp_unsigned
    test = next((t for t in tests if t in instruction.modifiers), "")
    if not test:
        raise emitter.unsupported("testp names no test")
    value = {
        "finite": lambda: below("<", magnitude, infinity),
        "infinite": lambda: below("==", magnitude, infinity),
        "number": lambda: below("<=", magnitude, infinity),
        "notanumber": lambda: below(">", magnitude, infinity),
        "normal": lambda: builder.and_(below(">=", magnitude, normal_least), below("<", magnitude, infinity)),
        "subnormal": lambda: builder.and_(
            below("<", magnitude, normal_least), below("!=", magnitude, ir.Constant(vector(width), None))
        ),
    }[test]()
    emitter.write(d, value, "pred")


HANDLERS = {
    "fma": _fma,
    **dict.fromkeys(("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"), _unary),
    "copysign": _copysign,
    "testp": _testp,
}
