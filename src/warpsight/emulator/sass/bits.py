"""Moves, logic, shifts, bit fields and predicates of machine code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I1, I32, I64, Value, call_same, splat_constant, vector
from warpsight.emulator.ptx.bits import BYTE_MODES, bit_mask, highest_bit, low_bits, permuted, selector_of
from warpsight.emulator.sass.common import (
    allow,
    integer,
    join,
    native_of,
    predicate,
    raw,
    set_predicate,
    set_wide,
    set_word,
    wide_integer,
)
from warpsight.emulator.sass.integers import immediate, is_zero
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import (
    TRUE_PREDICATES,
    NativeConstant,
    NativeImmediate,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    NativeWord,
    is_predicate,
)

# -- Moves.

_WORD, _PAIR = (integer, set_word), (wide_integer, set_wide)


def mov(emitter: Emitter, instruction: Instruction) -> None:
    """`MOV`, `UMOV`: a register (`.SPILL`: a uniform one), number, constant or half an address; `.64`: two words."""
    native = native_of(instruction)
    allow(emitter, native, "64", "SPILL")
    target, value = native.operands
    read, write = _PAIR if "64" in native.modifiers else _WORD
    write(emitter, target, read(emitter, value))


def nop(emitter: Emitter, instruction: Instruction) -> None:
    """`NOP`: no effect."""


def sel(emitter: Emitter, instruction: Instruction) -> None:
    """`SEL d, a, b, p`: a where p holds, else b; `.64`: of two words."""
    native = native_of(instruction)
    allow(emitter, native, "64")
    target, a, b, condition = native.operands
    read, write = _PAIR if "64" in native.modifiers else _WORD
    write(emitter, target, emitter.builder.select(predicate(emitter, condition), read(emitter, a), read(emitter, b)))


# -- Functions of three bits, by their table: bit 4a + 2b + c of it is the result.

_INPUTS = ((0xF0, 4), (0xCC, 2), (0xAA, 1))  # the table of each input, and how far apart its two halves are
_ONES = 0xFF
Tree = tuple[object, ...]  # ("and" | "or" | "xor", left, right), ("not", tree), ("in", 0 to 2), ("ones",), ("zeros",)


def _halves(table: int, position: int) -> tuple[int, int]:
    """The tables that are left when an input is 0, and when it is 1."""
    ones, distance = _INPUTS[position]
    low, high = table & ~ones & _ONES, table & ones
    return low | low << distance, high | high >> distance


def _leaf(table: int) -> tuple[int, Tree] | None:
    if table in (0, _ONES):
        return 0, ("ones",) if table else ("zeros",)
    for position, (ones, _) in enumerate(_INPUTS):
        if table == ones:
            return 0, ("in", position)
        if table == ones ^ _ONES:
            return 1, ("not", ("in", position))
    return None


@cache
def _expression(table: int) -> tuple[int, Tree]:
    """(number of operations, expression) for a table: the cheapest one that takes the inputs one after the other."""
    if (leaf := _leaf(table)) is not None:
        return leaf
    found: list[tuple[int, Tree]] = []

    def add(operation: str, *operands: tuple[int, Tree]) -> tuple[int, Tree]:
        return 1 + sum(cost for cost, _ in operands), (operation, *(tree for _, tree in operands))

    for position in range(3):
        zero, one = _halves(table, position)
        if zero == one:
            continue
        this: tuple[int, Tree] = (0, ("in", position))
        if zero == one ^ _ONES:
            found.append(add("xor", this, _expression(zero)))
        elif zero == 0:
            found.append(add("and", this, _expression(one)))
        elif one == 0:
            found.append(add("and", add("not", this), _expression(zero)))
        elif one == _ONES:
            found.append(add("or", this, _expression(zero)))
        elif zero == _ONES:
            found.append(add("or", add("not", this), _expression(one)))
        else:
            found.append(add("xor", _expression(zero), add("and", this, _expression(zero ^ one))))
    return min(found, key=lambda f: f[0])


def _evaluate(emitter: Emitter, tree: Tree, inputs: Sequence[Value]) -> Value:
    builder, operation, element = emitter.builder, tree[0], inputs[0].type.element
    if operation in ("ones", "zeros"):
        return splat_constant(element, (1 << element.width) - 1 if operation == "ones" else 0)
    if operation == "in":
        return inputs[int(str(tree[1]))]
    operands = [_evaluate(emitter, operand, inputs) for operand in tree[1:] if isinstance(operand, tuple)]
    if operation == "not":
        return builder.not_(operands[0])
    return {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[str(operation)](*operands)


def _looked_up(emitter: Emitter, table: int, inputs: Sequence[Value]) -> Value:
    """The function of three inputs that a table describes."""
    return _evaluate(emitter, _expression(table)[1], inputs)


def lop3(emitter: Emitter, instruction: Instruction) -> None:
    """`LOP3.LUT p, d, a, b, c, table, q`: any function of three words; p is whether a bit of it is set, or q (`.PAND`: and q)."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "LUT", "PAND")
    results = native.operands[: native.results]
    a, b, c, number, other = native.operands[native.results :]
    table, sources = immediate(emitter, number) & _ONES, (a, b, c)
    for position, operand in enumerate(sources):
        if is_zero(operand):
            table = _halves(table, position)[0]
    value = _looked_up(emitter, table, [integer(emitter, s) for s in sources])
    if is_predicate(results[0]):
        some = builder.icmp_signed("!=", value, splat_constant(I32, 0))
        combine = builder.and_ if "PAND" in native.modifiers else builder.or_
        set_predicate(emitter, results[0], combine(some, predicate(emitter, other)))
    elif "PAND" in native.modifiers:
        raise emitter.unsupported(".PAND without a predicate result is not modelled")
    set_word(emitter, results[-1], value)


def plop3(emitter: Emitter, instruction: Instruction) -> None:
    """`PLOP3.LUT p, q, a, b, c, table, table`: two functions of three predicates; `R0.SIGN` is the top bit of a register."""
    native = native_of(instruction)
    allow(emitter, native, "LUT")
    p, q, *sources, first, second = native.operands
    if len(sources) != 3:
        raise emitter.unsupported("the number of its operands is not what is modelled")
    inputs = [_condition(emitter, s) for s in sources]
    values = [_looked_up(emitter, _known(immediate(emitter, n) & _ONES, sources), inputs) for n in (first, second)]
    for operand, value in zip((p, q), values, strict=True):
        set_predicate(emitter, operand, value)


def _known(table: int, sources: Sequence[NativeOperand]) -> int:
    """The table when operands that are always true, or never, are put in."""
    for position, operand in enumerate(sources):
        if isinstance(operand, NativeRegister) and operand.name in TRUE_PREDICATES:
            table = _halves(table, position)[0 if operand.inverted else 1]
    return table


def _condition(emitter: Emitter, operand: NativeOperand) -> Value:
    if isinstance(operand, NativeRegister | NativeConstant) and operand.part == "SIGN":
        return emitter.builder.icmp_signed("<", integer(emitter, operand), splat_constant(I32, 0))
    return predicate(emitter, operand)


# -- Shifts. A pair of words {c, a} is shifted; without `.HI` the lower word is the result, with it the upper one.


def shf(emitter: Emitter, instruction: Instruction) -> None:
    """`SHF.{L,R} d, a, s, c`: shift the pair {c, a}. Amounts past the width of the type count as that, modulo it with `.W`."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "L", "R", "W", "HI", "U32", "S32", "U64", "S64")
    kinds = [m for m in native.modifiers if m[0] in "US"]
    left, high = "L" in native.modifiers, "HI" in native.modifiers
    if len(kinds) != 1 or left == ("R" in native.modifiers) or len(native.operands) != 4:
        raise emitter.unsupported("it needs a type and a direction")
    target, a, amount, c = native.operands
    bits, signed = int(kinds[0][1:]), kinds[0][0] == "S" and not left
    if high != left:  # only one of the words counts
        value = integer(emitter, c if high else a)
        set_word(emitter, target, _one_word(emitter, native, value, amount, (bits, left, signed)))
        return
    low, upper = integer(emitter, a), integer(emitter, c)
    if isinstance(amount, NativeImmediate):
        count = amount.value & (bits - 1) if "W" in native.modifiers else min(amount.value & 0xFFFFFFFF, bits)
        if 0 < count < 32:
            name = "fshl" if left else "fshr"
            set_word(emitter, target, call_same(builder, name, upper, low, splat_constant(I32, count)))
            return
    pair = join(emitter, low, upper)
    moved = _moved(emitter, pair, _amount(emitter, native, amount, bits), left, signed)
    if left:
        moved = builder.lshr(moved, splat_constant(I64, 32))
    set_word(emitter, target, builder.trunc(moved, vector(I32)))


def _amount(emitter: Emitter, native: NativeInstruction, operand: NativeOperand, bits: int) -> Value:
    """By how much is shifted: at most `bits`, or modulo `bits`."""
    amount = integer(emitter, operand)
    if "W" in native.modifiers:
        return emitter.builder.and_(amount, splat_constant(I32, bits - 1))
    return call_same(emitter.builder, "umin", amount, splat_constant(I32, bits))


def _one_word(
    emitter: Emitter, native: NativeInstruction, value: Value, operand: NativeOperand, how: tuple[int, bool, bool]
) -> Value:
    """A word that is shifted by an operand; `how` is the width of the type, whether to the left, and whether the sign follows."""
    bits, left, signed = how
    if isinstance(operand, NativeImmediate) and 0 <= operand.value < min(bits, 32):
        builder = emitter.builder
        emit = builder.shl if left else builder.ashr if signed else builder.lshr
        return emit(value, splat_constant(I32, operand.value))
    return _moved(emitter, value, _amount(emitter, native, operand, bits), left, signed)


def _moved(emitter: Emitter, value: Value, amount: Value, left: bool, signed: bool) -> Value:
    """Lanes of 32 or 64 bits shifted by an amount (i32 lanes) that may be their width or more."""
    builder, element = emitter.builder, value.type.element
    within = call_same(builder, "umin", amount, splat_constant(I32, element.width - 1))
    count = within if element == I32 else builder.zext(within, vector(element))
    if signed:
        return builder.ashr(value, count)
    shifted = builder.shl(value, count) if left else builder.lshr(value, count)
    fits = builder.icmp_unsigned("<", amount, splat_constant(I32, element.width))
    return builder.select(fits, shifted, splat_constant(element, 0))


# -- Bytes and bit fields.


def prmt(emitter: Emitter, instruction: Instruction) -> None:
    """`PRMT d, a, s, c`: each nibble of s picks a byte of {c, a}, its top bit takes the byte's sign; a mode picks all four."""
    native, builder = native_of(instruction), emitter.builder
    modes = {mode.upper(): mode for mode in BYTE_MODES}
    allow(emitter, native, *modes)
    target, a, s, c = native.operands
    low, high = integer(emitter, a), integer(emitter, c)
    if isinstance(s, NativeImmediate) and not native.modifiers:
        set_word(emitter, target, _bytes_of(emitter, low, high, s.value & 0xFFFF))
        return
    selector = integer(emitter, s)
    for mode in native.modifiers:
        selector = selector_of(builder, modes[mode], selector)
    set_word(emitter, target, permuted(builder, [low, high, selector]))


def _bytes_of(emitter: Emitter, low: Value, high: Value, selector: int) -> Value:
    """The bytes that a constant selector picks, those that move together at once."""
    builder, words = emitter.builder, (low, high)
    nibbles = [selector >> 4 * k & 15 for k in range(4)]
    if (field := _sign_extension(nibbles)) is not None:
        word, start, count = field
        up = builder.shl(words[word], splat_constant(I32, 32 - 8 * (start + count)))
        return builder.ashr(up, splat_constant(I32, 32 - 8 * count))
    masks: dict[tuple[int, int, bool], int] = {}  # which bytes of the result: by (word, shift to the left or byte, is its sign)
    for k, nibble in enumerate(nibbles):
        byte, replicates = nibble & 3, nibble >= 8
        key = (nibble >> 2 & 1, byte if replicates else 8 * (k - byte), replicates)
        masks[key] = masks.get(key, 0) | 0xFF << 8 * k
    result = splat_constant(I32, 0)
    for (word, how, replicates), mask in masks.items():
        value = words[word]
        if replicates:
            value = builder.ashr(builder.shl(value, splat_constant(I32, 24 - 8 * how)), splat_constant(I32, 31))
        elif how:
            value = (builder.shl if how > 0 else builder.lshr)(value, splat_constant(I32, abs(how)))
        result = builder.or_(result, builder.and_(value, splat_constant(I32, mask)))
    return result


def _sign_extension(nibbles: Sequence[int]) -> tuple[int, int, int] | None:
    """(word, first byte, bytes) if bytes that follow one another are extended by their sign."""
    first = nibbles[0]
    for count in (1, 2, 3):
        last = first + count - 1
        extended = [*range(first, last + 1), *[8 | last] * (4 - count)]
        if first < 8 and last < 8 and first >> 2 == last >> 2 and list(nibbles) == extended:
            return first >> 2, first & 3, count
    return None


def sgxt(emitter: Emitter, instruction: Instruction) -> None:
    """`SGXT d, a, n`: the low n bits of a, extended by their sign or (`.U32`) by zero; `.W`: as many as n modulo 32."""
    native = native_of(instruction)
    allow(emitter, native, "U32", "W")
    target, a, n = native.operands
    wraps, signed = "W" in native.modifiers, "U32" not in native.modifiers
    set_word(emitter, target, low_bits(emitter, integer(emitter, a), integer(emitter, n), signed, wraps))


def bmsk(emitter: Emitter, instruction: Instruction) -> None:
    """`BMSK d, a, n`: n ones from bit a on; `.W`: both modulo 32."""
    native = native_of(instruction)
    allow(emitter, native, "W")
    target, a, n = native.operands
    set_word(emitter, target, bit_mask(emitter, integer(emitter, a), integer(emitter, n), "W" in native.modifiers))


def brev(emitter: Emitter, instruction: Instruction) -> None:
    """`BREV`: the bits in reverse order."""
    native = native_of(instruction)
    allow(emitter, native)
    target, source = native.operands
    set_word(emitter, target, call_same(emitter.builder, "bitreverse", integer(emitter, source)))


def popc(emitter: Emitter, instruction: Instruction) -> None:
    """`POPC`: the number of bits that are set."""
    native = native_of(instruction)
    allow(emitter, native)
    target, source = native.operands
    set_word(emitter, target, call_same(emitter.builder, "ctpop", integer(emitter, source)))


def flo(emitter: Emitter, instruction: Instruction) -> None:
    """`FLO`: the highest bit that is no sign bit (`.U32`: that is set), or all ones; `.SH`: the shift that brings it to the top."""
    native = native_of(instruction)
    allow(emitter, native, "U32", "S32", "SH")
    target, source = native.operands
    signed, shifts = "U32" not in native.modifiers, "SH" in native.modifiers
    set_word(emitter, target, highest_bit(emitter, integer(emitter, source), signed, shifts))


# -- All predicates as a number, and back.

_PREDICATES = 7


def _byte(part: str) -> int:
    return int(part[1:]) if part in ("B1", "B2", "B3") else 0


def _predicates(emitter: Emitter, mask: int, uniform: bool) -> list[tuple[int, str]]:
    """(bit, name) of those in a mask. Bit 7 is PT, which is true and never changes."""
    if mask >> _PREDICATES + 1:
        raise emitter.unsupported("its mask has more bits than there are predicates")
    return [(k, f"{'UP' if uniform else 'P'}{k}") for k in range(_PREDICATES) if mask >> k & 1]


def p2r(emitter: Emitter, instruction: Instruction) -> None:
    """`P2R d, PR, a, mask`: predicates in the bits of the mask, the others as in a; `.B1` to `.B3` in another byte."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "B0", "B1", "B2", "B3")
    target, source, a, mask = native.operands
    if not isinstance(source, NativeWord):
        raise emitter.unsupported("it does not read all predicates")
    bits, byte = immediate(emitter, mask), _byte(next(iter(native.modifiers), ""))
    value = builder.and_(integer(emitter, a), splat_constant(I32, ~(bits << 8 * byte) & 0xFFFFFFFF))
    value = builder.or_(value, splat_constant(I32, (bits & 1 << _PREDICATES) << 8 * byte))
    for bit, name in _predicates(emitter, bits, source.text.startswith("U")):
        moved = builder.select(emitter.register(name), splat_constant(I32, 1 << bit + 8 * byte), splat_constant(I32, 0))
        value = builder.or_(value, moved)
    set_word(emitter, target, value)


def r2p(emitter: Emitter, instruction: Instruction) -> None:
    """`R2P PR, a, mask`: predicates of the mask (without one: all) from the bits of a, or of another byte (`R0.B1`) of it."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native)
    target, a, *mask = native.operands
    if not isinstance(target, NativeWord) or not isinstance(a, NativeRegister) or a.part not in ("", "B0", "B1", "B2", "B3"):
        raise emitter.unsupported("its operands are not what is modelled")
    value = raw(emitter, a)
    chosen = immediate(emitter, mask[0]) if mask else (1 << _PREDICATES) - 1
    for bit, name in _predicates(emitter, chosen, target.text.startswith("U")):
        emitter.set_register(name, builder.trunc(builder.lshr(value, splat_constant(I32, bit + 8 * _byte(a.part))), vector(I1)))


up2ur, ur2up = p2r, r2p
