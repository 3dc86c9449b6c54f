"""Kernels of one texture or surface instruction: each thread takes four words of coordinates and stores four words of result."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from emulator_launch import PTX_HEAD, launch

from warpsight.kernels.launch import KernelSource
from warpsight.kernels.sources import load_source
from warpsight.traces.schema import KernelTrace

PLACES = {"1d": "{0}", "2d": "{0}, {1}", "3d": "{0}, {1}, {2}, {2}", "a1d": "%c0, {1}", "a2d": "%c0, {1}, {2}, {2}",
          "cube": "{0}, {1}, {2}, {2}", "acube": "%c0, {1}, {2}, {3}"}  # fmt: skip


@functools.cache
def kernel(body: str, more: str = "") -> KernelSource:
    """`body` has the object in %t, coordinates in %c0.. (b32) and %x0.. (f32), data in %r0.. and %q0.., and stores %r0 to %r3."""
    text = f"""{PTX_HEAD.replace("7.0", "8.1")}{more}
.visible .entry k(.param .u64 t, .param .u64 at, .param .u64 data, .param .u64 out)
{{
    .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<8>, %c<4>, %i<2>; .reg .f32 %x<4>, %f<4>; .reg .b64 %q<4>, %t, %a, %d;
    ld.param.u64 %t, [t];
    mov.u32 %i0, %ctaid.x;
    mov.u32 %i1, %ntid.x;
    mul.lo.u32 %i0, %i0, %i1;
    mov.u32 %i1, %tid.x;
    add.u32 %i0, %i0, %i1;
    ld.param.u64 %a, [at];
    mad.wide.u32 %a, %i0, 16, %a;
    ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%a];
    mov.b32 %x0, %c0; mov.b32 %x1, %c1; mov.b32 %x2, %c2; mov.b32 %x3, %c3;
    ld.param.u64 %d, [data];
    mad.wide.u32 %d, %i0, 16, %d;
    ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d];
    mov.b64 %q0, {{%r0, %r1}}; mov.b64 %q1, {{%r2, %r3}};
    {body}
    ld.param.u64 %a, [out];
    mad.wide.u32 %a, %i0, 16, %a;
    st.global.v4.b32 [%a], {{%r0, %r1, %r2, %r3}};
    ret;
}}
"""
    return load_source(text, name="image.ptx")


def fetch(opcode: str, geometry: str, result: str = "f32", coordinates: str = "f32") -> str:
    """A `tex` or `tld4` of a geometry into %r0 to %r3."""
    names = [f"%{'x' if coordinates == 'f32' else 'c'}{k}" for k in range(4)]
    target = "{%f0, %f1, %f2, %f3}" if result == "f32" else "{%r0, %r1, %r2, %r3}"
    moves = "".join(f"mov.b32 %r{k}, %f{k};" for k in range(4)) if result == "f32" else ""
    return f"{opcode}.{geometry}.v4.{result}.{coordinates} {target}, [%t, {{{PLACES[geometry].format(*names)}}}]; {moves}"


def run(body: str, image: Any, at: np.ndarray, data: np.ndarray | None = None, more: str = "") -> tuple[np.ndarray, KernelTrace]:
    """The four words of each thread, for coordinates [threads, up to 4] of 32 bits, and the trace. Blocks have up to 64 threads."""
    count = len(at)
    places = np.zeros((count, 4), np.uint32)
    places[:, : at.shape[1]] = np.ascontiguousarray(at).view(np.uint32)
    given = np.zeros((count, 4), np.uint32)
    if data is not None:
        given[:] = data
    out = np.zeros((count, 4), np.uint32)
    block = min(count, 64)
    assert count % block == 0
    trace = launch(kernel(body, more), "k", count // block, block, [image, places, given, out])
    return out, trace
