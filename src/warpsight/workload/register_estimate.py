"""Registers and static shared memory from the PTX alone, where NVIDIA's assembler cannot say: an estimate, and labelled so.

Registers: the most 32-bit registers that are live at once (backward liveness over the control-flow graph; Aho et al., "Compilers",
section 9.2.5), plus those that machine code needs on top of the PTX's own. The assembler also unrolls loops and moves loads
up, which keeps more values alive, so this is closer to a lower bound than to the truth.
"""

from __future__ import annotations

from warpsight.isa.cfg import build_cfg
from warpsight.isa.dataflow import CARRY, live_out, reads, writes
from warpsight.isa.program import Address, Function, Module, Symbol

# Addresses of parameters and special registers are PTX operands, but pass through a register in machine code.
_MACHINE_REGISTERS = 4
_LEAST = 8


def most_live_registers(function: Function) -> int:
    """The most 32-bit registers live before any instruction; predicates, which have a file of their own, not counted.

    Raises UnsupportedError for an opcode whose effect is not known.
    """
    width = {CARRY: 0} | {name: _width(kind) for name, kind in function.registers.items()}
    graph, most = build_cfg(function), 0
    for block, after in enumerate(live_out(function, graph)):
        live = set(after)
        for instruction in reversed(function.instructions[graph.block_start[block] : graph.block_start[block + 1]]):
            # Lanes that a guard turns off keep the old value, so a guarded write does not end a life.
            if instruction.guard is None:
                live.difference_update(writes(instruction))
            live.update(reads(instruction))
            most = max(most, sum(width.get(name, 1) for name in live))
    return most


def _width(kind: str) -> int:
    if kind == "pred":
        return 0
    bits = int("".join(digit for digit in kind if digit.isdigit()) or 32)
    return max(1, bits // 32)


def estimate_registers(function: Function) -> int:
    """Registers per thread, estimated."""
    return max(_LEAST, most_live_registers(function) + _MACHINE_REGISTERS)


def declared_shared_bytes(module: Module, function: Function) -> int:
    """Static shared memory that a kernel's own variables, and the module's that it names, take with their alignment, in bytes."""
    named = {operand.name for each in function.instructions for operand in each.operands if isinstance(operand, Symbol)}
    named |= {
        operand.base.name
        for each in function.instructions
        for operand in each.operands
        if isinstance(operand, Address) and isinstance(operand.base, Symbol)
    }
    variables = [*function.variables.values(), *(v for v in module.variables.values() if v.name in named)]
    total = 0
    for variable in variables:
        if variable.space == "shared" and not variable.extern:
            total = -(-total // max(variable.align, 1)) * max(variable.align, 1) + variable.size
    return total
