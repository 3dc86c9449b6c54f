"""What if the lanes of a warp combined their atomics to one address first?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpsight.advice.base import PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, place_of
from warpsight.advice.registry import RULES
from warpsight.base.format import three_digits
from warpsight.caches.miss_profile import MissProfile


def combined(misses: MissProfile, pcs: Sequence[int]) -> MissProfile:
    """`misses` with no two lanes of an atomic at `pcs` at one address."""
    repeats = misses.atomic_repeats.copy()
    repeats[list(pcs)] = 0
    return replace(misses, atomic_repeats=repeats)


class Atomics:
    """Atomics whose lanes meet at an address: profile and model are made again with one lane of these."""

    name = "atomics"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each line with such atomics, those with most lanes in wait first."""
        misses = case.profiled.misses
        for repeats, row, pcs in heaviest_lines(case, lambda pc: bool(misses.atomic_repeats[pc] > 0), misses.atomic_repeats):
            lanes = 1 + repeats / int(misses.executions[pcs].sum())
            yield WhatIf(
                title=f"atomics of {line_name(row)} combined in each warp",
                place=place_of(row),
                reason=f"{three_digits(lanes)} lanes share an address, and its L2 slice serves one after the other",
                cost="a sum over the lanes at one address before the atomic, or a copy per block in shared memory",
                owner=PROGRAMMER,
                evaluate=lambda pcs=pcs: case.with_misses(combined(misses, pcs)),  # type: ignore[misc]
            )


RULES.add(Atomics.name, Atomics())
