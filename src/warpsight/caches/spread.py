"""How evenly traffic spreads over the ports of the L2 slices, each way, their atomic units and the memory channels, at a time.

A stride can send all that is in flight to a few slices, though over the whole launch each gets its share ("partition camping":
Ruetsch and Micikevicius, Optimizing matrix transpose in CUDA, 2009). What is stuck at the busiest server keeps the SMs from giving
the others work, so the measure is the busiest server's load, window by window, over the mean. Of what it has above the mean, the
part that chance explains is taken off first: the variance of accesses that go to servers at random, over the variance that is found
(the shrinkage of James and Stein, 1961), so that random traffic counts as even.
"""

from __future__ import annotations

import math

from warpsight.caches.compiled import inlined
from warpsight.caches.layout import (
    CELL,
    CHANNEL_LOAD,
    CHANNELS,
    REPEAT_LOAD,
    REPLY_LOAD,
    REQUEST_LOAD,
    SLICES,
    SPREAD,
    WINDOW,
    Ints,
)

# Rounds in a window: long enough for some hundred accesses at each server that is busy, so that chance stays small beside them.
ROUNDS = 8
# Columns of a row of `SPREAD`, one row for each kind of server.
REPLIES, REQUESTS, MEMORY, REPEATS = 0, 4, 8, 12
_SQUARES, _BUSIEST, _MEAN = range(3)


@inlined
def arrive(p: Ints, s: Ints, load: int, kind: int, weight: int) -> None:
    """Count an access of `weight` at the server of that kind whose load lies in `s[load]`."""
    s[load] += weight
    s[p[SPREAD] + kind + _SQUARES] += weight * weight


@inlined
def _close(s: Ints, first: int, servers: int, row: int) -> None:
    total, most, squares = 0, 0, 0
    for server in range(first, first + servers):
        total += s[server]
        most = max(most, s[server])
        squares += s[server] * s[server]
        s[server] = 0
    # the variance of a server's load, for accesses that go to servers at random, is its share of the squared weights
    # (servers squared times the variances, with one standard deviation that the measured one has by chance)
    by_chance = s[row + _SQUARES] * servers * (1.0 + math.sqrt(2.0 / max(1, servers - 1)))
    found = squares * servers - total * total
    s[row + _SQUARES] = 0
    s[row + _MEAN] += total
    s[row + _BUSIEST] += total
    if found > by_chance:
        s[row + _BUSIEST] += int((servers * most - total) * (1.0 - by_chance / found))


@inlined
def close_round(p: Ints, s: Ints) -> None:
    """At the end of a window, add what it says, and begin the next."""
    s[p[CELL] + WINDOW] += 1
    if s[p[CELL] + WINDOW] % ROUNDS == 0:
        _close(s, p[REPLY_LOAD], p[SLICES], p[SPREAD] + REPLIES)
        _close(s, p[REQUEST_LOAD], p[SLICES], p[SPREAD] + REQUESTS)
        _close(s, p[CHANNEL_LOAD], p[CHANNELS], p[SPREAD] + MEMORY)
        _close(s, p[REPEAT_LOAD], p[SLICES], p[SPREAD] + REPEATS)


def shares_in_use(p: Ints, s: Ints) -> tuple[float, float, float, float]:
    """Mean over busiest load, above 0, at most 1: slices' ports to the SMs, from the SMs, memory channels, slices' atomic units."""
    rows = s[p[SPREAD] : p[SPREAD] + REPEATS + 4].tolist()

    def share(row: int) -> float:
        return rows[row + _MEAN] / rows[row + _BUSIEST] if rows[row + _BUSIEST] else 1.0

    return share(REPLIES), share(REQUESTS), share(MEMORY), share(REPEATS)
