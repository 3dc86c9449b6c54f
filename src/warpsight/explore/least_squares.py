"""Least squares of a few parameters: Levenberg's method with numerical derivatives, from several starts.

SciPy would do this too; it is no dependency of the product (docs/adr/0008-dependencies-not-taken.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS = 200
_ENOUGH = 1e-12


@dataclass(frozen=True)
class Fit:
    """Where the sum of squares is least: `parameters` [p], `residuals` [n], and the derivatives there, [n, p]."""

    parameters: Floats
    residuals: Floats
    jacobian: Floats

    @property
    def cost(self) -> float:
        """Sum of squares."""
        return float(self.residuals @ self.residuals)


def least_squares(residuals: Callable[[Floats], Floats], starts: list[Floats], least: Floats) -> Fit:
    """The best fit from any of `starts` [p]; no parameter goes below `least` [p]. `residuals` maps [p] to [n]."""
    return min((_from(residuals, start, least) for start in starts), key=lambda fit: fit.cost)


def _from(residuals: Callable[[Floats], Floats], start: Floats, least: Floats) -> Fit:
    point, damping = np.maximum(start, least), 1e-3
    value = residuals(point)
    jacobian = _derivatives(residuals, point, value)
    for _ in range(_STEPS):
        normal = jacobian.T @ jacobian
        scale = np.diag(normal) + 1e-30
        step = np.linalg.lstsq(normal + damping * np.diag(scale), -jacobian.T @ value, rcond=None)[0]
        candidate = np.maximum(point + step, least)
        new = residuals(candidate)
        if new @ new < value @ value:
            gain = 1 - (new @ new) / (value @ value)
            point, value, damping = candidate, new, max(damping / 5, 1e-12)
            jacobian = _derivatives(residuals, point, value)
            if gain < _ENOUGH:
                break
        else:
            damping *= 4
            if damping > 1e12:
                break
    return Fit(point, value, jacobian)


def _derivatives(residuals: Callable[[Floats], Floats], point: Floats, value: Floats) -> Floats:
    """Forward differences."""
    columns = []
    for k in range(len(point)):
        width = 1e-6 * max(abs(float(point[k])), 1.0)
        moved = point.copy()
        moved[k] += width
        columns.append((residuals(moved) - value) / width)
    return np.stack(columns, axis=1)
