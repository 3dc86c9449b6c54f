"""Each direction rolled over the whole periodic grid, then relaxed."""

import numpy as np

DIRECTIONS = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
WEIGHTS = np.array([16, 4, 4, 4, 4, 1, 1, 1, 1]) / 36


def expected(before, after, width, height, relaxation):
    """`after`."""
    flown = [np.roll(before[..., k].astype(np.float64), (dy, dx), axis=(0, 1)) for k, (dx, dy) in enumerate(DIRECTIONS)]
    f = np.stack(flown, axis=-1)
    density = f.sum(axis=-1, keepdims=True)
    velocity = f @ DIRECTIONS / density
    along = velocity @ DIRECTIONS.T
    speed = (velocity**2).sum(axis=-1, keepdims=True)
    rest = WEIGHTS * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * speed)
    return {"after": f + np.float64(relaxation) * (rest - f)}
