"""Floating-point arithmetic: f64; f32, f16 and bf16, alone and in pairs. The approximations are in `approximations`.

Which NaN an operation gives the PTX ISA leaves open. Sums and products give the host's: a quieted operand, or for an invalid
operation the host's default. The canonical one comes of `min`, `max` and conversions, and of f32 also of quotients, roots,
approximations and everything with `.ftz`.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    F32,
    F64,
    HIGH_HALVES,
    I16,
    I32,
    I64,
    INTERLEAVED,
    LOW_HALVES,
    Builder,
    Value,
    call_same,
    scalar_type,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.approximations import approximate, coarse, quotient, reciprocal_root
from warpsight.emulator.ptx.common import (
    allow,
    call_math,
    canonical,
    extreme,
    finish_float,
    flush_if,
    operands,
    outlined,
    roundings,
    saturate,
    the_type,
)
from warpsight.emulator.ptx.rounding import DIRECTED, FORMATS, compute, lanes_like, narrow, relu, same, to_odd, widen
from warpsight.isa.ptx.program import Instruction, Operand


def _check(emitter: Emitter, instruction: Instruction, kind: str, *more: str) -> None:
    """Refuse other modifiers than `more` and, of f32, `.ftz`."""
    if kind not in ("f32", "f64"):
        raise emitter.unsupported(f"PTX has no {instruction.opcode} for .{kind}")
    allow(emitter, instruction, *more, *(("ftz",) if kind == "f32" else ()))


def _check_sum(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    _check(emitter, instruction, kind, *roundings(emitter), *(("sat",) if kind == "f32" else ()))


def _read(emitter: Emitter, instruction: Instruction, operand: object, kind: str) -> Value:
    return flush_if(emitter, instruction, kind, emitter.read(operand, kind))  # type: ignore[arg-type]


def finish_sum(emitter: Emitter, instruction: Instruction, kind: str, value: Value) -> Value:
    """A sum or product with `.ftz` and `.sat` applied.

    NaNs are canonical with `.ftz`, as the slow paths of quotients have them, and with a directed rounding.
    """
    value = finish_float(emitter, instruction, kind, value)
    return canonical(emitter, value) if kind == "f32" and {"ftz", *DIRECTED} & set(instruction.modifiers) else value


def add_sub_mul(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`add`, `sub`, `mul`: never contracted, so that the rounding is PTX's."""
    _check_sum(emitter, instruction, kind)
    d, a, b = operands(emitter, instruction, 3)
    x, y = _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind)
    result = compute(emitter, instruction, f"f{instruction.opcode}", x, y)
    emitter.write(d, finish_sum(emitter, instruction, kind, result), kind)


def multiply_add(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`fma`, and `mad` of floats, which is a fused multiply-add from sm_20 on."""
    _check_sum(emitter, instruction, kind)
    d, *sources = operands(emitter, instruction, 4)
    values = [_read(emitter, instruction, s, kind) for s in sources]
    emitter.write(d, finish_sum(emitter, instruction, kind, compute(emitter, instruction, "fma", *values)), kind)


def is_pair(instruction: Instruction) -> bool:
    """Whether an instruction is of two singles in each 64-bit register."""
    return "f32x2" in instruction.modifiers


def pair_arithmetic(emitter: Emitter, instruction: Instruction) -> None:
    """`add`, `sub`, `mul`, `fma` of f32x2: of the lower singles of 64-bit registers, and of the upper ones."""
    builder, opcode = emitter.builder, instruction.opcode
    allow(emitter, instruction, "ftz", *roundings(emitter))
    if opcode == "fma" and not set(instruction.modifiers) & set(roundings(emitter)):
        raise emitter.unsupported("PTX wants a rounding here: write fma.rn.f32x2")
    d, *sources = operands(emitter, instruction, 4 if opcode == "fma" else 3)
    words = [builder.bitcast(emitter.read(source, "b64"), vector(F32, 2 * WARP)) for source in sources]
    name, results = "fma" if opcode == "fma" else f"f{opcode}", []
    for half in (LOW_HALVES, HIGH_HALVES):
        values = [flush_if(emitter, instruction, "f32", builder.shuffle_vector(word, word, half)) for word in words]
        results.append(finish_sum(emitter, instruction, "f32", compute(emitter, instruction, name, *values)))
    emitter.write(d, builder.bitcast(builder.shuffle_vector(*results, INTERLEAVED), vector(I64)), "b64")


def fma(emitter: Emitter, instruction: Instruction) -> None:
    """`fma` of any float."""
    if is_half(instruction):
        half_arithmetic(emitter, instruction)
    elif is_pair(instruction):
        pair_arithmetic(emitter, instruction)
    else:
        multiply_add(emitter, instruction, the_type(emitter, instruction))


def divide(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`div.rn` and the other roundings, `.approx`, `.full`."""
    modifiers = instruction.modifiers
    _check(emitter, instruction, kind, *roundings(emitter), *(("approx", "full") if kind == "f32" else ()))
    d, a, b = operands(emitter, instruction, 3)
    if {"approx", "full"} & set(modifiers):
        x, y = emitter.read(a, kind), emitter.read(b, kind)
        emitter.write(d, quotient(emitter, x, y, "full" in modifiers, "ftz" in modifiers), kind)
        return
    x, y = _read(emitter, instruction, a, kind), _read(emitter, instruction, b, kind)
    emitter.write(d, _quotient(emitter, instruction, kind, x, y), kind)


def _quotient(emitter: Emitter, instruction: Instruction, kind: str, x: Value, y: Value) -> Value:
    """A quotient with `.ftz` applied; NaNs of f32 are canonical, as those of the assembler's slow paths.

    `.ftz` flushes what is below the least normal number when it is rounded to 24 bits. The rounding to a multiple of the least
    denormal has fewer, and can end in the least normal number where that one does not.
    """
    builder = emitter.builder
    value = flush_if(emitter, instruction, kind, compute(emitter, instruction, "fdiv", x, y))
    if kind != "f32":
        return value
    if "ftz" in instruction.modifiers and "rz" not in instruction.modifiers:
        directed = bool({"rm", "rp"} & set(instruction.modifiers))
        limit = 2.0**-126 * (1 - 2.0 ** (-24 if directed else -25))  # times the divisor: exact in double
        dividend, divisor = (builder.fpext(call_same(builder, "fabs", v), vector(F64)) for v in (x, y))
        least = builder.fmul(divisor, splat_constant(F64, limit))
        tiny = builder.fcmp_ordered("<=" if directed else "<", dividend, least)
        tiny = builder.and_(tiny, builder.fcmp_ordered("ord", value, value))  # not 0 / 0
        value = builder.select(tiny, call_same(builder, "copysign", splat_constant(F32, 0.0), value), value)
    return canonical(emitter, value)


def refuse(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """An opcode that PTX does not define for floats."""
    raise emitter.unsupported(f"PTX has no {instruction.opcode} for .{kind}")


def sign(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`neg`, `abs`: only the sign bit changes, also of a NaN."""
    _check(emitter, instruction, kind)
    d, a = operands(emitter, instruction, 2)
    value = _read(emitter, instruction, a, kind)
    result = emitter.builder.fneg(value) if instruction.opcode == "neg" else call_same(emitter.builder, "fabs", value)
    emitter.write(d, result, kind)


def min_max(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`min`, `max` of two numbers, of f32 also of three: see `extreme`."""
    allow(emitter, instruction, *(("ftz", "NaN", "xorsign", "abs") if kind == "f32" else ()))
    d, *sources = operands(emitter, instruction, 3, 4 if kind == "f32" else 3)
    if len(sources) == 3 and "xorsign" in instruction.modifiers:
        raise emitter.unsupported("PTX has .xorsign of two sources only")
    value, *others = (_read(emitter, instruction, source, kind) for source in sources)
    for other in others:
        value = extreme(emitter, instruction, value, other)
    emitter.write(d, finish_float(emitter, instruction, kind, value), kind)


def special_function(emitter: Emitter, instruction: Instruction) -> None:
    """`rcp`, `sqrt`, `rsqrt`, `sin`, `cos`, `lg2`, `ex2`, `tanh`."""
    if is_half(instruction):
        half_arithmetic(emitter, instruction)
        return
    kind = the_type(emitter, instruction)
    opcode, modifiers = instruction.opcode, instruction.modifiers
    d, a = operands(emitter, instruction, 2)
    if kind == "f64" and {"approx", "ftz"} <= set(modifiers) and opcode in ("rcp", "rsqrt"):
        emitter.write(d, _coarse(emitter, instruction, emitter.read(a, kind)), kind)
        return
    rounded = roundings(emitter)
    _check(emitter, instruction, kind, *rounded, *(("approx",) if kind == "f32" or opcode == "rsqrt" else ()))
    if not set(modifiers) & {"approx", *rounded}:
        raise emitter.unsupported("it needs .approx or a rounding")
    if opcode == "tanh" and "ftz" in modifiers:
        raise emitter.unsupported("PTX has no .ftz for tanh")
    if kind == "f64" and not rounded and opcode != "rsqrt":
        raise emitter.unsupported("PTX has it for .f32 only")
    if "approx" in modifiers:
        x = emitter.read(a, kind)
        value = reciprocal_root(emitter, x) if kind == "f64" else approximate(emitter, opcode, x, "ftz" in modifiers)
        emitter.write(d, value, kind)
        return
    x = _read(emitter, instruction, a, kind)
    if opcode == "rcp":
        value = _quotient(emitter, instruction, kind, splat_constant(scalar_type(kind), 1.0), x)
    else:
        value = _plain_nan(emitter, flush_if(emitter, instruction, kind, compute(emitter, instruction, "sqrt", x)))
    emitter.write(d, value, kind)


def _plain_nan(emitter: Emitter, root: Value) -> Value:
    """Roots whose NaNs, of f32, are canonical: told by their bits, as LLVM takes any NaN for the root of a negative number."""
    if root.type.element != F32:
        return root
    builder, nan = emitter.builder, splat_constant(I32, 0x7FFFFFFF)
    bits = builder.bitcast(root, vector(I32))
    is_nan = builder.icmp_unsigned(">", builder.and_(bits, nan), splat_constant(I32, 0x7F800000))
    return builder.bitcast(builder.select(is_nan, nan, bits), vector(F32))


def _coarse(emitter: Emitter, instruction: Instruction, value: Value) -> Value:
    """`rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: from the upper and to the upper 32 bits of a double, without denormals."""
    allow(emitter, instruction, "approx", "ftz")
    builder = emitter.builder
    high = builder.trunc(builder.lshr(builder.bitcast(value, vector(I64)), splat_constant(I64, 32)), vector(I32))
    # A NaN whose payload lies in the lower half alone is one too.
    nan = builder.fcmp_unordered("uno", value, value)
    high = builder.select(nan, splat_constant(I32, 0x7FF80000), high)
    result = coarse(emitter, {"rcp": "RCP64H", "rsqrt": "RSQ64H"}[instruction.opcode], high)
    bits = builder.shl(builder.zext(result, vector(I64)), splat_constant(I64, 32))
    return builder.bitcast(bits, vector(F64))


def copysign(emitter: Emitter, instruction: Instruction) -> None:
    """`copysign d, a, b`: the sign of a on the magnitude of b."""
    kind = the_type(emitter, instruction)
    _check(emitter, instruction, kind)
    d, a, b = operands(emitter, instruction, 3)
    emitter.write(d, call_same(emitter.builder, "copysign", emitter.read(b, kind), emitter.read(a, kind)), kind)


def testp(emitter: Emitter, instruction: Instruction) -> None:
    """`testp.{finite,infinite,number,notanumber,normal,subnormal}`."""
    kind = the_type(emitter, instruction)
    tests = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    _check(emitter, instruction, kind, *tests)
    d, a = operands(emitter, instruction, 2)
    builder = emitter.builder
    width, fraction = (I32, 23) if kind == "f32" else (I64, 52)
    bits = builder.bitcast(emitter.read(a, kind), vector(width))
    sign = width.width - 1
    magnitude = builder.and_(bits, splat_constant(width, (1 << sign) - 1))
    infinity = splat_constant(width, ((1 << (sign - fraction)) - 1) << fraction)
    normal_least, zero = splat_constant(width, 1 << fraction), ir.Constant(vector(width), None)
    compare = builder.icmp_unsigned
    test = next((t for t in tests if t in instruction.modifiers), "")
    if not test:
        raise emitter.unsupported("testp names no test")
    value = {
        "finite": lambda: compare("<", magnitude, infinity),
        "infinite": lambda: compare("==", magnitude, infinity),
        "number": lambda: compare("<=", magnitude, infinity),
        "notanumber": lambda: compare(">", magnitude, infinity),
        "normal": lambda: builder.or_(  # zeros are normal numbers
            compare("==", magnitude, zero),
            builder.and_(compare(">=", magnitude, normal_least), compare("<", magnitude, infinity)),
        ),
        "subnormal": lambda: builder.and_(compare("<", magnitude, normal_least), compare("!=", magnitude, zero)),
    }[test]()
    emitter.write(d, value, "pred")


# -- Arithmetic in 16 bits: f16, bf16, and pairs of them in a 32-bit register (f16x2, bf16x2).
#
# Computed in wider types that make one rounding exact: single for sums and for products of f16, double for products of bf16 (whose
# range is that of single) and for fused multiply-add. A pair is a vector of 64 lanes, the low half of a register first. Results
# that are NaN are 0x7FFF.

HALF_TYPES = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16"}
_SOURCES = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "neg": 1, "abs": 1, "min": 2, "max": 2, "ex2": 1, "tanh": 1}
_MODIFIERS = {
    "add": ("rn", "ftz", "sat"), "sub": ("rn", "ftz", "sat"), "mul": ("rn", "ftz", "sat"),
    "fma": ("rn", "ftz", "sat", "relu"), "neg": ("ftz",), "abs": ("ftz",),
    "min": ("ftz", "NaN", "xorsign", "abs"), "max": ("ftz", "NaN", "xorsign", "abs"),
    "ex2": ("approx", "ftz"), "tanh": ("approx",),
}  # fmt: skip
_PAIRS = vector(I16, 2 * WARP)


def type_of(instruction: Instruction) -> str:
    """The 16-bit type or pair of them that an instruction names last, "" when it names none."""
    return next((m for m in reversed(instruction.modifiers) if m in HALF_TYPES), "")


def is_half(instruction: Instruction) -> bool:
    """Whether an instruction is for `half_arithmetic`: its opcode exists for 16-bit floats and it names such a type."""
    return instruction.opcode in _SOURCES and bool(type_of(instruction))


def read_patterns(emitter: Emitter, operand: Operand, kind: str) -> Value:
    """An operand's patterns: 32 lanes of i16, or 64 for a pair."""
    if kind.endswith("x2"):
        return emitter.builder.bitcast(emitter.read(operand, "b32"), _PAIRS)
    return emitter.read(operand, "b16")


def write_patterns(emitter: Emitter, destination: Operand, value: Value) -> None:
    """Write 32 or 64 lanes of i16."""
    single = value.type.count == WARP
    emitter.write(destination, value if single else emitter.builder.bitcast(value, vector(I32)), "b16" if single else "b32")


def flush_patterns(emitter: Emitter, instruction: Instruction, value: Value, name: str) -> Value:
    """With `.ftz`, denormals become zero of the same sign."""
    if "ftz" not in instruction.modifiers:
        return value
    builder, form = emitter.builder, FORMATS[name]
    exponent = builder.and_(value, same(value, ((1 << form.exponent) - 1) << form.fraction))
    tiny = builder.icmp_unsigned("==", exponent, same(value, 0))
    return builder.select(tiny, builder.and_(value, same(value, 0x8000)), value)


def half_arithmetic(emitter: Emitter, instruction: Instruction) -> None:
    """An arithmetic instruction of a 16-bit type or a pair of them."""
    opcode, kind = instruction.opcode, type_of(instruction)
    name = HALF_TYPES[kind]
    allow(emitter, instruction, *_MODIFIERS[opcode])
    _check_half(emitter, instruction, name)
    d, *sources = operands(emitter, instruction, 1 + _SOURCES[opcode])
    patterns = [flush_patterns(emitter, instruction, read_patterns(emitter, s, kind), name) for s in sources]
    if opcode in ("neg", "abs"):  # of the sign bit alone, also of a NaN
        change = emitter.builder.xor if opcode == "neg" else emitter.builder.and_
        write_patterns(emitter, d, change(patterns[0], same(patterns[0], 0x8000 if opcode == "neg" else 0x7FFF)))
        return
    wide = [widen(emitter.builder, p, name) for p in patterns]
    if opcode in ("min", "max"):
        result = narrow(emitter.builder, extreme(emitter, instruction, *wide), name)
    else:
        result = rounded_half(emitter, instruction, wide, name)
    write_patterns(emitter, d, flush_patterns(emitter, instruction, result, name))


def _check_half(emitter: Emitter, instruction: Instruction, name: str) -> None:
    """What PTX does not define: `.ftz` and `.sat` of bf16, but for `ex2`, which has nothing else."""
    modifiers = set(instruction.modifiers)
    if name == "bf16" and instruction.opcode != "ex2" and modifiers & {"ftz", "sat"}:
        raise emitter.unsupported("PTX has no .ftz and no .sat for bf16")
    if instruction.opcode == "ex2" and (name == "bf16") != ("ftz" in modifiers):
        raise emitter.unsupported("PTX has ex2 for bf16 with .ftz, and for f16 without")


def rounded_half(emitter: Emitter, instruction: Instruction, wide: list[Value], name: str) -> Value:
    """An operation in a wider type and its rounding."""
    builder, opcode = emitter.builder, instruction.opcode
    if opcode in ("add", "sub"):
        value = getattr(builder, f"f{opcode}")(*wide)
    elif opcode == "mul":
        value = builder.fmul(*wide) if name == "f16" else to_odd(builder, builder.fmul(*_doubles(builder, wide)))
    elif opcode == "fma":
        title = f"fused_{name}_{wide[0].type.count}"
        value = outlined(builder, title, wide[0].type, wide, lambda b, v: to_odd(b, _sum_of_product(b, v, name)))
    else:
        value = call_math(builder, {"ex2": "exp2"}.get(opcode, opcode), wide[0])
    value = relu(builder, value) if "relu" in instruction.modifiers else value
    value = saturate(emitter, value) if "sat" in instruction.modifiers else value
    return narrow(builder, value, name)


def _doubles(builder: Builder, values: list[Value]) -> list[Value]:
    return [builder.fpext(v, lanes_like(v, F64)) for v in values]


def _sum_of_product(builder: Builder, wide: list[Value], name: str) -> Value:
    """The product is exact in double, and so is the sum wherever f16 could round it differently; for bf16 it is rounded to odd."""
    a, b, c = _doubles(builder, wide)
    product = builder.fmul(a, b)
    total = builder.fadd(product, c)
    if name == "f16":
        return total
    # The exact error of a sum (Knuth) says whether the rounded sum is the exact one, and on which side of it that lies.
    rest = builder.fsub(total, product)
    error = builder.fadd(builder.fsub(product, builder.fsub(total, rest)), builder.fsub(c, rest))
    bits = builder.bitcast(total, lanes_like(total, I64))
    error_bits = builder.bitcast(error, bits.type)
    outward = builder.icmp_signed(">=", builder.xor(bits, error_bits), same(bits, 0))
    odd = builder.or_(builder.select(outward, bits, builder.sub(bits, same(bits, 1))), same(bits, 1))
    is_odd = builder.icmp_signed("!=", builder.and_(bits, same(bits, 1)), same(bits, 0))
    exact = builder.or_(is_odd, builder.not_(builder.fcmp_ordered("!=", error, same(error, 0.0))))
    return builder.bitcast(builder.select(exact, bits, odd), total.type)
