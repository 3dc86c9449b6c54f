"""Addresses of machine code: `[register * scale + uniform register + offset]`, of 32 bits, or with `.E` of 64."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.cluster_addresses import from_own, own_offsets, own_window
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I32, I64, Value, splat_constant, vector
from warpsight.emulator.sass.common import integer, raw, wide_integer
from warpsight.isa.sass.native import NativeAddress, NativeInstruction
from warpsight.isa.sass.structure import CLUSTER_WINDOW

# Orders, scopes and cache operators change when memory is seen, not what (see `ptx/memory.py`).
CACHE_WORDS = (
    "E", "SYS", "GPU", "CTA", "SM", "VC", "CONSTANT", "STRONG", "WEAK", "MMIO", "PRIVATE", "LTC64B", "LTC128B", "LTC256B", "EF",
    "EL", "EN", "EU", "NA", "LU", "DEFER_BLOCKING", "BYPASS", "ADDR",
)  # fmt: skip


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
    places = _sum(emitter, parts, I64, address.offset)
    named = emitter.clustered or CLUSTER_WINDOW in emitter.kernel.function.registers
    return own_window(emitter, places) if named else places


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


def shared_offsets(emitter: Emitter, address: NativeAddress, *, others: bool = False) -> Value:
    """Offsets in shared memory (<32 x i32>) of an address operand; with `others` it may be that of another block of the cluster."""
    offsets = short_address(emitter, address)
    if address.base is None and address.uniform is None:
        return offsets
    return within_window(emitter, offsets, others=others)


def within_window(emitter: Emitter, offsets: Value, *, others: bool = True) -> Value:
    """Addresses in shared memory as offsets: code of sm_90 may add the block's window in its cluster (see `system.py`)."""
    if not emitter.clustered:  # the rank is 0
        return offsets
    return (from_own if others else own_offsets)(emitter, offsets)
