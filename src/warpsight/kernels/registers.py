"""Registers per thread and static shared memory of a kernel: from the assembler, from the user, or estimated from the PTX.

The estimate: the most 32-bit registers that are live at once (backward liveness over the control-flow graph; Aho et al.,
"Compilers", section 9.2.5), plus those that machine code needs on top of the PTX's own. The assembler also unrolls loops and
moves loads up, which keeps more values alive, so this is closer to a lower bound than to the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.dataflow import live_around
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.isa.ptx.program import Address, Function, Module, Symbol
from warpsight.isa.ptx.rules import CARRY
from warpsight.kernels.assembler import cubin_of
from warpsight.kernels.cubin import CubinKernel, read_cubin
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.toolkit import Architecture, MissingLibraryError, parse_architecture

# Addresses of parameters and special registers are PTX operands, but pass through a register in machine code.
_MACHINE_REGISTERS, _LEAST = 4, 8


def most_live_registers(function: Function) -> int:
    """The most 32-bit registers live before any instruction; predicates, which have a file of their own, not counted.

    Raises UnsupportedError for an opcode whose effect is not known.
    """
    sizes = {name: int("".join(filter(str.isdigit, kind)) or 32) // 32 for name, kind in function.registers.items()}
    width = {CARRY: 0} | {name: 0 if kind == "pred" else max(1, sizes[name]) for name, kind in function.registers.items()}
    around = live_around(function, build_cfg(function))
    return max((sum(width.get(name, 1) for name in before) for _, _, before in around), default=0)


def estimate_registers(function: Function) -> int:
    """Registers per thread, estimated."""
    return max(_LEAST, most_live_registers(function) + _MACHINE_REGISTERS)


def declared_shared_bytes(module: Module, function: Function) -> int:
    """Static shared memory that a kernel's own variables, and the module's that it names, take with their alignment, in bytes."""
    operands = [operand for instruction in function.instructions for operand in instruction.operands]
    bases = (operand.base if isinstance(operand, Address) else operand for operand in operands)
    named = {base.name for base in bases if isinstance(base, Symbol)}
    variables = [*function.variables.values(), *(v for v in module.variables.values() if v.name in named)]
    total = 0
    for variable in variables:
        if variable.space == "shared" and not variable.extern:
            total = -(-total // max(variable.align, 1)) * max(variable.align, 1) + variable.size
    return total


# -- The assembler's count, the user's, or the estimate.

_OLDEST_ASSEMBLED, _MOST_REGISTERS = 75, 255

Origin = Literal["assembler", "override", "estimate"]


@dataclass(frozen=True)
class RegisterUse:
    """What a kernel takes of an SM. `registers` and `local_bytes` per thread, `static_shared_bytes` per block.

    `origin` says who counted the registers; `note` is a remark about the figure, or "".
    """

    registers: int
    origin: Origin
    static_shared_bytes: int
    note: str = ""
    local_bytes: int = 0


def assembler_target(target: str) -> tuple[Architecture, str]:
    """The architecture to assemble a PTX `.target` for, and a note when it is not that very one."""
    architecture = parse_architecture(target.partition(",")[0])
    if architecture.number >= _OLDEST_ASSEMBLED:
        return architecture, ""
    oldest = Architecture(_OLDEST_ASSEMBLED)
    return oldest, f"registers are those for {oldest.real}: the assembler no longer supports {architecture.real}"


def assembled_kernels(source: KernelSource, architecture: Architecture | None = None) -> dict[str, CubinKernel]:
    """What the assembler reports of every kernel, by mangled name; kept on disk. Raises MissingLibraryError, CompileError.

    `architecture` is what it assembles for; by default the PTX's target.
    """
    architecture = architecture or assembler_target(source.target)[0]
    return read_cubin(cubin_of(source, architecture), source.path)


def _counted(source: KernelSource, kernel: str, architecture: Architecture | None) -> RegisterUse:
    try:
        assembled = assembled_kernels(source, architecture)[kernel]
    except (WarpsightError, KeyError) as error:
        if isinstance(error, MissingLibraryError):
            reason = f"{error.what}; {error.remedy}"
        else:
            reason = error.what if isinstance(error, WarpsightError) else "the assembler left the kernel out"
        function = inline_calls(source.module, source.module.kernels[kernel])
        shared = declared_shared_bytes(source.module, function)
        note = f"registers are estimated from live values in the PTX, because NVIDIA's assembler did not count them: {reason}"
        return RegisterUse(estimate_registers(function), "estimate", shared, note)
    note = "" if architecture else assembler_target(source.target)[1]
    if (limit := source.register_limit) is not None and assembled.registers > limit:
        note = f"the assembler does not keep maxrregcount={limit}: the kernel's calls or its launch bounds take precedence"
    return RegisterUse(assembled.registers, "assembler", assembled.static_shared_bytes, note, assembled.stack_bytes)


def register_use(
    source: KernelSource, kernel: str, override: int | None = None, architecture: Architecture | None = None
) -> RegisterUse:
    """What `kernel` (mangled name) takes. `override` replaces the number of registers, not the shared memory.

    It is counted for `architecture`, by default the PTX's target. Raises UsageError for a number of registers that no GPU gives a
    thread.
    """
    if override is not None and not 1 <= override <= _MOST_REGISTERS:
        what = f"{override} registers per thread is outside 1 to {_MOST_REGISTERS}, CUDA's limits"
        raise UsageError(what, place="registers", remedy="give what the assembler reports, or leave it out")
    counted = _counted(source, kernel, architecture)
    if override is None:
        return counted
    note = f"registers as specified; without `registers`: {counted.registers} ({counted.origin})"
    return RegisterUse(override, "override", counted.static_shared_bytes, note, counted.local_bytes)
