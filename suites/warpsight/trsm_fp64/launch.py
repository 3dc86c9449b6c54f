"""A well-conditioned lower triangle and many right-hand sides: seven blocks of two warps for four SMs."""

import numpy as np

ORDER, COLUMNS = 40, 49 * 64

rng = np.random.default_rng(13)
lower = np.tril(rng.uniform(-1, 1, (ORDER, ORDER)) / ORDER, -1) + np.diag(rng.uniform(1, 2, ORDER))
b = rng.uniform(-1, 1, (ORDER, COLUMNS))

source, grid, block = "kernel.cu", COLUMNS // 64, 64
args = [lower, b, ORDER, COLUMNS]
