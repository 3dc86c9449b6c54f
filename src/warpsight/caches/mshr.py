"""The miss registers of one L1: the times at which its outstanding misses return, in order.

They lie between `head` and `tail` of a row twice as long as there are registers. A new miss mostly returns last or nearly so,
which makes insertion from the end cheaper than a heap.

The row `FLIGHT` adds up, for all L1s, the time that misses are in flight and the time for which an L1 is held up not for a register
but for a way, as all of a set are on their way: the longer misses are in flight, the longer that is.
"""

from __future__ import annotations

from warpsight.caches.compiled import inlined
from warpsight.caches.layout import FLIGHT, FLIGHT_WIDTH, IN_FLIGHT, MSHR, MSHR_ENDS, MSHRS, Ints


@inlined
def mshr_free_at(p: Ints, s: Ints, sm: int, now: int) -> int:
    """When a miss of `sm` gets a register: now, or when the first outstanding miss returns."""
    ends = p[MSHR_ENDS] + 2 * sm
    if s[ends + 1] - s[ends] < p[MSHRS]:
        return now
    return int(max(now, s[p[MSHR] + 2 * sm * p[MSHRS] + s[ends]]))


@inlined
def hold_mshr(p: Ints, s: Ints, sm: int, now: int, until: int) -> None:
    """Take a register of `sm` for a miss that returns at `until`; if none is free, those whose misses are back by `now` are."""
    ends, row = p[MSHR_ENDS] + 2 * sm, p[MSHR] + 2 * sm * p[MSHRS]
    head, tail = s[ends], s[ends + 1]
    if tail - head == p[MSHRS]:
        while head < tail and s[row + head] <= now:
            head += 1
        s[ends] = head
    if tail == 2 * p[MSHRS]:
        for k in range(tail - head):
            s[row + k] = s[row + head + k]
        head, tail = 0, tail - head
        s[ends] = 0
    s[ends + 1] = tail + 1
    s[p[FLIGHT] + IN_FLIGHT] += until - now
    place = row + tail
    while place > row + head and s[place - 1] > until:
        s[place] = s[place - 1]
        place -= 1
    s[place] = until


def way_wait(p: Ints, s: Ints) -> float:
    """Time for which an L1 is held up by sets whose ways are all on their way, over the time that misses are in flight; 0 to 1."""
    flight, held_up = s[p[FLIGHT] : p[FLIGHT] + FLIGHT_WIDTH].tolist()
    return min(1.0, held_up / flight) if flight else 0.0
