"""What figures are made from: points (a kernel on a GPU, by the simulator or as a profile for the models), and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interchange import profile_from_document
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.models.base import get_model
from warpsight.pipeline.suites import DIVERGENT, Suite, SuiteKernel
from warpsight.result.prediction import Prediction


@dataclass(frozen=True)
class Variant:
    """A GPU of the catalogue, changed by `overrides` (as `overrides` has them). `label` is for people, and makes no other GPU."""

    gpu: str
    overrides: tuple[str, ...] = ()
    label: str = field(default="", compare=False)

    def spec(self) -> GpuSpec:
        """The description. Raises SpecError for an override that is wrong."""
        return _spec(self.gpu, self.overrides)


@cache
def _spec(gpu: str, overrides: tuple[str, ...]) -> GpuSpec:
    return load_gpu(gpu, overrides=overrides)


@dataclass(frozen=True)
class Point:
    """One computation of a `kind` (`SIMULATOR` or `PROFILE`): `kernel` (of the suite) on `variant`.

    `representative` is how a profile chooses its warp.
    """

    kind: str
    kernel: str
    variant: Variant
    representative: str = "kmeans"


@dataclass(frozen=True)
class Cast:
    """The kernels that a study is of, in the order of their names, from `suite`; `only` some, or (empty) all."""

    suite: str
    members: tuple[SuiteKernel, ...]
    only: tuple[str, ...] = ()

    @property
    def divergent(self) -> tuple[SuiteKernel, ...]:
        """MDM's MD-applications."""
        return tuple(member for member in self.members if member.divergent)

    @property
    def others(self) -> tuple[SuiteKernel, ...]:
        """MDM's NMD-applications."""
        return tuple(member for member in self.members if not member.divergent)

    def by_class(self) -> tuple[SuiteKernel, ...]:
        """The others, then the divergent ones, as MDM's figures have them."""
        return (*self.others, *self.divergent)

    def prefer(self, name: str, *, divergent: bool) -> SuiteKernel:
        """The kernel called `name`, or else the first of that class. Raises UsageError when the class has none."""
        pool = self.divergent if divergent else self.others
        if not pool:
            message = f"no kernel is {'' if divergent else 'not '}{DIVERGENT}, and a figure shows one"
            raise UsageError(message, place="kernels", remedy="add a kernel of that class")
        return next((member for member in pool if member.name == name), pool[0])


def cast_of(suite: Suite, names: Sequence[str] = ()) -> Cast:
    """The kernels called `names`, or all. Raises UsageError for a name that is none."""
    chosen = [suite.kernel(name) for name in dict.fromkeys(names)] if names else list(suite)
    only = tuple(kernel.name for kernel in chosen) if names else ()
    return Cast(suite.name, tuple(sorted(chosen, key=lambda kernel: kernel.name)), only)


@dataclass
class Results:
    """What a study computed: `documents` by point (simulator's results, profiles), and the `reasons` of points that failed.

    `traces` are what is known of each kernel's trace. A prediction may add a reason: a model can refuse a profile.
    """

    documents: Mapping[Point, dict[str, Any]]
    traces: Mapping[str, dict[str, Any]]
    reasons: dict[Point, str]
    refused: dict[tuple[str, Variant, str], str] = field(default_factory=dict)
    _profiles: dict[Point, IntervalProfile | None] = field(default_factory=dict)

    def simulator(self, kernel: str, variant: Variant) -> dict[str, Any] | None:
        """The simulator's result (`simulation_document`), or None."""
        return self.documents.get(Point(SIMULATOR, kernel, variant))

    def seconds(self, kernel: str, variant: Variant) -> dict[str, float] | None:
        """How long the kernel's trace, its simulation, its caches and profile, and MDM's equations took; None if one is missing."""
        simulator, profile = (self.documents.get(Point(kind, kernel, variant)) for kind in (SIMULATOR, PROFILE))
        if simulator is None or profile is None:
            return None
        return {
            "trace": self.traces[kernel]["trace_seconds"], "simulation": simulator["simulation_seconds"],
            "profile": profile["profile_seconds"], "equations": profile["mdm_seconds"],
        }

    def prediction(
        self, kernel: str, variant: Variant, model: str, representative: str = "kmeans", *, gpu: GpuSpec | None = None
    ) -> Prediction | None:
        """`model` on the profile of that point, or None. `gpu` replaces the variant's own."""
        profile = self._profile(Point(PROFILE, kernel, variant, representative))
        if profile is None:
            return None
        try:
            return get_model(model).predict(profile, gpu or variant.spec())
        except WarpsightError as error:
            self.refused[kernel, variant, model] = str(error)
            return None

    def _profile(self, point: Point) -> IntervalProfile | None:
        if point not in self._profiles:
            document = self.documents.get(point)
            try:
                profile = profile_from_document(document["profile"], origin=point.kernel) if document else None
            except WarpsightError as error:
                profile, self.reasons[point] = None, str(error)
            self._profiles[point] = profile
        return self._profiles[point]

    def failures(self, points: Sequence[Point]) -> list[dict[str, str]]:
        """Rows for the points of a figure that failed, and for models that refused its profiles."""
        labels = {(point.kernel, point.variant): point.variant.label for point in points}
        failed = [
            (point.kernel, point.variant.label, point.kind, self.reasons[point])
            for point in dict.fromkeys(points)
            if point in self.reasons
        ]
        failed += [
            (kernel, labels[kernel, variant], model, reason)
            for (kernel, variant, model), reason in self.refused.items()
            if (kernel, variant) in labels
        ]
        return [
            {"kernel": kernel, "design": label, "what": source, "reason": " ".join(reason.split())}
            for kernel, label, source, reason in failed
        ]
