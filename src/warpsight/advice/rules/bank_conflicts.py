"""What if a line's accesses to shared memory had no bank conflicts?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpsight.advice.base import PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, place_of
from warpsight.advice.registry import RULES
from warpsight.base.format import three_digits
from warpsight.caches.miss_profile import MissProfile


def without_conflicts(misses: MissProfile, pcs: Sequence[int]) -> MissProfile:
    """`misses` with one pass through the banks for each access to shared memory at `pcs`."""
    passes = misses.shared_passes.copy()
    rows = list(pcs)
    passes[rows] = misses.shared_executions[rows]
    return replace(misses, shared_passes=passes)


class BankConflicts:
    """Accesses that pass the banks more than once: profile and model are made again with one pass each."""

    name = "bank_conflicts"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each line with conflicts, those with most passes first."""
        misses = case.profiled.misses
        conflicts = misses.shared_passes > misses.shared_executions
        for passes, row, pcs in heaviest_lines(case, lambda pc: bool(conflicts[pc]), misses.shared_passes):
            mean = passes / int(misses.shared_executions[pcs].sum())
            yield WhatIf(
                title=f"shared memory of {line_name(row)} without bank conflicts",
                place=place_of(row),
                reason=f"an access passes the banks {three_digits(mean)} times",
                cost="padding or another index order in shared memory",
                owner=PROGRAMMER,
                evaluate=lambda pcs=pcs: case.with_misses(without_conflicts(misses, pcs)),  # type: ignore[misc]
            )


RULES.add(BankConflicts.name, BankConflicts())
