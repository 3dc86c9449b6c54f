"""SciPy's distances in double precision; where two are as good as equal in single precision, the kernel's choice is as good."""

import numpy as np
from scipy.spatial.distance import cdist


def expected(points, centres, nearest, count, clusters, dimensions):
    """`nearest`."""
    return {"nearest": cdist(points, centres, "sqeuclidean").argmin(axis=1).astype(np.int32)}
