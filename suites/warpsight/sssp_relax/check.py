"""Every edge of a changed vertex at once."""

import numpy as np


def expected(offsets, targets, weights, distance, changed, next_distance, next_changed, vertices):
    """`next_distance` and `next_changed`."""
    own = np.repeat(np.arange(vertices), np.diff(offsets))
    through = distance[own] + weights
    better = (changed[own] != 0) & (through < distance[targets])
    shortest, touched = next_distance.copy(), next_changed.copy()
    np.minimum.at(shortest, targets[better], through[better])
    touched[targets[better]] = 1
    return {"next_distance": shortest, "next_changed": touched}
