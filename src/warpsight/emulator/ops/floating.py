"""Floating-point arithmetic in f32 and f64, and the approximations, which are computed exactly rounded."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import F32, I32, I64, Value, call_same, scalar_type, splat_constant, vector
from warpsight.emulator.ops.common import allow, finish_float, flush_if, integer_view, operands, the_type
from warpsight.emulator.ops.rounding import DIRECTED, compute
from warpsight.isa.program import Instruction


def _check(emitter: Emitter, instruction: Instruction, kind: str, *more: str) -> None:
    if kind == "f16":
        raise emitter.unsupported("half-precision arithmetic is not modelled")
    allow(emitter, instruction, "rn", "ftz", "sat", *more)


def _read(emitter: Emitter, instruction: Instruction, operand: object, kind: str) -> Value:
    return flush_if(emitter, instruction, kind, emitter.read(operand, kind))  # type: ignore[arg-type]


def add_sub_mul(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`add`, `sub`, `mul`: never contracted, so that the rounding is PTX's."""
    _check(emitter, instruction, kind, *DIRECTED)
    d, a, b = operands(emitter, instruction, 3)
    x, y = _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind)
    result = compute(emitter, instruction, f"f{instruction.opcode}", x, y)
    emitter.write(d, finish_float(emitter, instruction, kind, result), kind)


def fma(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`fma`, and `mad` of floats, which is a fused multiply-add from sm_20 on."""
    _check(emitter, instruction, kind, *DIRECTED)
    d, *sources = operands(emitter, instruction, 4)
    values = [_read(emitter, instruction, s, kind) for s in sources]
    emitter.write(d, finish_float(emitter, instruction, kind, compute(emitter, instruction, "fma", *values)), kind)


def _fma(emitter: Emitter, instruction: Instruction) -> None:
    fma(emitter, instruction, the_type(emitter, instruction))


def divide(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`div.rn`, `.approx`, `.full`: always correctly rounded, within the error that the approximations allow."""
    _check(emitter, instruction, kind, "approx", "full", *DIRECTED)
    d, a, b = operands(emitter, instruction, 3)
    x, y = _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind)
    value = compute(emitter, instruction, "fdiv", x, y)
    emitter.write(d, finish_float(emitter, instruction, kind, value), kind)


def refuse(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """An opcode that PTX does not define for floats."""
    raise emitter.unsupported(f"PTX has no {instruction.opcode} of .{kind}")


def sign(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`neg`, `abs`: only the sign bit changes, also of a NaN."""
    _check(emitter, instruction, kind)
    d, a = operands(emitter, instruction, 2)
    value = _read(emitter, instruction, a, kind)
    result = emitter.builder.fneg(value) if instruction.opcode == "neg" else call_same(emitter.builder, "fabs", value)
    emitter.write(d, finish_float(emitter, instruction, kind, result), kind)


def min_max(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`min`, `max`: the other operand if one is a NaN (with `.NaN`: a NaN), and -0 below +0."""
    _check(emitter, instruction, kind, "NaN")
    d, a, b = operands(emitter, instruction, 3)
    name = instruction.opcode + ("imum" if "NaN" in instruction.modifiers else "imumnum")
    value = call_same(emitter.builder, name, _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind))
    emitter.write(d, finish_float(emitter, instruction, kind, value), kind)


def _unary(emitter: Emitter, instruction: Instruction) -> None:
    """rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh."""
    kind = the_type(emitter, instruction)
    opcode = instruction.opcode
    _check(emitter, instruction, kind, "approx", *(DIRECTED if opcode in ("rcp", "sqrt") else ()))
    d, a = operands(emitter, instruction, 2)
    builder, x = emitter.builder, _read(emitter, instruction, a, kind)
    one = splat_constant(scalar_type(kind), 1.0)
    if opcode == "rcp":
        value = compute(emitter, instruction, "fdiv", one, x)
    elif opcode == "sqrt":
        value = compute(emitter, instruction, "sqrt", x)
    elif opcode == "rsqrt":
        value = builder.fdiv(one, call_same(builder, "sqrt", x))
    else:
        value = call_same(builder, {"lg2": "log2", "ex2": "exp2"}.get(opcode, opcode), x)
    emitter.write(d, finish_float(emitter, instruction, kind, value), kind)


def _copysign(emitter: Emitter, instruction: Instruction) -> None:
    """`copysign d, a, b`: the sign of a on the magnitude of b."""
    kind = the_type(emitter, instruction)
    allow(emitter, instruction)
    d, a, b = operands(emitter, instruction, 3)
    emitter.write(d, call_same(emitter.builder, "copysign", emitter.read(b, kind), emitter.read(a, kind)), kind)


def _testp(emitter: Emitter, instruction: Instruction) -> None:
    """`testp.{finite,infinite,number,notanumber,normal,subnormal}`."""
    kind = the_type(emitter, instruction)
    tests = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    allow(emitter, instruction, *tests)
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
