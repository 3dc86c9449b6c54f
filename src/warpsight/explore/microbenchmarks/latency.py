"""Latencies from pointer chases (Hong and Kim, ISCA 2009, section 5.1): each level has the latency of sets that fit it and no other."""

from __future__ import annotations

from collections.abc import Sequence

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

    Whole working sets only, one load a line. Which level serves a set follows from the sizes in `gpu`: up to half of the L1, from
    twice the L1 to half of the L2, and from twice the L2 on; between them levels mix.
    """
    l1_size, l2_size, line = gpu.l1.size_bytes, gpu.l2.size_bytes, gpu.l1.line_bytes
    rows = timings.of(CHASE, lambda row: row.stride == line)
    levels = (
        ("l1.latency", [row for row in rows if row.size <= l1_size // 2], f"at most {l1_size // 2:,} B, half of the L1"),
        ("l2.latency", [row for row in rows if 2 * l1_size <= row.size <= l2_size // 2],
         f"{2 * l1_size:,} to {l2_size // 2:,} B, which the L2 holds and the L1 does not"),
        ("dram.latency", [row for row in rows if row.size >= 2 * l2_size], f"at least {2 * l2_size:,} B, twice the L2"),
    )  # fmt: skip
    answers: list[Answer] = []
    before = 0.0
    for key, found, where in levels:
        reason = _unfit(found, where, line)
        level = float(np.median([row.each for row in found])) if found else 0.0
        if not reason and level < _APART * before:
            reason = f"working sets of {where} take {level:.1f} cycles, as the level before ({before:.1f})"
        if key == "dram.latency" and not reason and isinstance(answers[1], Refused):
            reason = "what DRAM adds to an L2 hit needs l2.latency"
        if reason:
            answers.append(Refused(key, reason))
            continue
        value = level - before if key == "dram.latency" else level
        flat = spread([row.each for row in found])
        quality = f"{level:.1f} cycles a load, flat within {100 * flat:.1f} %"
        if key == "dram.latency":
            quality += f", less {before:.1f} of an L2 hit"
        answers.append(Fitted(key, float(round(value)), len(found), flat, quality))
        before = level
    return answers


def _unfit(rows: Sequence[Timing], where: str, line: int) -> str:
    """Why the rows are no plateau, or nothing."""
    if len(rows) < ENOUGH:
        return f"{len(rows)} chases of a line's stride ({line} B) have working sets of {where}; {ENOUGH} are needed"
    flat = spread([row.each for row in rows])
    return f"working sets of {where} differ by {100 * flat:.0f} % in latency, no plateau" if flat > FLAT else ""
