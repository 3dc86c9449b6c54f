"""Video instructions: arithmetic on one chosen byte, half-word or word (`vadd` ...), or on two or four at once (`vadd2`, `vadd4`).

Selectors (`%r1.h0`, `%r2.b7654`) and signs (`-%r1`) come from the parser as modifiers `position.selector` and `position.neg`, where
position 0 is the destination. Computed in 64 bits, where nothing overflows; `vmad` keeps two more. Each variant is a function of
the module, because its code is long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpsight.base.errors import UnsupportedError
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I32, I64, Builder, Value, call_same, splat_constant, vector
from warpsight.emulator.ptx.common import integer_range, operands, outlined
from warpsight.isa.ptx.program import Instruction

_SIGNS = ("u32", "s32")
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SECOND = ("add", "min", "max")


@dataclass(frozen=True)
class _Scope:
    """The body of a variant's function: its builder and its arguments, which are the instruction's sources."""

    emitter: Emitter
    instruction: Instruction
    builder: Builder
    sources: list[Value]

    def unsupported(self, why: str) -> UnsupportedError:
        """The error for the instruction."""
        return self.emitter.unsupported(why)

    def expect(self, count: int) -> None:
        """Refuse another number of sources."""
        operands(self.emitter, self.instruction, 1 + count)


Body = Callable[[_Scope], Value]


def _handler(body: Body) -> Callable[[Emitter, Instruction], None]:
    """Emit an instruction as a call of the function that `body` gives its variant."""

    def emit(emitter: Emitter, instruction: Instruction) -> None:
        d, *sources = operands(emitter, instruction, 3, 4)
        values = [emitter.read(x, "b32") for x in sources]
        kind, title = vector(I32), f"video.{instruction.text}.{len(values)}"

        def inside(builder: Builder, arguments: list[Value]) -> Value:
            return body(_Scope(emitter, instruction, builder, arguments))

        emitter.write(d, outlined(emitter.builder, title, kind, values, inside), "b32")

    return emit


@dataclass(frozen=True)
class _Form:
    """A video instruction's modifiers: signedness of destination and sources, other words, selectors and signs by operand."""

    signed: tuple[bool, ...]
    words: tuple[str, ...]
    selectors: dict[int, str]
    negated: frozenset[int]

    @classmethod
    def of(cls, scope: _Scope, types: int, known: tuple[str, ...]) -> _Form:
        """Read them. The first `types` modifiers are types; what follows must be in `known`, each once."""
        instruction = scope.instruction
        plain = [m for m in instruction.modifiers if not m[0].isdigit()]
        names, words = plain[:types], tuple(plain[types:])
        if len(names) != types or not set(names) <= set(_SIGNS) or not set(words) <= set(known) or len(set(words)) != len(words):
            raise scope.unsupported("its types or modifiers are not recognized")
        pairs = [m.split(".") for m in instruction.modifiers if m[0].isdigit()]
        selectors = {int(position): name for position, name in pairs if name != "neg"}
        negated = frozenset(int(position) for position, name in pairs if name == "neg")
        if negated and instruction.opcode != "vmad":
            raise scope.unsupported("PTX negates operands of vmad only")
        return cls(tuple(n == "s32" for n in names), words, selectors, negated)

    def second(self, scope: _Scope) -> str:
        """The secondary operation, "" when there is none."""
        operations = [w for w in self.words if w in _SECOND]
        if len(operations) > 1 or (operations and 0 in self.selectors):
            raise scope.unsupported("it names more than one secondary operation")
        return "".join(operations)


def _extended(builder: Builder, value: Value, start: int, bits: int, signed: bool, element: Any = I64) -> Value:
    """A field of i32 lanes as lanes of `element`."""
    wide = value if element == I32 else builder.zext(value, vector(element))
    up = builder.shl(wide, splat_constant(element, element.width - bits - start))
    return (builder.ashr if signed else builder.lshr)(up, splat_constant(element, element.width - bits))


def _field(scope: _Scope, selector: str) -> tuple[int, int]:
    """First bit and width of `b0` .. `b3`, `h0`, `h1`, or of a word."""
    if not selector:
        return 0, 32
    width = {"b": 8, "h": 16}.get(selector[0], 0)
    if len(selector) != 2 or not width or int(selector[1]) * width >= 32:
        raise scope.unsupported(f"selector .{selector} is not recognized")
    return int(selector[1]) * width, width


def _sources(scope: _Scope, form: _Form) -> list[Value]:
    """The chosen parts of a and b as i64."""
    fields = [_field(scope, form.selectors.get(position, "")) for position in (1, 2)]
    signed = form.signed[-2:]
    return [_extended(scope.builder, scope.sources[k], start, bits, signed[k]) for k, (start, bits) in enumerate(fields)]


def _limited(builder: Builder, value: Value, bits: int, signed: bool) -> Value:
    """i64 (or wider) lanes clamped to what `bits` can hold."""
    element = value.type.element
    low, high = integer_range(f"{'s' if signed else 'u'}{bits}")
    limited = call_same(builder, "smin", value, splat_constant(element, high))
    return call_same(builder, "smax", limited, splat_constant(element, low & ((1 << element.width) - 1)))


def _combine(builder: Builder, opcode: str, a: Value, b: Value) -> Value:
    """The operation itself, on lanes that are wide enough for it."""
    if opcode == "vadd":
        return builder.add(a, b)
    if opcode == "vsub":
        return builder.sub(a, b)
    if opcode == "vavrg":  # rounds half away from zero
        total = builder.add(a, b)
        not_negative = builder.icmp_signed(">=", total, splat_constant(total.type.element, 0))
        return builder.ashr(builder.add(total, builder.zext(not_negative, total.type)), splat_constant(total.type.element, 1))
    if opcode == "vabsdiff":
        return call_same(builder, "abs", builder.sub(a, b), flag=False)
    return call_same(builder, "smin" if opcode == "vmin" else "smax", a, b)


def _finish(scope: _Scope, form: _Form, value: Value, signed: bool) -> Value:
    """Saturation, then the secondary operation with c or merging into c. `value` is i64 lanes."""
    builder = scope.builder
    second, chosen = form.second(scope), form.selectors.get(0, "")
    scope.expect(3 if second or chosen else 2)
    start, bits = _field(scope, chosen)
    if "sat" in form.words:
        value = _limited(builder, value, bits, signed)
    result = builder.trunc(value, vector(I32))
    if second == "add":
        return builder.add(result, scope.sources[2])
    if second:
        return call_same(builder, ("s" if signed else "u") + second, result, scope.sources[2])
    if not chosen:
        return result
    mask = ((1 << bits) - 1) << start
    moved = builder.and_(builder.shl(result, splat_constant(I32, start)), splat_constant(I32, mask))
    return builder.or_(moved, builder.and_(scope.sources[2], splat_constant(I32, ~mask & 0xFFFFFFFF)))


@_handler
def scalar(scope: _Scope) -> Value:
    """`vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`."""
    form = _Form.of(scope, 3, ("sat", *_SECOND))
    value = _combine(scope.builder, scope.instruction.opcode, *_sources(scope, form))
    return _finish(scope, form, value, form.signed[0])


@_handler
def shift(scope: _Scope) -> Value:
    """`vshl`, `vshr`: by an unsigned amount, at most 32 (`.clamp`) or modulo 32 (`.wrap`)."""
    form = _Form.of(scope, 3, ("sat", "clamp", "wrap", *_SECOND))
    if form.signed[2] or ("clamp" in form.words) == ("wrap" in form.words):
        raise scope.unsupported("it needs an unsigned amount and .clamp or .wrap")
    builder = scope.builder
    a, b = _sources(scope, form)
    wrapped, clamped = builder.and_(b, splat_constant(I64, 31)), call_same(builder, "umin", b, splat_constant(I64, 32))
    b = wrapped if "wrap" in form.words else clamped
    if scope.instruction.opcode == "vshr":
        shifted = builder.ashr(a, b)
    else:  # a word moved up by 32 needs 65 bits, but what is far past 32 bits saturates all the same
        shifted = builder.shl(a, call_same(builder, "umin", b, splat_constant(I64, 31)))
        shifted = _limited(builder, shifted, 48, True) if "sat" in form.words else shifted
        shifted = builder.shl(shifted, builder.lshr(b, splat_constant(I64, 5)))
    return _finish(scope, form, shifted, form.signed[0])


@_handler
def compare(scope: _Scope) -> Value:
    """`vset`: 1 where the comparison holds."""
    form = _Form.of(scope, 2, (*_COMPARISONS, *_SECOND))
    return _finish(scope, form, _compared(scope, form, *_sources(scope, form)), False)


def _compared(scope: _Scope, form: _Form, a: Value, b: Value) -> Value:
    names = [w for w in form.words if w in _COMPARISONS]
    if len(names) != 1:
        raise scope.unsupported("it names no comparison, or several")
    return scope.builder.zext(scope.builder.icmp_signed(_COMPARISONS[names[0]], a, b), a.type)


@dataclass(frozen=True)
class _Long:
    """A number of 66 bits in two i64 lanes: products of words, whose sums a single one cannot hold."""

    low: Value
    high: Value

    @classmethod
    def of(cls, builder: Builder, value: Value, signed: bool) -> _Long:
        return cls(value, builder.ashr(value, splat_constant(I64, 63)) if signed else splat_constant(I64, 0))

    def plus(self, builder: Builder, other: _Long) -> _Long:
        low = builder.add(self.low, other.low)
        carry = builder.zext(builder.icmp_unsigned("<", low, other.low), low.type)
        return _Long(low, builder.add(builder.add(self.high, other.high), carry))

    def minus(self, builder: Builder, other: _Long) -> _Long:
        borrow = builder.zext(builder.icmp_unsigned("<", self.low, other.low), self.low.type)
        return _Long(builder.sub(self.low, other.low), builder.sub(builder.sub(self.high, other.high), borrow))

    def shifted(self, builder: Builder, count: int) -> Value:
        """The low 64 bits of this, moved down."""
        if not count:
            return self.low
        upper = builder.shl(self.high, splat_constant(I64, 64 - count))
        return builder.or_(builder.lshr(self.low, splat_constant(I64, count)), upper)


@_handler
def multiply_add(scope: _Scope) -> Value:
    """`vmad`: a * b + c, the product or c negated, plus one with `.po`, shifted down, saturated to the type of the result.

    The result is signed if a or b is or if something is negated; c is extended alike. Bits past 32 are lost.
    """
    form = _Form.of(scope, 3, ("sat", "po", "shr7", "shr15"))
    scope.expect(3)
    minus, minus_c = (1 in form.negated) != (2 in form.negated), 3 in form.negated
    if ("po" in form.words and form.negated) or (minus and minus_c) or not form.selectors.keys() <= {1, 2}:
        raise scope.unsupported("only the product or c can be negated, not with .po, and only a and b have selectors")
    signed = form.signed[1] or form.signed[2] or minus or minus_c
    builder = scope.builder
    a, b = _sources(scope, form)
    c = _Long.of(builder, (builder.sext if signed else builder.zext)(scope.sources[2], vector(I64)), True)
    product = _Long.of(builder, builder.mul(a, b), form.signed[1] or form.signed[2])
    total = c.minus(builder, product) if minus else product.minus(builder, c) if minus_c else product.plus(builder, c)
    if "po" in form.words:
        total = total.plus(builder, _Long.of(builder, splat_constant(I64, 1), False))
    result = total.shifted(builder, 7 if "shr7" in form.words else 15 if "shr15" in form.words else 0)
    if "sat" in form.words and not signed:  # as an unsigned number of 64 bits
        result = call_same(builder, "umin", result, splat_constant(I64, 0xFFFFFFFF))
    elif "sat" in form.words:
        result = _limited(builder, result, 32, True)
    return builder.trunc(result, vector(I32))


@_handler
def simd(scope: _Scope) -> Value:
    """`vadd2` .. `vset4`: elements of a and b chosen from both, then merged with c, or added to it."""
    opcode, ways, builder = scope.instruction.opcode[:-1], int(scope.instruction.opcode[-1]), scope.builder
    compares = opcode == "vset"
    form = _Form.of(scope, 2 if compares else 3, (*_COMPARISONS, "add") if compares else ("sat", "add"))
    if "sat" in form.words and "add" in form.words:
        raise scope.unsupported("PTX has .sat or .add, not both")
    scope.expect(3)
    bits, signs, rest = 32 // ways, form.signed[-2:], scope.sources[2]
    places = [_chosen(scope, form, k, ways) for k in (1, 2)]
    mask = _chosen(scope, form, 0, ways)
    result = rest if "add" in form.words else splat_constant(I32, 0)
    for way in range(ways):
        if way not in mask:
            kept = builder.and_(rest, splat_constant(I32, ((1 << bits) - 1) << way * bits))
            result = result if "add" in form.words else builder.or_(result, kept)
            continue
        pairs = [(scope.sources[chosen[way] // ways], chosen[way] % ways * bits) for chosen in places]
        x, y = (_extended(builder, word, start, bits, sign, I32) for (word, start), sign in zip(pairs, signs, strict=True))
        value = _compared(scope, form, x, y) if compares else _combine(builder, opcode, x, y)
        if "sat" in form.words:
            value = _limited(builder, value, bits, form.signed[0])
        if "add" in form.words:
            result = builder.add(result, value)
        else:
            value = builder.and_(value, splat_constant(I32, (1 << bits) - 1))
            result = builder.or_(result, builder.shl(value, splat_constant(I32, way * bits)))
    return result


def _chosen(scope: _Scope, form: _Form, position: int, ways: int) -> list[int]:
    """Elements that a selector names, lowest first: of a and b, 0 up to twice `ways`; of the destination those that change."""
    name = form.selectors.get(position, "")
    if not name:
        return [k + (ways if position == 2 else 0) for k in range(ways)]
    elements = [int(digit) for digit in reversed(name[1:])]
    good = name[0] == ("h" if ways == 2 else "b") and all(k < (ways if position == 0 else 2 * ways) for k in elements)
    if not good or (position and len(elements) != ways):
        raise scope.unsupported(f"selector .{name} is not recognized")
    return elements
