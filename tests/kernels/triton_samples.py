"""Triton kernels of a test. Triton reads their source from this file, so they cannot stand in a test's text."""

from __future__ import annotations

import pytest

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def add(x, y, out, n, scale, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) * scale + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def sums(x, out, rows, columns, BLOCK: tl.constexpr, NEGATE: tl.constexpr = False):  # noqa: N803
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * columns + at, mask=at < columns, other=0), axis=0)
    tl.store(out + row, -total if NEGATE else total)


@triton.jit(do_not_specialize=["n"])
def plain(out, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    tl.store(out + at, n + at)


@triton.jit
def wrong(x):
    x.no_such_thing()


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["columns"])})
@triton.jit
def guided(x, out, columns, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < columns, other=0) * 2, mask=at < columns)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def tuned(out, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, at, mask=at < n)
