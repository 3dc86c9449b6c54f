"""The reuse-distance model over cache sizes, ways, line sizes and miss registers (HPCA 2014, section 7 and Fig. 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import UsageError

if TYPE_CHECKING:
    from warpsight.caches.reuse.settings import ReuseSettings
    from warpsight.explore.cache_study import Accesses

AXES = {"size": "size_bytes", "ways": "ways", "line": "line_bytes", "mshrs": "mshrs"}
MOST_POINTS = 100_000


def parse_axes(words: Sequence[str]) -> dict[str, list[int]]:
    """`size=4K:64K ways=1,2,4,8`: values by axis. A range doubles from its first to its last. Raises UsageError."""
    found: dict[str, list[int]] = {}
    for word in words:
        axis, _, text = word.partition("=")
        if axis not in AXES or axis in found:
            what = f'"{word}" is not one of {", ".join(AXES)} with its values, each axis once'
            raise UsageError(what, place="--sweep", remedy="give for example size=4K:64K ways=1,2,4,8")
        found[axis] = [value for part in text.split(",") for value in _values(axis, part)]
    return found


def _values(axis: str, text: str) -> list[int]:
    first, colon, last = text.partition(":")
    least, most = _number(axis, first), _number(axis, last if colon else first)
    if least > most:
        raise UsageError(f"{axis}={text} ends before it begins", place="--sweep", remedy="write the smaller value first")
    values = [least]
    while values[-1] * 2 <= most:
        values.append(values[-1] * 2)
    if values[-1] != most:
        remedy = f"end at {values[-1]} or {values[-1] * 2}, or list the values with commas"
        raise UsageError(f"{axis}={text}: doubling from {least} never gives {most}", place="--sweep", remedy=remedy)
    return values


def _number(axis: str, text: str) -> int:
    unit = {"K": 1024, "M": 1024**2}.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0 or len(digits) > 9:
        remedy = "give a whole number of 1 or more, as 48K or 64"
        raise UsageError(f'"{text}" is no value of {axis}', place="--sweep", remedy=remedy)
    return int(digits) * unit


def cache_sweep(accesses: Accesses, axes: dict[str, list[int]]) -> list[dict[str, Any]]:
    """A row for each point: its values, transactions, misses by class and rates. A size that its ways do not divide is an error.

    Without latencies the order of accesses does not depend on the cache: then one pass answers for all sizes and ways of a line.
    """
    base = accesses.settings()
    points = []
    for values in product(*axes.values()):
        changes: dict[str, Any] = {AXES[axis]: value for axis, value in zip(axes, values, strict=True)}
        points.append(replace(base, **changes))
    if len(points) > MOST_POINTS:
        what = f"{len(points):,} points are more than {MOST_POINTS:,}"
        raise UsageError(what, place="--sweep", remedy="give fewer values")
    for point in points:
        point.check()
    rows: dict[int, dict[str, Any]] = {}
    for line in dict.fromkeys(point.line_bytes for point in points):
        stream = accesses.stream(line)
        chosen = [k for k, point in enumerate(points) if point.line_bytes == line]
        for k, counts in zip(chosen, _evaluated(accesses, stream, [points[k] for k in chosen]), strict=True):
            rows[k] = _row(points[k], stream.transactions, counts)
    return [rows[k] for k in range(len(points))]


def _evaluated(accesses: Accesses, stream: Any, points: list[ReuseSettings]) -> list[dict[str, int]]:
    from warpsight.caches.reuse.analysis import analyse
    from warpsight.caches.reuse.one_pass import all_sizes_and_ways

    placement = accesses.placement()
    if "latency" in points[0].without:
        return all_sizes_and_ways(points[0], stream, placement, [(point.size_bytes, point.ways) for point in points])
    return [analyse(point, stream, placement).totals() for point in points]


def _row(point: ReuseSettings, transactions: int, counts: dict[str, int]) -> dict[str, Any]:
    misses = transactions - counts["hits"]
    values = {axis: getattr(point, name) for axis, name in AXES.items()}
    return {**values, "transactions": transactions, **counts, "misses": misses, "miss_rate": misses / max(1, transactions)}
