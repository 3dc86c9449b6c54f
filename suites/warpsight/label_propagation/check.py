"""NumPy's unbuffered minimum over both directions of every edge."""

import numpy as np


def expected(u, v, labels, next_labels, edges):
    """`next_labels`."""
    result = next_labels.copy()
    np.minimum.at(result, v[:edges], labels[u[:edges]])
    np.minimum.at(result, u[:edges], labels[v[:edges]])
    return {"next_labels": result}
