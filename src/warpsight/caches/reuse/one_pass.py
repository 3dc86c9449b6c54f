"""Many cache sizes and ways from one order of accesses, in one pass: LRU caches include each other.

Mattson, Gecsei, Slutz, Traiger ("Evaluation techniques for storage hierarchies", IBM Syst. J. 9, 1970): with the same sets, what
hits with w ways hits with more. So each number of sets needs one look at its stack, and that tells all ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import compiled_and_kept, inlined
from warpsight.caches.compiled import pointer, source_fingerprint
from warpsight.caches.reuse import state as at
from warpsight.caches.reuse.access_stream import AccessStream
from warpsight.caches.reuse.model import Placement, evaluate
from warpsight.caches.reuse.settings import ReuseSettings, set_numbers
from warpsight.caches.reuse.stacks import NEVER_USED

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]


@inlined
def _depth(stack: Any, first: int, most: int, line: int) -> int:
    """Where `line` stands in its stack of `most` lines, `most` if it does not; it is on top afterwards."""
    above = stack[first]
    if above == line:
        return 0
    stack[first] = line
    for depth in range(1, most):
        here = stack[first + depth]
        stack[first + depth] = above
        if here == line:
            return depth
        above = here
    return most


def _build(fingerprint: int) -> Callable[[Longs, Longs, Longs, Ints, Ints, Longs, Longs, Longs], int]:
    @compiled_and_kept
    def sweep(
        line: Longs, whole: Longs, core: Longs, set_of: Ints, stack: Ints, ways: Longs, sizes: Longs, found: Longs
    ) -> int:
        """Pass over n transactions in the order of cores; `found` [ways, 3] gets hits, capacity and associativity misses."""
        lines, distances, sets, held = pointer(line), pointer(whole), pointer(set_of), pointer(stack)
        least, most, points, now = ways, ways[-1], len(ways), np.int64(-1)
        tops = 0
        for i in range(len(line)):
            if core[i] != now:
                now = core[i]
                stack[:] = -1
            distance = distances[i]
            if len(stack) == 0:
                # one set: its stack is that of the whole cache
                depth = most if distance == NEVER_USED else distance
            else:
                depth = _depth(held, np.int64(sets[lines[i]]) * most, most, lines[i])
            if depth == 0:
                tops += 1
                continue
            for k in range(points):
                if depth < least[k]:
                    found[k, 0] += 1
                elif distance != NEVER_USED:
                    found[k, 1 if distance >= sizes[k] else 2] += 1
        for k in range(points):
            found[k, 0] += tops
        return tops + 0 * fingerprint

    return sweep


_sweep = _build(source_fingerprint())


def all_sizes_and_ways(
    settings: ReuseSettings, given: AccessStream, placement: Placement, points: Sequence[tuple[int, int]]
) -> list[dict[str, int]]:
    """Hits and misses by class for each (size in bytes, ways), with the line, the rule and the order of `settings`.

    Latencies must be off, for they make the order depend on what hits. Raises SpecError as `ReuseSettings.check` does.
    """
    if "latency" not in settings.without:
        raise ValueError("with latencies the order of accesses depends on the cache")
    order = evaluate(replace(settings, without=settings.without | {"associativity"}), given, placement, keep_all=True).misses
    by_core = np.argsort(order[at.KEPT_CORE], kind="stable") if placement.cores > 1 else slice(None)
    line, core, whole = (np.ascontiguousarray(order[row][by_core]) for row in (at.KEPT_LINE, at.KEPT_CORE, at.KEPT_DISTANCE))
    compulsory = int(np.count_nonzero(whole == NEVER_USED))
    groups: dict[int, list[tuple[int, int]]] = {}
    for size, ways in dict.fromkeys(points):
        one = replace(settings, size_bytes=size, ways=ways)
        one.check()
        groups.setdefault(one.sets, []).append((one.ways_modelled, one.lines))
    answers: dict[tuple[int, int], dict[str, int]] = {}
    for sets, members in groups.items():
        members.sort()
        least = np.array([member[0] for member in members], np.int64)
        lines_of = np.array([member[1] for member in members], np.int64)
        found = np.zeros((len(members), 3), np.int64)
        set_of = set_numbers(given.line_number, sets, settings.index, settings.index_bits)
        _sweep(line, whole, core, set_of, np.full(sets * int(least[-1]) if sets > 1 else 0, -1, np.int32), least, lines_of, found)
        for member, (hits, capacity, associativity) in zip(members, found.tolist(), strict=True):
            answers[sets, member[0]] = {
                "hits": hits, "compulsory": compulsory, "capacity": capacity, "associativity": associativity,
                "latency": 0, "mshr": 0,
            }
    made = [replace(settings, size_bytes=size, ways=ways) for size, ways in points]
    return [answers[one.sets, one.ways_modelled] for one in made]
