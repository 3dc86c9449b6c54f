"""Transactions of a memory instruction whose address is known as a function of thread and loop counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from warpsight.addressing.transactions import of_lanes, packed, rule_number, segment_bytes
from warpsight.base.errors import LimitError
from warpsight.profile.kernel_counts import LaunchTotals
from warpsight.profile.static.values import Linear, Mask, Number

_ALIGNMENT = 256  # of what cudaMalloc gives; rules look at no more of an address
_MOST_PLACES = 4096


@dataclass
class Tally:
    """Sums over warps so far, as floats: counts times the iterations that they stand for."""

    instructions: float = 0.0
    coalesced: float = 0.0
    uncoalesced: float = 0.0
    transactions: float = 0.0
    access_bytes: float = 0.0
    synchronizations: float = 0.0
    told: set[int] = field(default_factory=set)

    def copy(self) -> Tally:
        """The sums as they are now."""
        return Tally(**{**self.__dict__, "told": set(self.told)})

    def totals(self) -> LaunchTotals:
        """The sums as totals of a launch."""
        return LaunchTotals(
            self.instructions, self.coalesced, self.uncoalesced, self.transactions, self.access_bytes, self.synchronizations
        )


@dataclass(frozen=True)
class Coalescing:
    """A GPU's rule and the bytes that its L1 fetches."""

    rule: str
    sector_bytes: int

    def add(
        self, tally: Tally, address: Linear, active: Mask, access_bytes: int, ranges: Mapping[str, tuple[int, int]], times: float
    ) -> None:
        """Count one execution for each of the iterations that `ranges` (first, end of each counter) spans; `times` is their number.

        Raises LimitError where the addresses of the iterations differ in too many ways.
        """
        number = rule_number(self.rule)
        alignment = max(_ALIGNMENT, segment_bytes(number, access_bytes, self.sector_bytes))
        lanes = active.reshape(-1, 32)
        for shift, share in _places(_seen(address, active), ranges, alignment):
            where = np.broadcast_to(np.asarray(address.const + shift, dtype=np.int64), active.shape).reshape(-1, 32)
            made, good = of_lanes(where, lanes, access_bytes, number, self.sector_bytes)
            some = lanes.any(axis=1)
            weight = share * times
            tally.coalesced += weight * float((good & some).sum())
            tally.uncoalesced += weight * float((~good & some).sum())
            tally.transactions += weight * float(made[~good & some].sum())
            tally.access_bytes += weight * access_bytes * float(some.sum())

    def add_told(self, tally: Tally, active: Mask, access_bytes: int, coalesced: bool, times: float) -> None:
        """Count an instruction whose kind the user has told: uncoalesced makes a transaction for every active lane."""
        lanes = active.reshape(-1, 32)
        some = float(lanes.any(axis=1).sum())
        tally.access_bytes += times * access_bytes * some
        if coalesced:
            tally.coalesced += times * some
        else:
            segment = segment_bytes(rule_number(self.rule), access_bytes, self.sector_bytes)
            each = max(1, packed(access_bytes, segment) // 32)
            tally.uncoalesced += times * some
            tally.transactions += times * each * float(lanes.sum())


def _seen(address: Linear, active: Mask) -> Linear:
    """The address without counters that no active thread's has: those are left over from threads that went another way."""
    terms = {
        name: step if isinstance(step, int) else np.where(active, step, 0)
        for name, step in address.terms.items()
        if isinstance(step, int) or step[active].any()
    }
    return Linear(address.const, terms)


def _places(address: Linear, ranges: Mapping[str, tuple[int, int]], alignment: int) -> list[tuple[Number, float]]:
    """What counters add to the address, modulo the alignment, and in which share of the iterations."""
    found: list[tuple[Number, float]] = [(0, 1.0)]
    for name, step in address.terms.items():
        first, end = ranges[name]
        common = step if isinstance(step, int) else int(np.gcd.reduce(np.unique(step)))
        period = alignment // math.gcd(alignment, common)
        count = end - first
        ways = [(k, len(range(k, count, period)) / count) for k in range(min(period, count))]
        uniform: dict[int, float] = {}
        rest: list[tuple[Number, float]] = []
        for shift, share in found:
            for k, part in ways:
                moved = shift + step * (first + k)
                if isinstance(moved, int):
                    uniform[moved % alignment] = uniform.get(moved % alignment, 0.0) + share * part
                else:
                    rest.append((moved % alignment, share * part))
        found = [*uniform.items(), *rest]
        if len(found) > _MOST_PLACES:
            what = f"an address takes more than {_MOST_PLACES:,} places in a line over the iterations of its loops"
            raise LimitError(what, remedy="leave out --static: a trace counts any kernel")
    return found
