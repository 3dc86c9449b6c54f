"""Rows of times of last use, newest first: LRU stacks of few ways, searched and brought up to date in a few instructions.

A row is the stack of a set, with the time of each line's last use in place of the line. A line that was last used at `t` stands as
deep as there are times above `t`, and moving it to the top moves just these by one: both are one comparison of 16 numbers at once,
and the result of that says for each number of ways up to 16 whether a cache of so many misses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from warpsight.addressing.compiled import inlined, intrinsic
from warpsight.addressing.integers import set_bits

LANES = 16  # numbers of a step; a row is padded to a multiple of it

_ALL = (1 << LANES) - 1
_WORD = ir.IntType(32)
_VECTOR = ir.VectorType(_WORD, LANES)


def _spread(builder: Any, number: Any) -> Any:
    """A vector of 16 times `number`."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_VECTOR, [0] * LANES))


def _place(builder: Any, pointer: Any, at: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [at]), ir.VectorType(_WORD, width).as_pointer())


def _lanes(builder: Any, one: Any, other: Any, lanes: Iterable[int]) -> Any:
    """The `lanes` of `one` and `other`, counted through both."""
    chosen = [ir.Constant(_WORD, k) for k in lanes]
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_WORD, len(chosen)), chosen))


def _touched(builder: Any, places: list[Any], now: Any, time: Any, width: int) -> Any:
    """Put `now` before the times above `time` in the row at each place, over the one after; gives which times were above."""
    old = [builder.load(place, align=4) for place in places]
    size = width
    while len(old) > 1:
        old = [_lanes(builder, old[k], old[k + 1], range(2 * size)) for k in range(0, len(old), 2)]
        size *= 2
    new = _lanes(builder, old[0], now, [LANES if k % width == 0 else k - 1 for k in range(LANES)])
    new = builder.select(builder.icmp_signed(">", new, time), new, old[0])
    for k, place in enumerate(places):
        builder.store(_lanes(builder, new, new, range(k * width, (k + 1) * width)) if len(places) > 1 else new, place, align=4)
    return builder.icmp_signed(">", old[0], time)


@intrinsic
def after(typing_context: Any, start: Any, entries: Any) -> Any:
    """The pointer so many entries behind `start`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return start(start, types.int64), generate


@intrinsic
def _newer(typing_context: Any, row: Any, at: Any, first: Any, time: Any) -> Any:
    """Of 16 times from `row[at]` on, put `first` before those above `time`, over the one after; gives which were above."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, at, first, time = arguments
        above = _touched(builder, [_place(builder, row, at, LANES)], _spread(builder, first), _spread(builder, time), LANES)
        return builder.zext(builder.bitcast(above, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(row, types.int64, types.int32, types.int32), generate


@inlined
def depth_and_touch(row: Any, at: Any, end: Any, now: Any, time: Any) -> int:
    """How many times in `row[at:end]` are above `time`, the last use of a line; that is `now` then.

    `end - at` is a multiple of LANES. A `time` from before the row's line counts as not there: the oldest time is dropped if
    the row is full. `now` is above all.
    """
    depth = 0
    carried = now
    while at < end:
        last = row[at + LANES - 1]
        above = _newer(row, at, carried, time)
        if above != _ALL:
            return depth + set_bits(above)  # type: ignore[no-any-return]
        depth += LANES
        carried = last
        at += LANES
    return depth


def _short_rows(width: int) -> Any:
    """The function described below, for rows of `width` times."""
    at_once = LANES // width

    @intrinsic
    def short_rows(typing_context: Any, rows: Any, first: Any, set_of: Any, lines: Any, uses: Any, n: Any, begin: Any, end: Any,
                   least: Any, found: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, first, set_of, lines, uses, n, begin, end, least, found = arguments
            long, ones = ir.IntType(64), ir.Constant(_VECTOR, [ir.Constant(_WORD, 1)] * LANES)
            parts = [ir.Constant(long, k) for k in range(at_once)]
            bases = [builder.gep(rows, [builder.load(builder.gep(first, [k]))]) for k in parts]
            tables = [builder.gep(set_of, [builder.mul(lines, k)]) for k in parts]
            line, time, whole = (builder.gep(uses, [builder.mul(n, ir.Constant(long, k))]) for k in range(3))
            far = builder.load(builder.bitcast(least, _VECTOR.as_pointer()), align=4)
            counts = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, None)) for _ in range(2)]
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(long, 1)) as (i, _):
                own = builder.sext(builder.load(builder.gep(line, [i])), long)
                sets = [builder.sext(builder.load(builder.gep(table, [own])), long) for table in tables]
                places = [
                    _place(builder, builder.gep(base, [builder.mul(row, ir.Constant(long, width))]), ir.Constant(long, 0), width)
                    for base, row in zip(bases, sets, strict=True)
                ]
                now = _spread(builder, builder.trunc(i, _WORD))
                deeper = _touched(builder, places, now, _spread(builder, builder.load(builder.gep(time, [i]))), width)
                distance = _spread(builder, builder.load(builder.gep(whole, [i])))
                # a distance below 0 is neither: as a number without sign it is larger than all
                which = builder.icmp_signed(">=", distance, far), builder.icmp_unsigned("<", distance, far)
                for count, one in zip(counts, which, strict=True):
                    before = builder.load(count)
                    builder.store(builder.select(builder.and_(deeper, one), builder.add(before, ones), before), count)
            for k, count in enumerate(counts):
                place = _place(builder, found, ir.Constant(long, LANES * k), LANES)
                builder.store(builder.load(count), place, align=4)
            return context.get_dummy_value()

        longs = (types.int64,) * 3
        return types.void(rows, first, set_of, types.int64, uses, *longs, least, found), generate

    return short_rows


# Touches the lines of uses `begin` to `end` in as many stacks as have rows of a width in 16 times; use i is at time i.
#
# The rows of stack k begin at `rows[first[k]]`, that of set s `s * width` behind; `set_of` [stacks, lines]. `uses` [3, n]: of each
# use its line, the time of its last use, and its distance in one stack of all lines, below 0 if there was none. `found` [32] gets,
# for each way w of each stack, the capacity misses (the distance is at least the lines of such a cache, `least` [16]), and from 16
# on the others, but for first uses. All are pointers, `first` to int64, the others to int32.
rows_of_4, rows_of_8, rows_of_16 = (_short_rows(width) for width in (4, 8, LANES))
