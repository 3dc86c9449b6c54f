"""Runs one launch of a kernel for a test, without an assembler, and checks each trace for consistency."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.emulator.run.launch import emulate
from warpsight.kernels.launch import DEFAULT_OPTIONS, KernelSource
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.registers import RegisterUse
from warpsight.kernels.sources import load_source
from warpsight.traces.schema import KernelTrace, TraceChunk
from warpsight.traces.validate import validate

KERNELS = Path(__file__).parent / "kernels"
REGISTERS = RegisterUse(32, "override", 0)
PTX_HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"


@functools.cache
def cuda(name: str) -> KernelSource:
    """The kernels of one file of `kernels/`, compiled once."""
    return load_source(KERNELS / name)


def launch(source: KernelSource, kernel: str, grid: Any, block: Any, args: Sequence[Any], **options: Any) -> KernelTrace:
    """Run a launch and give its trace, checked. `shared` is dynamic shared memory; other options go to the emulator."""
    shared = options.pop("shared", 0)
    if "stack_bytes" in options:
        options["options"] = replace(options.get("options", DEFAULT_OPTIONS), stack_bytes=options.pop("stack_bytes"))
    trace = emulate(source, make_launch(source, kernel, grid, block, args, shared=shared), registers=REGISTERS, **options)
    validate(trace)
    return trace


def whole(trace: KernelTrace) -> TraceChunk:
    """All chunks of a trace as one."""
    chunks = list(trace.chunks)
    offsets = {}
    for name, data in (("event_offset", "events"), ("sector_offset", "sectors")):
        base, parts = 0, [np.zeros(1, np.int64)]
        for chunk in chunks:
            parts.append(getattr(chunk, name)[1:] + base)
            base += len(getattr(chunk, data))
        offsets[name] = np.concatenate(parts)
    joined = {name: np.concatenate([getattr(c, name) for c in chunks]) for name in ("path", "events", "sectors")}
    return TraceChunk(0, joined["path"], offsets["event_offset"], joined["events"], offsets["sector_offset"], joined["sectors"])


def ptx(body: str, parameters: str = ".param .u64 out", registers: str = "") -> KernelSource:
    """A kernel `k` from its body. `%i` is the thread's number in the launch, `%out` the array's address plus 8 bytes times that."""
    text = f"""{PTX_HEAD}
.visible .entry k({parameters})
{{
    .reg .pred %p<8>;
    .reg .b16 %h<8>;
    .reg .b32 %r<16>;
    .reg .f32 %f<16>;
    .reg .b64 %q<16>;
    .reg .f64 %d<8>;
    .reg .b64 %out, %in;
    .reg .b32 %i, %n;
    {registers}
    mov.u32 %i, %ctaid.x;
    mov.u32 %n, %ntid.x;
    mul.lo.u32 %i, %i, %n;
    mov.u32 %n, %tid.x;
    add.u32 %i, %i, %n;
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %i, 8, %out;
{body}
}}
"""
    return load_source(text, name="test.ptx")
