"""What code generation needs to know of an instruction level: `ptx/instruction_set.py` and `sass/instruction_set.py` supply it.

Which opcodes end a basic block, who waits for whom and what is recorded is asked in PTX's words, which the decoder of machine code
gives its instructions too (`isa/sass/decode.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from llvmlite import ir

from warpsight.emulator.codegen.calls import Calls
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import Value
from warpsight.isa.ptx.program import Instruction


@dataclass(frozen=True)
class InstructionSet:
    """An instruction level: what is emitted for an instruction, and the functions that the emitted code calls.

    `executes` says whether an opcode is known; `emit` emits one instruction that does not end its basic block;
    `addresses` gives the address of each lane of a plain access to
    memory (<32 x i64>) and the mask of the lanes that make it (i32), None for any other instruction; `special(emitter, name)` gives
    the 32 lanes of a special register; `branch_condition(emitter, instruction)` restricts a branch to the lanes that take it, where
    its guard does not say it all; `branch_index(emitter, instruction)` which entry of its list of targets each lane of an indexed
    branch takes, as u32; `calls` makes the calls of a kernel. All raise UnsupportedError for what is not modelled.

    Library functions are shared by all kernels: `library_functions_of` gives those among the names, `build_library_function`
    makes the module of one. `callbacks` gives, by symbol, the address of each function that is not made by LLVM; it is compiled
    when its address is first asked for.
    """

    level: str
    executes: Callable[[Instruction], bool]
    emit: Callable[[Emitter, Instruction], None]
    addresses: Callable[[Emitter, Instruction], tuple[Value, Value] | None]
    special: Callable[[Emitter, str], Value]
    branch_condition: Callable[[Emitter, Instruction], None]
    branch_index: Callable[[Emitter, Instruction], Value]
    calls: type[Calls]
    library_functions_of: Callable[[Iterable[str]], list[str]]
    build_library_function: Callable[[str], ir.Module]
    callbacks: Mapping[str, Callable[[], int]]
