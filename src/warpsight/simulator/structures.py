"""Structures that units share: ring buffers, one set of a cache in the order of last use, miss registers."""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.base.compiled import inlined
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Ints


@inlined
def wrapped(place: int, room: int) -> int:
    """`place % room` for 0 <= place < 2 * room, without the division, which costs as much as the rest of what a queue does."""
    return place - room if place >= room else place


# -- One set of a cache: its ways in the order of their last use, so that LRU needs no time stamps.
#
# A set of w ways is 2 w entries of the state: first the w line numbers (-1: empty), most recently used first, then for each the
# valid sectors, above them those on their way (`PENDING_SHIFT`), and `DIRTY`.

@inlined
def find_way(s: Ints, base: int, ways: int, line: int) -> int:
    """The way of the set at `base` that holds `line`, or -1."""
    found = -1
    for way in range(ways):
        found = way if s[base + way] == line else found
    return found


@inlined
def to_front(s: Ints, base: int, ways: int, way: int, line: int, sectors: int) -> None:
    """Make `way` the most recently used, with this content."""
    for place in range(base + way, base, -1):
        s[place] = s[place - 1]
        s[place + ways] = s[place + ways - 1]
    s[base] = line
    s[base + ways] = sectors


@inlined
def victim(s: Ints, base: int, ways: int) -> int:
    """The least recently used way that waits for nothing, or -1."""
    for way in range(ways - 1, -1, -1):
        if s[base + ways + way] >> at.PENDING_SHIFT & at.VALID_BITS == 0:
            return way
    return -1


@inlined
def is_dirty(s: Ints, base: int, ways: int, way: int) -> bool:
    """Whether the way holds a line that memory does not know yet."""
    return bool(s[base + way] >= 0 and s[base + ways + way] & at.DIRTY != 0)


# -- Miss registers of a cache, L1 or L2 slice: lines on their way, and for each the requests that wait for it.
#
# Registers are found by line through chains that start in buckets. A cache is the four places where its tables begin: buckets,
# registers, nodes (one for each waiting request), and the two words that hold the first free register and the first free node.

@inlined
def find(s: Ints, buckets: int, count: int, registers: int, line: int) -> int:
    """Where the register of `line` begins, or -1. `count` is a power of two."""
    place = s[buckets + (line & (count - 1))]
    while place >= 0 and s[registers + place * at.MSHR_WIDTH + at.M_LINE] != line:
        place = s[registers + place * at.MSHR_WIDTH + at.M_CHAIN]
    return int(registers + place * at.MSHR_WIDTH) if place >= 0 else -1


@inlined
def take(s: Ints, buckets: int, count: int, registers: int, free: int, line: int) -> int:
    """Take the first free register (there is one) for `line`; gives where it begins."""
    place = s[free]
    row = registers + place * at.MSHR_WIDTH
    s[free] = s[row + at.M_CHAIN]
    bucket = buckets + (line & (count - 1))
    s[row + at.M_LINE], s[row + at.M_CHAIN] = line, s[bucket]
    s[bucket] = place
    s[row + at.M_PENDING] = s[row + at.M_EXPECTED] = s[row + at.M_TARGETS] = 0
    s[row + at.M_FIRST] = s[row + at.M_LAST] = -1
    s[row + at.M_DRAM] = 0
    return int(row)


@inlined
def drop(s: Ints, buckets: int, count: int, registers: int, free: int, row: int) -> None:
    """Give the register back."""
    place = quotient(row - registers, at.MSHR_WIDTH)
    link = buckets + (s[row + at.M_LINE] & (count - 1))
    while s[link] != place:
        link = registers + s[link] * at.MSHR_WIDTH + at.M_CHAIN
    s[link] = s[row + at.M_CHAIN]
    s[row + at.M_CHAIN] = s[free]
    s[free] = place


@inlined
def add_target(s: Ints, nodes: int, free: int, row: int, handle: int, since: int, data: int) -> None:
    """Let the request `handle` wait for the register's line (a node is free); `since` and `data` are the cache's own."""
    place = s[free]
    node = nodes + place * at.NODE_WIDTH
    s[free] = s[node + at.N_NEXT]
    s[node + at.N_NEXT], s[node + at.N_HANDLE], s[node + at.N_SINCE], s[node + at.N_DATA] = -1, handle, since, data
    if s[row + at.M_LAST] >= 0:
        s[nodes + s[row + at.M_LAST] * at.NODE_WIDTH + at.N_NEXT] = place
    else:
        s[row + at.M_FIRST] = place
    s[row + at.M_LAST] = place
    s[row + at.M_TARGETS] += 1


@inlined
def take_target(s: Ints, nodes: int, free: int, row: int) -> int:
    """Take the oldest waiting request off the register; gives where its node begins, whose content stays until the next use."""
    place = s[row + at.M_FIRST]
    node = nodes + place * at.NODE_WIDTH
    s[row + at.M_FIRST] = s[node + at.N_NEXT]
    if s[row + at.M_FIRST] < 0:
        s[row + at.M_LAST] = -1
    s[node + at.N_NEXT] = s[free]
    s[free] = place
    s[row + at.M_TARGETS] -= 1
    return int(node)
