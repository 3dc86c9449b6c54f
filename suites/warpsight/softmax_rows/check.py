"""SciPy's softmax."""

import numpy as np
from scipy.special import softmax


def expected(values, out):
    """`out`."""
    return {"out": softmax(values.astype(np.float64), axis=1)}
