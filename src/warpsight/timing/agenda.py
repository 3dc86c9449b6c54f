"""Who acts in a cycle. Each step of a cycle has a table of the times at which its components have something to do next.

The times of up to 64 components are compared into a mask without a branch, and only those whose time has come are visited: in a
busy cycle a fifth to a third of them, in no order that a branch for each could be predicted by.
"""

from __future__ import annotations

from warpsight.addressing.integers import trailing_zeros
from warpsight.caches.compiled import compiled, inlined
from warpsight.timing import layout as at
from warpsight.timing.layout import Ints

WORD = 64


@inlined
def _bits(s: Ints, first: int, count: int, now: int) -> int:
    """Which of `count` times from `first` on have come, as bits."""
    bits = 0
    for k in range(count):
        bits |= (1 << k) if s[first + k] <= now else 0
    return bits


@compiled
def due(p: Ints, s: Ints, table: int, count: int, turn: int, now: int) -> int:
    """List in `DUE` those of the table's `count` components that act now, from number `turn` on and round; gives how many."""
    words = (count + WORD - 1) // WORD
    for word in range(words):
        first = word * WORD
        s[p[at.DUE_BITS] + word] = _bits(s, table + first, min(WORD, count - first), now)
    found = p[at.DUE]
    before = (1 << (turn & (WORD - 1))) - 1
    for k in range(words + 1):
        word = turn // WORD + k
        word = word if word < words else word - words
        bits = s[p[at.DUE_BITS] + word]
        bits &= ~before if k == 0 else before if k == words else -1
        while bits != 0:
            s[found] = word * WORD + trailing_zeros(bits)
            found += 1
            bits &= bits - 1
    return int(found - p[at.DUE])


@inlined
def earliest(p: Ints, s: Ints) -> int:
    """When somebody acts next. The tables lie one after the other."""
    time = at.NEVER
    for k in range(p[at.NEXT_RETURN], p[at.DUE]):
        time = min(time, s[k])
    return int(time)
