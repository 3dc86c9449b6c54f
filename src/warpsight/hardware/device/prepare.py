"""Creates cases: compiles a kernel, keeps its inputs, and runs it in the emulator. No GPU is needed."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from warpsight.base.errors import UnsupportedError, WarpsightError
from warpsight.emulator.ptx.system import needs_workspace
from warpsight.hardware.device.case import Case, Parameter, program_hash
from warpsight.isa.ptx.program import Address, Instruction, Negated, Register, Vector
from warpsight.kernels.cuda import CompileOptions, compile_cuda, supported_architectures
from warpsight.kernels.images import Image
from warpsight.kernels.launch import ArrayArgument, KernelSource, Launch, ScalarArgument, input_hash
from warpsight.kernels.toolkit import DEFAULT_ARCHITECTURE, parse_architecture
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import run_ready

HELPERS = "helpers.cu"
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")
_ROUNDED = ("rn", "rz", "rm", "rp")
APPROXIMATE, FUSED, ORDER = "approximate", "may be fused", "order of atomics"


def make_case(request: KernelRequest, name: str) -> Case:
    """Compile and emulate the kernel of `request`; the case has its inputs from before the run.

    Raises as `kernel_input.prepare` and the emulator, and UnsupportedError for textures, surfaces and cooperative grids.
    """
    ready = prepare(request)
    source, launch = ready.source, ready.launch
    _refuse(source, launch)
    program = _program(ready)
    before = [each.array.copy() if isinstance(each, ArrayArgument) else None for each in launch.arguments]
    run_ready(ready)
    return Case(
        name=name, kernel=launch.kernel, target=source.target, ptx=source.ptx, helpers=helpers_ptx(source.target),
        grid=launch.grid, block=launch.block, shared=launch.shared_bytes, registers=ready.registers.registers, program=program,
        may_differ=may_differ(source, launch.kernel), parameters=_parameters(launch, before),
    )


def case_identity(request: KernelRequest) -> dict[str, str]:
    """The hashes of a case's `program` without running it, to check whether a measurement still belongs to the kernel."""
    return _program(prepare(request))


def _program(ready: ReadyLaunch) -> dict[str, str]:
    path = ready.source.path
    source = hashlib.sha256(Path(path).read_bytes()).hexdigest() if os.path.isfile(path) else ""
    ptx = program_hash(ready.launch.kernel, ready.source.ptx)
    return {"ptx": ptx, "inputs": input_hash(ready.launch), "source": source}


@cache
def helpers_ptx(target: str) -> str:
    """The PTX of `helpers.cu` for a `.target`. Raises CompileError, or MissingLibraryError without NVRTC."""
    architecture = parse_architecture(target.partition(",")[0])
    # a kernel for an architecture that the compiler no longer supports gets helpers for the oldest supported one
    if architecture.number not in supported_architectures():
        architecture = parse_architecture(DEFAULT_ARCHITECTURE)
    text = files("warpsight.hardware.device").joinpath(HELPERS).read_text("utf-8")
    return compile_cuda(text, HELPERS, CompileOptions(architecture)).ptx


def may_differ(source: KernelSource, kernel: str) -> dict[str, list[str]]:
    """Instructions of `kernel` and of its module's functions whose results may differ between PTX implementations, by reason.

    Approximate ones only have a bounded error; a product and a sum without explicit rounding may be fused (PTX ISA, add
    and mul); floating-point atomics sum in any order, and the returned values of atomics depend on the order of threads.
    """
    module = source.module
    by_reason: dict[str, set[str]] = {}
    for name, function in module.functions.items():
        if name != kernel and name in module.kernels:
            continue
        uses = Counter(register for each in function.instructions for register in _registers(each.operands))
        for instruction in function.instructions:
            if reason := _reason(instruction, uses):
                by_reason.setdefault(reason, set()).add(instruction.text)
    opcodes = {text.partition(".")[0] for text in by_reason.get(FUSED, ())}
    if "mul" not in opcodes or opcodes == {"mul"}:
        by_reason.pop(FUSED, None)  # without both a product and a sum, nothing can be fused
    return {reason: sorted(texts) for reason, texts in sorted(by_reason.items())}


def _reason(instruction: Instruction, uses: Counter[str]) -> str:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    floats = any(kind in modifiers for kind in _FLOATS)
    if "approx" in modifiers or "full" in modifiers:
        return APPROXIMATE
    if opcode in ("add", "sub", "mul") and floats and not any(mode in modifiers for mode in _ROUNDED):
        return FUSED
    # a result that no other instruction reads is unused
    used = opcode == "atom" and any(uses[register] > 1 for register in _registers(instruction.operands[:1]))
    return ORDER if used or (opcode in ("atom", "red") and floats) else ""


def _registers(operands: Iterable[Any]) -> Iterator[str]:
    """The names of the registers in operands, including addresses and vectors."""
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from _registers(operand.elements)
        elif isinstance(operand, Address):
            yield from _registers((operand.base,))
        elif isinstance(operand, Negated):
            yield operand.register.name


def _refuse(source: KernelSource, launch: Launch) -> None:
    reason = ""
    if any(isinstance(argument, Image) for argument in launch.arguments):
        reason = "has textures or surfaces, which are not supported on a GPU yet"
    elif needs_workspace(source.module.functions[launch.kernel]):
        reason = "synchronizes its grid, and cooperative launches are not supported on a GPU yet"
    if reason:
        raise UnsupportedError(f"{launch.kernel} {reason}", place=source.path, remedy="predictions and the emulator support it")


def _parameters(launch: Launch, before: list[Any]) -> tuple[Parameter, ...]:
    parameters = []
    for argument, array in zip(launch.arguments, before, strict=True):
        if isinstance(argument, ArrayArgument):
            changed = argument.array.tobytes() != array.tobytes()
            parameters.append(Parameter(None, array, argument.array.copy() if changed else None, argument.written_back))
        elif isinstance(argument, ScalarArgument):
            parameters.append(Parameter(bytes(argument.data)))
    return tuple(parameters)


def prepare_cases(
    requests: Iterable[tuple[str, KernelRequest]], folder: Path, *, processes: int = 1, log: Callable[[str], None] | None = None
) -> dict[str, str]:
    """Write NAME.npz into `folder` for each request, several in parallel on one thread each; returns reasons of failure by name."""
    folder.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    with ProcessPoolExecutor(max(1, processes), mp_context=get_context("spawn")) as pool:
        waiting = {
            name: pool.submit(_save_case, replace(request, threads=1), name, folder / f"{name}.npz") for name, request in requests
        }
        for name, future in waiting.items():
            try:
                reason = future.result()
            except BrokenProcessPool:
                reason = "the process that emulated it died"
            if reason:
                failed[name] = reason
            if log is not None:
                log(f"{name}: {reason or 'emulated'}")
    return failed


def _save_case(request: KernelRequest, name: str, path: Path) -> str:
    """Runs in a process of the pool; returns the reason of failure, or ""."""
    try:
        make_case(request, name).save(path)
    except WarpsightError as error:
        return str(error)
    return ""
