"""From a PTX kernel to machine code: builds the LLVM module, optimises it, and keeps the object code on disk between runs."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from warpsight._version import __version__
from warpsight.base import diskcache
from warpsight.emulator import budget
from warpsight.emulator.driver import build_driver
from warpsight.emulator.objects import check_resolved
from warpsight.emulator.skeleton import KernelBuilder
from warpsight.emulator.symbols import SymbolTable
from warpsight.isa.cfg import ControlFlowGraph, build_cfg
from warpsight.isa.program import Function, Module

_LOCK = threading.Lock()
_READY = False
_HEAD = "<qq"
# LLVM's full code generation takes a millisecond and more per instruction of a large kernel; without it, a third to a half of
# that, and code that runs 1.2 to 1.7 times as long.
QUICK_ABOVE = 400
HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
RUN_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


# Native code calls back with its context; the launch that owns the context answers: 0 to stop, which is also what native code gets
# when an exception escapes, else room has been made.
HOSTS: dict[int, Callable[[int], int]] = {}


def _answer(context: int, room: int) -> int:
    return HOSTS[context](room)


_CALLBACK = HOST_TYPE(_answer)


@dataclass
class NativeKernel:
    """Machine code of one kernel. `run(context, first_block, end_block)`; the other fields say what the context must provide."""

    run: Any
    graph: ControlFlowGraph
    symbols: SymbolTable
    site_count: int
    state_stride: int
    engine: Any


def compile_kernel(module: Module, function: Function, ptx: str) -> NativeKernel:
    """Machine code for `function` of `module`, whose text is `ptx`: from the disk cache, or compiled now.

    Raises UnsupportedError for anything that is not modelled.
    """
    _initialise()
    graph = build_cfg(function)
    symbols = SymbolTable(module, function)
    quickly = len(function.instructions) > QUICK_ABOVE
    machine, host = _machine(quickly)
    identity = (__version__, str(llvm.llvm_version_info), host, _generator(), f"{quickly} {budget.BUDGET}", function.name, ptx)
    key = hashlib.sha256("\0".join(identity).encode()).hexdigest()
    stored = diskcache.get("native", key)
    if stored is None:
        stored = _compile(module, function, graph, symbols, machine, quickly)
        diskcache.put("native", key, stored)
    site_count, state_stride = struct.unpack_from(_HEAD, stored)
    _announce_host()
    with _LOCK:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(stored[struct.calcsize(_HEAD) :]))
        engine.finalize_object()
        run = RUN_TYPE(engine.get_function_address("run"))
    return NativeKernel(run, graph, symbols, site_count, state_stride, engine)


def _compile(
    module: Module, function: Function, graph: ControlFlowGraph, symbols: SymbolTable, machine: Any, quickly: bool
) -> bytes:
    """Build, optimise and emit: a small head (sites, bytes of a warp's state), then the object file."""
    llvm_module = ir.Module(name="kernel")
    llvm_module.triple = llvm.get_default_triple()
    builder = KernelBuilder(llvm_module, function, graph, symbols, module.path)
    builder.build()
    build_driver(llvm_module, builder.llvm)
    parsed = llvm.parse_assembly(str(llvm_module))
    parsed.verify()
    (_clean_up if quickly else _optimise)(parsed, machine)
    code = bytes(machine.emit_object(parsed))
    _announce_host()
    check_resolved(code, function.name, module.path)
    return struct.pack(_HEAD, builder.site_count, builder.state_stride) + code


def _announce_host() -> None:
    """Let native code find the function that it calls back."""
    llvm.add_symbol("warpsight_host", ctypes.cast(_CALLBACK, ctypes.c_void_p).value)


def _initialise() -> None:
    global _READY  # noqa: PLW0603  LLVM's own initialisation is global
    with _LOCK:
        if not _READY:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            # LLVM turns its own operations into calls of these, and does not always look into the C library by itself.
            library = ctypes.CDLL(None)
            for name in ("memset", "memcpy", "memmove"):
                llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
            _READY = True


def _machine(quickly: bool) -> tuple[Any, str]:
    """Target machine of this host, with full-width vectors, and a string that identifies it."""
    name = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=0 if quickly else 2, jit=True), f"{name} {features}"


@functools.cache
def _generator() -> str:
    """Identity of the code that generates code, so that a changed emulator never runs old machine code."""
    root = Path(__file__).parent.parent
    files = sorted(f for part in ("emulator", "isa") for f in (root / part).rglob("*.py"))
    return repr([(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files])


def _clean_up(parsed: Any, machine: Any) -> None:
    """The least that pays for itself: stack slots to values, and what that makes simple."""
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    manager = llvm.create_new_function_pass_manager()
    for add in (manager.add_sroa_pass, manager.add_simplify_cfg_pass, manager.add_instruction_combine_pass):
        add()
    for function in parsed.functions:
        if not function.is_declaration:
            manager.run(function, passes)


def _optimise(parsed: Any, machine: Any) -> None:
    """Promote stack slots to values and clean up: enough, and linear in the kernel's size."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    manager = passes.getModulePassManager()
    manager.run(parsed, passes)
