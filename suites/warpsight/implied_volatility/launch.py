"""Options near the money, priced with volatilities from 0.2 to 0.6, which the kernel is to find again."""

import numpy as np
from numpy import float32 as single

OPTIONS, STEPS = 28 * 896, 12


def normal(x):
    """The normal distribution by the polynomial of Abramowitz and Stegun, 26.2.17."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) * poly
    return np.where(x > 0, 1 - tail, tail)


rng = np.random.default_rng(36)
spot, years, rate = rng.uniform(20, 60, OPTIONS), rng.uniform(0.5, 2, OPTIONS), rng.uniform(0, 0.05, OPTIONS)
strike, sigma = spot * rng.uniform(0.85, 1.15, OPTIONS), rng.uniform(0.2, 0.6, OPTIONS)
spread = sigma * np.sqrt(years)
d1 = (np.log(spot / strike) + rate * years) / spread + 0.5 * spread
price = spot * normal(d1) - strike * np.exp(-rate * years) * normal(d1 - spread)
options = np.stack([spot, strike, years, rate, price], axis=1).astype(single)

source, grid, block = "kernel.cu", OPTIONS // 128, 128
args = [options, np.zeros(OPTIONS, single), OPTIONS, STEPS]
