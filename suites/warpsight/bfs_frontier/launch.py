"""A step in the middle of a search: a graph whose degrees follow a power law, a frontier, and vertices reached before it."""

import numpy as np

VERTICES, FRONTIER, REACHED = 1 << 17, 28 * 512, 1 << 14

rng = np.random.default_rng(2)
degrees = np.minimum(rng.zipf(1.9, VERTICES) + 1, 48)
offsets = np.concatenate(([0], np.cumsum(degrees))).astype(np.int32)
# The square draws low numbers more often: a few vertices have most of the edges that come in.
neighbours = (VERTICES * rng.random(offsets[-1]) ** 2).astype(np.int32)
order = rng.permutation(VERTICES).astype(np.int32)
frontier = np.ascontiguousarray(order[:FRONTIER])
level = np.full(VERTICES, -1, np.int32)
level[frontier] = 4
level[order[FRONTIER : FRONTIER + REACHED]] = 3

source, grid, block = "kernel.cu", 28 * 4, 128
args = [offsets, neighbours, frontier, level, level.copy(), FRONTIER, 5]
