"""Textures and surfaces in machine code: `TEX`, `TLD`, `TLD4`, `TXD`, `TXQ`, `SULD`, `SUST`, `SURED`. What is done is that of
`ptx/textures.py`.

Machine code has 32 bits of a handle, which number the object; the whole handle is looked up. Levels and gradients choose among mip
levels, and there is one.
"""

from __future__ import annotations

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I32, I64, PTR, Value, gather, splat, splat_constant, trailing_zeros, vector
from warpsight.emulator.codegen.layout import Slot
from warpsight.emulator.ptx.textures import GEOMETRIES, call_native, surface_code
from warpsight.emulator.sass.addresses import address_operand
from warpsight.emulator.sass.common import allow, constant_words, join, native_of, raw, set_words
from warpsight.emulator.textures.objects import ROW_WORDS, Kind, Row, Use
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.images import SURFACE_DIMENSIONS, fetch_operands, query_operands
from warpsight.isa.sass.native import NativeConstant, NativeImmediate, NativeInstruction, NativeOperand, NativeRegister, NativeWord

_GEOMETRY = {
    "1D": "1d", "2D": "2d", "3D": "3d", "ARRAY_1D": "a1d", "ARRAY_2D": "a2d", "CUBE": "cube", "ARRAY_CUBE": "acube",
    "1D_ARRAY": "a1d", "2D_ARRAY": "a2d",
}  # fmt: skip
_CHANNELS = {"R": 1, "G": 2, "B": 3, "A": 4}
_INTEGER_COORDINATES, _CHANNEL_SHIFT = 1 << 8, 16
_WORD_BYTES = 4

# -- Handles.


def _row_word(emitter: Emitter, numbers: Value, word: Row) -> tuple[Value, Value]:
    """A word of the rows of the objects (<32 x i64>), and where (<32 x i1>) there is a row."""
    builder = emitter.builder
    wide = builder.zext(numbers, vector(I64))
    known = builder.icmp_unsigned("<", wide, splat(builder, emitter.slot(Slot.IMAGE_COUNT)))
    offset = builder.add(builder.mul(wide, splat_constant(I64, 8 * ROW_WORDS)), splat_constant(I64, 8 * word))
    places = builder.add(offset, splat(builder, emitter.slot(Slot.IMAGE_PTR)))
    lanes = builder.and_(known, emitter.active)
    return gather(builder, builder.inttoptr(places, vector(PTR)), lanes, I64), known


def _whole_handle(emitter: Emitter, numbers: Value) -> Value:
    """The 64-bit handle of the object that these numbers name; where they name none they themselves, which are no handle."""
    builder = emitter.builder
    handle, known = _row_word(emitter, numbers, Row.HANDLE)
    return builder.select(known, handle, builder.zext(numbers, vector(I64)))


def _handle(emitter: Emitter, operands: tuple[NativeOperand, ...]) -> Value:
    """A handle: its lower half in a register or uniform register (with 0 behind it), or a bank and the number of a word in it."""
    first, *rest = operands
    if isinstance(first, NativeRegister):
        if any(not isinstance(o, NativeImmediate) or o.value for o in rest):
            raise emitter.unsupported("its handle is not recognized")
        return _whole_handle(emitter, raw(emitter, first))
    if len(operands) != 2 or not all(isinstance(o, NativeImmediate) for o in operands):
        raise emitter.unsupported("its handle is not recognized")
    bank, word = (o.value for o in operands)  # type: ignore[union-attr]
    if bank or word % 2:
        raise emitter.unsupported("its handle is not a parameter")
    return join(emitter, *constant_words(emitter, NativeConstant(bank, _WORD_BYTES * word), 2))


# -- Textures.


def tex(emitter: Emitter, instruction: Instruction) -> None:
    """`TEX`, `TXD`: a filtered fetch. `TLD`: the texel at integer coordinates. `TLD4`: one channel of four texels."""
    native, builder = native_of(instruction), emitter.builder
    known = {"TEX": ("LL", "LZ"), "TLD": ("LZ",), "TLD4": tuple(_CHANNELS), "TXD": ()}[native.base]
    allow(emitter, native, "SCR", "B", *known)
    try:
        operands = fetch_operands(native.mnemonic, native.operands)
    except ValueError:
        raise emitter.unsupported("its operands are not recognized") from None
    if native.base == "TXD" and operands.dimension not in ("1D", "2D"):
        raise emitter.unsupported("a fetch with gradients is modelled in one and two dimensions only")
    counts = zip(operands.arguments, operands.registers, strict=True)
    values = [raw(emitter, register, k) for register, count in counts for k in range(count)]
    geometry = _GEOMETRY[operands.dimension]
    coordinates = GEOMETRIES[geometry][1]
    handle = _handle(emitter, operands.handle) if operands.handle else _whole_handle(emitter, values[coordinates])
    what: int | Value = GEOMETRIES[geometry][0]
    if native.base == "TLD4":
        # `.B` is a channel, and says that the handle is in a register: of two the first is the channel.
        what |= _CHANNELS[next(m for m in native.modifiers if m in _CHANNELS)] << _CHANNEL_SHIFT
    elif native.base == "TLD":
        what |= _INTEGER_COORDINATES
    elif geometry == "2d":
        what = _flat_geometry(emitter, handle)
    place = values[:coordinates] + [splat_constant(I32, 0)] * (4 - coordinates)
    found = call_native(emitter, "warpsight_texture", "load", what, [handle, handle], place, [])
    results = [builder.trunc(found[k], vector(I32)) for k in operands.results]
    set_words(emitter, native.operands[1], results[:2])
    set_words(emitter, native.operands[0], results[2:])


tld = tld4 = txd = tex


def _flat_geometry(emitter: Emitter, handles: Value) -> Value:
    """1D where that is what the first lane's object is, else 2D: there is no filtered fetch from 1D textures, a second coordinate
    of 0 is given.
    """
    builder = emitter.builder
    kinds, _ = _row_word(emitter, builder.trunc(handles, vector(I32)), Row.KIND)
    first = builder.and_(trailing_zeros(builder, emitter.active_mask), I32(31))
    number = GEOMETRIES["1d"][0]
    same = builder.icmp_signed("==", builder.extract_element(kinds, first), I64(Kind(number)))
    return builder.select(same, I64(number), I64(GEOMETRIES["2d"][0]))


_FIELDS = (Row.WIDTH, Row.HEIGHT, Row.DEPTH)


def txq(emitter: Emitter, instruction: Instruction) -> None:
    """`TXQ ..., TEX_HEADER_DIMENSION`: width, height and depth of a texture or surface."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "B")
    high, low, _, word, *_ = native.operands
    if not isinstance(word, NativeWord) or word.text != "TEX_HEADER_DIMENSION":
        raise emitter.unsupported("this query is not modelled")
    try:
        asked, place = query_operands(native.mnemonic, native.operands)
    except ValueError:
        raise emitter.unsupported("its operands are not recognized") from None
    if any(k >= len(_FIELDS) for k in asked):
        raise emitter.unsupported("the number of mip levels is not modelled")
    handle, none = _handle(emitter, place), splat_constant(I32, 0)
    uses = sum(1 << 16 + use for use in (Use.TEXTURE, Use.SURFACE))
    results = []
    for k in asked:
        what = int(_FIELDS[k]) | uses
        found = call_native(emitter, "warpsight_image_query", "", what, [handle, handle], [none] * 4, [])[0]
        results.append(builder.trunc(found, vector(I32)))
    set_words(emitter, low, results[:2])
    set_words(emitter, high, results[2:])


# -- Surfaces.

_SCOPES = ("STRONG", "WEAK", "CTA", "SM", "GPU", "SYS")
_BOUNDS = {"TRAP": "trap", "IGN": "zero"}  # neither: the nearest place
_ELEMENTS = {"U8": ("b8", 1), "U16": ("b16", 1), "64": ("b32", 2), "128": ("b32", 4)}  # else one word
_REDUCTIONS = {"ADD": "add", "MIN": "min", "MAX": "max", "AND": "and", "OR": "or"}
_TYPES = {"S32": "s32", "U32": "u32", "S64": "s64", "U64": "u64"}


def _surface(
    emitter: Emitter, native: NativeInstruction, access: str, operation: str, kind: str, count: int, source: NativeOperand | None
) -> list[Value]:
    """Do an access of `count` elements of PTX type `kind`; gives what a load loaded."""
    builder = emitter.builder
    dimensions = [m for m in native.modifiers if m in SURFACE_DIMENSIONS]
    formatted = "P" in native.modifiers
    if len(dimensions) != 1 or formatted is ("D" in native.modifiers) or formatted is ("BA" in native.modifiers):
        raise emitter.unsupported("this form of surface access is not modelled")
    bounds = next((_BOUNDS[m] for m in native.modifiers if m in _BOUNDS), "clamp")
    address = address_operand(emitter, native)
    if address.base is None or address.uniform is not None or address.offset:
        raise emitter.unsupported("its coordinates are not recognized")
    geometry = _GEOMETRY[dimensions[0]]
    place = [raw(emitter, address.base, k) for k in range(SURFACE_DIMENSIONS[dimensions[0]])]
    if geometry in ("a1d", "a2d"):
        place = [place[-1], *place[:-1]]
    place += [splat_constant(I32, 0)] * (4 - len(place))
    handle = _handle(emitter, native.operands[2:])
    values = []
    if source is not None:
        words = [raw(emitter, source, k) for k in range(count * (2 if kind.endswith("64") else 1))]
        values = [join(emitter, *words)] if kind.endswith("64") else [builder.zext(word, vector(I64)) for word in words]
    what = surface_code(geometry, operation, bounds, kind, count, formatted=formatted)
    return call_native(emitter, "warpsight_surface", access, what, [handle, handle], place, values)


def _elements(native: NativeInstruction) -> tuple[str, int]:
    """The element and how many there are."""
    return next((_ELEMENTS[m] for m in native.modifiers if m in _ELEMENTS), ("b32", 1))


def suld(emitter: Emitter, instruction: Instruction) -> None:
    """`SULD.D`: `suld.b`."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "D", "BA", *SURFACE_DIMENSIONS, *_ELEMENTS, *_SCOPES, *_BOUNDS)
    kind, count = _elements(native)
    found = _surface(emitter, native, "load", "suld", kind, count, None)
    set_words(emitter, native.operands[0], [builder.trunc(value, vector(I32)) for value in found[:count]])


def sust(emitter: Emitter, instruction: Instruction) -> None:
    """`SUST.D`: `sust.b`; `SUST.P`: `sust.p`, of one, two or four channels."""
    native = native_of(instruction)
    allow(emitter, native, "D", "P", "BA", "R", "RG", *SURFACE_DIMENSIONS, *_ELEMENTS, *_SCOPES, *_BOUNDS)
    kind, count = _elements(native)
    if "P" in native.modifiers:
        count = 1 if "R" in native.modifiers else 2 if "RG" in native.modifiers else 4
    _surface(emitter, native, "store", "sust", kind, count, native.operands[1])


def sured(emitter: Emitter, instruction: Instruction) -> None:
    """`SURED.D`: `sured.b`."""
    native = native_of(instruction)
    allow(emitter, native, "D", "BA", *SURFACE_DIMENSIONS, *_REDUCTIONS, *_TYPES, *_SCOPES, *_BOUNDS)
    operations = [_REDUCTIONS[m] for m in native.modifiers if m in _REDUCTIONS]
    if len(operations) != 1:
        raise emitter.unsupported("this reduction is not modelled")
    kind = next((_TYPES[m] for m in native.modifiers if m in _TYPES), "u32")
    _surface(emitter, native, "atomic", operations[0], kind, 1, native.operands[1])
