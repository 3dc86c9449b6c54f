"""Data structures of the compiled model: a calendar of events, and LRU stacks that give reuse distances in logarithmic time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import set_bits
from warpsight.base.compiled import compiled, inlined

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

NEVER = 2**62  # the time of the next entry where there is none
_MOST_LISTS = 1 << 14
# entries of `cell`
_SOONEST, _FREE, _USED, _MASK, _SHIFT, _CELL = range(6)


class Calendar(NamedTuple):
    """`first`, `last` int32 [lists], 0: empty, else the number of an entry; `some` int64 [lists / 64], a bit for each list.

    Of each entry, from 1: `time`, `item` int64 and `following` int32, the next of its list. `cell` int64: module constants.
    """

    first: Ints
    last: Ints
    some: Longs
    time: Longs
    item: Longs
    following: Ints
    cell: Longs


def new_calendar(capacity: int, ahead: int) -> Calendar:
    """An empty calendar for `capacity` entries, no two of them more than `ahead` apart."""
    shift = 0
    while (ahead >> shift) + 2 > _MOST_LISTS:
        shift += 1
    lists = max(64, 1 << ((ahead >> shift) + 1).bit_length())
    cell = np.zeros(_CELL, np.int64)
    cell[_SOONEST], cell[_MASK], cell[_SHIFT] = NEVER, lists - 1, shift
    entries = capacity + 1
    return Calendar(
        np.zeros(lists, np.int32), np.zeros(lists, np.int32), np.zeros(lists // 64, np.int64), np.empty(entries, np.int64),
        np.empty(entries, np.int64), np.empty(entries, np.int32), cell,
    )


@inlined
def soonest(k: Any) -> int:
    """The time of the earliest entry, NEVER if there is none."""
    return k.cell[_SOONEST]  # type: ignore[no-any-return]


@inlined
def push(k: Any, time: int, item: int) -> None:
    """Enter `item` at `time`, after the earlier entries for the same time."""
    cell = k.cell
    entry = cell[_FREE]
    if entry != 0:
        cell[_FREE] = k.following[entry]
    else:
        entry = cell[_USED] + 1
        cell[_USED] = entry
    k.time[entry], k.item[entry], k.following[entry] = time, item, 0
    place = (time >> cell[_SHIFT]) & cell[_MASK]
    last = k.last[place]
    if last == 0:
        k.first[place] = entry
        k.last[place] = entry
        k.some[place >> 6] |= np.int64(1) << (place & 63)
    elif k.time[last] <= time:
        k.following[last] = entry
        k.last[place] = entry
    else:
        before, after = 0, k.first[place]
        while k.time[after] <= time:
            before, after = after, k.following[after]
        k.following[entry] = after
        if before == 0:
            k.first[place] = entry
        else:
            k.following[before] = entry
    cell[_SOONEST] = min(cell[_SOONEST], time)


@inlined
def pop(k: Any) -> int:
    """Remove the earliest entry and return its number. The calendar must not be empty."""
    cell = k.cell
    place = (cell[_SOONEST] >> cell[_SHIFT]) & cell[_MASK]
    entry = np.int64(k.first[place])
    item = k.item[entry]
    following = k.following[entry]
    k.first[place] = following
    k.following[entry] = cell[_FREE]
    cell[_FREE] = entry
    if following != 0:
        cell[_SOONEST] = k.time[following]
        return item  # type: ignore[no-any-return]
    k.last[place] = 0
    k.some[place >> 6] &= ~(np.int64(1) << (place & 63))
    cell[_SOONEST] = NEVER
    # once around the ring; the word of `place` is searched again in the end, for the lists before it
    step = place
    words = (cell[_MASK] >> 6) + 1
    for _ in range(words + 1):
        rest = k.some[step >> 6] & (np.int64(-1) << (step & 63))
        if rest != 0:
            cell[_SOONEST] = k.time[k.first[(step >> 6 << 6) + set_bits((rest & -rest) - 1)]]
            break
        step = ((step | 63) + 1) & cell[_MASK]
    return item  # type: ignore[no-any-return]


# -- LRU stacks, one for each set of a cache, that give reuse distances in logarithmic time.
#
# Bennett and Kruskal ("LRU stack processing", IBM J. Res. Dev. 19, 1975): every line has one mark, at the time of its last use, and
# the distance of a reuse is the number of marks after it. Marks are bits of 64-bit words, and a binary indexed tree (Fenwick, 1994)
# over the words of a set counts those before a word. The place of a mark is a slot; a set has twice as many slots as distinct
# lines, and when they are used up the marks are compacted. Memory is thus bounded by the distinct lines, whatever the trace length.

NEVER_USED = -1  # the distance of a first use: infinite


class Stacks(NamedTuple):
    """The stacks of one core; lines have numbers from 1. `first` int64 [sets + 1]: words of set s are `first[s]` to `first[s + 1]`.

    `set_of` int32 [lines + 1] and `slot` int32 [lines + 1], -1: never used, hold what `enter` put there; `line_at` int32 [words
    * 64]; `bits` int64 [words]; `tree` int32 [words]; `following` int64 [sets], the next free slot; `live` int64 [sets], lines
    that were used.
    """

    set_of: Ints
    first: Longs
    slot: Ints
    line_at: Ints
    bits: Longs
    tree: Ints
    following: Longs
    live: Longs


def new_stacks(lines: Longs) -> Stacks:
    """Empty stacks; set s may get `lines[s]` lines."""
    # at least one free slot more than marks, and twice as many as lines so that moving them together pays
    words = (2 * lines + 1 + 63) // 64
    first = np.zeros(len(lines) + 1, np.int64)
    np.cumsum(words, out=first[1:])
    total, numbers = int(first[-1]), int(lines.sum()) + 1
    return Stacks(
        np.empty(numbers, np.int32), first, np.empty(numbers, np.int32), np.zeros(total * 64, np.int32),
        np.zeros(total, np.int64), np.zeros(total, np.int32), first[:-1] * 64, np.zeros(len(lines), np.int64),
    )


@inlined
def enter(k: Any, line: int, cache_set: Any) -> None:
    """Add `line`, not used yet, to `cache_set`."""
    k.set_of[line] = cache_set
    k.slot[line] = -1


@inlined
def distance(k: Any, line: int) -> int:
    """How many other lines of its set were used since `line`; NEVER_USED for its first use."""
    slot = np.int64(k.slot[line])
    if slot < 0:
        return NEVER_USED
    cache_set = k.set_of[line]
    word = slot >> 6
    newer = set_bits(k.bits[word] & (np.int64(-1) << (slot & 63))) - 1
    if word == (k.following[cache_set] - 1) >> 6:
        return newer
    first = k.first[cache_set]
    i = word - first + 1
    older = 0
    while i > 0:
        older += k.tree[first + i - 1]
        i &= i - 1
    return k.live[cache_set] - older + newer  # type: ignore[no-any-return]


@inlined
def _add(k: Any, cache_set: Any, word: Any, change: int) -> None:
    first = k.first[cache_set]
    size = k.first[cache_set + 1] - first
    i = word - first + 1
    while i <= size:
        k.tree[first + i - 1] += change
        i += i & -i


@compiled
def _compact(k: Any, cache_set: Any) -> None:
    """Renumber the marks of a set from its first slot on, oldest first."""
    first, end = k.first[cache_set], k.first[cache_set + 1]
    following = first * 64
    for word in range(first, end):
        rest = k.bits[word]
        k.bits[word] = 0
        while rest != 0:
            lowest = rest & -rest
            rest &= rest - 1
            line = k.line_at[word * 64 + set_bits(lowest - 1)]
            k.line_at[following] = line
            k.slot[line] = following
            following += 1
    k.following[cache_set] = following
    for place in range(first * 64, following):
        k.bits[place >> 6] |= np.int64(1) << (place & 63)
    for word in range(first, end):
        k.tree[word] = 0
    for i in range(1, end - first + 1):
        k.tree[first + i - 1] += set_bits(k.bits[first + i - 1])
        above = i + (i & -i)
        if above <= end - first:
            k.tree[first + above - 1] += k.tree[first + i - 1]


@inlined
def use(k: Any, line: int) -> None:
    """Put `line` on top of the stack of its set."""
    cache_set = np.int64(k.set_of[line])
    slot = np.int64(k.slot[line])
    if slot >= 0 and slot == k.following[cache_set] - 1:
        return
    if k.following[cache_set] == k.first[cache_set + 1] * 64:
        _compact(k, cache_set)
        slot = np.int64(k.slot[line])
    new_slot = k.following[cache_set]
    k.following[cache_set] = new_slot + 1
    if slot >= 0:
        k.bits[slot >> 6] &= ~(np.int64(1) << (slot & 63))
        if slot >> 6 != new_slot >> 6:
            _add(k, cache_set, slot >> 6, -1)
            _add(k, cache_set, new_slot >> 6, 1)
    else:
        k.live[cache_set] += 1
        _add(k, cache_set, new_slot >> 6, 1)
    k.bits[new_slot >> 6] |= np.int64(1) << (new_slot & 63)
    k.slot[line] = new_slot
    k.line_at[new_slot] = line
