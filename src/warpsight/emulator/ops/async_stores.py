"""`st.async` and `red.async`: a store or a reduction in shared memory whose bytes complete on an mbarrier object of the block."""

from __future__ import annotations

from collections.abc import Callable

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I64, bits_of, scalar_type, splat_constant
from warpsight.emulator.ops.access import Access, shared_access
from warpsight.emulator.ops.atomics import Shape, operation_of
from warpsight.emulator.ops.common import operands
from warpsight.emulator.ops.mbarriers import complete_bytes
from warpsight.emulator.ops.memory import VECTORS, allow_words, memory_type, vector_parts
from warpsight.isa.program import Instruction

_WORDS = ("async", "weak", "relaxed", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes")
_OPERATIONS = ("inc", "dec", "min", "max", "add", "and", "or", "xor")


def _store(emitter: Emitter, instruction: Instruction) -> None:
    """`st.async [address], value, [mbarrier]`."""
    allow_words(emitter, instruction, *_WORDS, *VECTORS)
    address, source, barrier = operands(emitter, instruction, 3)
    kind, parts = memory_type(emitter, instruction), vector_parts(emitter, instruction, source)
    size = bits_of(kind) // 8
    if size < 4 or size * len(parts) > 16:
        raise emitter.unsupported("an asynchronous store of such a value is not modelled")
    values = tuple(emitter.read(p, kind) for p in parts)
    access = Access(scalar_type(kind), size, len(parts), values)
    shared_access(emitter, emitter.effective_address(address, 32), access, emitter.kernel.next_site())
    complete_bytes(emitter, emitter.effective_address(barrier, 32), splat_constant(I64, access.size))


def _reduce(emitter: Emitter, instruction: Instruction) -> None:
    """`red.async [address], value, [mbarrier]`."""
    allow_words(emitter, instruction, *_WORDS, *_OPERATIONS)
    address, source, barrier = operands(emitter, instruction, 3)
    operation, kind = operation_of(emitter, instruction)
    if operation not in _OPERATIONS or kind[0] not in "bus":
        raise emitter.unsupported(f"an asynchronous {operation} of .{kind} is not modelled")
    value = emitter.read(source, f"b{bits_of(kind)}")
    Shape("shared", operation, kind, 1).call(emitter, emitter.effective_address(address, 32), [value])
    complete_bytes(emitter, emitter.effective_address(barrier, 32), splat_constant(I64, bits_of(kind) // 8))


def or_else(opcode: str, other: Callable[[Emitter, Instruction], None]) -> Callable[[Emitter, Instruction], None]:
    """The handler of `st` or `red`: `.async` here, the rest by `other`."""
    own = {"st": _store, "red": _reduce}[opcode]

    def emit(emitter: Emitter, instruction: Instruction) -> None:
        (own if "async" in instruction.modifiers else other)(emitter, instruction)

    return emit
