"""One set of a cache. Its ways stand in the order of their last use, so that LRU needs no time stamps.

A set of w ways is 2 w entries of the state: first w *words*, most recently used first, then the w times at which each line is
(or was) there. A word is `line << TAG_SHIFT | level << LEVEL_SHIFT | dirty | valid sectors`; -1 is an empty way.
"""

from __future__ import annotations

from warpsight.base.compiled import inlined
from warpsight.caches.exact.layout import LEVEL_SHIFT, TAG_SHIFT, VALID_MASK, Ints


@inlined
def find(s: Ints, base: int, ways: int, line: int) -> int:
    """The way of the set at `base` that holds `line`, or -1."""
    for way in range(ways):
        if s[base + way] >> TAG_SHIFT == line:
            return way
    return -1


@inlined
def victim(s: Ints, base: int, ways: int, now: int) -> int:
    """The way to give up: the least recently used of those not in flight at `now`; if all are, the one that arrives first."""
    first = ways - 1
    for way in range(ways - 1, -1, -1):
        ready = s[base + ways + way]
        if ready <= now:
            return way
        if ready < s[base + ways + first]:
            first = way
    return first


@inlined
def to_front(s: Ints, base: int, ways: int, way: int, word: int, ready: int) -> None:
    """Make `way` the most recently used, with this content; `ready` is what the second half of the set keeps of a line."""
    for place in range(base + way, base, -1):
        s[place] = s[place - 1]
        s[place + ways] = s[place + ways - 1]
    s[base] = word
    s[base + ways] = ready


@inlined
def new_word(line: int, level: int, dirty: int, valid: int) -> int:
    """The word of a line; `dirty` is 0 or `DIRTY`."""
    return line << TAG_SHIFT | level << LEVEL_SHIFT | dirty | valid


@inlined
def holds(word: int, sectors: int) -> bool:
    """Whether all of `sectors` are valid in the line of this word."""
    return word & sectors & VALID_MASK == sectors
