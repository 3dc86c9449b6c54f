"""Runs the reuse-distance model over the cores of a GPU, and classifies every transaction.

First the compiled loop of one core, then all cores of one cache, then the whole analysis: misses by class, MSHR misses by
comparison, and the L2 behind it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.base.compiled import compiled, inlined, kept_until_changed, pointer
from warpsight.base.errors import UsageError
from warpsight.caches.reuse import state
from warpsight.caches.reuse.access_stream import AccessStream
from warpsight.caches.reuse.settings import UNLIMITED, ReuseSettings, set_numbers, spread_of
from warpsight.caches.reuse.state import Core, Stream, Tally, new_core
from warpsight.caches.reuse.step import access, requests
from warpsight.caches.reuse.structures import NEVER, Calendar, Longs, Stacks, pop, push, soonest

DONE, BLOCK_ENDED = range(2)


@inlined
def _enqueue(core: Any, p: Longs, warp: int) -> None:
    cell = core.cell
    place = cell[state.HEAD] + cell[state.QUEUED]
    if place >= p[state.QUEUE]:
        place -= p[state.QUEUE]
    core.queue[place] = warp
    cell[state.QUEUED] += 1


@inlined
def _dequeue(core: Any, p: Longs) -> int:
    cell = core.cell
    warp = core.queue[cell[state.HEAD]]
    cell[state.HEAD] = cell[state.HEAD] + 1 if cell[state.HEAD] + 1 < p[state.QUEUE] else 0
    cell[state.QUEUED] -= 1
    return warp  # type: ignore[no-any-return]


@compiled
def _run(core: Any, s: Any, p: Longs, spread: Longs, t: Any) -> int:
    cell = core.cell
    while True:
        while soonest(core.waiting) <= cell[state.TIME]:
            _enqueue(core, p, pop(core.waiting))
        if cell[state.QUEUED] == 0:
            if soonest(core.waiting) == NEVER:
                return DONE
            cell[state.TIME] = soonest(core.waiting)
            continue
        warp = _dequeue(core, p)
        if core.next[warp] == s.warp[warp + 1]:
            # the end of a warp is noticed at its next turn
            cell[state.TIME] += p[state.AT_END]
            block = warp // p[state.WARPS_PER_BLOCK]
            core.left[block] -= 1
            if core.left[block] == 0:
                cell[state.ENDED] += 1
                return BLOCK_ENDED
            continue
        if p[state.SPLIT] and p[state.LATENCY]:
            cell[state.TIME] = requests(core, s, p, spread, t, warp, cell[state.TIME])
            if core.part[warp] == 0 and p[state.DIVERGENCE] and core.slowest[warp] >= cell[state.TIME]:
                push(core.waiting, core.slowest[warp] + 1, warp)
            else:
                _enqueue(core, p, warp)
            continue
        latency = access(core, s, p, spread, t, warp, cell[state.TIME])
        if latency > 0 and p[state.DIVERGENCE]:
            push(core.waiting, cell[state.TIME] + latency + 1, warp)
        else:
            _enqueue(core, p, warp)
        cell[state.TIME] += 1


@inlined
def _stacks(k: Any) -> Stacks:
    return Stacks(
        pointer(k.set_of), pointer(k.first), pointer(k.slot), pointer(k.line_at), pointer(k.bits), pointer(k.tree),
        pointer(k.following), pointer(k.live),
    )


@inlined
def _calendar(k: Any) -> Calendar:
    return Calendar(
        pointer(k.first), pointer(k.last), pointer(k.some), pointer(k.time), pointer(k.item), pointer(k.following), pointer(k.cell)
    )


@inlined
def _core(c: Any) -> Core:
    """The core with plain pointers in place of its arrays, which cost reference counts wherever they are handed on."""
    return Core(
        pointer(c.local), pointer(c.line_of), pointer(c.set_of), _stacks(c.sets), _stacks(c.whole), pointer(c.flights),
        pointer(c.due), pointer(c.owner), pointer(c.arrived), pointer(c.seen), pointer(c.queue), pointer(c.next),
        pointer(c.part), pointer(c.slowest), pointer(c.held), pointer(c.left), _calendar(c.waiting), _calendar(c.flying),
        pointer(c.now), pointer(c.lookups), pointer(c.cell),
    )


@kept_until_changed("addressing", "caches")
def run(core: Any, stream: Any, rules: Longs, spread: Longs, tally: Any) -> int:
    """Run until a block of `core` has ended (BLOCK_ENDED) or it has no more warps (DONE)."""
    s = Stream(pointer(stream.warp), pointer(stream.access), pointer(stream.pc), pointer(stream.line), pointer(stream.group))
    t = Tally(
        pointer(tally.counts), pointer(tally.by_set), pointer(tally.by_cache), pointer(tally.misses), pointer(tally.log),
        pointer(tally.used),
    )
    return _run(_core(core), s, pointer(rules), pointer(spread), t)


# -- All cores of a GPU.

@dataclass(frozen=True)
class Placement:
    """Where blocks run: on `cores` cores, at most `blocks_per_core` at a time on each."""

    cores: int
    blocks_per_core: int


@dataclass(frozen=True)
class ModelRun:
    """The result of one run of the model.

    `counts` int64 [pcs, 5]: hits, compulsory, capacity, associativity and latency misses. `by_set`, `by_cache` int64: transactions
    by distance + 1 (0: infinite) in the stacks of the sets and in one stack of the whole cache. `cancelled` accesses found no
    free MSHR and were issued again. `misses` int64 [KEPT_ROWS, n] (module `state`): the requests to the next level, or all
    transactions, in the order of time; `log` as in module `state`; both are empty unless requested.
    """

    counts: Longs
    by_set: Longs
    by_cache: Longs
    cancelled: int
    misses: Longs
    log: Longs

    @property
    def total_misses(self) -> int:
        """Transactions that miss."""
        return int(self.counts[:, 1:].sum())


def rules_of(settings: ReuseSettings, accesses: AccessStream, placement: Placement, whole: bool) -> Longs:
    """The parameters of the compiled model, int64 [RULES] (module `state`)."""
    off = settings.without
    p = np.zeros(state.RULES, np.int64)
    p[state.LATENCY] = "latency" not in off
    p[state.HIT_LATENCY] = settings.hit_latency
    p[state.MISS_LATENCY], p[state.SPREAD] = settings.miss_latency, spread_of(settings.sigma)[-1]
    p[state.WAYS], p[state.LINES] = settings.ways_modelled, settings.lines
    p[state.MSHRS] = UNLIMITED if "mshr" in off else settings.mshrs
    p[state.WARP_MSHRS] = UNLIMITED if "mshr" in off or settings.warp_mshrs == 0 else settings.warp_mshrs
    p[state.SPLIT] = settings.issue == "request"
    p[state.CLIP], p[state.DIVERGENCE] = settings.clip, "divergence" not in off
    p[state.AT_END] = p[state.LATENCY] and p[state.DIVERGENCE] and not p[state.SPLIT]
    p[state.WHOLE] = whole and settings.sets > 1
    p[state.BLOCKS_PER_CORE], p[state.WARPS_PER_BLOCK] = placement.blocks_per_core, accesses.warps_per_block
    p[state.DRAWS], p[state.QUEUE] = len(spread_of(settings.sigma)), placement.blocks_per_core * accesses.warps_per_block + 1
    p[state.WIDEST] = np.diff(accesses.stream.access).max(initial=1)
    return p


def evaluate(
    settings: ReuseSettings, accesses: AccessStream, placement: Placement, *, whole: bool = True, keep_misses: bool = False,
    keep_all: bool = False, log: int = 0,
) -> ModelRun:
    """Run the model. `whole`: also keep the stack of the whole cache, which tells capacity from associativity misses.

    `keep_misses` fills `misses` with the requests to the next level, `keep_all` with all transactions. `log`: room for so many
    attempts; more are an error. Raises SpecError and UsageError for what cannot be modelled.
    """
    settings.check()
    if placement.cores < 1 or placement.blocks_per_core < 1:
        what = f"{placement.blocks_per_core} blocks on each of {placement.cores} cores: no block can run"
        raise UsageError(what, place="cores", remedy="give at least one core, and use blocks that fit")
    if accesses.line_bytes != settings.line_bytes:
        raise ValueError("the accesses were coalesced for another line size")
    rules, spread = rules_of(settings, accesses, placement, whole), spread_of(settings.sigma)
    stream, lines = accesses.stream, len(accesses.line_number)
    if len(stream.line) and not 0 <= stream.line.min() <= stream.line.max() < lines:
        raise ValueError("a transaction is for a line that has no number")
    cores = min(placement.cores, max(1, accesses.blocks))
    set_of = set_numbers(accesses.line_number, settings.sets, settings.index, settings.index_bits)
    sizes = np.bincount(set_of, minlength=1) if lines else np.zeros(1, np.int64)
    rules[state.KEPT], rules[state.LOGGED] = accesses.transactions if keep_misses or keep_all else 0, log
    rules[state.KEEP_ALL] = keep_all
    entries = (
        max(1, accesses.pcs) * state.CLASSES, int(sizes.max()) + 2, lines + 2, int(state.KEPT_ROWS * rules[state.KEPT]),
        log * state.LOG_WIDTH, 2,
    )
    tally = Tally(*(np.zeros(count, np.int64) for count in entries))
    warps = max(1, len(stream.warp) - 1)
    shared = (
        stream.warp[:-1].copy(), np.zeros(warps, np.int64), np.zeros(warps, np.int64), np.zeros(warps, np.int32),
        np.full(max(1, accesses.blocks), accesses.warps_per_block, np.int32),
    )
    gpu_cores = [new_core(stream, set_of, settings.sets, rules, settings.seed * 1000003 + c, shared) for c in range(cores)]
    for number, core in enumerate(gpu_cores):
        core.cell[state.NUMBER] = number
    _run_blocks(gpu_cores, accesses, rules, spread, tally, placement)
    by_cache = tally.by_cache if rules[state.WHOLE] or settings.sets == 1 else np.zeros(0, np.int64)
    misses = tally.misses.reshape(state.KEPT_ROWS, -1)[:, : tally.used[0]]
    return ModelRun(
        tally.counts.reshape(-1, state.CLASSES), tally.by_set, by_cache, sum(int(c.cell[state.CANCELLED]) for c in gpu_cores),
        misses[:, np.argsort(misses[state.KEPT_TIME], kind="stable")], tally.log.reshape(-1, state.LOG_WIDTH)[: tally.used[1]],
    )


def _enqueue_block(core: Core, block: int, warps: int) -> None:
    """Put the warps of `block` at the end of the queue."""
    for warp in range(block * warps, (block + 1) * warps):
        place = (core.cell[state.HEAD] + core.cell[state.QUEUED]) % len(core.queue)
        core.queue[place] = warp
        core.cell[state.QUEUED] += 1


def _run_blocks(cores: list[Core], accesses: AccessStream, rules: Longs, spread: Longs, tally: Tally, placement: Placement) -> None:
    """Blocks round-robin over the cores until these are full, then each to the core that first ends one (section 4.1)."""
    following = min(accesses.blocks, len(cores) * placement.blocks_per_core)
    for block in range(following):
        _enqueue_block(cores[block % len(cores)], block, accesses.warps_per_block)
    ended: list[tuple[int, int]] = []

    def run_core(number: int) -> None:
        if run(cores[number], accesses.stream, rules, spread, tally) == BLOCK_ENDED:
            heapq.heappush(ended, (int(cores[number].cell[state.TIME]), number))

    for number in range(len(cores)):
        run_core(number)
    while ended:
        _, number = heapq.heappop(ended)
        if following < accesses.blocks:
            _enqueue_block(cores[number], following, accesses.warps_per_block)
            following += 1
        run_core(number)


# -- The whole analysis of one cache: misses by class, MSHR misses by comparison, and the L2 behind it.

# Columns of `Analysis.counts`.
HITS, COMPULSORY, CAPACITY, ASSOCIATIVITY, LATENCY_MISSES, MSHR, COLUMNS = range(7)
NAMES = ("hits", "compulsory", "capacity", "associativity", "latency", "mshr")


@dataclass(frozen=True)
class Analysis:
    """`counts` int64 [pcs, 6]: transactions by `NAMES`, per pc. `outcome` is that of the run with `settings`.

    `mshr_difference`: its misses other than compulsory ones, less those with unlimited MSHRs; below 0 where few MSHRs help (HPCA
    2014, section 7). Only a positive difference counts as MSHR misses; they are taken, in proportion, from the pcs and classes
    that grew.
    """

    settings: ReuseSettings
    placement: Placement
    counts: Longs
    outcome: ModelRun
    mshr_difference: int

    def totals(self) -> dict[str, int]:
        """Each class summed over all pcs."""
        return dict(zip(NAMES, (int(n) for n in self.counts.sum(axis=0)), strict=True))


def analyse(settings: ReuseSettings, accesses: AccessStream, placement: Placement, *, keep_misses: bool = False) -> Analysis:
    """Run the model, and where it cancelled accesses run it again with unlimited MSHRs. Raises as `evaluate` does."""
    limited = evaluate(settings, accesses, placement, keep_misses=keep_misses)
    counts = np.zeros((len(limited.counts), COLUMNS), np.int64)
    counts[:, : state.CLASSES] = limited.counts
    difference = 0
    if limited.cancelled:
        # without the stack of the whole cache, which takes most of the time and only tells capacity from associativity misses
        unlimited = evaluate(settings.off("mshr"), accesses, placement, whole=False)
        difference = int(limited.counts[:, CAPACITY:].sum()) - int(unlimited.counts[:, CAPACITY:].sum())
        if difference > 0:
            _charge(counts, limited.counts, unlimited.counts, difference)
    return Analysis(settings, placement, counts, limited, difference)


def _charge(counts: Longs, limited: Longs, unlimited: Longs, excess: int) -> None:
    """Move `excess` misses to the column MSHR, in proportion to their growth (largest remainders).

    Capacity and associativity misses grow together, and contribute in proportion to their counts.
    """
    replaced = [CAPACITY, ASSOCIATIVITY]
    more = limited - unlimited
    grown = np.stack([more[:, replaced].sum(axis=1), more[:, LATENCY_MISSES]], axis=1).clip(min=0)
    share = grown * (excess / grown.sum())
    taken = np.floor(share).astype(np.int64)
    rest = excess - int(taken.sum())
    order = np.argsort(-(share - taken), axis=None, kind="stable")
    taken.reshape(-1)[order[:rest]] += 1
    capacity = taken[:, 0] * limited[:, CAPACITY] // np.maximum(1, limited[:, replaced].sum(axis=1))
    counts[:, CAPACITY] -= capacity
    counts[:, ASSOCIATIVITY] -= taken[:, 0] - capacity
    counts[:, LATENCY_MISSES] -= taken[:, 1]
    counts[:, MSHR] += taken.sum(axis=1)


def next_level(settings: ReuseSettings, accesses: AccessStream, misses: Longs, *, keep_all: bool = False) -> ModelRun:
    """The run of `misses` [KEPT_ROWS, n] of all cores (`ModelRun.misses`), in that order, on one shared cache.

    Latency misses are not among them: their line is already in flight. The shared cache has neither latencies nor MSHRs: HPCA 2014,
    section 1, leaves it to the models of multi-core CPUs, which use ordered traces.
    """
    lines = accesses.line_number[misses[state.KEPT_LINE]] * accesses.line_bytes // settings.line_bytes
    numbers, dense = np.unique(lines, return_inverse=True)
    count = len(lines)
    pcs = misses[state.KEPT_PC].astype(np.int32)
    stream = Stream(np.array([0, count], np.int64), np.arange(count + 1), pcs, dense.astype(np.int32), np.ones(count, np.uint8))
    ordered = AccessStream(stream, numbers, settings.line_bytes, 1, 32, 1, count, accesses.pcs)
    return evaluate(settings.off("latency", "mshr", "divergence"), ordered, Placement(1, 1), keep_all=keep_all)
