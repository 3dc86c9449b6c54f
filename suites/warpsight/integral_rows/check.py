"""NumPy's running sums in double precision."""

import numpy as np


def expected(image, sums, width, height):
    """`sums`."""
    return {"sums": np.cumsum(image.astype(np.float64), axis=1)}
