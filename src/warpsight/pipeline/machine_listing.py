"""The machine code of a kernel as a document: each instruction with its control word, and what can be counted without a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from warpsight.gpu.spec import GpuSpec
from warpsight.isa.ptx.cfg import build_cfg, with_calls
from warpsight.isa.ptx.dataflow import live_around
from warpsight.isa.ptx.program import Function, Instruction
from warpsight.isa.ptx.rules import op_class
from warpsight.isa.sass.native import BARRIERS, NativeInstruction
from warpsight.kernels.launch_file import load_kernels
from warpsight.kernels.machine_code import machine_code, native_architecture, variant_of
from warpsight.kernels.mangling import display_name
from warpsight.kernels.registers import register_use
from warpsight.kernels.sources import find_kernel, own_architecture
from warpsight.pipeline.kernel_input import launch_spec_of, wanted_architecture
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import KernelRequest


def machine_listing(request: KernelRequest, gpu: GpuSpec | None = None) -> dict[str, Any]:
    """The machine code of the kernel of `request` for `gpu` (or for its `arch`) as JSON values.

    `instructions` have `live_registers`, the 32-bit registers whose values are needed after each. `loads_in_flight` is the largest
    number of loads that a warp issues in a basic block before it waits for one of them. `by_class` counts instructions by op class.
    Raises UsageError where `gpu` has no machine code, MissingLibraryError, CompileError, FormatError and UnsupportedError.
    """
    wanted = None if gpu is None else wanted_architecture(gpu)
    # No launch is needed.
    spec = launch_spec_of(replace(request, grid=request.grid or 1, block=request.block or 1), wanted)
    wanted, note = native_architecture(wanted or own_architecture(spec.source, spec.arch))
    source = load_kernels(spec, wanted)
    wanted = variant_of(source, wanted)
    kernel = find_kernel(source, spec.kernel)
    code = machine_code(source, wanted)
    function = code.function(kernel)
    use = register_use(source, kernel, architecture=wanted)
    live = live_registers(function)
    rows = [_row(instruction, live[instruction.index]) for instruction in function.instructions]
    return {
        "tool": TOOL, "kernel": display_name(kernel), "source": source.path, "target": wanted.real,
        "registers_per_thread": use.registers, "static_shared_bytes": use.static_shared_bytes, "stack_bytes": use.local_bytes,
        "most_live_registers": max(live, default=0), "loads_in_flight": _loads_in_flight(function),
        "by_class": dict(Counter(row["op_class"] for row in rows).most_common()), "instructions": rows,
        "notes": [each for each in (source.warnings.strip(), note) if each],
    }


def _row(instruction: Instruction, live: int) -> dict[str, Any]:
    native = _native(instruction)
    control = asdict(native.control) | {"waits": list(native.control.waited_for)}
    return {
        "section": native.section, "address": native.address, "text": native.text, "op_class": op_class(instruction), **control,
        "live_registers": live, "ptx_line": instruction.ptx_line, "file": instruction.file, "line": instruction.line,
    }


def _native(instruction: Instruction) -> NativeInstruction:
    assert instruction.native is not None
    return instruction.native


def live_registers(function: Function) -> list[int]:
    """How many 32-bit registers are live after each instruction."""
    graph = build_cfg(function)
    counts = [0] * len(function.instructions)
    for instruction, after, _ in live_around(function, with_calls(function, graph)):
        counts[instruction.index] = sum(name.startswith("R") for name in after)
    return counts


def _loads_in_flight(function: Function) -> int:
    """The most loads that are under way at once within a basic block, by the barriers that they set and that are waited for."""
    graph, most = build_cfg(function), 0
    for block in range(len(graph)):
        waiting = [0] * BARRIERS
        for instruction in function.instructions[graph.block_start[block] : graph.block_start[block + 1]]:
            native = _native(instruction)
            for barrier in native.control.waited_for:
                waiting[barrier] = 0
            if native.access == "load" and native.control.write_barrier < BARRIERS:
                waiting[native.control.write_barrier] += 1
                most = max(most, sum(waiting))
    return most



