"""Kernels of one block for compute_90 and up, and launches of them whose output is read word by word."""

from __future__ import annotations

import numpy as np
from emulator_launch import launch

from warpsight.kernels.launch import KernelSource
from warpsight.kernels.sources import load_source
from warpsight.traces.schema import KernelTrace

LANES = np.arange(32)
ALL = 0xFFFFFFFF
IN_OUT = ".param .u64 out, .param .u64 in"


def hopper(body: str, words: int = 1, *, declarations: str = "", outside: str = "", target: str = "sm_90") -> KernelSource:
    """A kernel `k(out, in)`. `%i` is the thread's number in its block, `%in` the input array, `%out` the thread's own words.

    Each thread has `words` 64-bit words of output. `declarations` stand in the kernel, `outside` before it.
    """
    version = "8.8" if target > "sm_100" or target.startswith("sm_1") else "8.6"
    text = f""".version {version}
.target {target}
.address_size 64
{outside}
.visible .entry k({IN_OUT})
{{
    .reg .pred %p<16>;
    .reg .b16 %h<16>;
    .reg .b32 %r<32>;
    .reg .f32 %f<16>;
    .reg .b64 %q<32>;
    .reg .f64 %d<16>;
    .reg .b128 %w<8>;
    .reg .b64 %out, %in;
    .reg .b32 %i;
    {declarations}
    mov.u32 %i, %tid.x;
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [in];
    mad.wide.u32 %out, %i, {8 * words}, %out;
{body}
    ret;
}}
"""
    return load_source(text, name="test.ptx")


def run(source: KernelSource, memory: np.ndarray | None = None, *, block: int = 32, words: int = 1) -> np.ndarray:
    """Run `k` with one block; its output as u64 [block, words]. `memory` (any dtype) is the input array, and is written back."""
    out, _ = run_traced(source, memory, block=block, words=words)
    return out


def run_traced(
    source: KernelSource, memory: np.ndarray | None = None, *, block: int = 32, words: int = 1
) -> tuple[np.ndarray, KernelTrace]:
    """The same, and the trace. The input array lies 256-byte aligned behind the output."""
    out = np.zeros((block, words), np.uint64)
    given = np.zeros(1, np.uint64) if memory is None else memory
    trace = launch(source, "k", 1, block, [out, given])
    return out, trace
