"""From a PTX kernel to machine code: builds the LLVM module, optimises it, and keeps the object code on disk between runs."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from warpsight._version import __version__
from warpsight.base import diskcache
from warpsight.emulator.driver import build_driver
from warpsight.emulator.recording import BlockRecord
from warpsight.emulator.skeleton import KernelBuilder
from warpsight.emulator.symbols import SymbolTable
from warpsight.isa.cfg import ControlFlowGraph, build_cfg
from warpsight.isa.program import Function, Module

_LOCK = threading.Lock()
_READY = False
HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
RUN_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


# Native code calls back with its context; the launch that owns the context answers (room made: 0, stop: anything else).
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
    records: list[BlockRecord]
    engine: Any


class _ObjectCache:
    """Serves one module's object code from disk, or stores what was compiled."""

    def __init__(self, key: str) -> None:
        self.key, self.hit = key, diskcache.get("native", key)

    def store(self, _module: Any, buffer: bytes) -> None:
        """Called by LLVM with freshly compiled code."""
        diskcache.put("native", self.key, bytes(buffer))

    def load(self, _module: Any) -> bytes | None:
        """Called by LLVM before it compiles."""
        return self.hit


def _initialise() -> None:
    global _READY  # noqa: PLW0603  LLVM's own initialisation is global
    with _LOCK:
        if not _READY:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            _READY = True


def _machine() -> tuple[Any, str]:
    """Target machine of this host, with full-width vectors, and a string that identifies it."""
    name = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=2, jit=True), f"{name} {features}"


def compile_kernel(module: Module, function: Function) -> NativeKernel:
    """Compile `function` of `module`; code of the same text is taken from the disk cache.

    Raises UnsupportedError for anything that is not modelled.
    """
    _initialise()
    graph = build_cfg(function)
    symbols = SymbolTable(module, function)
    llvm_module = ir.Module(name="kernel")
    llvm_module.triple = llvm.get_default_triple()
    builder = KernelBuilder(llvm_module, function, graph, symbols, module.path)
    builder.build()
    build_driver(llvm_module, builder.llvm)
    text = str(llvm_module)
    machine, identity = _machine()
    key = hashlib.sha256(f"{__version__}|{identity}|{llvm.llvm_version_info}|{text}".encode()).hexdigest()
    cache = _ObjectCache(key)
    parsed = llvm.parse_assembly(text)
    if cache.hit is None:
        parsed.verify()
        _optimise(parsed, machine)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.set_object_cache(cache.store, cache.load)
    llvm.add_symbol("warpsight_host", ctypes.cast(_CALLBACK, ctypes.c_void_p).value)
    engine.finalize_object()
    run = RUN_TYPE(engine.get_function_address("run"))
    return NativeKernel(run, graph, symbols, builder.site_count, builder.state_stride, builder.records, engine)


def _optimise(parsed: Any, machine: Any) -> None:
    """Promote stack slots to values and clean up: enough, and linear in the kernel's size."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    manager = passes.getModulePassManager()
    manager.run(parsed, passes)
