"""One set of the L2: where a line is, and the order of use of its ways, the most recent first, so that LRU needs no time stamps.

Its `ways` rows begin at row `first` of the tables. What is searched (tags) and what is moved (numbers of ways) lie apart from the
lines: a look-up touches few of the host's cache lines. An *age* is a place in the order of use.
"""

from __future__ import annotations

from warpsight.base.compiled import inlined
from warpsight.base.records import Table, UInt16, UInt32
from warpsight.caches.exact.state import Line


@inlined
def find(tags: Table[UInt32], first: int, ways: int, tag: int) -> int:
    """The way of the set that holds line `tag`, or -1. Free of branches, so that the compiler compares several at a time."""
    found = -1
    for way in range(ways):
        found = way if tags[first + way] == tag else found
    return found


@inlined
def age_of(order: Table[UInt16], first: int, way: int) -> int:
    """The place of the way in the order of use."""
    age = 0
    while order[first + age] != way:
        age += 1
    return age


@inlined
def victim(lines: Table[Line], order: Table[UInt16], first: int, ways: int, now: int) -> int:
    """The age to evict: the least recently used of those not in flight at `now`; if all are, the one that arrives first."""
    earliest = ways - 1
    soonest = lines[first + order[first + earliest]].ready
    for age in range(ways - 1, -1, -1):
        ready = lines[first + order[first + age]].ready
        if ready <= now:
            return age
        if ready < soonest:
            earliest, soonest = age, ready
    return earliest


@inlined
def to_front(order: Table[UInt16], first: int, age: int) -> None:
    """Make the way of that age the most recently used."""
    way = order[first + age]
    for place in range(first + age, first, -1):
        order[place] = order[place - 1]
    order[first] = way


@inlined
def to_back(order: Table[UInt16], first: int, ways: int, age: int) -> None:
    """Make the way of that age the least recently used."""
    way = order[first + age]
    for place in range(first + age, first + ways - 1):
        order[place] = order[place + 1]
    order[first + ways - 1] = way
