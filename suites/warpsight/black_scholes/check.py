"""The formula with SciPy's normal distribution."""

import numpy as np
from scipy.special import ndtr


def expected(price, strike, years, call, put, options, rate, volatility):
    """`call` and `put`."""
    s, x, t = (each.astype(np.float64) for each in (price, strike, years))
    rate, volatility = float(rate), float(volatility)
    spread = volatility * np.sqrt(t)
    d1 = (np.log(s / x) + (rate + volatility**2 / 2) * t) / spread
    discounted = x * np.exp(-rate * t)
    value = s * ndtr(d1) - discounted * ndtr(d1 - spread)
    return {"call": value, "put": value + discounted - s}
