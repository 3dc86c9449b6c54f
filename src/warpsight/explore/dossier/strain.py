"""What a check of an assumption is: a statement, a number that says how far a kernel is from it, and from where on that matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.base.registry import Registry
from warpsight.equations import resources

if TYPE_CHECKING:
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.gpu.spec import GpuSpec
    from warpsight.profile.interval_profile import ResourceDemands
    from warpsight.result.prediction import Prediction

ABOVE, BELOW = "above", "below"


@dataclass(frozen=True)
class Strained:
    """What is checked: a profiled trace on a GPU with the `prediction` of a model.

    `speed` and `alone` are the rows of `resources.speed_of_light` and `resources.alone` by name; `what_if` the grid, where there
    is one.
    """

    profiled: ProfiledTrace
    gpu: GpuSpec
    prediction: Prediction
    speed: dict[str, dict[str, Any]]
    alone: dict[str, dict[str, Any]]
    what_if: dict[str, Any] | None

    @property
    def demands(self) -> ResourceDemands:
        """What a mean warp asks for."""
        found = self.profiled.profile.demands
        assert found is not None, "a profile made from a trace knows its demands"
        return found

    @property
    def warps(self) -> int:
        """Warps of the launch."""
        return self.profiled.trace.header.blocks * self.profiled.trace.header.warps_per_block

    @property
    def instructions(self) -> float:
        """Instructions of a mean warp."""
        return resources.instructions_per_warp(self.profiled.profile)

    @property
    def mean_alone(self) -> float:
        """Cycles of a mean warp that has an SM for itself."""
        return self.instructions + self.demands.stall_cycles

    def over_prediction(self, cycles_of_a_warp: npt.NDArray[np.float64]) -> float:
        """Service cycles for a warp of each SM, as those of the launch over the predicted ones."""
        return float(np.max(cycles_of_a_warp)) * self.warps / self.gpu.sm_count / self.prediction.cycles


@dataclass(frozen=True)
class Figure:
    """How far a kernel is from the assumption, and what is behind the number."""

    value: float
    detail: str


@dataclass(frozen=True)
class Check:
    """`assumption` is the statement, `measure` says what the number is: a kernel strains it where that is `side` the `bound`.

    `why` is the reason for the bound. `unit` is `share` (of a whole, 1 is all) or `ratio`. `find` gives None where the assumption
    is not touched (no barriers, no atomics). What is true of every model (`always`) need not be named by any.
    """

    key: str
    assumption: str
    measure: str
    unit: str
    bound: float
    why: str
    find: Callable[[Strained], Figure | None]
    side: str = ABOVE
    always: bool = False

    def document(self, figure: Figure) -> dict[str, Any]:
        """Its part of the dossier."""
        beyond = figure.value > self.bound if self.side == ABOVE else figure.value < self.bound
        return {
            "key": self.key,
            "assumption": self.assumption,
            "measure": self.measure,
            "unit": self.unit,
            "value": figure.value,
            "bound": self.bound,
            "side": self.side,
            "strained": bool(beyond),
            "detail": figure.detail,
            "why": self.why,
        }


CHECKS: Registry[Check] = Registry("check of an assumption")


def check(
    key: str, assumption: str, measure: str, bound: float, why: str, *, unit: str = "share", side: str = ABOVE, always: bool = False
) -> Callable[[Callable[[Strained], Figure | None]], Callable[[Strained], Figure | None]]:
    """Registers the function below it as the `find` of a check."""

    def registered(find: Callable[[Strained], Figure | None]) -> Callable[[Strained], Figure | None]:
        CHECKS.add(key, Check(key, assumption, measure, unit, bound, why, find, side, always))
        return find

    return registered
