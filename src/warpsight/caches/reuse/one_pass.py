"""Many cache sizes and ways from one order of accesses, in one pass: LRU caches include each other.

Mattson, Gecsei, Slutz, Traiger ("Evaluation techniques for storage hierarchies", IBM Syst. J. 9, 1970): with the same sets, what
hits with w ways hits with more. So each number of sets needs one look at its stack, and that tells all ways. What all numbers of
sets need, the last use of the same line and its distance in one stack of all lines, is found out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import compiled_and_kept
from warpsight.addressing.integers import quotient
from warpsight.caches.compiled import pointer, source_fingerprint
from warpsight.caches.reuse import state as at
from warpsight.caches.reuse.access_stream import AccessStream
from warpsight.caches.reuse.coalesce import numbered
from warpsight.caches.reuse.model import Outcome, Placement, evaluate
from warpsight.caches.reuse.recency import LANES, after, depth_and_touch, short_rows
from warpsight.caches.reuse.settings import ReuseSettings, set_numbers
from warpsight.caches.reuse.stacks import NEVER_USED

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

# A block of transactions stays in the cache while all numbers of sets pass over it, and so should the sets of its lines.
_BLOCK = 1 << 14
_MOST_ENTRIES = 1 << 26
# columns of `groups`
_FIRST_ROW, _WIDTH, _SETS, _FIRST_COUNT, _GROUP = range(5)
_MOST_SETS = 2**27 - 1  # no distance is so large; 16 times as much has 31 bits


@compiled_and_kept
def _uses(line: Longs, whole: Longs, core: Longs, number: Ints, last: Ints, found: Ints) -> int:
    """Rows of `found` [3, n]: line, the row of its last use, distance, of what is not on top of all stacks; gives how many.

    Lines are numbered from 0 as they are first used, so that what is used together stands together; `number` int32 [lines], all -1,
    gets the numbers. A line that its core never used was last used before the core's first row. `last` int32 [lines].
    """
    kept, begin, now, lines = 0, 0, np.int64(-1), 0
    for i in range(len(line)):
        if core[i] != now:
            now = core[i]
            begin = kept
        if whole[i] == 0:
            # it stays on top everywhere
            continue
        own = number[line[i]]
        if own < 0:
            own = lines
            number[line[i]] = own
            lines += 1
        found[0, kept] = own
        found[1, kept] = begin - 1 if whole[i] == NEVER_USED else last[own]
        found[2, kept] = whole[i]
        last[own] = kept
        kept += 1
    return kept


def _build(fingerprint: int) -> Callable[[Ints, Ints, Longs, Ints, Longs], int]:
    @compiled_and_kept
    def sweep(uses: Ints, set_of: Ints, groups: Longs, rows: Ints, counts: Longs) -> int:
        """Pass over `uses` [3, n] for each number of sets: a row of `groups`, and of `set_of` [groups, lines].

        `counts` gets, from a group's first count on: of rows of LANES what `short_rows` finds. Of others the depths from -1 (never
        used) to the width, and as often the smaller of the depth and how many times as large as the sets the distance is: both at
        least w are capacity misses of w ways.
        """
        n, lines = uses.shape[1], set_of.shape[1]
        row, count, use, set_ = pointer(rows), pointer(counts), pointer(uses.reshape(-1)), pointer(set_of.reshape(-1))
        few = np.empty(2 * LANES, np.int32)
        for begin in range(0, n, _BLOCK):
            end = min(begin + _BLOCK, n)
            for g in range(len(groups)):
                first_row, width, sets = groups[g, _FIRST_ROW], groups[g, _WIDTH], groups[g, _SETS]
                first_count, own_set = groups[g, _FIRST_COUNT], after(set_, g * lines)
                if width == LANES:
                    few[:] = 0
                    short_rows(
                        after(row, first_row), own_set, use, after(use, n), after(use, 2 * n), begin, end, sets, pointer(few)
                    )
                    for k in range(2 * LANES):
                        count[first_count + k] += few[k]
                    continue
                for i in range(begin, end):
                    place = first_row + width * np.int64(own_set[use[i]])
                    whole = np.int64(use[2 * n + i])
                    depth = depth_and_touch(row, place, place + width, np.int32(i), use[n + i]) | whole >> 63
                    count[first_count + 1 + depth] += 1
                    count[first_count + width + 3 + min(depth, quotient(whole, sets) if whole >= 0 else -1)] += 1
        return 0 * fingerprint

    return sweep


_sweep = _build(source_fingerprint())


def _aligned(entries: int) -> Ints:
    """So many times of before the start, at a multiple of 64 B: a step of a row is then in one line of the machine's cache."""
    made = np.full(entries + 16, -1, np.int32)
    start = -(made.ctypes.data // 4) % 16
    return made[start : start + entries]


def _misses(uses: Ints, groups: list[tuple[int, list[int], int, Ints]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Capacity and associativity misses by number of sets and ways. A group: sets, ways, entries of a row, the set of each line."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    table, row, count = np.zeros((len(groups), _GROUP), np.int64), 0, 0
    for g, (sets, _, width, set_of) in enumerate(groups):
        table[g] = row, width, min(sets, _MOST_SETS), count
        row, count = row + (int(set_of.max()) + 1) * width, count + 2 * (width + 2)
    counts = np.zeros(count, np.int64)
    _sweep(uses, np.stack([group[-1] for group in groups]), table, _aligned(row), counts)
    for (_, width, _, first), (sets, ways, _, _) in zip(table.tolist(), groups, strict=True):
        depth, both = counts[first + 1 : first + width + 2], counts[first + width + 3 : first + 2 * width + 4]
        for w in ways:
            if width == LANES and w <= width:
                found[sets, w] = int(counts[first + w - 1]), int(counts[first + LANES + w - 1])
            else:
                capacity = int(both[w:].sum()) if w <= width else 0
                found[sets, w] = capacity, int(depth[w:].sum()) - capacity if w <= width else 0
    return found


def _batches(
    settings: ReuseSettings, numbers: Longs, ways_of: dict[int, list[int]]
) -> Iterator[list[tuple[int, list[int], int, Ints]]]:
    """Groups for `_misses`, so many at a time as bounded memory holds. A cache whose sets hold all their lines needs none."""
    batch: list[tuple[int, list[int], int, Ints]] = []
    held = 0
    for sets, ways in ways_of.items():
        set_of = set_numbers(numbers, sets, settings.index, settings.index_bits)
        if sets > len(numbers):
            # memory for the sets that have lines
            set_of = numbered(set_of.astype(np.int64))[1]
        sizes = np.bincount(set_of, minlength=1)
        if sizes.max() <= min(ways):
            continue
        # no line stands deeper than the lines of its set
        width = -(-min(max(ways), int(sizes.max())) // LANES) * LANES
        if batch and held + len(numbers) + len(sizes) * width > _MOST_ENTRIES:
            yield batch
            batch, held = [], 0
        batch.append((sets, ways, width, set_of))
        held += len(numbers) + len(sizes) * width
    if batch:
        yield batch


def _order(settings: ReuseSettings, given: AccessStream, placement: Placement) -> tuple[Outcome, Ints, Longs]:
    """What one stack of all lines finds in the accesses in their order; the rows of `_uses`, and the line number of each of its lines."""
    order = evaluate(settings.off("associativity"), given, placement, keep_all=True)
    by_core = np.argsort(order.misses[at.KEPT_CORE], kind="stable") if placement.cores > 1 else slice(None)
    line, core, whole = (
        np.ascontiguousarray(order.misses[row][by_core]) for row in (at.KEPT_LINE, at.KEPT_CORE, at.KEPT_DISTANCE)
    )
    found, lines = np.empty((3, len(line)), np.int32), len(given.line_number)
    number = np.full(lines, -1, np.int32)
    kept = _uses(line, whole, core, number, np.empty(lines, np.int32), found)
    numbers = np.empty(lines, np.int64)
    numbers[number] = given.line_number
    return order, np.ascontiguousarray(found[:, :kept]), numbers


def all_sizes_and_ways(
    settings: ReuseSettings, given: AccessStream, placement: Placement, points: Sequence[tuple[int, int]]
) -> list[dict[str, int]]:
    """Hits and misses by class for each (size in bytes, ways), with the line, the rule and the order of `settings`.

    Latencies must be off, for they make the order depend on what hits. Raises SpecError as `ReuseSettings.check` does.
    """
    if "latency" not in settings.without:
        raise ValueError("with latencies the order of accesses depends on the cache")
    made = [replace(settings, size_bytes=size, ways=ways) for size, ways in points]
    for one in dict.fromkeys(made):
        one.check()
    order, uses, numbers = _order(settings, given, placement)
    groups: dict[int, list[int]] = {}
    for sets, ways in dict.fromkeys((one.sets, one.ways_modelled) for one in made):
        groups.setdefault(sets, []).append(ways)
    # one set: its stack is that of the whole cache
    answers = {(1, ways): (int(order.by_cache[ways + 1 :].sum()), 0) for ways in groups.pop(1, [])}
    for batch in _batches(settings, numbers, groups):
        answers |= _misses(uses, batch)
    compulsory = int(order.by_cache[0])
    rest = given.transactions - compulsory
    found = [answers.get((one.sets, one.ways_modelled), (0, 0)) for one in made]
    return [
        {
            "hits": rest - capacity - associativity, "compulsory": compulsory, "capacity": capacity, "associativity": associativity,
            "latency": 0, "mshr": 0,
        }
        for capacity, associativity in found
    ]
