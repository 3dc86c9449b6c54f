"""Runs the reuse-distance model over the cores of a GPU and says what became of every transaction."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.caches.reuse import state as at
from warpsight.caches.reuse.access_stream import AccessStream
from warpsight.caches.reuse.engine import BLOCK_ENDED, run
from warpsight.caches.reuse.settings import UNLIMITED, ReuseSettings, set_numbers, spread_of
from warpsight.caches.reuse.state import Core, Tally, new_core

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Placement:
    """Where blocks run: on `cores` cores, at most `blocks_per_core` at a time on each."""

    cores: int
    blocks_per_core: int


@dataclass(frozen=True)
class Outcome:
    """What one run of the model found.

    `counts` int64 [pcs, 5]: hits, compulsory, capacity, associativity and latency misses. `by_set`, `by_cache` int64: transactions
    by distance + 1 (0: infinite) in the stacks of the sets and in one stack of the whole cache. `cancelled` accesses found no miss
    register and were issued again. `misses` int64 [KEPT_ROWS, n] (module `state`): what
    goes on to the next level, or all transactions, in the order of time; `log` as in module `state`; both empty unless asked for.
    """

    counts: Longs
    by_set: Longs
    by_cache: Longs
    cancelled: int
    misses: Longs
    log: Longs

    @property
    def total_misses(self) -> int:
        """Transactions that are no hits."""
        return int(self.counts[:, 1:].sum())


def rules_of(settings: ReuseSettings, given: AccessStream, placement: Placement, whole: bool) -> Longs:
    """The numbers that the compiled model works on."""
    off = settings.without
    p = np.zeros(at.RULES, np.int64)
    p[at.LATENCY] = "latency" not in off
    p[at.HIT_LATENCY] = settings.hit_latency
    p[at.MISS_LATENCY], p[at.SPREAD] = settings.miss_latency, spread_of(settings.sigma)[-1]
    p[at.WAYS], p[at.LINES] = settings.ways_modelled, settings.lines
    p[at.MSHRS] = UNLIMITED if "mshr" in off else settings.mshrs
    p[at.WARP_MSHRS] = UNLIMITED if "mshr" in off or settings.warp_mshrs == 0 else settings.warp_mshrs
    p[at.SPLIT] = settings.issue == "request"
    p[at.CLIP], p[at.DIVERGENCE] = settings.clip, "divergence" not in off
    p[at.AT_END] = p[at.LATENCY] and p[at.DIVERGENCE] and not p[at.SPLIT]
    p[at.WHOLE] = whole and settings.sets > 1
    p[at.BLOCKS_PER_CORE], p[at.WARPS_PER_BLOCK] = placement.blocks_per_core, given.warps_per_block
    p[at.DRAWS], p[at.QUEUE] = len(spread_of(settings.sigma)), placement.blocks_per_core * given.warps_per_block + 1
    p[at.WIDEST] = np.diff(given.stream.access).max(initial=1)
    return p


def evaluate(
    settings: ReuseSettings,
    given: AccessStream,
    placement: Placement,
    *,
    whole: bool = True,
    keep_misses: bool = False,
    keep_all: bool = False,
    log: int = 0,
) -> Outcome:
    """Run the model. `whole`: also keep the stack of the whole cache, which tells capacity from associativity.

    `keep_misses` fills `misses` with what goes on, `keep_all` with all transactions. `log` attempts are recorded;
    more are an error. Raises SpecError and UsageError for what cannot be modelled.
    """
    settings.check()
    if placement.cores < 1 or placement.blocks_per_core < 1:
        what = f"{placement.blocks_per_core} blocks on each of {placement.cores} cores: nothing can run"
        raise UsageError(what, place="--cores", remedy="give at least one core, and blocks that fit")
    if given.line_bytes != settings.line_bytes:
        raise ValueError("the accesses were coalesced for another line size")
    rules, spread = rules_of(settings, given, placement, whole), spread_of(settings.sigma)
    stream, lines = given.stream, len(given.line_number)
    if len(stream.line) and not 0 <= stream.line.min() <= stream.line.max() < lines:
        raise ValueError("a transaction is for a line that has no number")
    cores = min(placement.cores, max(1, given.blocks))
    set_of = set_numbers(given.line_number, settings.sets, settings.index, settings.index_bits)
    sizes = np.bincount(set_of, minlength=1) if lines else np.zeros(1, np.int64)
    rules[at.KEPT], rules[at.LOGGED] = given.transactions if keep_misses or keep_all else 0, log
    rules[at.KEEP_ALL] = keep_all
    tally = Tally(
        np.zeros(max(1, given.pcs) * at.CLASSES, np.int64), np.zeros(int(sizes.max()) + 2, np.int64), np.zeros(lines + 2, np.int64),
        np.zeros(at.KEPT_ROWS * rules[at.KEPT], np.int64), np.zeros(log * at.LOG_WIDTH, np.int64), np.zeros(2, np.int64),
    )
    shared = (
        stream.warp[:-1].copy(),
        np.zeros(max(1, len(stream.warp) - 1), np.int64),
        np.zeros(max(1, len(stream.warp) - 1), np.int64),
        np.zeros(max(1, len(stream.warp) - 1), np.int32),
        np.full(max(1, given.blocks), given.warps_per_block, np.int32),
    )
    made = [new_core(stream, set_of, settings.sets, rules, settings.seed * 1000003 + c, shared) for c in range(cores)]
    for number, core in enumerate(made):
        core.cell[at.NUMBER] = number
    _run_blocks(made, given, rules, spread, tally, placement)
    by_cache = tally.by_cache if rules[at.WHOLE] or settings.sets == 1 else np.zeros(0, np.int64)
    misses = tally.misses.reshape(at.KEPT_ROWS, -1)[:, : tally.used[0]]
    return Outcome(
        tally.counts.reshape(-1, at.CLASSES), tally.by_set, by_cache, sum(int(c.cell[at.CANCELLED]) for c in made),
        misses[:, np.argsort(misses[at.KEPT_TIME], kind="stable")], tally.log.reshape(-1, at.LOG_WIDTH)[: tally.used[1]],
    )


def _give(core: Core, block: int, warps: int) -> None:
    """Put the warps of `block` at the end of the queue."""
    for warp in range(block * warps, (block + 1) * warps):
        place = (core.cell[at.HEAD] + core.cell[at.QUEUED]) % len(core.queue)
        core.queue[place] = warp
        core.cell[at.QUEUED] += 1


def _run_blocks(
    cores: list[Core], given: AccessStream, rules: Longs, spread: Longs, tally: Tally, placement: Placement
) -> None:
    """Blocks round-robin over the cores until these are full, then the next block to the core that first ends one (section 4.1)."""
    following = min(given.blocks, len(cores) * placement.blocks_per_core)
    for block in range(following):
        _give(cores[block % len(cores)], block, given.warps_per_block)
    ended: list[tuple[int, int]] = []

    def go_on(number: int) -> None:
        if run(cores[number], given.stream, rules, spread, tally) == BLOCK_ENDED:
            heapq.heappush(ended, (int(cores[number].cell[at.TIME]), number))

    for number in range(len(cores)):
        go_on(number)
    while ended:
        _, number = heapq.heappop(ended)
        if following < given.blocks:
            _give(cores[number], following, given.warps_per_block)
            following += 1
        go_on(number)
