"""A sorted list of the table's keys, searched by bisection: no hash takes part."""

import numpy as np


def expected(table, queries, found, count, mask):
    """`found`: the value of each key, or all ones."""
    entries = table[table[:, 0] != 0]
    entries = entries[np.argsort(entries[:, 0])]
    at = np.minimum(np.searchsorted(entries[:, 0], queries), len(entries) - 1)
    return {"found": np.where(entries[at, 0] == queries, entries[at, 1], np.uint32(0xFFFFFFFF))}
