"""A table of 2^19 slots of 8 bytes, 60 % of them taken, and queries of which two thirds are in it."""

import numpy as np

SLOTS, KEYS, QUERIES = 1 << 19, int(0.6 * (1 << 19)), 28 * 2560


def slots_of(keys):
    """The slot where the search for a key begins, as in the kernel."""
    keys = keys ^ (keys >> np.uint32(16))
    keys = keys * np.uint32(0x7FEB352D)
    return (keys ^ (keys >> np.uint32(15))) & np.uint32(SLOTS - 1)


def filled(keys, values):
    """The table. Each round puts the first key that wants a free slot there; the others look one further."""
    table = np.zeros((SLOTS, 2), np.uint32)
    slots = slots_of(keys)
    while keys.size:
        _, first = np.unique(slots, return_index=True)
        first = first[table[slots[first], 0] == 0]
        table[slots[first]] = np.stack([keys[first], values[first]], axis=1)
        left = np.ones(keys.size, bool)
        left[first] = False
        keys, values, slots = keys[left], values[left], (slots[left] + np.uint32(1)) & np.uint32(SLOTS - 1)
    return table


rng = np.random.default_rng(10)
distinct = np.unique(rng.integers(1, 1 << 31, KEYS + KEYS // 2 + 9999, dtype=np.uint32))
distinct = rng.permutation(distinct)[: KEYS + KEYS // 2]
table = filled(distinct[:KEYS], np.arange(KEYS, dtype=np.uint32))
queries = rng.choice(distinct, QUERIES).astype(np.uint32)

source, grid, block = "kernel.cu", QUERIES // 128, 128
args = [table, queries, np.zeros(QUERIES, np.uint32), QUERIES, SLOTS - 1]
