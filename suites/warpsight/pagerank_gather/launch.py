"""A graph with hubs: in-degrees follow a power law, and vertices of low number are pointed from more often."""

import numpy as np

VERTICES = 28 * 1280

rng = np.random.default_rng(5)
degrees = np.minimum(rng.zipf(2.0, VERTICES), 64)
offsets = np.concatenate(([0], np.cumsum(degrees))).astype(np.int32)
sources = (VERTICES * rng.random(offsets[-1]) ** 3).astype(np.int32)
out_degree = np.maximum(np.bincount(sources, minlength=VERTICES), 1).astype(np.int32)
rank = rng.random(VERTICES, dtype=np.float32) / VERTICES

source, grid, block = "kernel.cu", VERTICES // 256, 256
args = [offsets, sources, rank, out_degree, np.zeros_like(rank), VERTICES, 0.85]
