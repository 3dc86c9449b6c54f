"""The miss registers of one L1: a heap of the times at which outstanding misses return."""

from __future__ import annotations

from warpsight.caches.compiled import compiled
from warpsight.caches.layout import MSHR, MSHR_USED, MSHRS, Ints


@compiled
def _drop_first(s: Ints, heap: int, size: int) -> None:
    """Remove the smallest of the `size` times that begin at `s[heap]`."""
    moved = s[heap + size - 1]
    place = 0
    while 2 * place + 1 < size - 1:
        child = 2 * place + 1
        if child + 1 < size - 1 and s[heap + child + 1] < s[heap + child]:
            child += 1
        if s[heap + child] >= moved:
            break
        s[heap + place] = s[heap + child]
        place = child
    s[heap + place] = moved


@compiled
def mshr_free_at(p: Ints, s: Ints, sm: int, now: int) -> int:
    """When a miss of `sm` gets a register: now, or when the first outstanding miss returns."""
    return now if s[p[MSHR_USED] + sm] < p[MSHRS] else max(now, s[p[MSHR] + sm * p[MSHRS]])


@compiled
def retire_mshrs(p: Ints, s: Ints, sm: int, now: int) -> None:
    """If all registers are taken, free those whose misses are back by `now`."""
    size = s[p[MSHR_USED] + sm]
    if size == p[MSHRS]:
        heap = p[MSHR] + sm * p[MSHRS]
        while size > 0 and s[heap] <= now:
            _drop_first(s, heap, size)
            size -= 1
        s[p[MSHR_USED] + sm] = size


@compiled
def hold_mshr(p: Ints, s: Ints, sm: int, until: int) -> None:
    """Keep one register of `sm`, one of which is free, until the miss returns."""
    heap = p[MSHR] + sm * p[MSHRS]
    place = s[p[MSHR_USED] + sm]
    s[p[MSHR_USED] + sm] = place + 1
    while place > 0:
        parent = (place - 1) >> 1
        if s[heap + parent] <= until:
            break
        s[heap + place] = s[heap + parent]
        place = parent
    s[heap + place] = until
