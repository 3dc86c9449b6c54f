"""LLVM: from the text of a module to an object file for this machine, here or in a process of its own.

    python object_code.py EFFORT QUICKLY < module > object

LLVM cannot be interrupted, and what it needs grows faster than the code. So a long module is compiled in a process that can be
ended (`native.py`). It is run as a file, so that nothing of the package is imported.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import llvmlite.binding as llvm

_MANY_BLOCKS = 1000


@functools.cache
def initialise() -> None:
    """Once per process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def target_machine(effort: int) -> tuple[Any, str]:
    """Target machine of this host, with full-width vectors, and a string that identifies it. `effort` is 0 to 2."""
    name, features = _host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=effort, jit=True), f"{name} {features}"


@functools.cache
def _host() -> tuple[str, str]:
    """The processor and its features."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"


@functools.cache
def _compiler(effort: int) -> Any:
    """A target machine that is kept: with its first module it makes its tables, which take longer than a module of a few lines."""
    return target_machine(effort)[0]


def object_code(text: str, effort: int, quickly: bool) -> bytes:
    """The object file of a module."""
    machine = _compiler(effort)
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    if quickly:
        _clean_up(parsed, machine)
    else:
        _optimise(parsed, machine)
    return bytes(machine.emit_object(parsed))


def _clean_up(parsed: Any, machine: Any) -> None:
    """The least that pays for itself: stack slots to values, and what that makes simple.

    Combining instructions takes time by the square of the accesses that follow one another (4 s for 1,000, minutes for 10,000),
    so that long functions go without.
    """
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    manager = llvm.create_new_function_pass_manager()
    combining = llvm.create_new_function_pass_manager()
    for add in (manager.add_sroa_pass, manager.add_simplify_cfg_pass, combining.add_instruction_combine_pass):
        add()
    for function in parsed.functions:
        if not function.is_declaration:
            manager.run(function, passes)
            if sum(1 for _ in function.blocks) < _MANY_BLOCKS:
                combining.run(function, passes)


def _optimise(parsed: Any, machine: Any) -> None:
    """Promote stack slots to values and clean up: enough, and linear in the kernel's size."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    manager = passes.getModulePassManager()
    manager.run(parsed, passes)


def main() -> int:
    """See the module's text."""
    effort, quickly = map(int, sys.argv[1:])
    initialise()
    sys.stdout.buffer.write(object_code(sys.stdin.buffer.read().decode(), effort, bool(quickly)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
