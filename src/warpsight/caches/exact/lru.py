"""The order of use of the ways of a set, the most recent first, so that LRU needs no time stamps; and where a line is in the L2.

What is searched (tags) and what is moved (numbers of ways) lie apart from the lines: a look-up touches few of the host's cache
lines. An order is packed into words of 64 bits, the most recent way lowest, so that a few operations move all ways of a word. An
*age* is a place in the order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import trailing_zeros
from warpsight.base.compiled import equal_among_16, inlined
from warpsight.caches.exact.state import AT_ONCE, State

Longs = npt.NDArray[np.int64]

# -- Orders of one word.

@inlined
def rotated(word: int, place: int, bits: int, newest: int) -> int:
    """The word with its ways below bit `place` one place higher, over the way that is there, and `newest` as the lowest."""
    before = (1 << place) - 1
    return word & ~(before << bits | ((1 << bits) - 1)) | (word & before) << bits | newest


_ONES = 0x1111111111111111  # in each four bits
_HIGHEST = -7 * _ONES - 1  # the highest of each four, as a signed number


@inlined
def _place_of(order: int, way: int) -> int:
    """The lowest of the four bits that hold `way` in a word."""
    other = order ^ way * _ONES  # zero in the four bits that hold the way; the lowest such zero keeps its highest bit below
    return trailing_zeros((other - _ONES) & ~other & _HIGHEST) - 3


@inlined
def with_first(order: int, way: int) -> int:
    """The order of up to eight ways, four bits each, with `way` as the most recent."""
    return rotated(order, _place_of(order, way), 4, way)


# -- Sets of the L2. Set `row` has `ways` lines and tags, and the words of its order.

def way_bits(ways: int) -> int:
    """Bits of a way in a word: four where one word holds all ways."""
    return 4 if ways <= 16 else 8 if ways <= 256 else 16


def packed(ways: int) -> Longs:
    """The words of the order 0, 1, 2, ... of a set."""
    bits = way_bits(ways)
    numbers = np.zeros(-(-ways * bits // 64) * (64 // bits), np.int64)
    numbers[:ways] = np.arange(ways)
    return np.asarray(np.bitwise_or.reduce(numbers.reshape(-1, 64 // bits) << np.arange(0, 64, bits), axis=1), np.int64)


def unpacked(words: Longs, ways: int) -> Longs:
    """The ways of each set in their order, [set, age], from the words of all sets."""
    bits = way_bits(ways)
    numbers = words[:, np.newaxis] >> np.arange(0, 64, bits) & ((1 << bits) - 1)
    return np.asarray(numbers.reshape(-1, len(packed(ways)) * (64 // bits))[:, :ways], np.int64)


@inlined
def find(state: State, row: int, tag: int) -> int:
    """The way of the set that holds line `tag`, or -1. The last of the tags that are compared at once may be those of other sets,
    which cannot hold the line.
    """
    first, ways = row * state.machine.l2.ways, state.machine.l2.ways
    for way in range(0, ways, AT_ONCE):
        found = equal_among_16(state.l2_tags, first + way, tag)
        if found != 0:
            return way + trailing_zeros(found)
    return -1


@inlined
def way_at(state: State, row: int, age: int) -> int:
    """The way of that age."""
    place, bits = age * state.machine.l2_way_bits, state.machine.l2_way_bits
    return state.l2_order[row * state.machine.l2_order_words + (place >> 6)] >> (place & 63) & ((1 << bits) - 1)


@inlined
def age_of(state: State, row: int, way: int) -> int:
    """The place of the way in the order of use."""
    if state.machine.l2_way_bits == 4:
        return _place_of(state.l2_order[row], way) >> 2
    age = 0
    while way_at(state, row, age) != way:
        age += 1
    return age


@inlined
def victim(state: State, row: int, now: int) -> int:
    """The age to evict: the least recently used of those not in flight at `now`; if all are, the one that arrives first."""
    ways = state.machine.l2.ways
    earliest, soonest = ways - 1, state.l2_lines[row * ways + way_at(state, row, ways - 1)].ready
    for age in range(ways - 1, -1, -1):
        ready = state.l2_lines[row * ways + way_at(state, row, age)].ready
        if ready <= now:
            return age
        if ready < soonest:
            earliest, soonest = age, ready
    return earliest


@inlined
def to_front(state: State, row: int, age: int) -> None:
    """Make the way of that age the most recently used."""
    bits, first = state.machine.l2_way_bits, row * state.machine.l2_order_words
    newest, last = way_at(state, row, age), first + (age * bits >> 6)
    for number in range(first, last):
        word = state.l2_order[number]
        state.l2_order[number] = word << bits | newest
        newest = word >> (64 - bits) & ((1 << bits) - 1)
    state.l2_order[last] = rotated(state.l2_order[last], age * bits & 63, bits, newest)


@inlined
def to_back(state: State, row: int, age: int) -> None:
    """Make the way of that age the least recently used: it goes to the front, and then all others do, the oldest first."""
    to_front(state, row, age)
    for _ in range(1, state.machine.l2.ways):
        to_front(state, row, state.machine.l2.ways - 1)
