"""The one table of what the emulator executes: opcode to the function that emits it. A new opcode goes into a module of `ops/`."""

from __future__ import annotations

from collections.abc import Callable

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.ops import (
    addresses,
    arithmetic,
    async_stores,
    atomics,
    bitwise,
    collective,
    comparison,
    conversion,
    copies,
    extended,
    external,
    fields,
    floating,
    half,
    hints,
    matrix_tiles,
    mbarriers,
    memory,
    mma,
    movement,
    stack,
    surface,
    texture,
    video,
    warpwide,
    wmma,
)
from warpsight.emulator.ops.common import kinds_of
from warpsight.isa.program import Instruction

Handler = Callable[[Emitter, Instruction], None]

HANDLERS: dict[str, Handler] = {}
_MODULES = (
    addresses, arithmetic, atomics, bitwise, collective, comparison, conversion, copies, extended, external, fields, floating,
    hints, matrix_tiles, mbarriers, memory, mma, movement, stack, surface, texture, video, warpwide, wmma,
)  # fmt: skip
for _module in _MODULES:
    for _opcode, _handler in _module.HANDLERS.items():
        assert _opcode not in HANDLERS, _opcode
        HANDLERS[_opcode] = _handler
for _opcode in half.OPCODES:
    HANDLERS[_opcode] = half.or_else(HANDLERS[_opcode])
for _opcode in ("st", "red"):
    HANDLERS[_opcode] = async_stores.or_else(_opcode, HANDLERS[_opcode])

# PTX has these for integers or untyped bits alone.
_WITHOUT_FLOATS = frozenset({
    "and", "or", "xor", "not", "cnot", "shl", "shr", "lop3", "shf", "bfe", "bfi", "bfind", "brev", "clz", "popc", "fns", "bmsk",
    "szext", "prmt", "sad", "mul24", "mad24", "addc", "subc", "madc", "dp2a", "dp4a",
})  # fmt: skip

# Block-ending opcodes live in `branching`; they are executed too.
CONTROL_OPCODES = ("bra", "brx", "call", "ret", "exit", "trap", "bar", "barrier")


def emit_operation(emitter: Emitter, instruction: Instruction) -> None:
    """Emit one instruction that does not end its block; refuse what is not known."""
    handler = HANDLERS.get(instruction.opcode)
    if handler is None:
        raise emitter.unsupported("it is not modelled")
    if instruction.opcode in _WITHOUT_FLOATS:
        for kind in kinds_of(instruction):
            if "f" in kind or kind.startswith("e"):
                raise emitter.unsupported(f"PTX has it for integers and bits, not for .{kind}")
    handler(emitter, instruction)
