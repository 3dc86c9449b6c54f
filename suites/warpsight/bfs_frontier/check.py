"""The neighbours of the whole frontier at once, as a row of the adjacency matrix times a vector."""

import numpy as np
from scipy.sparse import csr_matrix


def expected(offsets, neighbours, frontier, level, next_level, frontier_size, depth):
    """`next_level`: as before, and `depth` for each unreached neighbour."""
    vertices = level.size
    ones = np.ones(neighbours.size, dtype=np.int32)
    adjacency = csr_matrix((ones, neighbours, offsets), shape=(vertices, vertices))
    in_frontier = np.zeros(vertices, dtype=np.int32)
    in_frontier[frontier[:frontier_size]] = 1
    touched = adjacency.T @ in_frontier > 0
    return {"next_level": np.where(touched & (level < 0), depth, next_level)}
