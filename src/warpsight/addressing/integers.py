"""Division of line and sector numbers. They fit in 32 bits, and a 32-bit division takes a third of the time of a 64-bit one."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, error_model="numpy")
def quotient(number: int, divisor: int) -> int:
    """`number // divisor` of non-negative integers below 2**32 (sector numbers are 32-bit, lines and sets are fewer)."""
    return np.int64(np.uint32(number) // np.uint32(divisor))
