"""The one table of what the emulator executes: opcode to the function that emits it; and the functions that all kernels share,
compiled at first use.

A kernel calls them by name; the name says all that the function depends on.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import HelperFrame, helper_type
from warpsight.emulator.codegen.instruction_set import InstructionSet
from warpsight.emulator.codegen.lanes import I64, PTR
from warpsight.emulator.ptx import (
    atomics,
    bits,
    comparison,
    conversion,
    copies,
    fences,
    floating_point,
    integers,
    matrix_tiles,
    mbarriers,
    memory,
    mma,
    system,
    textures,
    video,
    warp,
    wmma,
)  # fmt: skip
from warpsight.emulator.ptx.common import kinds_of
from warpsight.emulator.ptx.matrix_shapes import Product
from warpsight.emulator.ptx.mma import multiply_inside, product_types
from warpsight.emulator.ptx.wmma import MatrixAccess, move_matrix
from warpsight.emulator.textures.fetch import fetch_function, query_function
from warpsight.emulator.textures.surfaces import surface_function
from warpsight.isa.ptx.program import Instruction

_PREFIXES = ("warpsight.mma.", "warpsight.wmma.")


def library_functions_of(module: ir.Module) -> list[str]:
    """The functions of this library that a module calls."""
    return [name for name in module.globals if name.startswith(_PREFIXES)]


def build_library_function(name: str) -> ir.Module:
    """The module with the function `name`."""
    module = ir.Module(name=name)
    _, family, *fields = name.split(".")
    if family == "mma":
        product = Product.of_fields(fields)
        kind = helper_type([*product_types(product)[0], PTR], [])
        multiply_inside(HelperFrame(ir.Function(module, kind, name)), product)
    else:
        kind = helper_type([I64, I64, PTR], [])
        move_matrix(HelperFrame(ir.Function(module, kind, name)), MatrixAccess(*fields))
    return module


# -- The one table of what the emulator executes: opcode to the function that emits it. A new opcode goes into a module of `ops/`.

Handler = Callable[[Emitter, Instruction], None]

HANDLERS: dict[str, Handler] = {}
_FAMILIES = (
    integers.ARITHMETIC_HANDLERS, integers.EXTENDED_HANDLERS, bits.LOGIC_HANDLERS, bits.FIELD_HANDLERS, memory.ACCESS_HANDLERS,
    memory.ADDRESS_HANDLERS, memory.STACK_HANDLERS, comparison.COMPARISON_HANDLERS, comparison.MOVEMENT_HANDLERS,
    textures.TEXTURE_HANDLERS, textures.SURFACE_HANDLERS, warp.WARP_HANDLERS, warp.COLLECTIVE_HANDLERS, atomics.HANDLERS,
    conversion.HANDLERS, copies.HANDLERS, system.HANDLERS, fences.HANDLERS, floating_point.HANDLERS, matrix_tiles.HANDLERS,
    mbarriers.HANDLERS, mma.HANDLERS, wmma.HANDLERS, video.HANDLERS,
)  # fmt: skip
for _family in _FAMILIES:
    for _opcode, _handler in _family.items():
        assert _opcode not in HANDLERS, _opcode
        HANDLERS[_opcode] = _handler
for _opcode in floating_point.HALF_OPCODES:
    HANDLERS[_opcode] = floating_point.half_or_else(HANDLERS[_opcode])
for _opcode in ("st", "red"):
    HANDLERS[_opcode] = mbarriers.async_or_else(_opcode, HANDLERS[_opcode])

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


PTX = InstructionSet(
    "ptx",
    emit_operation,
    system.emit_special,
    library_functions_of,
    build_library_function,
    {
        "warpsight_texture": lambda: fetch_function().address,
        "warpsight_image_query": lambda: query_function().address,
        "warpsight_surface": lambda: surface_function().address,
    },
)
