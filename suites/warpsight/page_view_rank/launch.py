"""Views of 4,096 pages, some pages viewed far more often than others."""

import numpy as np

VIEWS, PAGES = 28 * 3072 + 1000, 4096
RECORD = np.dtype([("page", "<u4"), ("visitor", "<u4"), ("seconds", "<f4"), ("bytes", "<f4"), ("rest", "<u4", 8)])

rng = np.random.default_rng(22)
views = np.zeros(VIEWS, RECORD)
views["page"] = PAGES * rng.random(VIEWS) ** 2
views["visitor"] = rng.integers(0, 1 << 20, VIEWS)
views["seconds"] = rng.exponential(60, VIEWS)
views["bytes"] = rng.exponential(1e5, VIEWS)

source, grid, block = "kernel.cu", -(-VIEWS // 256), 256
args = [views, np.zeros(VIEWS, np.float32), np.zeros(PAGES, np.uint32), VIEWS, 30.0]
