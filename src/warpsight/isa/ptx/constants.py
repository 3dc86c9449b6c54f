"""PTX fundamental types and constants (PTX ISA, sections "Types" and "Constants")."""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable

from warpsight.base.errors import FormatError, suggestion
from warpsight.isa.ptx.program import Immediate

_PACKED = {"f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32, "b4x16": 64, "b8x16": 128,
           "e4m3x2": 16, "e5m2x2": 16, "ue8m0x2": 16, "e2m1x2": 8, "e2m3x2": 16, "e3m2x2": 16, "f32x2": 64,
           "e4m3x4": 32, "e5m2x4": 32, "e2m1x4": 16, "e2m3x4": 32, "e3m2x4": 32}
_OPAQUE = {"texref": 64, "samplerref": 64, "surfref": 64}
_BITS = {
    **{f"{kind}{bits}": bits for kind in "usb" for bits in (8, 16, 32, 64)},
    "b1": 1, "b4": 4, "u4": 4, "s4": 4, "b128": 128, "pred": 1,
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8,
    **_PACKED, **_OPAQUE,
}
_LANES = {"v2": 2, "v4": 4, "v8": 8}
TYPE_NAMES = frozenset(_BITS)
# What a register can be: fundamental types. The others are held in registers of bits.
REGISTER_TYPES = frozenset({"pred", "b128", "f16x2", "bf16", "bf16x2"} | {t for t in _BITS if t[1:] in {"8", "16", "32", "64"}})


def type_bits(type: str) -> int:
    """Bits in a value of a PTX type: `f32` is 32, `pred` 1, `b128` 128, `v4.f32` 128; a leading dot is allowed.

    Raises FormatError for a name that is no PTX type.
    """
    name = type.lstrip(".")
    head, _, tail = name.partition(".")
    name = tail if head in _LANES else name
    if name not in _BITS:
        what = f'"{type}" is not a PTX type{suggestion(name, _BITS)}'
        raise FormatError(what, remedy="use a type of the PTX ISA such as .u32, .f64 or .v4.f32")
    return _BITS[name] * _LANES.get(head, 1)


def vector_lanes(modifiers: tuple[str, ...]) -> int:
    """2, 4 or 8 when one of an opcode's modifiers is `v2`, `v4` or `v8`, else 1."""
    return next((_LANES[modifier] for modifier in modifiers if modifier in _LANES), 1)


def is_float(type: str) -> bool:
    """Whether a constant of this type is stored in a floating-point format."""
    return type in {"f16", "bf16", "f32", "f64"}


def pack_float(type: str, value: float) -> bytes:
    """The little-endian bytes of `value` in `f16`, `bf16`, `f32` or `f64`, rounded to nearest even.

    Raises OverflowError where a finite value does not fit.
    """
    if type == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        if math.isnan(value):
            return struct.pack("<H", 0x7FFF)
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF)
    return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[type], value)


# -- PTX constants: integers, floating-point patterns and constant expressions (PTX ISA, section "Constants").

_MASK64 = (1 << 64) - 1
_NUMBER = re.compile(
    r"""(?P<single>0[fF][0-9a-fA-F]{8}) | (?P<double>0[dD][0-9a-fA-F]{16})
    | (?P<hex>0[xX][0-9a-fA-F]+)U? | (?P<binary>0[bB][01]+)U?
    | (?P<decimal>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    | (?P<octal>0[0-7]+)U? | (?P<integer>0|[1-9]\d*)U? | (?P<warp>WARP_SZ)""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    r"\s*(?:(0[xX]\w+|(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?|\w+)"
    r"|(<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!()<>]))"
)
_RADIX = {"hex": 16, "binary": 2, "octal": 8, "integer": 10}
_MAX_DEPTH = 40


def literal(text: str) -> Immediate | None:
    """The constant that `text` is, with an optional sign; None when it is not one (or does not fit 64 bits)."""
    sign, body = 1, text
    if body[:1] in {"-", "+"}:
        sign = -1 if body[0] == "-" else 1
        body = body[1:].lstrip()
    match = _NUMBER.fullmatch(body)
    if match is None:
        return None
    kind, digits = match.lastgroup or "", match.group(match.lastgroup or 0)
    if kind == "single":
        bits = int(digits[2:], 16) ^ (0x80000000 if sign < 0 else 0)
        return Immediate(struct.unpack("<f", bits.to_bytes(4, "little"))[0], bits, True)
    if kind == "double":
        bits = int(digits[2:], 16) ^ (1 << 63 if sign < 0 else 0)
        return Immediate(struct.unpack("<d", bits.to_bytes(8, "little"))[0], bits, True)
    if kind == "decimal":
        return None if math.isinf(float(digits)) else _double(sign * float(digits))
    if kind == "warp":
        return integer_immediate(sign * 32)
    # Longer strings of digits cannot fit 64 bits.
    digits = digits[2:] if kind in {"hex", "binary"} else digits
    return integer_immediate(sign * (int(digits, _RADIX[kind]) if len(digits) < 80 else 1 << 64))


def _double(value: float) -> Immediate:
    return Immediate(value, int.from_bytes(struct.pack("<d", value), "little"), True)


def integer_immediate(value: int) -> Immediate | None:
    """An integer constant; None when it does not fit 64 bits (signed or unsigned)."""
    return Immediate(value, value & _MASK64, False) if -(1 << 63) <= value <= _MASK64 else None


def constant(text: str) -> Immediate | None:
    """The value of a constant or constant expression, `(4+8)*2`, `-0x10`, `~3`; None when `text` is neither."""
    text = text.strip()
    number = literal(text)
    if number is not None or not text or len(text) > 400:
        return number
    try:
        value = _Expression(text).value()
    except _NotConstantError:
        return None
    return _double(value) if isinstance(value, float) else integer_immediate(value)


class _NotConstantError(Exception):
    """The text is not a constant expression."""


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


# C precedence, weakest first; PTX constant expressions follow C; the conditional and casts are not needed by any compiler's output.
_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))}, {"&&": lambda a, b: int(bool(a) and bool(b))}, {"|": operator.or_},
    {"^": operator.xor}, {"&": operator.and_}, {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {"<": lambda a, b: int(a < b), "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b)},
    {"<<": lambda a, b: a << b & _MASK64 if 0 <= b < 64 else 0, ">>": lambda a, b: a >> b if 0 <= b < 64 else 0},
    {"+": operator.add, "-": operator.sub}, {"*": operator.mul, "/": _divide, "%": lambda a, b: a - b * _divide(a, b)},
)


class _Expression:
    """Precedence climbing over integers; a floating-point constant is accepted alone or with a sign."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _NotConstantError
            self._tokens.append(match.group(1) or match.group(2))
            position = match.end()
        self._next = 0
        self._depth = 0

    def value(self) -> int | float:
        result = self._binary(0)
        if self._next != len(self._tokens):
            raise _NotConstantError
        return result

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, expected: str = "") -> str:
        token = self._peek()
        if not token or (expected and token != expected):
            raise _NotConstantError
        self._next += 1
        return token

    def _binary(self, level: int) -> int | float:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in _LEVELS[level]:
            apply = _LEVELS[level][self._take()]
            right = self._binary(level + 1)
            if not (isinstance(left, int) and isinstance(right, int)):
                raise _NotConstantError
            try:
                left = apply(left, right)
            except ZeroDivisionError:
                raise _NotConstantError from None
            if abs(left) > 1 << 70:
                raise _NotConstantError
        return left

    def _unary(self) -> int | float:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _NotConstantError
        try:
            token = self._take()
            if token == "(":
                inner = self._binary(0)
                self._take(")")
                return inner
            if token in {"-", "+", "~", "!"}:
                operand = self._unary()
                if isinstance(operand, float):
                    if token in {"-", "+"}:
                        return -operand if token == "-" else operand
                    raise _NotConstantError
                return {"-": -operand, "+": operand, "~": ~operand, "!": int(not operand)}[token]
            number = literal(token)
            if number is None:
                raise _NotConstantError
            return number.value
        finally:
            self._depth -= 1
