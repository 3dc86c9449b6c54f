"""From a kernel to machine code: builds the LLVM module, takes out the functions that kernels share, and keeps the object code on
disk between runs.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from warpsight.base import diskcache
from warpsight.base.findings import ORDER, SYNCCHECK
from warpsight.emulator.codegen import kernel_builder as budget
from warpsight.emulator.codegen import object_code
from warpsight.emulator.codegen.emitter import NotComputed
from warpsight.emulator.codegen.instruction_set import InstructionSet
from warpsight.emulator.codegen.kernel_builder import KernelBuilder
from warpsight.emulator.codegen.lane_scheduler import schedule_address
from warpsight.emulator.codegen.lanes import KernelModule
from warpsight.emulator.codegen.shared_functions import (
    LOCK,
    SharedFunction,
    check_resolved,
    driver_functions,
    emit,
    is_shared,
    kept_key,
    known_functions,
    load,
    provide,
    separate,
)
from warpsight.emulator.codegen.symbols import SymbolTable
from warpsight.emulator.codegen.watcher_entries import access_address, copied_address, note_address, order_address
from warpsight.isa.ptx.cfg import ControlFlowGraph, build_cfg
from warpsight.isa.ptx.program import Function, Module
from warpsight.isa.ptx.slicing import Sources, slice_of

_NEED_LANES_APART = frozenset({SYNCCHECK, ORDER})  # whose answers depend on which lanes wait for which
_HEAD = "<qqq"  # sites, bytes of a warp's state, bytes of the symbols that `_announce` takes
HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
RUN_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

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

# What native code may call of this process, by symbol: its address.
_OURS: dict[str, Callable[[], int]] = {
    "warpsight_host": lambda: ctypes.cast(_CALLBACK, ctypes.c_void_p).value or 0,
    "warpsight_external": lambda: ctypes.cast(_EXTERNAL_CALLBACK, ctypes.c_void_p).value or 0,
    "warpsight_schedule": schedule_address, "warpsight_note": note_address, "warpsight_order": order_address,
    "warpsight_access": access_address, "warpsight_copied": copied_address,
}  # fmt: skip


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
    sources: Sources | None = None, *, briefly: bool = False,
) -> NativeKernel:
    """Machine code for `function` of `module`, which was made from `text`: from the disk cache, or compiled now.

    With `checks`, the code tells them what it does (see `watching.py`). `symbols` says where variables lie. The accesses at the
    pcs `probes` leave the addresses of their lanes (see `recording.py`). `clustered` code is for launches in clusters of several
    blocks. With `sources` no results are wanted: only the slice that decides the trace is executed, as far as it is known, or with
    `probes` what decides those accesses. `briefly`: for a short run, which takes less time than LLVM. Raises UnsupportedError for
    anything that is not modelled.
    """
    _initialise()
    graph = build_cfg(function, apart=not checks.isdisjoint(_NEED_LANES_APART), together=clustered)
    part = None if sources is None else slice_of(function, graph, sources, probes or None)
    quickly = briefly or budget.is_quick(function, part)
    # Code from an assembler is long because it is unrolled: better registers make it 1.2 to 1.8 times as fast.
    effort = (1 if instructions.level == "sass" and not briefly else 0) if quickly else 2
    machine, host = object_code.target_machine(effort)

    def build() -> bytes:
        """A small head, the symbols that the kernel needs, then the object file."""
        known = known_functions(instructions.level, checks, clustered)
        llvm_module = KernelModule("kernel", dict(known))
        builder = KernelBuilder(
            llvm_module, function, graph, symbols, module.path, instructions, checks, probes, clustered, part, briefly
        )  # fmt: skip
        rest, taken = _generated(builder)
        known.update(taken)
        shared = [*taken.values(), *driver_functions(graph.waits.independent, checks)]
        called = dict.fromkeys([*llvm_module.globals, *(name for each in shared for name in each.calls)])
        needed = [*instructions.library_functions_of(called), *dict.fromkeys(each.symbol for each in shared)]
        code = emit(rest, effort, quickly, module.path)
        _announce(code, needed, instructions, (function.name, module.path), shared)
        check_resolved(code, function.name, module.path)
        names = " ".join(needed).encode()
        return struct.pack(_HEAD, builder.site_count, builder.state_stride, len(names)) + names + code

    left_out = "" if part is None else f"without {sorted(part.skipped)} {sorted(part.recorded)}"
    special = ((f"probes {sorted(probes)}", probes), ("clustered", clustered), ("briefly", briefly), (left_out, part))
    chosen = [name for name, given in special if given]
    options = f"{symbols.global_base} {effort} {budget.BUDGET} {budget.QUICK_BUDGET} {' '.join([*sorted(checks), *chosen])}"
    key = kept_key(host, instructions.level, options, function.name, text)
    stored = diskcache.get("native", key)
    if stored is None or not _announce(*_parts(stored)[2:], instructions, (function.name, module.path)):
        try:
            stored = build()
        except NotComputed:
            return compile_kernel(module, function, text, instructions, symbols, checks, probes, clustered, briefly=briefly)
        diskcache.put("native", key, stored)
    site_count, state_stride, code, needed = _parts(stored)
    with LOCK:
        engine = load(code, machine)
    run = functools.partial(RUN_TYPE(llvm.address_of_symbol(needed[-1])), engine.get_function_address("warp"))
    tensor_memory = any(instruction.opcode == "tcgen05" for instruction in function.instructions)
    return NativeKernel(
        run, graph, symbols, site_count, state_stride, function.frame, engine, clustered, tensor_memory, computes=part is None
    )  # fmt: skip


def _generated(builder: KernelBuilder) -> tuple[str, dict[str, SharedFunction]]:
    """Build the module of a kernel, and separate it. All that is made for it is needed until then: to search that for garbage takes
    a fifth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        builder.build()
        return separate(builder.module)
    finally:
        if was_on:
            gc.enable()


def _parts(stored: bytes) -> tuple[int, int, bytes, list[str]]:
    """Sites, bytes of a warp's state, the object file, and the symbols that it needs; the last is that of the loop over blocks."""
    site_count, state_stride, named = struct.unpack_from(_HEAD, stored)
    start = struct.calcsize(_HEAD) + named
    return site_count, state_stride, stored[start:], stored[struct.calcsize(_HEAD) : start].decode().split()


def _announce(
    code: bytes, needed: list[str], instructions: InstructionSet, kernel: tuple[str, str], shared: Sequence[SharedFunction] = ()
) -> bool:
    """Let native code find what it calls: Python, the functions `needed`, and the level's own in Numba.

    What is compiled of these is compiled, and then kept, when a kernel needs it: library functions by their name, `shared` ones of
    their text. False if one is not kept whose text is not given. `kernel` is the name and the place for errors.
    """
    texts = {each.symbol: each.text for each in shared}

    def announce(code: bytes) -> None:
        for name, address in {**_OURS, **instructions.callbacks}.items():
            if name.encode() in code:
                llvm.add_symbol(name, address())

    def text_of(name: str) -> str | None:
        if is_shared(name):
            return texts.get(name)
        return str(instructions.build_library_function(name))

    announce(code)
    return all(provide(name, *kernel, functools.partial(text_of, name), announce) for name in needed)


@functools.cache
def _initialise() -> None:
    with LOCK:  # twice does no harm
        object_code.initialise()
        # LLVM turns its own operations into calls of these, and does not always look into the C library by itself.
        library = ctypes.CDLL(None)
        for name in ("memset", "memcpy", "memmove"):
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
        # Mathematical functions are in a library of their own, except with C libraries that have one library for all.
        with suppress(RuntimeError):
            llvm.load_library_permanently("libm.so.6")
