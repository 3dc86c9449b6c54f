"""Conversions of machine code: between integers and floats, between floats, to whole numbers, and packs of several values.

A mnemonic names the type of the result first (`F2F.F32.F64`, `I2F.F64.S16`); without one it is a single or 32-bit signed. The
results are those of PTX's `cvt`. A result of 16 bits or less lies in the low bits of its register, above it the sign of a signed
integer, else zeros.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    F64,
    I8,
    I16,
    I32,
    I64,
    INTERLEAVED,
    Value,
    bits_of,
    is_signed,
    scalar_type,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.common import flush_if
from warpsight.emulator.ptx.conversion import (
    float_to_float,
    float_to_integer,
    integer_to_float,
    integer_to_integer,
    packed_integers,
)
from warpsight.emulator.ptx.rounding import narrow, random_of_pairs, relu, widen
from warpsight.emulator.sass.common import allow, double, native_of, raw, set_wide, set_word, single, wide_integer
from warpsight.emulator.sass.half import half_as_single, in_ptx, without_part
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import NativeConstant, NativeInstruction, NativeOperand, NativeRegister

_SIXTEEN = ("f16", "bf16")
_FLOATS = {"F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64"}
_EIGHT = {"E4M3": "e4m3", "E5M2": "e5m2"}
_INTEGERS = {f"{sign}{bits}": f"{sign.lower()}{bits}" for sign in "US" for bits in (8, 16, 32, 64)}
_ROUNDINGS = {"RZ": "rz", "RM": "rm", "RP": "rp"}
_WHOLE = {"TRUNC": "rzi", "FLOOR": "rmi", "CEIL": "rpi"}


def _named(native: NativeInstruction, kinds: dict[str, str]) -> list[str]:
    """The types among an instruction's modifiers that are in `kinds`, in PTX's words."""
    return [kinds[m] for m in native.modifiers if m in kinds]


def _one(emitter: Emitter, native: NativeInstruction, kinds: dict[str, str], default: str) -> str:
    found = _named(native, kinds)
    if len(found) > 1:
        raise emitter.unsupported("it names more types than are expected")
    return found[0] if found else default


def _words(native: NativeInstruction) -> tuple[str, ...]:
    """Roundings, `.FTZ` and `.SAT` in PTX's words."""
    names = {**_ROUNDINGS, **_WHOLE, "FTZ": "ftz", "SAT": "sat"}
    return tuple(names[m] for m in native.modifiers if m in names)


def _two(emitter: Emitter, native: NativeInstruction) -> tuple[NativeOperand, NativeOperand]:
    if len(native.operands) != 2:
        raise emitter.unsupported("it does not have a result and a source")
    target, source = native.operands
    return without_part(emitter, target), source


# -- Reading and writing by type.


def _read_float(emitter: Emitter, operand: NativeOperand, kind: str) -> Value:
    """A float: one of 16 bits as a single."""
    if kind in _SIXTEEN:
        return half_as_single(emitter, operand, kind)
    return (double if kind == "f64" else single)(emitter, without_part(emitter, operand))


def _read_integer(emitter: Emitter, operand: NativeOperand, kind: str) -> Value:
    """An integer of the type's width: of 16 and 8 bits the part that is named (`.H1`, `.B2`), else the lowest."""
    builder, bits = emitter.builder, bits_of(kind)
    if isinstance(operand, NativeRegister | NativeConstant) and (operand.negative or operand.absolute or operand.inverted):
        raise emitter.unsupported("an integer that is converted has no sign of its own")
    if bits >= 32:
        return (wide_integer if bits == 64 else raw)(emitter, without_part(emitter, operand))
    value, part = raw(emitter, operand), getattr(operand, "part", "")
    if part:
        letter = "H" if bits == 16 else "B"
        if part not in [f"{letter}{k}" for k in range(32 // bits)]:
            raise emitter.unsupported(f"its operand part .{part} is not modelled")
        value = builder.lshr(value, splat_constant(I32, bits * int(part[1:])))
    return builder.trunc(value, vector(ir.IntType(bits)))


def _write(emitter: Emitter, target: NativeOperand, value: Value, signed: bool = False) -> None:
    """A result in its own width."""
    element = value.type.element
    if element in (F64, I64):
        set_wide(emitter, target, value)
    elif isinstance(element, ir.IntType) and element.width < 32:
        extend = emitter.builder.sext if signed else emitter.builder.zext
        set_word(emitter, target, extend(value, vector(I32)))
    else:
        set_word(emitter, target, value)


# -- One value.


def f2f(emitter: Emitter, instruction: Instruction) -> None:
    """`F2F.to.from`: between floats."""
    native = native_of(instruction)
    allow(emitter, native, *_FLOATS, *_ROUNDINGS, "FTZ", "SAT")
    kinds = _named(native, _FLOATS)
    if len(kinds) != 2:
        raise emitter.unsupported("it does not name two types")
    if {"FTZ", "SAT"} & set(native.modifiers) and "f32" not in kinds:
        raise emitter.unsupported(".FTZ and .SAT are modelled for singles")
    _float(emitter, instruction, kinds[0], kinds[1])


def frnd(emitter: Emitter, instruction: Instruction) -> None:
    """`FRND`: to a whole number of the same type, to nearest even or as `.TRUNC`, `.FLOOR` or `.CEIL` say."""
    native = native_of(instruction)
    allow(emitter, native, *_FLOATS, *_WHOLE, "FTZ")
    kind = _one(emitter, native, _FLOATS, "f32")
    if "FTZ" in native.modifiers and kind != "f32":
        raise emitter.unsupported(".FTZ is modelled for singles")
    nearest = () if _WHOLE.keys() & set(native.modifiers) else ("rni",)
    _float(emitter, instruction, kind, kind, *nearest)


def _float(emitter: Emitter, instruction: Instruction, to: str, source: str, *words: str) -> None:
    native = native_of(instruction)
    target, operand = _two(emitter, native)
    ptx = in_ptx(instruction, "cvt", *words, *_words(native))
    value = flush_if(emitter, ptx, source, _read_float(emitter, operand, source))
    _write(emitter, target, float_to_float(emitter, ptx, value, to))


def f2i(emitter: Emitter, instruction: Instruction) -> None:
    """`F2I`: a float to an integer, to nearest even or as `.TRUNC`, `.FLOOR` or `.CEIL` say; what is out of range clamps.

    A NaN gives the top bit alone, with `.NTZ` zero.
    """
    native = native_of(instruction)
    allow(emitter, native, *_FLOATS, *_INTEGERS, *_WHOLE, "FTZ", "NTZ")
    to, source = _one(emitter, native, _INTEGERS, "s32"), _one(emitter, native, _FLOATS, "f32")
    if "FTZ" in native.modifiers and source != "f32":
        raise emitter.unsupported(".FTZ is modelled for singles")
    target, operand = _two(emitter, native)
    value = _read_float(emitter, operand, source)
    result = _whole(emitter, instruction, flush_if(emitter, in_ptx(instruction, "cvt", *_words(native)), source, value), to)
    _write(emitter, target, result, is_signed(to))


def _whole(emitter: Emitter, instruction: Instruction, value: Value, to: str) -> Value:
    """Lanes of f32 or f64 as integers of type `to`."""
    native, builder = native_of(instruction), emitter.builder
    nearest = () if _WHOLE.keys() & set(native.modifiers) else ("rni",)
    result = float_to_integer(emitter, in_ptx(instruction, "cvt", *nearest, *_words(native)), value, to)
    of_nan = 0 if "NTZ" in native.modifiers else 1 << (bits_of(to) - 1)
    return builder.select(builder.fcmp_unordered("uno", value, value), splat_constant(scalar_type(to), of_nan), result)


def i2f(emitter: Emitter, instruction: Instruction) -> None:
    """`I2F`, `I2FP`: an integer to a float, to nearest even or as `.RZ`, `.RM` or `.RP` say."""
    native = native_of(instruction)
    allow(emitter, native, *_FLOATS, *_INTEGERS, *_ROUNDINGS)
    to, source = _one(emitter, native, _FLOATS, "f32"), _one(emitter, native, _INTEGERS, "s32")
    target, operand = _two(emitter, native)
    value = _read_integer(emitter, operand, source)
    _write(emitter, target, integer_to_float(emitter, in_ptx(instruction, "cvt", *_words(native)), value, to, source))


i2fp = i2f


def i2i(emitter: Emitter, instruction: Instruction) -> None:
    """`I2I.to.S32.SAT`: an integer clamped to what a narrower type can hold."""
    native = native_of(instruction)
    allow(emitter, native, *_INTEGERS, "SAT")
    kinds = _named(native, _INTEGERS)
    if len(kinds) != 2 or "SAT" not in native.modifiers or bits_of(kinds[0]) > 32:
        raise emitter.unsupported("it does not saturate from one type to another of at most 32 bits")
    to, source = kinds
    target, operand = _two(emitter, native)
    value = integer_to_integer(emitter, in_ptx(instruction, "cvt", "sat"), _read_integer(emitter, operand, source), to, source)
    _write(emitter, target, value, is_signed(to))


# -- Several values in a register.


def i2ip(emitter: Emitter, instruction: Instruction) -> None:
    """`I2IP.to.S32.SAT d, a, b, c`: a above b, each clamped to 2, 4, 8 or 16 bits; c, moved up by both, above them."""
    native, builder = native_of(instruction), emitter.builder
    kinds = {f"{sign}{bits}": f"{sign.lower()}{bits}" for sign in "US" for bits in (2, 4, 8, 16)}
    name = kinds.get(native.modifiers[0], "") if native.modifiers else ""
    if not name or native.modifiers[1:] != ("S32", "SAT") or len(native.operands) != 4:
        raise emitter.unsupported("this pack of integers is not modelled")
    target, *sources, above = native.operands
    a, b = (_read_integer(emitter, x, "s32") for x in sources)
    result, bits = packed_integers(emitter, name, a, b), 2 * int(name[1:])
    if isinstance(above, NativeRegister | NativeConstant) and above.part not in ("", str(32 - bits)):
        raise emitter.unsupported(f"its operand part .{above.part} is not modelled")
    if bits < 32:
        result = builder.or_(result, builder.shl(raw(emitter, above), splat_constant(I32, bits)))
    set_word(emitter, without_part(emitter, target), result)


def _is_zero(operand: NativeOperand) -> bool:
    """A source that is nothing, and so makes no difference wherever it would go."""
    return isinstance(operand, NativeRegister) and operand.name in ("RZ", "URZ")


def f2ip(emitter: Emitter, instruction: Instruction) -> None:
    """`F2IP.U8.F32 d, RZ, b, RZ`: a single as an integer of 8 bits in the lowest byte."""
    native = native_of(instruction)
    allow(emitter, native, "U8", "S8", "F32", *_WHOLE, "NTZ")
    to = _one(emitter, native, _INTEGERS, "")
    if not to or len(native.operands) != 4 or not (_is_zero(native.operands[1]) and _is_zero(native.operands[3])):
        raise emitter.unsupported("a pack of more than one value is not modelled")
    value = _whole(emitter, instruction, _read_float(emitter, native.operands[2], "f32"), to)
    _write(emitter, without_part(emitter, native.operands[0]), value)


def f2fp(emitter: Emitter, instruction: Instruction) -> None:
    """`F2FP.to.from.form`: singles or halves to narrower floats, most often two of them; `_FORMS` has each form."""
    native = native_of(instruction)
    found = [m for m in native.modifiers if m in _FORMS]
    kinds = [m for m in native.modifiers if m in (*_FLOATS, *_EIGHT, "TF32")]
    allow(emitter, native, *found, *kinds, "RZ", "RS", "RELU", "SATFINITE")
    if len(found) != 1 or ("RS" in native.modifiers and found != ["PACK_AB"]):
        raise emitter.unsupported("this pack of floats is not modelled")
    target, *sources = native.operands
    set_word(emitter, without_part(emitter, target), _FORMS[found[0]](emitter, native, kinds, sources))


def _narrowed(emitter: Emitter, native: NativeInstruction, value: Value, to: str, random: Value | None = None) -> Value:
    """Singles as patterns of a narrower format."""
    value = relu(emitter.builder, value) if "RELU" in native.modifiers else value
    mode = next((m.lower() for m in ("RZ", "RS") if m in native.modifiers), "rn")
    return narrow(emitter.builder, value, to, mode, "SATFINITE" in native.modifiers, random)


def _demand(emitter: Emitter, known: bool) -> None:
    if not known:
        raise emitter.unsupported("this pack of floats is not modelled")


def _singles(emitter: Emitter, sources: list[NativeOperand]) -> list[Value]:
    return [single(emitter, without_part(emitter, x)) for x in sources]


def _sixteen(emitter: Emitter, kinds: list[str]) -> str:
    """The type of a result of 16 bits; sm_80 does not write `.F16` and `.F32`."""
    _demand(emitter, kinds in ([], ["F16", "F32"], ["BF16"], ["BF16", "F32"]))
    return "bf16" if "BF16" in kinds else "f16"


def _pair(emitter: Emitter, native: NativeInstruction, kinds: list[str], sources: list[NativeOperand]) -> Value:
    """`.PACK_AB d, a, b`: of two singles, that of a in the high half. `.PACK_AB.RS d, a, b, c`: with the random bits c."""
    builder, to, stochastic = emitter.builder, _sixteen(emitter, kinds), "RS" in native.modifiers
    _demand(emitter, len(sources) == (3 if stochastic else 2) and not (stochastic and "RZ" in native.modifiers))
    high, low = _singles(emitter, sources[:2])
    random = random_of_pairs(builder, _read_integer(emitter, sources[2], "u32"), to) if stochastic else None
    pairs = _narrowed(emitter, native, builder.shuffle_vector(low, high, INTERLEAVED), to, random)
    return builder.bitcast(pairs, vector(I32))


def _low_half(emitter: Emitter, native: NativeInstruction, kinds: list[str], sources: list[NativeOperand]) -> Value:
    """`.MERGE_C d, a, RZ`: of a single, in the low half."""
    to = _sixteen(emitter, kinds)
    _demand(emitter, len(sources) == 2 and _is_zero(sources[1]))
    return emitter.builder.zext(_narrowed(emitter, native, _singles(emitter, sources[:1])[0], to), vector(I32))


def _tensor_float(emitter: Emitter, native: NativeInstruction, kinds: list[str], sources: list[NativeOperand]) -> Value:
    """`.TF32.F32.PACK_B d, a`: of a single."""
    _demand(emitter, kinds == ["TF32", "F32"] and len(sources) == 1)
    return _narrowed(emitter, native, _singles(emitter, sources)[0], "tf32")


def _eight_of_singles(emitter: Emitter, native: NativeInstruction, kinds: list[str], sources: list[NativeOperand]) -> Value:
    """`.PACK_AB_MERGE_C d, a, b, c`: two floats of 8 bits, that of a above that of b, and above them the low half of c."""
    _demand(emitter, len(kinds) == 2 and kinds[0] in _EIGHT and kinds[1] == "F32" and len(sources) == 3)
    high, low = _singles(emitter, sources[:2])
    return _merged(emitter, native, kinds[0], emitter.builder.shuffle_vector(low, high, INTERLEAVED), sources[2])


def _eight_of_halves(emitter: Emitter, native: NativeInstruction, kinds: list[str], sources: list[NativeOperand]) -> Value:
    """`.UNPACK_B_MERGE_C d, a, c`: the same of the two halves of a."""
    _demand(emitter, len(kinds) == 2 and kinds[0] in _EIGHT and kinds[1] == "F16" and len(sources) == 2)
    patterns = emitter.builder.bitcast(_read_integer(emitter, sources[0], "u32"), vector(I16, 2 * WARP))
    return _merged(emitter, native, kinds[0], widen(emitter.builder, patterns, "f16"), sources[1])


def _merged(emitter: Emitter, native: NativeInstruction, to: str, pair: Value, above: NativeOperand) -> Value:
    builder = emitter.builder
    _demand(emitter, "SATFINITE" in native.modifiers and "RZ" not in native.modifiers)
    patterns = builder.bitcast(_narrowed(emitter, native, pair, _EIGHT[to]), vector(I16))
    moved = builder.shl(_read_integer(emitter, above, "u32"), splat_constant(I32, 16))
    return builder.or_(builder.zext(patterns, vector(I32)), moved)


def _halves_of_eight(emitter: Emitter, native: NativeInstruction, kinds: list[str], sources: list[NativeOperand]) -> Value:
    """`.UNPACK_B d, a`: two floats of 8 bits, in the half of a that its part names, as halves."""
    builder = emitter.builder
    _demand(emitter, len(kinds) == 2 and kinds[0] == "F16" and kinds[1] in _EIGHT and len(sources) == 1)
    patterns = builder.bitcast(_read_integer(emitter, sources[0], "u16"), vector(I8, 2 * WARP))
    return builder.bitcast(_narrowed(emitter, native, widen(builder, patterns, _EIGHT[kinds[1]]), "f16"), vector(I32))


_FORMS = {
    "PACK_AB": _pair, "MERGE_C": _low_half, "PACK_B": _tensor_float, "PACK_AB_MERGE_C": _eight_of_singles,
    "UNPACK_B_MERGE_C": _eight_of_halves, "UNPACK_B": _halves_of_eight,
}  # fmt: skip
