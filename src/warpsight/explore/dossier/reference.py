"""What predictions are held against: the referee's cycles, and each model's error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpsight.explore.dossier.timeline import Window, timeline_part
from warpsight.explore.referee import NAME, Refereed, simulate_trace
from warpsight.explore.timeline import write_timeline
from warpsight.explore.watch import Watch
from warpsight.result.prediction import relative_error

if TYPE_CHECKING:
    from warpsight.gpu.occupancy import Occupancy
    from warpsight.gpu.spec import GpuSpec
    from warpsight.result.prediction import Prediction
    from warpsight.trace.schema import KernelTrace


def refereed(
    trace: KernelTrace, gpu: GpuSpec, resident: Occupancy, window: Window, perfetto: str | None, watch: Watch | None
) -> tuple[Prediction, dict[str, Any]]:
    """The referee's answer, and the document of the window of its timeline; all that is known of that goes to `perfetto` too.

    Raises what `simulate_launch` does, and UsageError for a window that nothing is known of or a file that cannot be written.
    """
    found = simulate_trace(trace, gpu, resident=resident, watch_sm=window.sm, watch=watch)
    timeline = found.simulation.timeline
    assert timeline is not None, "an SM was watched"
    part = timeline_part(trace, found.simulation, window)
    if perfetto:
        write_timeline(perfetto, trace, timeline)
    return _timeless(found), part


def _timeless(found: Refereed) -> Prediction:
    """The prediction without how long the simulation took, so that the same kernel gives the same document."""
    provenance = dict(found.prediction.provenance)
    provenance["model"] = {key: value for key, value in provenance["model"].items() if key != "simulation_seconds"}
    return replace(found.prediction, provenance=provenance)


def references(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each prediction document of the referee its `cycles`, and the signed relative `errors` of the models by name."""
    return [
        {
            "name": reference["model"],
            "kind": "simulation",
            "cycles": reference["cycles"],
            "errors": {each["model"]: relative_error(each["cycles"], reference["cycles"])
                       for each in documents if each["model"] != NAME},
        }
        for reference in documents if reference["model"] == NAME
    ]  # fmt: skip
