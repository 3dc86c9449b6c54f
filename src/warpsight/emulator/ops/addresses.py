"""Addresses: between state spaces and the generic one, which space one lies in, and other blocks of a cluster.

A cluster is one block here, so rank 0 is the block itself. What lies in another rank is undefined in PTX; here such an address is
outside of every space, and an access to it faults.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I64, Value, is_signed, scalar_type, splat_constant, vector
from warpsight.emulator.layout import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.emulator.ops.memory import SPACES
from warpsight.isa.program import Instruction

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0, "param": PARAM_WINDOW}


def _space(emitter: Emitter, instruction: Instruction) -> str:
    found = [m.split("::")[0] for m in instruction.modifiers if m in SPACES]
    if len(found) != 1:
        raise emitter.unsupported("it names no single state space")
    return found[0]


def _cvta(emitter: Emitter, instruction: Instruction) -> None:
    """To generic adds the space's window, `.to` takes it away; global and constant addresses are generic as they are."""
    allow(emitter, instruction, "to", *SPACES)
    kind = the_type(emitter, instruction)
    d, a = operands(emitter, instruction, 2)
    builder, window = emitter.builder, splat_constant(scalar_type(kind), _WINDOWS[_space(emitter, instruction)])
    value = emitter.read(a, kind)
    emitter.write(d, builder.sub(value, window) if "to" in instruction.modifiers else builder.add(value, window), kind)


def _isspacep(emitter: Emitter, instruction: Instruction) -> None:
    """`isspacep.space p, a`: constant data lie in the arena between global ones; parameters are in .global's window too (PTX)."""
    allow(emitter, instruction, *SPACES)
    p, a = operands(emitter, instruction, 2)
    builder, space = emitter.builder, _space(emitter, instruction)
    address = emitter.read(a, "u64")

    def between(start: int, size: int) -> Value:
        offset = builder.sub(address, splat_constant(I64, start))
        return builder.icmp_unsigned("<", offset, splat_constant(I64, size))

    if space in ("global", "const"):
        constant: Value = ir.Constant(vector(ir.IntType(1)), None)
        for data in emitter.kernel.symbols.global_data:
            if not data.writable and data.variable.size:
                constant = builder.or_(constant, between(data.address, data.variable.size))
        beyond = builder.icmp_unsigned(">=", address, splat_constant(I64, LOCAL_WINDOW + WINDOW_BYTES))
        result = constant if space == "const" else builder.and_(beyond, builder.not_(constant))
    else:
        result = between(_WINDOWS[space], WINDOW_BYTES)
    emitter.write(p, result, "pred")


def _mapa(emitter: Emitter, instruction: Instruction) -> None:
    """`mapa{.shared::cluster}.type d, a, rank`: the same address in block `rank` of the cluster."""
    allow(emitter, instruction, "shared::cluster")
    kind = the_type(emitter, instruction)
    d, a, b = operands(emitter, instruction, 3)
    if is_signed(kind):
        raise emitter.unsupported("its type must be .u32 or .u64")
    builder = emitter.builder
    here = builder.icmp_signed("==", emitter.read(b, "u32"), ir.Constant(vector(ir.IntType(32)), None))
    # All ones but for the alignment: past the end of shared memory, and of the arena.
    nowhere = splat_constant(scalar_type(kind), -(1 << 12) & ((1 << scalar_type(kind).width) - 1))
    emitter.write(d, builder.select(here, emitter.read(a, kind), nowhere), kind)


def _getctarank(emitter: Emitter, instruction: Instruction) -> None:
    """`getctarank{.shared::cluster}.type d, a`: the rank of the block that owns a shared address, always 0."""
    allow(emitter, instruction, "shared::cluster")
    kind = the_type(emitter, instruction)
    d, a = operands(emitter, instruction, 2)
    emitter.read(a, kind)
    emitter.write(d, splat_constant(ir.IntType(32), 0), "u32")


HANDLERS = {"cvta": _cvta, "isspacep": _isspacep, "mapa": _mapa, "getctarank": _getctarank}
