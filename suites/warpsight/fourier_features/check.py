"""The sums in double precision."""

import numpy as np


def expected(coordinates, weights, out, count):
    """`out`."""
    angles = coordinates.astype(np.float64)[:, None] * np.arange(1, 17)
    return {"out": np.sin(angles) @ weights[:, 0] + np.cos(angles) @ weights[:, 1]}
