"""Integer operations for compiled functions. Line and sector numbers are divided by a shift where the divisor is a power of two,
else in 32 bits, which takes a third of the time of 64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import inlined, intrinsic

numba = lazy.load("numba")


def _trailing_zeros(typing_context: Any, number: Any) -> Any:
    """Number of zero bits below the lowest one of a positive 64-bit integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(numba.types.boolean, True))

    return numba.types.int64(numba.types.int64), generate


def _set_bits(typing_context: Any, number: Any) -> Any:
    """Number of one bits of a 64-bit integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.types.int64(numba.types.int64), generate


trailing_zeros: Callable[[int], int] = intrinsic(_trailing_zeros)
set_bits: Callable[[int], int] = intrinsic(_set_bits)


@inlined
def signed(number: Any) -> int:
    """`number` as a signed 64-bit integer. Compiled, arithmetic that mixes unsigned with signed integers would give floats."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def quotient(number: int, divisor: int) -> int:
    """`number // divisor` for 0 <= number < 2**32 and 0 < divisor < 2**32 (sector numbers have 32 bits)."""
    if divisor & (divisor - 1) == 0:
        return number >> trailing_zeros(divisor)
    return signed(np.uint32(number) // np.uint32(divisor))
