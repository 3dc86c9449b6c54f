"""What a fit answers for one key of a GPU description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fitted:
    """`value` of `key` in its base unit (a word for l1.index), `from_rows` timings, `quality` in words, `deviation` a fraction.

    `deviation` is how far timings are from what the value says: the relative spread of a plateau, the residual of a line, the part
    of accesses of which hit or miss is not explained.
    """

    key: str
    value: float | str
    rows: int
    deviation: float
    quality: str


@dataclass(frozen=True)
class Refused:
    """Why the timings do not tell `key`."""

    key: str
    reason: str


Answer = Fitted | Refused


def spread(values: Sequence[float]) -> float:
    """Half of what lies between the 10th and the 90th percentile, relative to the median: 0.02 is give or take 2 per cent."""
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [10, 50, 90])
    return float((high - low) / (2 * middle))
