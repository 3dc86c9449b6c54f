"""One set of a cache. Its lines are kept in the order of their last use, the most recent first, so that LRU needs no time stamps.

The set is `ways` rows of `lines` from row `first` on.
"""

from __future__ import annotations

from warpsight.base.compiled import inlined
from warpsight.base.records import Table
from warpsight.caches.exact.state import Line


@inlined
def find(lines: Table[Line], first: int, ways: int, tag: int) -> int:
    """The way of the set that holds line `tag`, or -1."""
    for way in range(ways):
        if lines[first + way].tag == tag and lines[first + way].valid | lines[first + way].dirty != 0:
            return way
    return -1


@inlined
def victim(lines: Table[Line], first: int, ways: int, now: int) -> int:
    """The way to evict: the least recently used of those not in flight at `now`; if all are, the one that arrives first."""
    earliest = ways - 1
    for way in range(ways - 1, -1, -1):
        ready = lines[first + way].ready
        if ready <= now:
            return way
        if ready < lines[first + earliest].ready:
            earliest = way
    return earliest


@inlined
def to_front(lines: Table[Line], first: int, way: int, tag: int, valid: int, level: int, dirty: int, ready: int) -> None:
    """Make `way` the most recently used, with this content."""
    for row in range(first + way, first, -1):
        lines[row] = lines[row - 1]
    line = lines[first]
    line.tag, line.valid, line.level, line.dirty, line.ready = tag, valid, level, dirty, ready
