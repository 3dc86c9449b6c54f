"""LRU stacks, one for each set of a cache, that tell reuse distances in logarithmic time.

Bennett and Kruskal ("LRU stack processing", IBM J. Res. Dev. 19, 1975): every line has one mark, at the time of its last use, and
the distance of a reuse is the number of marks after it. Marks are bits of 64-bit words, and a binary indexed tree (Fenwick, 1994)
over the words of a set counts those before a word. The place of a mark is a slot; a set has twice as many slots as distinct lines,
and when they are used up the marks move together. Memory is thus bounded by the distinct lines, whatever the length of the trace.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import compiled, inlined
from warpsight.addressing.integers import set_bits

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

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
def enter(k: Any, line: int, own: Any) -> None:
    """Make `line` known as one of set `own`, not used yet."""
    k.set_of[line] = own
    k.slot[line] = -1


@inlined
def distance(k: Any, line: int) -> int:
    """How many other lines of its set were used since `line` was; NEVER_USED if it was not."""
    at = np.int64(k.slot[line])
    if at < 0:
        return NEVER_USED
    own = k.set_of[line]
    word = at >> 6
    newer = set_bits(k.bits[word] & (np.int64(-1) << (at & 63))) - 1
    if word == (k.following[own] - 1) >> 6:
        return newer  # type: ignore[no-any-return]
    first = k.first[own]
    i = word - first + 1
    older = 0
    while i > 0:
        older += k.tree[first + i - 1]
        i &= i - 1
    return k.live[own] - older + newer  # type: ignore[no-any-return]


@inlined
def _add(k: Any, own: Any, word: Any, change: int) -> None:
    first = k.first[own]
    size = k.first[own + 1] - first
    i = word - first + 1
    while i <= size:
        k.tree[first + i - 1] += change
        i += i & -i


@compiled
def _move_together(k: Any, own: Any) -> None:
    """Renumber the marks of a set from its first slot on, oldest first."""
    first, end = k.first[own], k.first[own + 1]
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
    k.following[own] = following
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
    own = np.int64(k.set_of[line])
    at = np.int64(k.slot[line])
    if at >= 0 and at == k.following[own] - 1:
        return
    if k.following[own] == k.first[own + 1] * 64:
        _move_together(k, own)
        at = np.int64(k.slot[line])
    new = k.following[own]
    k.following[own] = new + 1
    if at >= 0:
        k.bits[at >> 6] &= ~(np.int64(1) << (at & 63))
        if at >> 6 != new >> 6:
            _add(k, own, at >> 6, -1)
            _add(k, own, new >> 6, 1)
    else:
        k.live[own] += 1
        _add(k, own, new >> 6, 1)
    k.bits[new >> 6] |= np.int64(1) << (new & 63)
    k.slot[line] = new
    k.line_at[new] = line
