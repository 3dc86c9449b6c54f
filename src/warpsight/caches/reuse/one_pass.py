"""Many cache sizes and ways from one order of accesses, in one pass: a larger LRU cache includes a smaller one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt
from llvmlite import ir

from warpsight.addressing.integers import quotient, set_bits, signed
from warpsight.base.compiled import compiled_and_kept, inlined, intrinsic, kept_until_changed, pointer
from warpsight.caches.reuse import state
from warpsight.caches.reuse.access_stream import AccessStream, numbered
from warpsight.caches.reuse.model import NAMES, ModelRun, Placement, evaluate
from warpsight.caches.reuse.settings import ReuseSettings, set_numbers
from warpsight.caches.reuse.structures import NEVER_USED, Ints, Longs

numba = lazy.load("numba")

LANES = 16  # numbers of a step; a row is padded to a multiple of it

_ALL = (1 << LANES) - 1
_WORD = ir.IntType(32)
_VECTOR = ir.VectorType(_WORD, LANES)


def _spread(builder: Any, number: Any) -> Any:
    """A vector of 16 times `number`."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_VECTOR, [0] * LANES))


def _place(builder: Any, pointer: Any, offset: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), ir.VectorType(_WORD, width).as_pointer())


def _lanes(builder: Any, one: Any, other: Any, lanes: Iterable[int]) -> Any:
    """The `lanes` of `one` and `other`, counted through both."""
    chosen = [ir.Constant(_WORD, k) for k in lanes]
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_WORD, len(chosen)), chosen))


def _touched(builder: Any, places: list[Any], now: Any, time: Any, width: int) -> Any:
    """Put `now` before the times above `time` in the row at each place, over the one after; returns which times were above."""
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
    """The address `entries` entries behind `start`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return start(start, numba.types.int64), generate


@intrinsic
def _newer(typing_context: Any, row: Any, offset: Any, first: Any, time: Any) -> Any:
    """Of 16 times from `row[offset]` on, put `first` before those above `time`, over the one after; returns which were above."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, offset, first, time = arguments
        above = _touched(builder, [_place(builder, row, offset, LANES)], _spread(builder, first), _spread(builder, time), LANES)
        return builder.zext(builder.bitcast(above, ir.IntType(LANES)), ir.IntType(64))

    return numba.types.int64(row, numba.types.int64, numba.types.int32, numba.types.int32), generate


@inlined
def depth_and_touch(row: Any, begin: Any, end: Any, now: Any, time: Any) -> int:
    """How many times in `row[begin:end]` are above `time`, the last use of a line, which becomes `now`.

    `end - begin` is a multiple of LANES. A `time` below all of the row's is not in it: a full row drops its oldest time. `now` is
    above all.
    """
    depth = 0
    carried = now
    while begin < end:
        last = row[begin + LANES - 1]
        above = _newer(row, begin, carried, time)
        if above != _ALL:
            return depth + set_bits(above)
        depth += LANES
        carried = last
        begin += LANES
    return depth


def _short_rows(width: int) -> Any:
    """The function described below, for rows of `width` times."""
    at_once = LANES // width

    @intrinsic
    def short_rows(typing_context: Any, rows: Any, first: Any, set_of: Any, lines: Any, uses: Any, n: Any, begin: Any, end: Any,
                   least: Any, counted: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, first, set_of, lines, uses, n, begin, end, least, counted = arguments
            long, ones = ir.IntType(64), ir.Constant(_VECTOR, [ir.Constant(_WORD, 1)] * LANES)
            parts = [ir.Constant(long, k) for k in range(at_once)]
            bases = [builder.gep(rows, [builder.load(builder.gep(first, [k]))]) for k in parts]
            tables = [builder.gep(set_of, [builder.mul(lines, k)]) for k in parts]
            line, time, whole = (builder.gep(uses, [builder.mul(n, ir.Constant(long, k))]) for k in range(3))
            far = builder.load(builder.bitcast(least, _VECTOR.as_pointer()), align=4)
            counts = [numba.core.cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, None)) for _ in range(2)]
            with numba.core.cgutils.for_range_slice(builder, begin, end, ir.Constant(long, 1)) as (i, _):
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
                place = _place(builder, counted, ir.Constant(long, LANES * k), LANES)
                builder.store(builder.load(count), place, align=4)
            return context.get_dummy_value()

        longs = (numba.types.int64,) * 3
        return numba.types.void(rows, first, set_of, numba.types.int64, uses, *longs, least, counted), generate

    return short_rows


# Touches the lines of uses `begin` to `end` in as many stacks as have rows of a width in 16 times; use i is at time i.
#
# The rows of stack k begin at `rows[first[k]]`, that of set s `s * width` behind; `set_of` [stacks, lines]. `uses` [3, n]: of each
# use its line, the time of its last use, and its distance in one stack of all lines, below 0 if there was none. `counted` [32]
# gets, for each way w of each stack, the capacity misses (the distance is at least the lines of such a cache, `least` [16]), and
# from 16 on the others, but for first uses. All are pointers, `first` to int64, the others to int32.
rows_of_4, rows_of_8, rows_of_16 = (_short_rows(width) for width in (4, 8, LANES))


# -- One pass.
#
# Mattson, Gecsei, Slutz, Traiger ("Evaluation techniques for storage hierarchies", IBM Syst. J. 9, 1970): with the same sets, what
# hits with w ways hits with more. So each number of sets needs one look at its stack, and that tells all ways. What all numbers of
# sets need, the last use of the same line and its distance in one stack of all lines, is computed once.

# A block of transactions stays in the cache while all numbers of sets pass over it, and so should the sets of its lines.
_BLOCK = 1 << 14
_MOST_ENTRIES = 1 << 26
_MOST_SETS = 2**27 - 1  # no distance is so large; 16 times as much has 31 bits


@compiled_and_kept
def _uses(line: Longs, whole: Longs, core: Longs, number: Ints, last: Ints, uses: Ints) -> int:
    """Fill `uses` [3, n] with line, row of its last use and distance of each use not on top of all stacks; returns how many.

    Lines are numbered from 0 as they are first used, so that lines used together are neighbours; `number` int32 [lines], all -1,
    gets the numbers. A line that its core never used was last used before the core's first row. `last` int32 [lines].
    """
    kept, begin, now, lines = 0, 0, np.int64(-1), 0
    for i in range(len(line)):
        if core[i] != now:
            now = core[i]
            begin = kept
        if whole[i] == 0:
            # it stays on top everywhere
            continue
        number_of_line = number[line[i]]
        if number_of_line < 0:
            number_of_line = lines
            number[line[i]] = number_of_line
            lines += 1
        uses[0, kept] = number_of_line
        uses[1, kept] = begin - 1 if whole[i] == NEVER_USED else last[number_of_line]
        uses[2, kept] = whole[i]
        last[number_of_line] = kept
        kept += 1
    return kept


@kept_until_changed("addressing", "caches")
def _few(uses: Ints, width: int, set_of: Ints, first: Longs, least: Ints, rows: Ints, counts: Longs) -> None:
    """Pass over `uses` [3, n] with as many stacks at once as LANES holds rows of `width`.

    `set_of` [stacks, lines], `first` [stacks], `least` [stacks * width], `counts` [stacks * width / LANES, 2 * LANES].
    """
    n, lines, at_once = uses.shape[1], set_of.shape[1], LANES // width
    row, use, every = pointer(rows), pointer(uses.reshape(-1)), pointer(set_of.reshape(-1))
    firsts, far = pointer(first), pointer(least)
    block = np.zeros(2 * LANES, np.int32)
    counted = pointer(block)
    for begin in range(0, n, _BLOCK):
        end = min(begin + _BLOCK, n)
        for k in range(len(counts)):
            own, sets, limits = after(firsts, k * at_once), after(every, k * at_once * lines), after(far, k * LANES)
            if width == 4:
                rows_of_4(row, own, sets, lines, use, n, begin, end, limits, counted)
            elif width == 8:
                rows_of_8(row, own, sets, lines, use, n, begin, end, limits, counted)
            else:
                rows_of_16(row, own, sets, lines, use, n, begin, end, limits, counted)
            for j in range(2 * LANES):
                counts[k, j] += block[j]


@kept_until_changed("addressing", "caches")
def _many(uses: Ints, sets: int, width: int, set_of: Ints, rows: Ints, counts: Longs) -> None:
    """Pass over `uses` [3, n] with rows of `width`, a multiple of LANES.

    `counts` [2, width + 2] counts depths from -1 (never used) on, and the smaller of the depth and how many times as large as
    the sets the distance is: both are at least w for the capacity misses of w ways.
    """
    row, of = pointer(rows), pointer(set_of)
    for i in range(uses.shape[1]):
        place = width * np.int64(of[uses[0, i]])
        whole = signed(uses[2, i])
        depth = depth_and_touch(row, place, place + width, np.int32(i), uses[1, i])
        if whole < 0:
            counts[0, 0] += 1
            counts[1, 0] += 1
        else:
            counts[0, depth + 1] += 1
            counts[1, min(depth, quotient(whole, sets)) + 1] += 1


def _aligned(entries: int) -> Ints:
    """`entries` times before the start, at a multiple of 64 B, so that a step of a row lies in one line of the host's cache."""
    padded = np.full(entries + 16, -1, np.int32)
    start = -(padded.ctypes.data // 4) % 16
    return padded[start : start + entries]


class _Group(NamedTuple):
    """A number of sets with all its ways, the entries of a row, how many rows, and the row of each line, int32 [lines]."""

    sets: int
    ways: list[int]
    width: int
    rows: int
    row_of: Ints


Misses = dict[tuple[int, int], tuple[int, int]]


def _few_ways(uses: Ints, width: int, groups: list[_Group]) -> Misses:
    """Capacity and associativity misses by number of sets and ways, of groups whose rows have the same `width` up to LANES."""
    # whole steps: copies of the last group, each with rows of its own, fill the last step
    padded = groups + groups[-1:] * (-len(groups) % (LANES // width))
    first = np.cumsum([0] + [group.rows * width for group in padded])
    sets = np.array([min(group.sets, _MOST_SETS) for group in padded])
    least = (sets[:, None] * np.arange(1, width + 1)).astype(np.int32).reshape(-1)
    counts = np.zeros((len(padded) * width // LANES, 2 * LANES), np.int64)
    set_of = np.stack([group.row_of for group in padded])
    _few(uses, width, set_of, first[:-1].copy(), least, _aligned(int(first[-1])), counts)
    capacity, other = (counts[:, part].reshape(-1, width) for part in (slice(0, LANES), slice(LANES, None)))
    return {
        (group.sets, w): (int(capacity[k, w - 1]), int(other[k, w - 1]))
        for k, group in enumerate(groups) for w in group.ways if w <= width
    }


def _many_ways(uses: Ints, group: _Group) -> Misses:
    """As `_few_ways` for any ways."""
    counts = np.zeros((2, group.width + 2), np.int64)
    _many(uses, min(group.sets, _MOST_SETS), group.width, group.row_of, _aligned(group.rows * group.width), counts)
    beyond = {w: counts[:, w + 1 :].sum(axis=1).tolist() for w in group.ways}
    return {(group.sets, w): (capacity, misses - capacity) for w, (misses, capacity) in beyond.items()}


def _groups(settings: ReuseSettings, numbers: npt.NDArray[Any], ways_of: dict[int, list[int]]) -> Iterator[_Group]:
    """Numbers of sets with their ways, without caches whose sets hold all their lines: only first uses miss there."""
    for sets, ways in ways_of.items():
        row_of, rows, needed = set_numbers(numbers, sets, settings.index, settings.index_bits), sets, max(ways)
        if sets > len(numbers):
            # memory for the sets that have lines
            used, row_of = numbered(row_of.astype(np.int64))
            rows = len(used)
        if len(numbers) and not 0 <= row_of.min() <= row_of.max() < rows:
            raise ValueError(f"a set of {rows} has a number beyond")
        if len(numbers) <= sets * needed:
            # no line stands deeper than the lines of its set; where there are more lines, some set is full anyway
            fullest = int(np.bincount(row_of, minlength=1).max())
            if fullest <= min(ways):
                continue
            needed = min(needed, fullest)
        width = next((width for width in (4, 8) if needed <= width), -(-needed // LANES) * LANES)
        yield _Group(sets, ways, width, rows, row_of)


def _misses(uses: Ints, groups: Iterable[_Group]) -> Misses:
    """Capacity and associativity misses by number of sets and ways, in memory that does not grow with the groups."""
    misses: Misses = {}
    waiting: dict[int, list[_Group]] = {4: [], 8: [], LANES: []}
    for group in groups:
        if group.width > LANES:
            misses |= _many_ways(uses, group)
            continue
        same = waiting[group.width]
        same.append(group)
        if sum(one.rows * one.width + len(one.row_of) for one in same) > _MOST_ENTRIES:
            misses |= _few_ways(uses, group.width, same)
            same.clear()
    for width, same in waiting.items():
        if same:
            misses |= _few_ways(uses, width, same)
    return misses


def _order(settings: ReuseSettings, accesses: AccessStream, placement: Placement) -> tuple[ModelRun, Ints, npt.NDArray[Any]]:
    """The run of all accesses on one stack of all lines; the rows of `_uses`; the number of each of its lines."""
    order = evaluate(settings.off("associativity"), accesses, placement, keep_all=True)
    by_core = np.argsort(order.misses[state.KEPT_CORE], kind="stable") if placement.cores > 1 else slice(None)
    rows = (state.KEPT_LINE, state.KEPT_CORE, state.KEPT_DISTANCE)
    line, core, whole = (np.ascontiguousarray(order.misses[row][by_core]) for row in rows)
    uses, lines = np.empty((3, len(line)), np.int32), len(accesses.line_number)
    number = np.full(lines, -1, np.int32)
    kept = _uses(line, whole, core, number, np.empty(lines, np.int32), uses)
    # half as wide where they fit: divisions take half the time
    narrow = accesses.line_number.max(initial=0) < 1 << 32
    numbers = np.empty(lines, np.uint32 if narrow else np.int64)
    numbers[number] = accesses.line_number
    return order, np.ascontiguousarray(uses[:, :kept]), numbers


def all_sizes_and_ways(
    settings: ReuseSettings, accesses: AccessStream, placement: Placement, points: Sequence[tuple[int, int]]
) -> list[dict[str, int]]:
    """Hits and misses by class for each (size in bytes, ways), with the line, the rule and the order of `settings`.

    Latencies must be off, for they make the order depend on what hits. Raises SpecError as `ReuseSettings.check` does.
    """
    if "latency" not in settings.without:
        raise ValueError("with latencies the order of accesses depends on the cache")
    caches = [replace(settings, size_bytes=size, ways=ways) for size, ways in points]
    for cache in dict.fromkeys(caches):
        cache.check()
    order, uses, numbers = _order(settings, accesses, placement)
    groups: dict[int, list[int]] = {}
    for sets, ways in dict.fromkeys((cache.sets, cache.ways_modelled) for cache in caches):
        groups.setdefault(sets, []).append(ways)
    # one set: its stack is that of the whole cache
    misses = {(1, ways): (int(order.by_cache[ways + 1 :].sum()), 0) for ways in groups.pop(1, [])}
    # no line stands deeper in its set than in one stack of all lines
    farthest = int(uses[2].max(initial=0))
    groups = {sets: ways for sets, ways in groups.items() if min(ways) <= farthest}
    misses |= _misses(uses, _groups(settings, numbers, groups))
    compulsory = int(order.by_cache[0])
    rest = accesses.transactions - compulsory
    classes = [misses.get((cache.sets, cache.ways_modelled), (0, 0)) for cache in caches]
    return [
        dict(zip(NAMES, (rest - capacity - associativity, compulsory, capacity, associativity, 0, 0), strict=True))
        for capacity, associativity in classes
    ]
