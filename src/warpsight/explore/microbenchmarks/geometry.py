"""Size, ways and set index of the L1 by a search for conflicts: which working sets hit, at which strides.

A ring of lines that is walked again and again hits where no set has more lines than ways; where one has, LRU misses all of that
set. So a cache predicts for each ring which part of its loads misses, and the part that does is read off their mean latency. It
lies between the L1's and the L2's. Caches of every rule, number of sets and ways that agree with the sweep of lines side by side
are tried; the answer is the one that explains the rings best, where no other explains them nearly as well.

The base of a ring is aligned to 1 MiB, so that the bits above it only permute sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.addressing.setindex import RULES, set_index
from warpsight.explore.microbenchmarks.fitted import Answer, Fitted, Refused
from warpsight.explore.microbenchmarks.timings import CHASE, Timing, Timings
from warpsight.gpu.spec import GpuSpec

KEYS = ("l1.size", "l1.ways", "l1.index")
ALIGNED = 1 << 20
# a ring of lines side by side fits where at most this part of its loads misses
_FITS = 0.02
# the part of loads that may be unexplained, and how much better than others the best must be
_GOOD, _BETTER = 0.08, 0.02
_MOST_SETS, _LEAST_ROWS = 2048, 8

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Cache:
    rule: str
    sets: int
    ways: int
    error: float

    @property
    def lines(self) -> int:
        return self.sets * self.ways


def geometry(timings: Timings, gpu: GpuSpec, l1_latency: float | None, l2_latency: float | None) -> list[Answer]:
    """`l1.size` (bytes), `l1.ways` and `l1.index`, for lines of the length in `gpu`."""
    if l1_latency is None or l2_latency is None:
        return [Refused(key, "what hits and what misses needs l1.latency and l2.latency") for key in KEYS]
    line = gpu.l1.line_bytes
    rings = timings.of(CHASE, lambda row: row.stride >= line and row.stride % line == 0 and row.size <= ALIGNED)
    parts = np.array([np.clip((row.each - l1_latency) / (l2_latency - l1_latency), 0, 1) for row in rings])
    bracket = _bracket(rings, parts, line)
    if isinstance(bracket, str):
        return [Refused(key, bracket) for key in KEYS]
    low, high = bracket
    caches = _candidates(rings, parts, line, low, high)
    between = f"the L1 holds between {low * line / 1024:g} and {high * line / 1024:g} KiB of lines of {line} B side by side"
    if not caches or caches[0].error > _GOOD:
        told = f"; the best cache explains all but {100 * caches[0].error:.0f} %" if caches else ""
        reason = f"no cache with LRU explains which working sets hit{told}; {between}"
        return [Refused(key, reason) for key in KEYS]
    best = caches[0]
    near = [cache for cache in caches if cache.error < best.error + _BETTER]
    cache = f"{best.sets} sets of {best.ways} ways"
    quality = f"all but {100 * best.error:.1f} % of the loads of {len(rings)} rings hit or miss as {cache}"
    values: dict[str, tuple[float | str, set[object]]] = {
        "l1.size": (float(best.lines * line), {cache.lines for cache in near}),
        "l1.ways": (float(best.ways), {cache.ways for cache in near}),
        "l1.index": (best.rule, {cache.rule for cache in near}),
    }
    answers: list[Answer] = []
    for key, (value, others) in values.items():
        if len(others) > 1:
            listed = ", ".join(map(str, sorted(others, key=str)[:6]))
            what = "lines" if key == "l1.size" else key
            answers.append(Refused(key, f"the rings do not tell {what} {listed} apart; {between}"))
        else:
            answers.append(Fitted(key, value, len(rings), best.error, quality))
    return answers


def _bracket(rings: Sequence[Timing], parts: Floats, line: int) -> tuple[int, int] | str:
    """The lines side by side that all hit at most, and the fewest above that do not; or why that is not known."""
    dense = [(row.size // line, part) for row, part in zip(rings, parts.tolist(), strict=True) if row.stride == line]
    above = [lines for lines, part in dense if part > _FITS]
    fitting = [lines for lines, part in dense if part <= _FITS and lines < min(above, default=0)]
    if len(rings) < _LEAST_ROWS or not fitting:
        return f"working sets of lines side by side that hit, and larger ones that do not, are needed; there are {len(dense)}"
    return max(fitting), min(above)


def _candidates(rings: Sequence[Timing], parts: Floats, line: int, low: int, high: int) -> list[_Cache]:
    """Caches that hold between `low` and `high` lines side by side, the best first; of those that say the same the simplest."""
    found: list[_Cache] = []
    for rule, number in RULES.items():
        sets = 1
        while sets <= min(_MOST_SETS, high):
            ways = range(max(1, -(-low // sets)), -(-high // sets))
            if ways and (rule == "modulo" or sets > 1):
                errors = _errors(rings, parts, line, sets, number, ways)
                found += [_Cache(rule, sets, way, error) for way, error in zip(ways, errors, strict=True)]
            sets *= 2
    order = list(RULES)
    return sorted(found, key=lambda cache: (round(cache.error, 6), order.index(cache.rule), cache.sets))


def _errors(rings: Sequence[Timing], parts: Floats, line: int, sets: int, rule: int, ways: range) -> list[float]:
    """For each number of ways the root mean square of how far the part that misses is from the measured one."""
    set_of = np.array([set_index(number, sets, rule) for number in range(ALIGNED // line)])
    held = np.arange(ways.start, ways.stop)[:, None]
    predicted = np.zeros((len(ways), len(rings)))
    for column, ring in enumerate(rings):
        lines = np.bincount(set_of[: ring.size // line : ring.stride // line])
        # as many lines to a set, in as many sets: few different numbers, however many sets there are
        each, count = np.unique(lines, return_counts=True)
        predicted[:, column] = np.where(each > held, each * count, 0).sum(axis=1) / lines.sum()
    return [float(error) for error in np.sqrt(np.square(predicted - parts).mean(axis=1))]
