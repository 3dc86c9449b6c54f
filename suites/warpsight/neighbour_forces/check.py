"""All pairs of the lists at once."""

import numpy as np


def expected(position, neighbours, force, particles, each, cutoff):
    """`force`, its fourth component the energy."""
    wide = position[:, :3].astype(np.float64)
    difference = wide[None] - wide[neighbours]
    square = (difference**2).sum(axis=2)
    inverse6 = np.where(square < cutoff, square, np.inf) ** -3.0
    strength = 24 * inverse6 * (2 * inverse6 - 1) / square
    total = (strength[:, :, None] * difference).sum(axis=0)
    energy = (4 * inverse6 * (inverse6 - 1)).sum(axis=0)
    return {"force": np.concatenate([total, energy[:, None]], axis=1)}
