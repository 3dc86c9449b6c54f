"""One set of a cache: its ways in the order of their last use, so that LRU needs no time stamps.

A set of w ways is 2 w entries of the state: first the w line numbers (-1: empty), most recently used first, then for each the
valid sectors, above them those on their way (`PENDING_SHIFT`), and `DIRTY`.
"""

from __future__ import annotations

from warpsight.caches.compiled import inlined
from warpsight.timing import layout as at
from warpsight.timing.layout import Ints


@inlined
def find_way(s: Ints, base: int, ways: int, line: int) -> int:
    """The way of the set at `base` that holds `line`, or -1."""
    found = -1
    for way in range(ways):
        found = way if s[base + way] == line else found
    return found


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
