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


@triton.jit
def staged(x, out, columns, BLOCK: tl.constexpr, num_stages: tl.constexpr):  # noqa: N803
    for row in tl.range(tl.program_id(0), 4, tl.num_programs(0), num_stages=num_stages):
        at = row * columns + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at) + 1)


@triton.jit
def transposed(x, out, N: tl.constexpr):  # noqa: N803
    """Through descriptors: one of the host, one made on the device."""
    there = tl.make_tensor_descriptor(out, shape=[N, N], strides=[N, 1], block_shape=[N, N])
    there.store([0, 0], x.load([0, 0]).trans())


def only_small(configs, named, **_):
    return [config for config in configs if config.kwargs["BLOCK"] <= named["n"]]


def double(named):
    named["step"] = 2 * named["n"]


@triton.autotune(
    configs=[triton.Config({"BLOCK": size}, num_warps=1, maxnreg=64, pre_hook=double) for size in (32, 64, 128)],
    key=["n"], prune_configs_by={"early_config_prune": only_small},
)  # fmt: skip
@triton.heuristics({"EVEN": lambda named: named["n"] % named["BLOCK"] == 0})
@triton.jit
def pruned(out, pair, n, step, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, pair[0] + pair[1] + step + EVEN, mask=at < n)
