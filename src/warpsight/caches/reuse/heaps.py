"""A binary heap of (time, order) with one number each, in flat arrays: what happens later in the model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import inlined

Longs = npt.NDArray[np.int64]


class Heap(NamedTuple):
    """`time`, `order`, `what` int64 [capacity]; `size` int64 [2]: entries, and the order of the next."""

    time: Longs
    order: Longs
    what: Longs
    size: Longs


def new_heap(capacity: int) -> Heap:
    """An empty heap for `capacity` entries."""
    size = max(1, capacity)
    return Heap(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(2, np.int64))


@inlined
def push(h: Any, time: int, what: int) -> None:
    """Enter `what` at `time`, behind all that was entered before for the same time."""
    order = h.size[1]
    at = h.size[0]
    h.size[1] = order + 1
    h.size[0] = at + 1
    while at > 0:
        above = (at - 1) >> 1
        if h.time[above] <= time:
            break
        h.time[at], h.order[at], h.what[at] = h.time[above], h.order[above], h.what[above]
        at = above
    h.time[at], h.order[at], h.what[at] = time, order, what


@inlined
def pop(h: Any) -> int:
    """Take out the earliest entry; gives its number. The heap must not be empty."""
    found = h.what[0]
    last = h.size[0] - 1
    h.size[0] = last
    time, order, what = h.time[last], h.order[last], h.what[last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        other = below + 1
        if other < last and (
            h.time[other] < h.time[below] or (h.time[other] == h.time[below] and h.order[other] < h.order[below])
        ):
            below = other
        if h.time[below] > time or (h.time[below] == time and h.order[below] > order):
            break
        h.time[at], h.order[at], h.what[at] = h.time[below], h.order[below], h.what[below]
        at = below
    h.time[at], h.order[at], h.what[at] = time, order, what
    return found  # type: ignore[no-any-return]
