"""What happens later in the model: a calendar of (time, order) with one number each, in flat arrays.

A calendar queue (Brown, CACM 31, 1988): nothing is further ahead than the longest latency, so that a ring of a list for each time
stamp has room for all; entering and taking out need no search. For very long latencies a list holds several time stamps, sorted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import inlined
from warpsight.addressing.integers import set_bits

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

NEVER = 2**62  # the time of the next entry where there is none
_MOST_LISTS = 1 << 14
# entries of `cell`
_SOONEST, _FREE, _USED, _MASK, _SHIFT, _CELL = range(6)


class Calendar(NamedTuple):
    """`first`, `last` int32 [lists], 0: empty, else the number of an entry; `some` int64 [lists / 64], a bit for each list.

    Of each entry, from 1: `time`, `what` int64 and `following` int32, the next of its list. `cell` int64: module constants.
    """

    first: Ints
    last: Ints
    some: Longs
    time: Longs
    what: Longs
    following: Ints
    cell: Longs


def new_calendar(capacity: int, ahead: int) -> Calendar:
    """An empty calendar for `capacity` entries, no two of them more than `ahead` apart."""
    shift = 0
    while (ahead >> shift) + 2 > _MOST_LISTS:
        shift += 1
    lists = max(64, 1 << ((ahead >> shift) + 1).bit_length())
    cell = np.zeros(_CELL, np.int64)
    cell[_SOONEST], cell[_MASK], cell[_SHIFT] = NEVER, lists - 1, shift
    entries = capacity + 1
    return Calendar(
        np.zeros(lists, np.int32), np.zeros(lists, np.int32), np.zeros(lists // 64, np.int64), np.empty(entries, np.int64),
        np.empty(entries, np.int64), np.empty(entries, np.int32), cell,
    )


@inlined
def soonest(k: Any) -> int:
    """The time of the earliest entry, NEVER if there is none."""
    return k.cell[_SOONEST]  # type: ignore[no-any-return]


@inlined
def push(k: Any, time: int, what: int) -> None:
    """Enter `what` at `time`, behind all that was entered before for the same time."""
    cell = k.cell
    entry = cell[_FREE]
    if entry != 0:
        cell[_FREE] = k.following[entry]
    else:
        entry = cell[_USED] + 1
        cell[_USED] = entry
    k.time[entry], k.what[entry], k.following[entry] = time, what, 0
    place = (time >> cell[_SHIFT]) & cell[_MASK]
    last = k.last[place]
    if last == 0:
        k.first[place] = entry
        k.last[place] = entry
        k.some[place >> 6] |= np.int64(1) << (place & 63)
    elif k.time[last] <= time:
        k.following[last] = entry
        k.last[place] = entry
    else:
        before, after = 0, k.first[place]
        while k.time[after] <= time:
            before, after = after, k.following[after]
        k.following[entry] = after
        if before == 0:
            k.first[place] = entry
        else:
            k.following[before] = entry
    cell[_SOONEST] = min(cell[_SOONEST], time)


@inlined
def pop(k: Any) -> int:
    """Take out the earliest entry; gives its number. The calendar must not be empty."""
    cell = k.cell
    at = cell[_SOONEST] >> cell[_SHIFT]
    place = at & cell[_MASK]
    entry = np.int64(k.first[place])
    found = k.what[entry]
    following = k.following[entry]
    k.first[place] = following
    k.following[entry] = cell[_FREE]
    cell[_FREE] = entry
    if following != 0:
        cell[_SOONEST] = k.time[following]
        return found  # type: ignore[no-any-return]
    k.last[place] = 0
    k.some[place >> 6] &= ~(np.int64(1) << (place & 63))
    cell[_SOONEST] = NEVER
    # once round the ring; the word of `place` is looked at again in the end, for the lists before it
    step = place
    words = (cell[_MASK] >> 6) + 1
    for _ in range(words + 1):
        rest = k.some[step >> 6] & (np.int64(-1) << (step & 63))
        if rest != 0:
            cell[_SOONEST] = k.time[k.first[(step >> 6 << 6) + set_bits((rest & -rest) - 1)]]
            break
        step = ((step | 63) + 1) & cell[_MASK]
    return found  # type: ignore[no-any-return]
