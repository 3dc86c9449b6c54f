"""NumPy's running sums of each tile."""

import numpy as np


def expected(values, out, tiles):
    """`out`."""
    return {"out": np.cumsum(values, axis=2, dtype=np.int32)}
