"""The iteration as a product with the column-stochastic matrix."""

import numpy as np
from scipy.sparse import csr_matrix


def expected(offsets, sources, rank, out_degree, next_rank, vertices, damping):
    """`next_rank`."""
    matrix = csr_matrix((np.ones(sources.size), sources, offsets), shape=(vertices, vertices))
    shares = rank.astype(np.float64) / out_degree
    return {"next_rank": (1 - np.float64(damping)) / vertices + damping * (matrix @ shares)}
