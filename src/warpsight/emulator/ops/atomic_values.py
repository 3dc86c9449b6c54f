"""What an atomic operation makes of the old value and its operands: scalars, as bit patterns (PTX ISA, atom and red).

Float additions round to nearest even. NaN results are the canonical NaN. `add.f32` on device memory flushes denormals of its
operands and its result to zero of the same sign, on shared memory it does not; halves and doubles never flush.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.lanes import F16, F32, F64, I16, I32, Builder, Value, is_signed

HALVES = ("f16", "bf16")
PACKED = {"f16x2": "f16", "bf16x2": "bf16"}
FLOATS = ("f32", "f64", *HALVES, *PACKED)
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}


def new_value(builder: Builder, operation: str, kind: str, old: Value, b: Value, c: Value | None, flush: Value) -> Value:
    """The pattern to be stored. `kind` is the PTX type, `c` the third operand of `cas`, `flush` (i1) says whether f32 flushes."""
    if operation == "exch":
        return b
    if operation == "cas":
        return builder.select(builder.icmp_signed("==", old, b), c, old)
    if kind in PACKED:
        return _packed(builder, operation, kind, old, b, flush)
    if kind in FLOATS:
        return _float(builder, operation, kind, old, b, flush)
    compare = builder.icmp_signed if is_signed(kind) else builder.icmp_unsigned
    if operation in ("min", "max"):
        return builder.select(compare("<" if operation == "min" else ">", old, b), old, b)
    if operation in ("and", "or", "xor", "add"):
        return {"and": builder.and_, "or": builder.or_, "xor": builder.xor, "add": builder.add}[operation](old, b)
    one, zero = old.type(1), old.type(0)
    if operation == "inc":
        return builder.select(builder.icmp_unsigned(">=", old, b), zero, builder.add(old, one))
    wraps = builder.or_(builder.icmp_signed("==", old, zero), builder.icmp_unsigned(">", old, b))
    return builder.select(wraps, b, builder.sub(old, one))


def _packed(builder: Builder, operation: str, kind: str, old: Value, b: Value, flush: Value) -> Value:
    """Two halves, each for itself."""
    parts = []
    for shift in (0, 16):
        x, y = (builder.trunc(builder.lshr(v, I32(shift)), I16) for v in (old, b))
        parts.append(builder.zext(_float(builder, operation, PACKED[kind], x, y, flush), I32))
    return builder.or_(parts[0], builder.shl(parts[1], I32(16)))


def _float(builder: Builder, operation: str, kind: str, old: Value, b: Value, flush: Value) -> Value:
    x, y = _widened(builder, kind, old), _widened(builder, kind, b)
    if operation == "add":
        if kind == "f32":
            x, y = _flushed(builder, x, flush), _flushed(builder, y, flush)
        result = builder.fadd(x, y)
        if kind == "f32":
            result = _flushed(builder, result, flush)
        pattern = _narrowed(builder, kind, result)
    else:  # of halves only: the number wins over a NaN, and -0 is less than +0
        less = builder.fcmp_ordered("<" if operation == "min" else ">", x, y)
        negative = builder.icmp_signed("<" if operation == "min" else ">=", old, old.type(0))
        tie = builder.and_(builder.fcmp_ordered("==", x, y), negative)
        first = builder.or_(builder.or_(less, tie), builder.fcmp_unordered("uno", y, y))
        pattern = builder.select(first, old, b)
        result = builder.select(first, x, y)
    return builder.select(builder.fcmp_unordered("uno", result, result), pattern.type(_NAN[kind]), pattern)


def _widened(builder: Builder, kind: str, pattern: Value) -> Value:
    """A pattern as a float or double; halves as floats. A sum of floats rounds as the exact sum does (24 >= 2*11 + 2)."""
    if kind == "f16":
        return builder.fpext(builder.bitcast(pattern, F16), F32)
    if kind == "bf16":
        return builder.bitcast(builder.shl(builder.zext(pattern, I32), I32(16)), F32)
    return builder.bitcast(pattern, {"f32": F32, "f64": F64}[kind])


def _narrowed(builder: Builder, kind: str, value: Value) -> Value:
    if kind == "f16":
        return builder.bitcast(builder.fptrunc(value, F16), I16)
    if kind == "bf16":
        bits = builder.bitcast(value, I32)
        odd = builder.and_(builder.lshr(bits, I32(16)), I32(1))
        return builder.trunc(builder.lshr(builder.add(bits, builder.add(odd, I32(0x7FFF))), I32(16)), I16)
    return builder.bitcast(value, ir.IntType(32 if kind == "f32" else 64))


def _flushed(builder: Builder, value: Value, flush: Value) -> Value:
    bits = builder.bitcast(value, I32)
    tiny = builder.icmp_signed("==", builder.and_(bits, I32(0x7F800000)), I32(0))
    zeroed = builder.select(builder.and_(tiny, flush), builder.and_(bits, I32(0x80000000)), bits)
    return builder.bitcast(zeroed, F32)

