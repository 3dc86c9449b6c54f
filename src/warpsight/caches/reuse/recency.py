"""Rows of times of last use, newest first: LRU stacks of few ways that tell what misses, and move it to the top, in a few instructions.

A row is the stack of a set, with the time of each line's last use in place of the line. A line that was last used at `t` stands as
deep as there are times above `t`, and moving it to the top moves just these by one: both are one comparison of 16 numbers at once,
and the result of that says for each number of ways up to 16 whether a cache of so many misses.
"""

from __future__ import annotations

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


def _place(builder: Any, pointer: Any, at: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [at]), _VECTOR.as_pointer())


def _touched(builder: Any, place: Any, first: Any, time: Any) -> Any:
    """Put the first of `first` before the times at `place` that are above `time`, in place of the one after; gives which were."""
    old = builder.load(place, align=4)
    lanes = ir.Constant(_VECTOR, [ir.Constant(_WORD, k) for k in (LANES, *range(LANES - 1))])
    new = builder.shuffle_vector(old, first, lanes)
    builder.store(builder.select(builder.icmp_signed(">", new, time), new, old), place, align=4)
    return builder.icmp_signed(">", old, time)


@intrinsic
def after(typing_context: Any, start: Any, entries: Any) -> Any:
    """The pointer so many entries behind `start`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return start(start, types.int64), generate


@intrinsic
def _newer(typing_context: Any, row: Any, at: Any, first: Any, time: Any) -> Any:
    """Of the 16 times from `row[at]` on, put `first` before those above `time`, in place of the one after; gives which were above."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, at, first, time = arguments
        above = _touched(builder, _place(builder, row, at), _spread(builder, first), _spread(builder, time))
        return builder.zext(builder.bitcast(above, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(row, types.int64, types.int32, types.int32), generate


@inlined
def depth_and_touch(row: Any, at: int, end: int, now: Any, time: Any) -> int:
    """How many times in `row[at:end]` are above `time`, the last use of a line; that is `now` then. `end - at`: a multiple of LANES.

    A `time` from before the row's line counts as not there: the oldest time is dropped if the row is full. `now` is above all.
    """
    depth = 0
    carried = now
    while at < end:
        last = row[at + LANES - 1]
        above = _newer(row, at, carried, time)
        if above != _ALL:
            return depth + set_bits(above)
        depth += LANES
        carried = last
        at += LANES
    return depth


@intrinsic
def short_rows(
    typing_context: Any, rows: Any, set_of: Any, line: Any, time: Any, whole: Any, begin: Any, end: Any, sets: Any, found: Any
) -> Any:
    """Touch the lines of uses `begin` to `end` in rows of 16 times, that of set s from `rows[16 * s]` on; use i is at time i.

    `set_of` [lines]; of each use its `line`, the `time` of its last use, and its distance in one stack of all lines, `whole`, below
    0 if there was none. All are pointers to int32. Adds to `found` [32], for w from 1 to 16, the capacity misses of w ways
    (at `found[w - 1]`: the distance is at least w * `sets`) and then the others (at `found[15 + w]`), but for first uses.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, set_of, line, time, whole, begin, end, sets, found = arguments
        long = ir.IntType(64)
        ways = ir.Constant(_VECTOR, [ir.Constant(_WORD, k + 1) for k in range(LANES)])
        least = builder.mul(_spread(builder, builder.trunc(sets, _WORD)), ways)
        ones = ir.Constant(_VECTOR, [ir.Constant(_WORD, 1)] * LANES)
        counts = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, None)) for _ in range(2)]
        now = cgutils.alloca_once_value(builder, _spread(builder, builder.trunc(begin, _WORD)))
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(long, 1)) as (i, _):

            def entry(array: Any, at: Any = i) -> Any:
                return builder.load(builder.gep(array, [at]))

            own = builder.sext(entry(set_of, builder.sext(entry(line), long)), long)
            place = _place(builder, rows, builder.mul(own, ir.Constant(long, LANES)))
            time_ = builder.load(now)
            deeper = _touched(builder, place, time_, _spread(builder, entry(time)))
            builder.store(builder.add(time_, ones), now)
            distance = _spread(builder, entry(whole))
            # a distance below 0 is neither: as a number without sign it is larger than all
            for count, far in zip(
                counts, (builder.icmp_signed(">=", distance, least), builder.icmp_unsigned("<", distance, least)), strict=True
            ):
                before = builder.load(count)
                builder.store(builder.select(builder.and_(deeper, far), builder.add(before, ones), before), count)
        for k, count in enumerate(counts):
            place = _place(builder, found, ir.Constant(long, LANES * k))
            builder.store(builder.add(builder.load(place, align=4), builder.load(count)), place, align=4)
        return context.get_dummy_value()

    return types.void(rows, set_of, line, time, whole, types.int64, types.int64, types.int64, found), generate
