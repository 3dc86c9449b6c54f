"""The memory streams of some reference kernels, re-made in NumPy: same inputs (one LCG), same order of accesses as their PTX.

Instruction counts between accesses follow the compute_75 PTX of the reference. Device arrays stand one after the other, 256 B
aligned, in the order in which the host code allocates them (kernel arguments are evaluated from the last to the first).
"""

from __future__ import annotations

import numpy as np
from trace_by_hand import Warp, build_trace

from warpsight.traces.schema import KernelTrace

HEAP = 0xC0000000
START = """control r0 <-
control r1 <-
control r2 <-
control r3 <-
int r4 <-
int r5 <-
int r6 <-
int r7 <- r4 r5 r6
int p1 <- r7 r3
branch <- p1
"""


class Lcg:
    """x' = 1664525 x + 1013904223 (mod 2^32), many at a time."""

    def __init__(self) -> None:
        self.state = 12345

    def draw(self, n: int) -> np.ndarray:
        out = np.empty(n, np.uint32)
        block = min(n, 4096)
        x = self.state
        for k in range(block):
            x = (1664525 * x + 1013904223) & 0xFFFFFFFF
            out[k] = x
        # Jump ahead by whole blocks: x_{k + b} = A x_k + C.
        a, c = 1, 0
        for _ in range(block):
            a, c = a * 1664525 & 0xFFFFFFFF, (c * 1664525 + 1013904223) & 0xFFFFFFFF
        for first in range(block, n, block):
            width = min(block, n - first)
            out[first : first + width] = (out[first - block : first - block + width].astype(np.uint64) * a + c).astype(np.uint32)
        self.state = int(out[-1]) if n else self.state
        return out


class Heap:
    """cudaMalloc as the reference simulator does it."""

    def __init__(self) -> None:
        self.top = HEAP

    def put(self, items: int) -> int:
        base = self.top
        self.top += -(-items * 4 // 256) * 256
        return base


def lanes_of(warp: int) -> np.ndarray:
    return warp * 32 + np.arange(32)


def vector_add(n: int = 1 << 18) -> KernelTrace:
    heap = Heap()
    c, b, a = heap.put(n), heap.put(n), heap.put(n)
    body = "int r8 <- r0\nint r9 <- r7\nint r10 <- r8 r9\nint r11 <- r1\nint r12 <- r11 r9\n"
    body += "load.global.4 f1 <- r12\nload.global.4 f2 <- r10\n"
    body += "fp32 f3 <- f1 f2\nint r13 <- r2\nint r14 <- r13 r9\nstore.global.4 <- r14 f3"
    warps = (
        Warp(((0, 32, 1), (1, 32, 1), (2, 32, 1)), [(base + 4 * lanes_of(w)).tolist() for base in (b, a, c)])
        for w in range(n // 32)
    )
    return build_trace([START, body, "control <-"], warps, 8)


def gather(n: int = 1 << 17, below: int = 1 << 22) -> KernelTrace:
    heap, lcg = Heap(), Lcg()
    out, data = heap.put(n), heap.put(below)
    lcg.draw(n + below)
    base = heap.put(n)
    index = lcg.draw(n) % below
    body = "int r8 <- r0\nint r9 <- r7\nint r10 <- r8 r9\nload.global.4 r11 <- r10\n"
    body += "int r12 <- r1\nint r13 <- r11\nint r14 <- r12 r13\n"
    body += "load.global.4 f1 <- r14\nint r15 <- r2\nint r16 <- r15 r9\nstore.global.4 <- r16 f1"

    def warp(w: int) -> Warp:
        lane = lanes_of(w)
        streams = (base + 4 * lane, data + 4 * index[lane].astype(np.int64), out + 4 * lane)
        return Warp(((0, 32, 1), (1, 32, 1), (2, 32, 1)), [s.tolist() for s in streams])

    return build_trace([START, body, "control <-"], (warp(w) for w in range(n // 32)), 8)


UNROLLED = "".join(f"load.global.4 f{k} <- a1\nfp32 s{k + 1} <- s{k} f{k}\n" for k in range(4))
LOOP = UNROLLED + "int r20 <- r20\nint a1 <- a1\nint r21 <- r21\nint p4 <- r21\nbranch <- p4"
BETWEEN = "int p5 <- r22\nbranch <- p5"
TAIL = "int r30 <- r1\nint r31 <- r7\nint r32 <- r30 r31\nstore.global.4 <- r32 s4\ncontrol <-"


def row_sum(rows: int = 1 << 14, columns: int = 64) -> KernelTrace:
    heap = Heap()
    out, data = heap.put(rows), heap.put(rows * columns)
    before = "\n".join(["int r8 <- r3", "fp32 s0 <-", "branch <- r8", *["int r9 <- r3"] * 5, "branch <- r9", *["int a1 <- r7"] * 6])

    def warp(w: int) -> Warp:
        row = lanes_of(w)
        loads = [(data + 4 * (row * columns + j)).tolist() for j in range(columns)]
        path = ((0, 32, 1), (1, 32, 1), (2, 32, columns // 4), (3, 32, 1), (4, 32, 1))
        return Warp(path, [*loads, (out + 4 * row).tolist()])

    return build_trace([START, before, LOOP, BETWEEN, TAIL], (warp(w) for w in range(rows // 32)), 8)


def grid_stride(stride: int, threads: int = 28 * 8 * 256, steps: int = 8) -> KernelTrace:
    heap = Heap()
    out, data = heap.put(threads), heap.put(stride * threads + steps)
    before = "\n".join([*["int r8 <- r3"] * 7, "branch <- r8", *["int a1 <- r7"] * 7])

    def warp(w: int) -> Warp:
        row = lanes_of(w)
        loads = [(data + 4 * (row * stride + j)).tolist() for j in range(steps)]
        return Warp(((0, 32, 1), (1, 32, 1), (2, 32, steps // 4), (3, 32, 1), (4, 32, 1)), [*loads, (out + 4 * row).tolist()])

    return build_trace([START, before, LOOP, BETWEEN, TAIL], (warp(w) for w in range(threads // 32)), 8)
