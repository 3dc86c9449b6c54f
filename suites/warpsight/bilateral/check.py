"""The filter over whole shifted images."""

import numpy as np


def expected(image, out, width, height, space, value):
    """`out`."""
    wide = np.pad(image.astype(np.float64), 2, mode="edge")
    centre, total, weights = wide[2:-2, 2:-2], 0.0, 0.0
    for dy in range(5):
        for dx in range(5):
            other = wide[dy : dy + height, dx : dx + width]
            distance = (dx - 2) ** 2 + (dy - 2) ** 2
            weight = np.exp(-np.float64(space) * distance - np.float64(value) * (other - centre) ** 2)
            total, weights = total + weight * other, weights + weight
    return {"out": total / weights}
