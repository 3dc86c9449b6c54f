"""A road-like graph: few edges at a vertex, most to vertices of near number, and two thirds of the vertices changed last round."""

import numpy as np

VERTICES = 28 * 3072

rng = np.random.default_rng(7)
offsets = np.concatenate(([0], np.cumsum(rng.integers(2, 6, VERTICES)))).astype(np.int32)
edges = int(offsets[-1])
own = np.repeat(np.arange(VERTICES), np.diff(offsets))
targets = ((own + rng.normal(0, 300, edges).astype(np.int64)) % VERTICES).astype(np.int32)
weights = rng.integers(1, 100, edges, dtype=np.int32)
distance = rng.integers(0, 400, VERTICES, dtype=np.int32)
changed = (rng.random(VERTICES) < 2 / 3).astype(np.uint8)

source, grid, block = "kernel.cu", VERTICES // 192, 192
args = [offsets, targets, weights, distance, changed, distance.copy(), np.zeros(VERTICES, np.uint8), VERTICES]
