"""Other orders of what a GPU may do in any order: code that is compiled with the check `order` lets a generator of random numbers
decide. Without it none of this is emitted.

What is free: which warp of a block runs first, which side of a branch, which lanes run ahead in straight code, which lane of a
conflicting store is the last one, and in which order the lanes of an atomic take their turns. The order of blocks is `Worker`'s.

The context points to int64 words: the generator's state, then `ROWS` permutations of the block's warps, of which each round of
turns takes one. The same seed gives the same orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from warpsight.base.findings import ORDER
from warpsight.emulator.codegen.frame import Frame
from warpsight.emulator.codegen.helpers import for_each_lane
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    load_as,
    loop,
    population,
    scatter,
    store_as,
    vector,
    width,
)
from warpsight.emulator.codegen.layout import WARP, Slot
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function

ROWS = 16
REVERSED = 1  # the seed of the order that is the normal one backwards, wherever there is one
# Knuth's linear congruential generator (MMIX), of which the upper bits are used.
_FACTOR, _STEP = 6364136223846793005, 1442695040888963407
# Of blocks at whose start lanes may part, one in so many times they do.
_PARTING = 2
# They need all lanes of a warp at once.
_WHOLE_WARP = frozenset({"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", "tcgen05"})
_EXCHANGES = frozenset({"vote", "shfl", "match"})


def chance_table(seed: int, warps: int) -> npt.NDArray[np.int64]:
    """The words that the context points to, for blocks of so many warps."""
    generator = np.random.default_rng(seed)
    rows = [np.arange(warps)[::-1]] * ROWS if seed == REVERSED else [generator.permutation(warps) for _ in range(ROWS)]
    first = np.array([generator.integers(1 << 62)], np.int64)
    return np.concatenate([first, *rows]).astype(np.int64)


def block_order(seed: int, blocks: int) -> Callable[[int], int]:
    """Which block runs at each place: backwards for the first seed, else a step through all of them that leaves none out."""
    if seed == REVERSED or blocks < 3:
        return lambda place: blocks - 1 - place
    generator = np.random.default_rng(seed)
    step = int(generator.integers(1, blocks))
    while math.gcd(step, blocks) != 1:
        step = step % blocks + 1
    first = int(generator.integers(blocks))
    return lambda place: (first + step * place) % blocks


def draw(builder: Builder, context: Value) -> Value:
    """The next random number: 31 bits, as i64."""
    place = load_as(builder, at(builder, context, 8 * Slot.CHANCE_PTR), PTR, 8)
    state = builder.add(builder.mul(load_as(builder, place, I64, 8), I64(_FACTOR)), I64(_STEP))
    store_as(builder, state, place, 8)
    return builder.lshr(state, I64(33))


def warp_order(builder: Builder, context: Value, warps: Value) -> Callable[[Value], Value]:
    """For one round of turns: which warp is at each place."""
    row = builder.add(builder.mul(builder.and_(draw(builder, context), I64(ROWS - 1)), warps), I64(1))
    table = load_as(builder, at(builder, context, 8 * Slot.CHANCE_PTR), PTR, 8)

    def warp_at(place: Value) -> Value:
        return load_as(builder, at(builder, table, builder.shl(builder.add(row, place), I64(3))), I64, 8)

    return warp_at


def is_heads(builder: Builder, context: Value) -> Value:
    """An i1 that holds every other time."""
    return builder.icmp_unsigned("!=", builder.and_(draw(builder, context), I64(1)), I64(0))


def each_lane(frame: Frame, body: Callable[[Builder, Value], None]) -> None:
    """Run `body(builder, lane)` for each active lane, lowest first, or in an order of its own. Continues in a new LLVM block."""
    builder, mask = frame.builder, frame.active_mask
    if ORDER not in frame.checks:
        for_each_lane(builder, mask, body)
        return
    turned = builder.trunc(builder.and_(draw(builder, frame.context), I64(WARP - 1)), I32)

    def visit(place: Value) -> tuple[Value]:
        lane = builder.xor(place, turned)
        there = builder.icmp_signed("!=", builder.and_(builder.lshr(mask, lane), I32(1)), I32(0))
        with builder.if_then(there):
            body(builder, lane)
        return (builder.add(place, I32(1)),)

    loop(builder, [I32(0)], lambda place: builder.icmp_unsigned("<", place, I32(WARP)), visit)


def store_lanes(frame: Frame, values: Value, pointers: Value) -> None:
    """Store the active lanes of a vector. Of lanes with one address the highest wins, or any."""
    if ORDER not in frame.checks:
        scatter(frame.builder, values, pointers, frame.active)
        return
    element = values.type.element
    held, places = frame.spill(values, "to store"), frame.spill(frame.builder.ptrtoint(pointers, vector(I64)), "where")

    def store(builder: Builder, lane: Value) -> None:
        wide = builder.zext(lane, I64)
        place = load_as(builder, at(builder, places, builder.mul(wide, I64(8))), PTR, 8)
        value = load_as(builder, at(builder, held, builder.mul(wide, I64(width(element) // 8))), element, 1)
        store_as(builder, value, place, 1)

    each_lane(frame, store)


def ahead(builder: Builder, context: Value, mask: Value) -> Value:
    """Lanes of an i32 mask that run ahead of the others, now and then some but not all of them; mostly none."""
    number = draw(builder, context)
    lanes = builder.and_(builder.mul(builder.trunc(number, I32), I32(0x9E3779B1)), mask)  # of all bits of the number
    now = builder.icmp_unsigned("==", builder.urem(builder.lshr(number, I64(8)), I64(_PARTING)), I64(0))
    some = builder.icmp_unsigned("<", population(builder, lanes), population(builder, mask))
    return builder.select(builder.and_(now, some), lanes, I32(0))


def parting_blocks(checks: frozenset[str], level: str, function: Function, graph: ControlFlowGraph) -> frozenset[int]:
    """The blocks at whose start lanes of a warp may part, as lanes that are scheduled independently do.

    Machine code has none: what its assembler knew to run together does. Nor have kernels in which a warp acts as one.
    """
    if ORDER not in checks or level != "ptx":
        return frozenset()
    if any(i.opcode in _WHOLE_WARP or (i.opcode in _EXCHANGES and "sync" not in i.modifiers) for i in function.instructions):
        return frozenset()
    return frozenset(graph.block_of(i.index) for i in function.instructions if i.opcode in ("ld", "st", "atom", "red"))
