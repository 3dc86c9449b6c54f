"""PTX as an instruction set of the emulator: the handler of each opcode, and the library of functions that all kernels share.

A kernel calls a library function by name; the name says all that the function depends on. It is compiled at first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import cast

from llvmlite import ir

from warpsight.emulator.codegen.calls import Calls
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import HelperFrame, helper_type
from warpsight.emulator.codegen.instruction_set import InstructionSet
from warpsight.emulator.codegen.lanes import I64, PTR, KernelModule, Value, vector
from warpsight.emulator.ptx import tensor_memory_accesses, tensor_memory_engine
from warpsight.emulator.ptx.common import kinds_of
from warpsight.emulator.ptx.matrix_shapes import Product
from warpsight.emulator.ptx.mma import multiply_inside, product_types
from warpsight.emulator.ptx.system import emit_special
from warpsight.emulator.ptx.tensor_engine import engine_function
from warpsight.emulator.ptx.wgmma import GROUP_ARGUMENTS, GroupProduct, multiply_group_inside
from warpsight.emulator.ptx.wmma import MatrixAccess, move_matrix
from warpsight.emulator.textures.fetch import fetch_function, query_function
from warpsight.emulator.textures.surfaces import surface_function
from warpsight.isa.ptx.opcodes import CONTROL, OPCODES
from warpsight.isa.ptx.program import Address, Instruction
from warpsight.isa.ptx.rules import is_async_copy, memory_access
from warpsight.traces.schema import SECTOR_SPACES

_PREFIXES = ("warpsight.mma.", "warpsight.wmma.", "warpsight.wgmma.")


def library_functions_of(called: Iterable[str]) -> list[str]:
    """The functions of this library among those that are called."""
    return [name for name in called if name.startswith(_PREFIXES)]


def build_library_function(name: str) -> ir.Module:
    """The module with the function `name`."""
    module = KernelModule(name)
    _, family, *fields = name.split(".")
    if family == "mma":
        product = Product.of_fields(fields)
        kind = helper_type([*product_types(product)[0], PTR], [])
        multiply_inside(HelperFrame(ir.Function(module, kind, name)), product)
    elif family == "wgmma":
        kind = helper_type(GROUP_ARGUMENTS, [])
        multiply_group_inside(HelperFrame(ir.Function(module, kind, name)), GroupProduct.of_fields(fields))
    else:
        kind = helper_type([I64, I64, PTR], [])
        move_matrix(HelperFrame(ir.Function(module, kind, name)), MatrixAccess(*fields))
    return module


# -- Handlers. A row of the table of opcodes names one; a new opcode is a row there and a function in a file of this folder.

Handler = Callable[[Emitter, Instruction], None]


def _handler(name: str) -> Handler:
    family, function = name.split(".")
    return cast(Handler, getattr(import_module(f"warpsight.emulator.ptx.{family}"), function))


HANDLERS = {row.name: _handler(row.handler) for row in OPCODES.values() if row.handler not in ("", CONTROL)}


def emit_operation(emitter: Emitter, instruction: Instruction) -> None:
    """Emit one instruction that does not end its block; refuse unknown opcodes."""
    handler = HANDLERS.get(instruction.opcode)
    if handler is None:
        raise emitter.unsupported("it is not modelled")
    if OPCODES[instruction.opcode].bits_only:
        for kind in kinds_of(instruction):
            if "f" in kind or kind.startswith("e"):
                raise emitter.unsupported(f"PTX has it for integers and bits, not for .{kind}")
    handler(emitter, instruction)


_PLAIN = ("ld", "ldu", "st", "atom", "red")


def _addresses(emitter: Emitter, instruction: Instruction) -> tuple[Value, Value] | None:
    """Where a plain access goes: its only address, or the source of an asynchronous copy."""
    copies = is_async_copy(instruction)
    if not copies and instruction.opcode not in _PLAIN:
        return None
    access = memory_access(instruction)
    if access is None or access.space not in (*SECTOR_SPACES, "shared"):
        return None
    found = [operand for operand in instruction.operands if isinstance(operand, Address)]
    if len(found) != 1 + copies:
        return None
    if access.space in ("shared", "local"):
        return emitter.builder.zext(emitter.effective_address(found[-1], 32), vector(I64)), emitter.active_mask
    return emitter.effective_address(found[-1]), emitter.active_mask


def _branch_condition(emitter: Emitter, instruction: Instruction) -> None:
    """The guard of a branch says it all."""


def _branch_index(emitter: Emitter, instruction: Instruction) -> Value:
    return emitter.read(instruction.operands[0], "u32")


PTX = InstructionSet(
    "ptx",
    lambda instruction: instruction.opcode in HANDLERS,
    emit_operation,
    _addresses,
    emit_special,
    _branch_condition,
    _branch_index,
    Calls,
    library_functions_of,
    build_library_function,
    {
        "warpsight_texture": lambda: fetch_function().address,
        "warpsight_image_query": lambda: query_function().address,
        "warpsight_surface": lambda: surface_function().address,
        "warpsight_tensor": lambda: engine_function().address,
        "warpsight_tensor_memory": lambda: tensor_memory_engine.engine_function().address,
        "warpsight_tensor_accesses": lambda: tensor_memory_accesses.accesses_function().address,
    },
)
