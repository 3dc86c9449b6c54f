"""The root of the price by bisection, with SciPy's normal distribution: neither Newton's method nor the polynomial takes part."""

import numpy as np
from scipy.special import ndtr


def expected(options, volatility, count, steps):
    """`volatility`."""
    spot, strike, years, rate, price = options.astype(np.float64).T
    discounted, root = strike * np.exp(-rate * years), np.sqrt(years)
    low, high = np.full(count, 0.01), np.full(count, 2.0)
    for _ in range(40):
        middle = (low + high) / 2
        d1 = np.log(spot / discounted) / (middle * root) + 0.5 * middle * root
        below = spot * ndtr(d1) - discounted * ndtr(d1 - middle * root) < price
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return {"volatility": (low + high) / 2}
