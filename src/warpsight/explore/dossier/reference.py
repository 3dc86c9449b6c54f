"""What predictions are held against: the referee's cycles or a measurement, and each model's error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpsight.explore.dossier.timeline import Window, timeline_part
from warpsight.explore.referee import NAME, Refereed, simulate_trace
from warpsight.explore.timeline import write_timeline
from warpsight.explore.watch import Watch
from warpsight.result.prediction import relative_error

if TYPE_CHECKING:
    from warpsight.explore.compare.references import Reference
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


def held_against(path: str, gpu: GpuSpec, trace: KernelTrace, label: str = "") -> Reference:
    """The row of the launch in the file `path`, read as `warpsight compare --against` does; `label` names it, if given.

    Raises UsageError and FormatError.
    """
    from warpsight.explore.compare.against import read_against

    return read_against(path).match(gpu.name, trace.header, label)


def references(documents: list[dict[str, Any]], measured: Reference | None = None) -> list[dict[str, Any]]:
    """What the predictions are held against: what was `measured`, then the referee where its prediction document is among them.

    Each: `name`, `kind` (measurement, table or simulation), `cycles` and `seconds` (None: not known), `place` (file and line, ""
    for none), `by` (cycles, or seconds where cycles are not known) and the models' signed relative `errors` by name.
    """
    found = []
    if measured is not None:
        kind = "measurement" if measured.measured else "table"
        by = "cycles" if measured.cycles else "seconds"
        found.append({"name": "measured" if measured.measured else "given", "kind": kind, "cycles": measured.cycles,
                      "seconds": measured.seconds, "place": measured.place, "by": by})  # fmt: skip
    found += [
        {"name": NAME, "kind": "simulation", "cycles": each["cycles"], "seconds": each["seconds"], "place": "", "by": "cycles"}
        for each in documents if each["model"] == NAME
    ]  # fmt: skip
    return [{**each, "errors": _errors(documents, each)} for each in found]


def _errors(documents: list[dict[str, Any]], reference: dict[str, Any]) -> dict[str, float]:
    """Of all predictions but the reference itself; none where the file has neither cycles nor a time."""
    by, value = reference["by"], reference[reference["by"]]
    others = [each for each in documents if each["model"] != reference["name"]]
    return {each["model"]: relative_error(each[by], value) for each in others} if value else {}
