"""Loads and stores of machine code, and constant banks: `LDG`, `STG`, `LD`, `ST`, `LDS`, `STS`, `LDL`, `STL`, `LDC`.

Data are moved as 32-bit words, lowest first; shorter ones are extended. An opcode with `.E` has 64-bit addresses.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.access import Access, global_access, local_access, shared_access
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I8, I16, I32, I64, Value, splat_constant, vector
from warpsight.emulator.codegen.layout import SHARED_WINDOW
from warpsight.emulator.ptx.memory import generic_access
from warpsight.emulator.sass.common import allow, constant_elements, integer, native_of, raw, set_words, wide_integer
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import NativeAddress, NativeConstant, NativeInstruction, NativeOperand

# Orders, scopes and cache operators change when memory is seen, not what (see `ptx/memory.py`).
CACHE_WORDS = (
    "E", "SYS", "GPU", "CTA", "SM", "VC", "CONSTANT", "STRONG", "WEAK", "MMIO", "PRIVATE", "LTC64B", "LTC128B", "LTC256B", "EF", "EL",
    "EN", "EU", "NA", "LU", "DEFER_BLOCKING", "BYPASS", "ADDR",
)  # fmt: skip
_SIGNED, _NARROW = {"S8": I8, "S16": I16}, {"U8": I8, "S8": I8, "U16": I16, "S16": I16}
_WIDE = {"64": 2, "128": 4}
_SIZES = (*_NARROW, *_WIDE, "32")


# -- Addresses.


def address_operand(emitter: Emitter, native: NativeInstruction, number: int = 0) -> NativeAddress:
    """The `number`th operand in brackets."""
    addresses = [operand for operand in native.operands if isinstance(operand, NativeAddress)]
    if number >= len(addresses):
        raise emitter.unsupported("its address is not in brackets")
    return addresses[number]


def wide_address(emitter: Emitter, address: NativeAddress) -> Value:
    """A 64-bit address as <32 x i64>; the offset is extended by its sign, a single register by zeros."""
    builder, parts = emitter.builder, []
    if address.scale != 1:
        raise emitter.unsupported("a scaled 64-bit address is not modelled")
    if address.base is not None:
        single = builder.zext(raw(emitter, address.base), vector(I64)) if not address.wide else None
        parts.append(wide_integer(emitter, address.base) if single is None else single)
    if address.uniform is not None:
        parts.append(wide_integer(emitter, address.uniform))
    return _sum(emitter, parts, I64, address.offset)


def short_address(emitter: Emitter, address: NativeAddress) -> Value:
    """A 32-bit address as <32 x i32>."""
    builder, parts = emitter.builder, []
    if address.wide or address.wide_uniform:
        raise emitter.unsupported("a 64-bit address is not modelled here")
    if address.base is not None:
        parts.append(builder.mul(integer(emitter, address.base), splat_constant(I32, address.scale)))
    if address.uniform is not None:
        parts.append(integer(emitter, address.uniform))
    return _sum(emitter, parts, I32, address.offset)


def _sum(emitter: Emitter, parts: list[Value], kind: ir.IntType, offset: int) -> Value:
    total, builder = None, emitter.builder
    for part in parts:
        total = part if total is None else builder.add(total, part)
    constant = splat_constant(kind, offset & ((1 << kind.width) - 1))
    if total is None:
        return constant
    return builder.add(total, constant) if offset else total


def shared_offsets(emitter: Emitter, address: NativeAddress) -> Value:
    """Offsets in shared memory (<32 x i32>).

    Code of sm_90 and later adds the window that the block has in its cluster (`system.py`), other code does not.
    """
    builder, offsets = emitter.builder, short_address(emitter, address)
    if address.base is None and address.uniform is None:
        return offsets
    window = splat_constant(I32, SHARED_WINDOW)
    inside = builder.icmp_signed("==", builder.and_(offsets, splat_constant(I32, -SHARED_WINDOW & 0xFFFFFFFF)), window)
    return builder.select(inside, builder.sub(offsets, window), offsets)


# -- What is moved.


def _moved(emitter: Emitter, native: NativeInstruction, values: NativeOperand | None) -> Access:
    """The access of a load, or with an operand for the `values` that of a store."""
    narrow = next((m for m in native.modifiers if m in _NARROW), "")
    count = next((_WIDE[m] for m in native.modifiers if m in _WIDE), 1)
    element, builder = _NARROW.get(narrow, I32), emitter.builder
    if values is None:
        return Access(element, element.width // 8, count)
    words = [raw(emitter, values, k) for k in range(count)]
    if narrow:
        words = [builder.trunc(words[0], vector(element))]
    return Access(element, element.width // 8, count, tuple(words))


def _extended(emitter: Emitter, native: NativeInstruction, values: list[Value]) -> list[Value]:
    """Loaded elements as 32-bit words."""
    if values[0].type.element == I32:
        return values
    signed = any(m in _SIGNED for m in native.modifiers)
    return [(emitter.builder.sext if signed else emitter.builder.zext)(value, vector(I32)) for value in values]


def _perform(emitter: Emitter, space: str, address: NativeAddress, access: Access) -> list[Value]:
    site = I64(emitter.kernel.next_site())
    if space == "shared":
        return shared_access(emitter, shared_offsets(emitter, address), access, site)
    if space == "local":
        return local_access(emitter, short_address(emitter, address), access, site)
    where = wide_address(emitter, address)
    return global_access(emitter, where, access, site) if space == "global" else generic_access(emitter, where, access, site)


def _load(emitter: Emitter, instruction: Instruction) -> None:
    native = native_of(instruction)
    allow(emitter, native, *CACHE_WORDS, *_SIZES, "U")
    if len(native.operands) != 2:
        raise emitter.unsupported("a load with a predicate is not modelled")
    _need_wide(emitter, native)
    values = _perform(emitter, native.space, address_operand(emitter, native), _moved(emitter, native, None))
    set_words(emitter, native.operands[0], _extended(emitter, native, values))


def _store(emitter: Emitter, instruction: Instruction) -> None:
    native = native_of(instruction)
    allow(emitter, native, *CACHE_WORDS, *_SIZES)
    if len(native.operands) != 2:
        raise emitter.unsupported("a store with a predicate is not modelled")
    _need_wide(emitter, native)
    _perform(emitter, native.space, address_operand(emitter, native), _moved(emitter, native, native.operands[1]))


def _need_wide(emitter: Emitter, native: NativeInstruction) -> None:
    """Refuse 32-bit addresses of device memory, which no 64-bit program has."""
    if native.space in ("global", "generic") and "E" not in native.modifiers:
        raise emitter.unsupported("a 32-bit address of device memory is not modelled")


def ldg(emitter: Emitter, instruction: Instruction) -> None:
    """`LDG`: load from device memory."""
    _load(emitter, instruction)


def stg(emitter: Emitter, instruction: Instruction) -> None:
    """`STG`: store to device memory."""
    _store(emitter, instruction)


ld = lds = ldl = ldg  # a generic address; shared memory; local memory
st = sts = stl = stg


def ldc(emitter: Emitter, instruction: Instruction) -> None:
    """`LDC`, `ULDC`, `LDCU`: load from a constant bank, whose address may have a register."""
    native = native_of(instruction)
    allow(emitter, native, *_SIZES)
    target, source = native.operands
    if not isinstance(source, NativeConstant):
        raise emitter.unsupported("its source is not in a constant bank")
    access = _moved(emitter, native, None)
    values = constant_elements(emitter, source, access.element, access.element_bytes, access.count)
    set_words(emitter, target, _extended(emitter, native, values))


ldcu = ldc
