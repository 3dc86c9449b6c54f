"""The whole analysis of one cache: misses by class, MSHR misses by comparison, and the L2 behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.caches.reuse import state as at
from warpsight.caches.reuse.access_stream import AccessStream
from warpsight.caches.reuse.model import Outcome, Placement, evaluate
from warpsight.caches.reuse.settings import ReuseSettings
from warpsight.caches.reuse.state import Stream

Longs = npt.NDArray[np.int64]

# Columns of `Analysis.counts`.
HITS, COMPULSORY, CAPACITY, ASSOCIATIVITY, LATENCY, MSHR, COLUMNS = range(7)
NAMES = ("hits", "compulsory", "capacity", "associativity", "latency", "mshr")


@dataclass(frozen=True)
class Analysis:
    """`counts` int64 [pcs, 6]: transactions by `NAMES`, per pc. `outcome` is of the run with all that `settings` ask for.

    `mshr_difference`: its misses, but for compulsory ones, less those with unlimited miss registers; below 0 where few registers
    help (HPCA 2014, section 7).
    Only a positive difference is MSHR misses; they are taken, in proportion, from the pcs and classes that grew.
    """

    settings: ReuseSettings
    placement: Placement
    counts: Longs
    outcome: Outcome
    mshr_difference: int

    def totals(self) -> dict[str, int]:
        """Each class summed over all pcs."""
        return dict(zip(NAMES, (int(n) for n in self.counts.sum(axis=0)), strict=True))


def analyse(settings: ReuseSettings, given: AccessStream, placement: Placement, *, keep_misses: bool = False) -> Analysis:
    """Run the model, and where it cancelled accesses run it again without the limit of miss registers.

    Raises as `model.evaluate` does.
    """
    found = evaluate(settings, given, placement, keep_misses=keep_misses)
    counts = np.zeros((len(found.counts), COLUMNS), np.int64)
    counts[:, : at.CLASSES] = found.counts
    difference = 0
    if found.cancelled:
        # without the stack of the whole cache, which takes most of the time and only tells capacity from associativity
        unlimited = evaluate(settings.off("mshr"), given, placement, whole=False)
        difference = sum(int(sign * run.counts[:, CAPACITY:].sum()) for sign, run in ((1, found), (-1, unlimited)))
        if difference > 0:
            _charge(counts, found.counts, unlimited.counts, difference)
    return Analysis(settings, placement, counts[:, :COLUMNS], found, difference)


def _charge(counts: Longs, found: Longs, unlimited: Longs, excess: int) -> None:
    """Move `excess` misses to the column MSHR, in proportion to what grew (largest remainders).

    Capacity and associativity misses grow together, and give in proportion to what they are.
    """
    replaced = [CAPACITY, ASSOCIATIVITY]
    grown = np.stack(
        [found[:, replaced].sum(axis=1) - unlimited[:, replaced].sum(axis=1), found[:, LATENCY] - unlimited[:, LATENCY]], axis=1
    ).clip(min=0)
    share = grown * (excess / grown.sum())
    taken = np.floor(share).astype(np.int64)
    rest = excess - int(taken.sum())
    order = np.argsort(-(share - taken), axis=None, kind="stable")
    taken.reshape(-1)[order[:rest]] += 1
    capacity = taken[:, 0] * found[:, CAPACITY] // np.maximum(1, found[:, replaced].sum(axis=1))
    counts[:, CAPACITY] -= capacity
    counts[:, ASSOCIATIVITY] -= taken[:, 0] - capacity
    counts[:, LATENCY] -= taken[:, 1]
    counts[:, MSHR] += taken.sum(axis=1)


def next_level(settings: ReuseSettings, given: AccessStream, misses: Longs, *, keep_all: bool = False) -> Outcome:
    """What becomes of `misses` [KEPT_ROWS, n] of all cores (`Outcome.misses`) in one shared cache that takes them in that order.

    A latency miss asks for nothing more than is on its way, so none goes on. The shared cache has neither latencies nor miss
    registers: HPCA 2014, section 1, leaves it to the models of multi-core CPUs, which are ordered traces.
    """
    lines = given.line_number[misses[at.KEPT_LINE]] * given.line_bytes // settings.line_bytes
    numbers, dense = np.unique(lines, return_inverse=True)
    count = len(lines)
    pcs = misses[at.KEPT_PC].astype(np.int32)
    stream = Stream(np.array([0, count], np.int64), np.arange(count + 1), pcs, dense.astype(np.int32), np.ones(count, np.uint8))
    ordered = AccessStream(stream, numbers, settings.line_bytes, 1, 32, 1, count, given.pcs)
    return evaluate(settings.off("latency", "mshr", "divergence"), ordered, Placement(1, 1), keep_all=keep_all)
