"""SciPy's sum of exponentials over all components."""

import numpy as np
from scipy.special import logsumexp


def expected(points, means, widths, weights, likelihood, count, components):
    """`likelihood`."""
    difference = (points[:, None].astype(np.float64) - means) * widths
    return {"likelihood": logsumexp(-0.5 * (difference**2).sum(axis=2), axis=1, b=weights.astype(np.float64))}
