"""What a study found, for the figures to read: referee's results, profiles, and predictions made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import WarpsightError
from warpsight.explore.runs.fingerprint import PROFILE, REFEREE
from warpsight.explore.validation.points import Point, Variant

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec
    from warpsight.profile.interval_profile import IntervalProfile
    from warpsight.result.prediction import Prediction


@dataclass
class Results:
    """Documents by point, and the reasons of points that failed. `traces` are what is known of each kernel's trace.

    Reading a model's answer may add a reason: a model can refuse a profile.
    """

    found: Mapping[Point, dict[str, Any]]
    traces: Mapping[str, dict[str, Any]]
    reasons: dict[Point, str]
    refused: dict[tuple[str, Variant, str], str] = field(default_factory=dict)
    _profiles: dict[Point, IntervalProfile | None] = field(default_factory=dict)

    def referee(self, kernel: str, variant: Variant) -> dict[str, Any] | None:
        """What the referee found (`compute._simulate`), or None."""
        return self.found.get(Point(REFEREE, kernel, variant))

    def seconds(self, kernel: str, variant: Variant) -> dict[str, float] | None:
        """How long the kernel's trace, its simulation, its caches and profile, and MDM's equations took; None if one is missing."""
        referee, profile = (self.found.get(Point(what, kernel, variant)) for what in (REFEREE, PROFILE))
        if referee is None or profile is None:
            return None
        return {
            "trace": self.traces[kernel]["trace_seconds"],
            "simulation": referee["simulation_seconds"],
            "profile": profile["profile_seconds"],
            "equations": profile["mdm_seconds"],
        }

    def prediction(
        self, kernel: str, variant: Variant, model: str, representative: str = "kmeans", *, gpu: GpuSpec | None = None
    ) -> Prediction | None:
        """`model` on the profile of that point, or None. `gpu` is the GPU that it is told instead of the variant's own."""
        from warpsight.models.registry import get_model

        profile = self._profile(Point(PROFILE, kernel, variant, representative))
        if profile is None:
            return None
        try:
            return get_model(model).predict(profile, gpu or variant.spec())
        except WarpsightError as error:
            self.refused[kernel, variant, model] = str(error)
            return None

    def _profile(self, point: Point) -> IntervalProfile | None:
        from warpsight.profile.interchange import profile_from_document

        if point not in self._profiles:
            document = self.found.get(point)
            try:
                made = profile_from_document(document["profile"], origin=point.kernel) if document else None
            except WarpsightError as error:
                made, self.reasons[point] = None, str(error)
            self._profiles[point] = made
        return self._profiles[point]

    def failures(self, points: Sequence[Point]) -> list[dict[str, str]]:
        """Rows for the points of a figure that failed, and for models that refused its profiles."""
        rows = [
            {"kernel": point.kernel, "design": point.variant.label, "what": point.what, "reason": _first(self.reasons[point])}
            for point in dict.fromkeys(points)
            if point in self.reasons
        ]
        places = {(point.kernel, point.variant): point.variant.label for point in points}
        rows += [
            {"kernel": kernel, "design": places[kernel, variant], "what": model, "reason": _first(reason)}
            for (kernel, variant, model), reason in self.refused.items()
            if (kernel, variant) in places
        ]
        return rows


def _first(reason: str) -> str:
    """A reason in one line."""
    return " ".join(reason.split())
