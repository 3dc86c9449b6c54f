"""From a kernel to machine code: builds the LLVM module, optimises it, checks what it needs of the process, and keeps the object
code on disk between runs.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from warpsight._version import __version__
from warpsight.base import diskcache
from warpsight.base.compile_budget import check, compiling
from warpsight.base.errors import UnsupportedError
from warpsight.base.findings import ORDER, SYNCCHECK
from warpsight.emulator.codegen import kernel_builder as budget
from warpsight.emulator.codegen import object_code
from warpsight.emulator.codegen.driver import build_driver
from warpsight.emulator.codegen.emitter import NotComputed
from warpsight.emulator.codegen.instruction_set import InstructionSet
from warpsight.emulator.codegen.kernel_builder import KernelBuilder
from warpsight.emulator.codegen.lane_scheduler import schedule_address
from warpsight.emulator.codegen.symbols import SymbolTable
from warpsight.emulator.codegen.watcher_entries import access_address, copied_address, note_address, order_address
from warpsight.isa.ptx.cfg import ControlFlowGraph, build_cfg
from warpsight.isa.ptx.program import Function, Module
from warpsight.isa.ptx.slicing import Sources, slice_of
from warpsight.kernels.elf import MAGIC, Elf


def undefined_functions(code: bytes) -> list[str]:
    """Names of the symbols that an ELF-64 object uses and does not define; nothing for another format."""
    if code[:5] != MAGIC + b"\x02":
        return []
    return sorted(symbol.name for symbol in Elf(code, "native code").symbols if symbol.name and symbol.section == 0)


def check_resolved(code: bytes, kernel: str, path: str) -> None:
    """Raise UnsupportedError when the object calls a function that this process does not have."""
    missing = [name for name in undefined_functions(code) if not name.startswith("_GLOBAL_") and not llvm.address_of_symbol(name)]
    if missing:
        raise UnsupportedError(
            f"kernel {kernel} needs an operation that neither this processor nor the C library has ({', '.join(missing)})",
            place=path,
            remedy="run it on an x86-64 processor with AVX2, FMA and F16C",
        )


_LOCK = threading.Lock()
_NEED_LANES_APART = frozenset({SYNCCHECK, ORDER})  # whose answers depend on which lanes wait for which
_HEAD = "<qqq"  # sites, bytes of a warp's state, bytes of the names of library functions that the kernel calls
_WATCHERS: dict[str, Callable[[], int]] = {
    "warpsight_note": note_address, "warpsight_order": order_address, "warpsight_access": access_address,
    "warpsight_copied": copied_address,
}
_LIBRARY: dict[str, Any] = {}  # engines of the library functions in use, by name
HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
RUN_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

EXTERNAL_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64, ctypes.c_void_p)

# Native code calls back with its context; the launch that owns the context answers: 0 to stop, which is also what native code gets
# when an exception escapes, else room has been made.
HOSTS: dict[int, Callable[[int], int]] = {}


def _answer(context: int, room: int) -> int:
    return HOSTS[context](room)


_CALLBACK = HOST_TYPE(_answer)

# Calls of functions that the runtime provides: (function's number, mask of lanes, pc, host address of the arguments), same answer.
EXTERNAL_HOSTS: dict[int, Callable[[int, int, int, int], int]] = {}


def _answer_external(context: int, number: int, mask: int, pc: int, arguments: int) -> int:
    return EXTERNAL_HOSTS[context](number, mask, pc, arguments)


_EXTERNAL_CALLBACK = EXTERNAL_TYPE(_answer_external)


@dataclass
class NativeKernel:
    """Machine code of one kernel. `run(context, first_block, end_block)`; the other fields say what the context must provide."""

    run: Any
    graph: ControlFlowGraph
    symbols: SymbolTable
    site_count: int
    state_stride: int
    frame: int  # the kernel's own part of each lane's call stack
    engine: Any
    clustered: bool = False  # for launches in clusters, whose blocks run together
    tensor_memory: bool = False  # each block needs some
    computes: bool = True  # what it leaves in memory are its results; else only what decides the trace is executed


def compile_kernel(
    module: Module, function: Function, text: str, instructions: InstructionSet, symbols: SymbolTable,
    checks: frozenset[str] = frozenset(), probes: frozenset[int] = frozenset(), clustered: bool = False,
    sources: Sources | None = None,
) -> NativeKernel:
    """Machine code for `function` of `module`, which was made from `text`: from the disk cache, or compiled now.

    With `checks`, the code tells them what it does (see `watching.py`). `symbols` says where variables lie. The accesses at the
    pcs `probes` leave the addresses of their lanes (see `recording.py`). `clustered` code is for launches in clusters of several
    blocks. With `sources` no results are wanted: only the slice that decides the trace is executed, as far as it is known, or with
    `probes` what decides those accesses. Raises
    UnsupportedError for anything that is not modelled.
    """
    _initialise()
    graph = build_cfg(function, apart=not checks.isdisjoint(_NEED_LANES_APART), together=clustered)
    part = None if sources is None else slice_of(function, graph, sources, probes or None)
    quickly = budget.is_quick(function, part)
    # Code from an assembler is long because it is unrolled: better registers make it 1.2 to 1.8 times as fast.
    effort = (1 if instructions.level == "sass" else 0) if quickly else 2
    machine, host = object_code.target_machine(effort)

    def build() -> bytes:
        """A small head, the names of library functions, then the object file."""
        llvm_module = ir.Module(name="kernel")
        builder = KernelBuilder(llvm_module, function, graph, symbols, module.path, instructions, checks, probes, clustered, part)
        builder.build()
        build_driver(llvm_module, builder.llvm, graph.waits.independent, checks)
        code = _emit(llvm_module, effort, quickly, module.path)
        called = instructions.library_functions_of(llvm_module)
        _announce(code, called, graph, instructions)
        check_resolved(code, function.name, module.path)
        names = " ".join(called).encode()
        return struct.pack(_HEAD, builder.site_count, builder.state_stride, len(names)) + names + code

    left_out = "" if part is None else f"without {sorted(part.skipped)} {sorted(part.recorded)}"
    chosen = [name for name, given in ((f"probes {sorted(probes)}", probes), ("clustered", clustered), (left_out, part)) if given]
    options = f"{symbols.global_base} {effort} {budget.BUDGET} {budget.QUICK_BUDGET} {' '.join([*sorted(checks), *chosen])}"
    try:
        stored = _kept(build, host, instructions.level, options, function.name, text)
    except NotComputed:
        return compile_kernel(module, function, text, instructions, symbols, checks, probes, clustered)
    site_count, state_stride, named = struct.unpack_from(_HEAD, stored)
    start = struct.calcsize(_HEAD) + named
    called = stored[struct.calcsize(_HEAD) : start].decode().split()
    _announce(stored[start:], called, graph, instructions)
    with _LOCK:
        engine = _load(stored[start:], machine)
        run = RUN_TYPE(engine.get_function_address("run"))
    tensor_memory = any(instruction.opcode == "tcgen05" for instruction in function.instructions)
    return NativeKernel(
        run, graph, symbols, site_count, state_stride, function.frame, engine, clustered, tensor_memory, computes=part is None
    )  # fmt: skip


def _kept(build: Callable[[], bytes], host: str, *identity: str) -> bytes:
    """What `build` makes, or what it made before of the same, from the disk cache."""
    parts = (__version__, str(llvm.llvm_version_info), host, _generator(), *identity)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    code = diskcache.get("native", key)
    if code is None:
        code = build()
        diskcache.put("native", key, code)
    return code


# Longer modules are compiled in a process of their own, which can be ended. It takes 0.2 s to start, and LLVM a second and more.
_LONG = 1_500_000


def _emit(module: ir.Module, effort: int, quickly: bool, place: str) -> bytes:
    """The object file of a module, within the budget for compiling. Raises LimitError."""
    module.triple = llvm.get_default_triple()
    text = str(module)
    check("generating code")
    if len(text) < _LONG or not sys.executable:
        return object_code.object_code(text, effort, quickly)
    effort = 0 if quickly else effort  # good registers take time by the square of the code: 15 s for 3 MB; any registers, 0.8 s
    command = [sys.executable, object_code.__file__, str(effort), str(int(quickly))]
    path = os.pathsep.join(filter(None, sys.path))  # it finds LLVM where this process has
    with compiling(place) as limits:
        process = limits.run(command, text.encode(), "making native code", {**os.environ, "PYTHONPATH": path})
    if process.returncode != 0:
        said = process.stderr.decode(errors="replace").strip().splitlines()
        what = f"LLVM cannot compile it: {said[-1] if said else f'it ended with code {process.returncode}'}"
        raise UnsupportedError(what, place=place, remedy="make the kernel smaller, or compile it with optimisation")
    return process.stdout


def _load(code: bytes, machine: Any) -> Any:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _provide(name: str, instructions: InstructionSet) -> None:
    """Let native code find a function of the library: compile it, or take it from the disk cache, once per process."""
    machine, host = object_code.target_machine(2)

    def build() -> bytes:
        code = _emit(instructions.build_library_function(name), 2, False, "library")
        check_resolved(code, name, "library")
        return code

    with _LOCK:
        if name not in _LIBRARY:
            _LIBRARY[name] = _load(_kept(build, host, instructions.level, name), machine)
            llvm.add_symbol(name, _LIBRARY[name].get_function_address(name))


def _announce(code: bytes, called: list[str], graph: ControlFlowGraph, instructions: InstructionSet) -> None:
    """Let native code find what it calls: Python, the functions `called` of the library, and the level's own in Numba.

    What is compiled of these is compiled, and then kept, when a kernel needs it.
    """
    llvm.add_symbol("warpsight_host", ctypes.cast(_CALLBACK, ctypes.c_void_p).value)
    llvm.add_symbol("warpsight_external", ctypes.cast(_EXTERNAL_CALLBACK, ctypes.c_void_p).value)
    if graph.waits.independent:
        llvm.add_symbol("warpsight_schedule", schedule_address())
    for name in called:
        _provide(name, instructions)
    for name, address in _WATCHERS.items():
        if name.encode() in code:
            llvm.add_symbol(name, address())
    for name, address in instructions.callbacks.items():
        if name.encode() in code:
            llvm.add_symbol(name, address())


@functools.cache
def _initialise() -> None:
    with _LOCK:  # twice does no harm
        object_code.initialise()
        # LLVM turns its own operations into calls of these, and does not always look into the C library by itself.
        library = ctypes.CDLL(None)
        for name in ("memset", "memcpy", "memmove"):
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
        # Mathematical functions are in a library of their own, except with C libraries that have one library for all.
        with suppress(RuntimeError):
            llvm.load_library_permanently("libm.so.6")


@functools.cache
def _generator() -> str:
    """Identity of the code that generates code, so that a changed emulator never runs old machine code."""
    root = Path(__file__).parents[2]
    files = sorted(f for part in ("emulator", "isa") for f in (root / part).rglob("*.py"))
    assert files, root
    return repr([(f.relative_to(root).as_posix(), f.stat().st_size, f.stat().st_mtime_ns) for f in files])
