"""Kinds of access lists, and what an LRU cache makes of them with warps in turn and no latency: written apart from the model."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator

BASE, OTHER = 0x10000000, 0x11000000
Record = tuple[int, int, int, int]  # thread, store, address, bytes


def stencil(threads: int, draw: random.Random) -> Iterator[Record]:
    """Five points around each, but at the border; then a store."""
    width = draw.choice([8, 12, 33])
    for t in range(threads):
        if t % width not in (0, width - 1):
            for step in (0, -1, 1, -width, width):
                yield t, 0, BASE + 4 * (t + width + step), 4
        yield t, 1, OTHER + 4 * t, 4


def gather(threads: int, draw: random.Random) -> Iterator[Record]:
    """Elements of one size anywhere, not always on their own boundary."""
    size, span, off = draw.choice([1, 2, 4, 8, 16]), draw.choice([200, 3000]), draw.choice([0, 0, 3])
    for t in range(threads):
        for _ in range(12):
            yield t, 0, BASE + off + size * draw.randrange(span), size


def strided(threads: int, draw: random.Random) -> Iterator[Record]:
    """Each thread walks its own row."""
    size, stride = draw.choice([4, 8, 16]), draw.choice([1, 2, 9, 33])
    for t in range(threads):
        for i in range(10):
            yield t, 0, BASE + size * (t * stride + i), size


def matmul(threads: int, draw: random.Random) -> Iterator[Record]:
    """A row of one matrix, the same for many threads, and a column of another."""
    for t in range(threads):
        for k in range(10):
            yield t, 0, BASE + 4 * (t // 16 * 64 + k), 4
            yield t, 0, OTHER + 4 * (k * 160 + t % 16), 4


def rows(threads: int, draw: random.Random) -> Iterator[Record]:
    """Rows of random length, some empty: lanes have different counts of accesses."""
    at = 0
    for t in range(threads):
        yield t, 0, OTHER + 4 * t, 4
        for _ in range(draw.choice([0, 1, 3, 9])):
            yield t, 0, BASE + 8 * at, 8
            yield t, 0, OTHER + 4 * draw.randrange(4000), 4
            at += 1


def mixed(threads: int, draw: random.Random) -> Iterator[Record]:
    """Any size, and stores between."""
    for t in range(threads):
        for _ in range(8):
            size = draw.choice([1, 2, 4, 8, 16])
            yield t, draw.randrange(5) // 4, BASE + size * draw.randrange(4096 // size), size


KINDS: dict[str, Callable[[int, random.Random], Iterator[Record]]] = {
    kind.__name__: kind for kind in (stencil, gather, strided, matmul, rows, mixed)
}


def fermi(line: int, sets: int) -> int:
    """HPCA 2014, section 5.1."""
    low = [line >> k & 1 for k in range(6)]
    mixed_in = [line >> k & 1 for k in (6, 7, 8, 10, 12)]
    return sum((a ^ b) << k for k, (a, b) in enumerate(zip(low, mixed_in, strict=False))) + (low[5] << 5 if sets == 64 else 0)


def _groups(lanes: dict[int, tuple[int, int]], line_bytes: int) -> list[list[int]]:
    """The lines that one access of a warp asks for, in groups of lanes that look up together; `lanes`: address and bytes."""
    first = lanes[min(lanes)][1]
    width = {8: 16, 16: 8}.get(first, 32)
    groups: dict[int, list[int]] = {}
    for lane in sorted(lanes):
        address, size = lanes[lane]
        own = {8: 16, 16: 8}.get(size, 32)
        earlier = {lanes[k][0] // line_bytes for k in lanes if lane - lane % own <= k < lane}
        if address // line_bytes not in earlier:
            groups.setdefault(lane // width, []).append(address // line_bytes)
    return [groups[k] for k in sorted(groups)]


def misses(records: list[Record], per_block: int, line_bytes: int, sets: int, ways: int) -> tuple[int, int, int]:
    """Transactions, misses and distinct lines, all blocks being there at once."""
    loads: dict[int, list[tuple[int, int]]] = {}
    for thread, store, address, size in records:
        if not store:
            loads.setdefault(thread, []).append((address, size))
    warps: dict[tuple[int, int], list[int]] = {}
    for thread in sorted(loads):
        warps.setdefault((thread // per_block, thread % per_block // 32), []).append(thread)
    queue = deque((key, 0) for key in sorted(warps))
    stacks: dict[int, list[int]] = {}
    transactions = missed = 0
    known: set[int] = set()
    while queue:
        key, turn = queue.popleft()
        lanes = {t % per_block % 32: loads[t][turn] for t in warps[key] if turn < len(loads[t])}
        if not lanes:
            continue
        for group in _groups(lanes, line_bytes):
            found = [line in stacks.setdefault(fermi(line, sets), [])[:ways] for line in group]
            for hit in (True, False):
                for line in (line for line, was in zip(group, found, strict=True) if was == hit):
                    stack = stacks[fermi(line, sets)]
                    if line in stack:
                        stack.remove(line)
                    stack.insert(0, line)
            transactions, missed = transactions + len(group), missed + found.count(False)
            known.update(group)
        queue.append((key, turn + 1))
    return transactions, missed, len(known)
