"""Machine code as an instruction set of the emulator: the handler of each opcode.

An opcode's handler is the function of its name, in small letters (`yield_` for a word of Python), in one of the files of this
folder; an opcode of the uniform datapath without one (`UIADD3`) has that of the opcode without the `U`. A new opcode is such a
function, and a row in `isa/sass/opcodes.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from keyword import iskeyword
from types import ModuleType
from typing import TypeVar, cast

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.instruction_set import InstructionSet
from warpsight.emulator.codegen.lanes import Value
from warpsight.emulator.ptx import instruction_set as ptx
from warpsight.emulator.sass import (
    atomics,
    bits,
    conversion,
    floats,
    half,
    integers,
    mbarriers,
    memory,
    system,
    tensor,
    tensor_copies,
    tensor_memory,
    textures,
    warp,
)
from warpsight.emulator.sass.calls import NativeCalls, branch_condition, branch_index
from warpsight.emulator.sass.common import native_of
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.listing import MISSHAPEN
from warpsight.isa.sass.opcodes import TABLE

Handler = Callable[[Emitter, Instruction], None]
Made = TypeVar("Made")
FAMILIES: tuple[ModuleType, ...] = (
    integers, bits, floats, half, conversion, memory, atomics, mbarriers, warp, tensor, tensor_copies, tensor_memory,
    textures, system,
)  # fmt: skip


def _handlers() -> dict[str, Handler]:
    """The handler of each opcode that has one of its own."""
    names = {base: base.lower() + "_" * iskeyword(base.lower()) for base in (name.partition(".")[0] for name in TABLE)}
    return {
        base: cast(Handler, getattr(family, name)) for family in FAMILIES for base, name in names.items() if hasattr(family, name)
    }


HANDLERS = _handlers()
FLOW = ("BRA", "BRX", "BRXU", "CALL", "RET", "EXIT", "KILL", "BAR", "BPT")  # emitted by `codegen`, in PTX's words


def handler_of(base: str) -> Handler | None:
    """The handler of an opcode (without modifiers), None where it is not executed."""
    return HANDLERS.get(base) or (HANDLERS.get(base[1:]) if base.startswith("U") else None)


def is_executed(base: str) -> bool:
    """Whether an opcode (without modifiers) is executed: it has a handler, or ends a basic block."""
    return handler_of(base) is not None or base in FLOW


def emit_operation(emitter: Emitter, instruction: Instruction) -> None:
    """Emit one instruction that does not end its block; refuse unknown opcodes."""
    handler = handler_of(native_of(instruction).base)
    if handler is None:
        raise emitter.unsupported("it is not modelled")
    handler(emitter, instruction)


def _checked(emit: Callable[[Emitter, Instruction], Made]) -> Callable[[Emitter, Instruction], Made]:
    """`emit`, which refuses an instruction whose operands are not those that it should have."""

    @functools.wraps(emit)
    def checked(emitter: Emitter, instruction: Instruction) -> Made:
        try:
            return emit(emitter, instruction)
        except MISSHAPEN as error:
            raise emitter.unsupported("its operands are not recognized") from error

    return checked


def _special(emitter: Emitter, name: str) -> Value:
    raise emitter.unsupported(f"special register {name} is not read in this way")


SASS = InstructionSet(
    "sass", lambda instruction: is_executed(native_of(instruction).base),
    _checked(emit_operation), _checked(memory.lane_addresses), _special, _checked(branch_condition), _checked(branch_index),
    NativeCalls, ptx.library_functions_of, ptx.build_library_function, ptx.PTX.callbacks
)
