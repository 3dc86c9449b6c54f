"""What each opcode computes, on bit patterns. Every rule is written from the PTX ISA's description of the instruction."""

from __future__ import annotations

from collections.abc import Callable

import scalar_interpreter_floats as floats
from scalar_interpreter_text import WIDTHS

Rule = Callable[[tuple[str, ...], list[int]], int]
ROUNDING = ("rn", "rz", "rm", "rp")


def signed(x: int, bits: int) -> int:
    """The two's complement value of a pattern."""
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def value(x: int, kind: str) -> int:
    """The integer that a pattern of type `kind` stands for."""
    return signed(x, WIDTHS[kind]) if kind[0] == "s" else x


def bounds(kind: str) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = WIDTHS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def types(opcode: str, modifiers: tuple[str, ...], operands: int) -> tuple[str, list[str]]:
    """The type of the result and those of the sources (`operands` in all, results not counted)."""
    kind = modifiers[-1] if modifiers else "b32"
    if opcode in ("mul", "mad") and modifiers[0] == "wide":
        double = f"{kind[0]}{2 * WIDTHS[kind]}"
        return double, [kind, kind, double][:operands]
    special = {
        "shl": (kind, [kind, "u32"]),
        "shr": (kind, [kind, "u32"]),
        "bfe": (kind, [kind, "u32", "u32"]),
        "bfi": (kind, [kind, kind, "u32", "u32"]),
        "shf": ("b32", ["b32", "b32", "u32"]),
        "popc": ("u32", [kind]),
        "clz": ("u32", [kind]),
        "selp": (kind, [kind, kind, "pred"]),
        "setp": ("pred", [kind, kind, "pred"][:operands]),
        "lop3": ("b32", ["b32", "b32", "b32", "u32"]),
        "prmt": ("b32", ["b32", "b32", "u32"]),
    }
    if opcode == "cvt":
        return modifiers[-2], [kind]
    return special.get(opcode, (kind, [kind] * operands))


def evaluate(opcode: str, modifiers: tuple[str, ...], sources: list[int]) -> int:
    """The result's bits. Raises KeyError for an opcode that is not here."""
    kind = modifiers[-1]
    if opcode == "cvt":
        return _convert(modifiers, sources[0])
    if kind in floats.FORMATS and opcode in _FLOAT:
        return _on_floats(opcode, modifiers, sources)
    result = _INTEGER[opcode](modifiers, sources)
    return result & ((1 << WIDTHS[types(opcode, modifiers, len(sources))[0]]) - 1)


def _on_floats(opcode: str, modifiers: tuple[str, ...], sources: list[int]) -> int:
    f = floats.FORMATS[modifiers[-1]]
    mode = next((m for m in modifiers if m in ROUNDING), "rn")
    flush = "ftz" in modifiers
    if flush:
        sources = [_flushed(f, x) for x in sources]
    result = _FLOAT[opcode](f, sources, mode)
    if flush:
        result = _flushed(f, result)
    return _saturated(f, result) if "sat" in modifiers else result


def _flushed(f: floats.Format, x: int) -> int:
    return x & f.sign if x & ~f.sign < 1 << f.fraction else x


def _saturated(f: floats.Format, x: int) -> int:
    one = f.rounded(floats.Fraction(1))
    if f.is_nan(x) or f.is_negative(x):
        return 0
    return min(x, one)


_FLOAT: dict[str, Callable[[floats.Format, list[int], str], int]] = {
    "add": lambda f, s, mode: floats.add(f, *s, mode),
    "sub": lambda f, s, mode: floats.add(f, s[0], s[1] ^ f.sign, mode),
    "mul": lambda f, s, mode: floats.multiply(f, *s, mode),
    "fma": lambda f, s, mode: floats.fma(f, *s, mode),
    "mad": lambda f, s, mode: floats.fma(f, *s, mode),
    "div": lambda f, s, mode: floats.divide(f, *s, mode),
    "rcp": lambda f, s, mode: floats.divide(f, f.rounded(floats.Fraction(1)), s[0], mode),
    "sqrt": lambda f, s, mode: floats.square_root(f, s[0]),
    "min": lambda f, s, mode: floats.least(f, *s),
    "max": lambda f, s, mode: floats.greatest(f, *s),
    "neg": lambda f, s, mode: s[0] ^ f.sign,
    "abs": lambda f, s, mode: s[0] & ~f.sign,
}


def _values(m: tuple[str, ...], s: list[int]) -> list[int]:
    return [value(x, m[-1]) for x in s]


def _clamped(m: tuple[str, ...], exact: int) -> int:
    low, high = bounds(m[-1])
    return min(max(exact, low), high) if "sat" in m else exact


def _multiply(m: tuple[str, ...], s: list[int]) -> int:
    a, b = _values(m, s)
    return a * b >> WIDTHS[m[-1]] if m[0] == "hi" else a * b


def _multiply_add(m: tuple[str, ...], s: list[int]) -> int:
    return _multiply(m, s[:2]) + s[2]


def _truncated_division(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _divide(m: tuple[str, ...], s: list[int]) -> int:
    return _truncated_division(*_values(m, s))


def _remainder(m: tuple[str, ...], s: list[int]) -> int:
    a, b = _values(m, s)
    return a - b * _truncated_division(a, b)


def _bits(x: int, bits: int) -> list[int]:
    return [x >> i & 1 for i in range(bits)]


def _number(bits: list[int]) -> int:
    return sum(bit << i for i, bit in enumerate(bits))


def _extract(m: tuple[str, ...], s: list[int]) -> int:
    width = WIDTHS[m[-1]]
    a, start, length = _bits(s[0], width), s[1] & 0xFF, s[2] & 0xFF
    fill = a[min(start + length - 1, width - 1)] if m[-1][0] == "s" and length else 0
    return _number([a[start + i] if i < length and start + i < width else fill for i in range(width)])


def _insert(m: tuple[str, ...], s: list[int]) -> int:
    width = WIDTHS[m[-1]]
    a, out, start, length = _bits(s[0], width), _bits(s[1], width), s[2] & 0xFF, s[3] & 0xFF
    for i in range(length):
        if start + i < width:
            out[start + i] = a[i]
    return _number(out)


def _permute(m: tuple[str, ...], s: list[int]) -> int:
    a_b = [s[0] >> 8 * i & 0xFF for i in range(4)] + [s[1] >> 8 * i & 0xFF for i in range(4)]
    out = 0
    for i in range(4):
        selector = s[2] >> 4 * i & 0xF
        byte = a_b[selector & 7]
        out |= ((0xFF if byte & 0x80 else 0) if selector & 8 else byte) << 8 * i
    return out


def _look_up(m: tuple[str, ...], s: list[int]) -> int:
    a, b, c = (_bits(x, 32) for x in s[:3])
    return _number([s[3] >> (4 * x + 2 * y + z) & 1 for x, y, z in zip(a, b, c, strict=True)])


def _funnel(m: tuple[str, ...], s: list[int]) -> int:
    both, n = s[1] << 32 | s[0], min(s[2], 32) if m[1] == "clamp" else s[2] & 31
    return both << n >> 32 if m[0] == "l" else both >> n


def _shift_right(m: tuple[str, ...], s: list[int]) -> int:
    return value(s[0], m[-1]) >> min(s[1], WIDTHS[m[-1]])


def _compare(m: tuple[str, ...], s: list[int]) -> int:
    name, kind = m[0], m[-1]
    if kind in floats.FORMATS:
        f = floats.FORMATS[kind]
        a, b = (_flushed(f, x) if "ftz" in m else x for x in s[:2])
        found = floats.compare(f, name, a, b)
    else:
        a, b = _values(m, s[:2])
        name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
        found = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]
    return int(found)


def combine(m: tuple[str, ...], found: int, other: int) -> int:
    """The boolean that setp applies to its comparison and its third source."""
    return {"and": found & other, "or": found | other, "xor": found ^ other}[m[1]]


_INTEGER: dict[str, Rule] = {
    "mov": lambda m, s: s[0],
    "cvta": lambda m, s: s[0],
    "add": lambda m, s: _clamped(m, sum(_values(m, s))),
    "sub": lambda m, s: _clamped(m, value(s[0], m[-1]) - value(s[1], m[-1])),
    "mul": _multiply,
    "mad": _multiply_add,
    "sad": lambda m, s: s[2] + abs(value(s[0], m[-1]) - value(s[1], m[-1])),
    "div": _divide,
    "rem": _remainder,
    "min": lambda m, s: min(_values(m, s)),
    "max": lambda m, s: max(_values(m, s)),
    "neg": lambda m, s: -s[0],
    "abs": lambda m, s: abs(value(s[0], m[-1])),
    "and": lambda m, s: s[0] & s[1],
    "or": lambda m, s: s[0] | s[1],
    "xor": lambda m, s: s[0] ^ s[1],
    "not": lambda m, s: ~s[0],
    "shl": lambda m, s: s[0] << min(s[1], 64),
    "shr": _shift_right,
    "bfe": _extract,
    "bfi": _insert,
    "popc": lambda m, s: sum(_bits(s[0], 64)),
    "clz": lambda m, s: WIDTHS[m[-1]] - s[0].bit_length(),
    "brev": lambda m, s: _number(_bits(s[0], WIDTHS[m[-1]])[::-1]),
    "prmt": _permute,
    "lop3": _look_up,
    "shf": _funnel,
    "selp": lambda m, s: s[0] if s[2] else s[1],
    "setp": _compare,
}


def _convert(m: tuple[str, ...], x: int) -> int:
    target, source = m[-2], m[-1]
    mode = next((word for word in m if word[:2] in ROUNDING), "rn")
    to, of = floats.FORMATS.get(target), floats.FORMATS.get(source)
    if of and "ftz" in m:
        x = _flushed(of, x)
    mask = (1 << WIDTHS[target]) - 1
    if of and to:
        whole = mode.endswith("i")
        result = floats.to_integral(of, x, mode) if whole and of is to else floats.convert(of, to, x, mode)
        return _saturated(to, result) if "sat" in m else result
    if of:
        # PTX ISA 9.0, cvt: NaN becomes zero only from a narrower float to a narrower integer.
        of_nan = 0 if source != "f64" and WIDTHS[target] < 64 else 1 << (WIDTHS[target] - 1)
        return floats.to_integer(of, x, mode, bounds(target), of_nan) & mask
    number = value(x, source)
    if to:
        return to.rounded(floats.Fraction(number), mode=mode)
    if "sat" in m:
        low, high = bounds(target)
        number = min(max(number, low), high)
    return number & mask
