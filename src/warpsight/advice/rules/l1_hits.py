"""What if a line's loads hit the L1 twice as often?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpsight.advice.base import PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, place_of
from warpsight.advice.registry import RULES
from warpsight.caches.miss_profile import COUNTS, MissProfile


def doubled_hits(misses: MissProfile, pcs: Sequence[int]) -> MissProfile:
    """`misses` with the L1 hits of `pcs` twice as many, at most all reads; what lies beyond the L1 shrinks as their misses do.

    Counts stay whole: they are rounded, and hits take up the difference.
    """
    rows = np.array(pcs, dtype=np.int64)
    counts: dict[str, Any] = {name: getattr(misses, name).copy() for name in COUNTS}
    reads, hits = misses.l1_reads[rows], misses.l1_hits[rows]
    missed = reads - hits
    left = np.where(missed > 0, (reads - np.minimum(2 * hits, reads)) / np.maximum(missed, 1), 1.0)
    shrunk = ("l1_misses", "l1_merges", "slowest_l2", "slowest_dram", "slowest_merged", "merged_wait_cycles", "l2_reads",
              "l2_read_misses", "l2_read_merges", "dram_reads")  # fmt: skip
    for name in shrunk:
        counts[name][rows] = np.rint(counts[name][rows] * left).astype(np.int64)
    counts["l2_reads"][rows] = np.maximum(counts["l2_reads"][rows], counts["l2_read_misses"][rows] + counts["l2_read_merges"][rows])
    counts["l2_read_hits"][rows] = counts["l2_reads"][rows] - counts["l2_read_misses"][rows] - counts["l2_read_merges"][rows]
    counts["l1_hits"][rows] = reads - counts["l1_misses"][rows] - counts["l1_merges"][rows]
    beyond = sum(counts[name][rows] for name in ("slowest_l2", "slowest_dram", "slowest_merged"))
    before = sum(getattr(misses, name)[rows] for name in ("slowest_l1", "slowest_l2", "slowest_dram", "slowest_merged"))
    counts["slowest_l1"][rows] = before - beyond
    return replace(misses, **counts)


class L1Hits:
    """Reuse that the L1 loses: the counts of the caches are changed, profile and model made again."""

    name = "l1_hits"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each line whose loads hit at times and miss at times, those with most misses first."""
        misses = case.profiled.misses
        both = (misses.l1_hits > 0) & (misses.l1_hits < misses.l1_reads)
        for missed, row, pcs in heaviest_lines(case, lambda pc: bool(both[pc]), misses.l1_misses):
            after = doubled_hits(misses, pcs)
            reads = int(misses.l1_reads[pcs].sum())
            rates = [100 * int(counts.l1_hits[pcs].sum()) / reads for counts in (misses, after)]
            yield WhatIf(
                title=f"L1 hit rate of {line_name(row)} from {rates[0]:.3g} % to {rates[1]:.3g} %",
                place=place_of(row),
                reason=f"{missed:,} of its {reads:,} read requests miss, though some data are used again",
                cost="a smaller working set between uses: tiles, another order of work, fewer warps at once",
                owner=PROGRAMMER,
                evaluate=lambda after=after: case.with_misses(after),  # type: ignore[misc]
            )


RULES.add(L1Hits.name, L1Hits())
