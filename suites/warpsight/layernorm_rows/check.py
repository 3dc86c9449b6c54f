"""Mean and variance of each row."""

import numpy as np


def expected(values, gain, bias, out, epsilon):
    """`out`."""
    wide = values.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    return {"out": centred / np.sqrt(wide.var(axis=1, keepdims=True) + epsilon) * gain + bias}
