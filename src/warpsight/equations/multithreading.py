"""Multithreading: warps hide each other's stalls (GPUMech, MICRO 2014, section IV-A, eqs. 7-16).

Intervals are arrays [..., I]; GPU values are scalars, or arrays that broadcast against them ([D, 1] for D designs). `warps`
counts those of one warp scheduler and may be a fraction; a warp alone issues one instruction a cycle, for any issue width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def issue_probability(instructions: Floats, stall_cycles: Floats) -> float:
    """Eq. 9, which is also a warp's performance alone (eq. 5): instructions per cycle of issue and stall, 0 to 1."""
    return float(instructions.sum() / (instructions.sum() + stall_cycles.sum()))


def nonoverlapped_greedy(stall_cycles: Floats, probability: float, average: float, warps: Any, *, issue_rate: Any) -> Floats:
    """Eqs. 12-16: instructions of other warps still to be issued when an interval's stall is over, per interval.

    `average` is the mean number of instructions of an interval (eq. 13). Eq. 15 as printed has a maximum where a probability is
    needed, eq. 16 a minimum where a count is needed; both are corrected.
    """
    in_stall = np.minimum(probability * stall_cycles, 1.0)
    issued = average * (in_stall * (warps - 1))
    return np.asarray(np.maximum(issued - stall_cycles * issue_rate, 0.0))


def nonoverlapped(
    instructions: Floats, stall_cycles: Floats, warps: Floats, issue_rate: Floats, *, greedy: npt.NDArray[np.bool_]
) -> Floats:
    """Eq. 8: non-overlapped instructions of all intervals [I], for designs `warps`, `issue_rate`, `greedy` [D]; float64 [D].

    `greedy` is True for greedy-then-oldest, False for loose round-robin.
    """
    probability = issue_probability(instructions, stall_cycles)
    # eqs. 10-11: instructions of the other warps issued between two of the representative's. They are linear in the instructions of
    # an interval, so the sum over the intervals needs only their sum.
    robin: Floats = probability * (warps - 1) * (instructions.sum() - len(instructions))
    if not greedy.any():
        return robin
    # many designs have few different schedulers
    cases, case = np.unique(warps + 1j * issue_rate, return_inverse=True)
    average = float(instructions.mean())
    left = np.zeros(len(cases))
    for part in pieces(len(stall_cycles), 1):
        stalls = stall_cycles[part]
        for rows in pieces(len(cases), len(stalls)):
            some = cases[rows, None]
            left[rows] += nonoverlapped_greedy(stalls, probability, average, some.real, issue_rate=some.imag).sum(axis=1)
    return np.where(greedy, left[case.reshape(-1)], robin)


def multithreaded_cycles(instructions: Floats, stall_cycles: Floats, nonoverlapped_instructions: Any, issue_rate: Any) -> Any:
    """The denominator of eq. 7: cycles in which all warps of a scheduler run these intervals, free of contention."""
    return instructions.sum() + stall_cycles.sum() + nonoverlapped_instructions / issue_rate


# -- Long arrays in pieces that fit in the processor's cache.

# Temporary arrays of this many float64 fit in the cache and in mapped memory; longer ones take several times as long.
_AT_ONCE = 1 << 13


def pieces(rows: int, width: int) -> Iterator[slice]:
    """Slices that cover `rows` rows of `width` numbers each; each slice fits in the cache, but has at least one row."""
    size = max(1, _AT_ONCE // max(width, 1))
    for first in range(0, rows, size):
        yield slice(first, min(first + size, rows))
