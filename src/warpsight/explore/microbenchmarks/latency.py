"""Latencies from pointer chases (Hong and Kim, ISCA 2009, section 5.1): a level's is that of working sets which fit it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.explore.microbenchmarks.fitted import Answer, Fitted, Refused, spread
from warpsight.explore.microbenchmarks.timings import CHASE, Timing, Timings
from warpsight.gpu.spec import GpuSpec

# a plateau is flat within this, and made of so many working sets
FLAT, ENOUGH = 0.1, 2
# a level's latency is at least this times the level's before, or they are one
_APART = 1.2


def latencies(timings: Timings, gpu: GpuSpec) -> list[Answer]:
    """`l1.latency`, `l2.latency` and `dram.latency` in cycles (what DRAM adds to an L2 hit).

    Working sets of lines side by side. Which level serves a set follows from about how large `gpu` says that the caches are, and
    from the timings: up to half of the L1; from twice what still has the L1's latency to half of the L2; from twice the L2 on, and
    twice what still has its latency. Between them levels mix.
    """
    line, l2_size = gpu.l1.line_bytes, gpu.l2.size_bytes
    rows = timings.of(CHASE, lambda row: row.stride == line)
    first = _level(rows, 0, gpu.l1.size_bytes // 2, 0.0, line)
    answers: list[Answer] = [_answer("l1.latency", first, 0.0)]
    if isinstance(first, str):
        reason = "the levels behind the L1 need l1.latency"
        return [*answers, Refused("l2.latency", reason), Refused("dram.latency", reason)]
    second = _level(rows, 2 * first.reach, l2_size // 2, first.cycles, line)
    answers.append(_answer("l2.latency", second, 0.0))
    if isinstance(second, str):
        return [*answers, Refused("dram.latency", "what DRAM adds to an L2 hit needs l2.latency")]
    third = _level(rows, 2 * max(second.reach, l2_size), None, second.cycles, line)
    return [*answers, _answer("dram.latency", third, second.cycles)]


@dataclass(frozen=True)
class _Level:
    """A plateau: the median `cycles` of a load, `spread`, of so many `rows`; `reach`, the largest working set as quick."""

    cycles: float
    spread: float
    rows: int
    reach: int


def _level(rows: Sequence[Timing], least: int, most: int | None, before: float, line: int) -> _Level | str:
    """The plateau of working sets from `least` to `most` bytes, above the latency `before`; or why it is none."""
    if most is not None and least > most:
        return f"working sets of {least // 2:,} B have the latency of the level before, and the next should end at {2 * most:,} B"
    found = [row for row in rows if row.size >= least and (most is None or row.size <= most)]
    where = f"at least {least:,} B" if most is None else f"{least:,} to {most:,} B"
    if len(found) < ENOUGH:
        return f"{len(found)} chases of a line's stride ({line} B) have working sets of {where}; {ENOUGH} are needed"
    flat = spread([row.each for row in found])
    if flat > FLAT:
        return f"working sets of {where} differ by {100 * flat:.0f} % in latency, no plateau"
    cycles = float(np.median([row.each for row in found]))
    if cycles < _APART * before:
        return f"working sets of {where} take {cycles:.1f} cycles a load, as the level before ({before:.1f})"
    reach = max(row.size for row in rows if row.each <= (1 + FLAT) * cycles)
    return _Level(cycles, flat, len(found), reach)


def _answer(key: str, level: _Level | str, before: float) -> Answer:
    if isinstance(level, str):
        return Refused(key, level)
    quality = f"{level.cycles:.1f} cycles a load, flat within {100 * level.spread:.1f} %"
    if before:
        quality += f", less {before:.1f} of an L2 hit"
    return Fitted(key, float(round(level.cycles - before)), level.rows, level.spread, quality)
