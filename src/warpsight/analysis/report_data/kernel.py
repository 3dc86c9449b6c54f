"""The report data of one launch on one GPU: predictions, references, resources, code, advice and all else that its report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from warpsight.analysis.advice.advise import advise_profiled
from warpsight.analysis.assumptions import assumptions
from warpsight.analysis.explanation import explain_views
from warpsight.analysis.report_data.loads import loads
from warpsight.analysis.report_data.provenance import provenance
from warpsight.analysis.report_data.resources import alone, needs_of, rooflines, speed_of_light
from warpsight.analysis.report_data.timeline import START, Window, timeline_part
from warpsight.analysis.what_if import QUICK, known_mode, what_if
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.base.progress import Watch
from warpsight.gpu.occupancy import Occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import get_model, model_names
from warpsight.pipeline.evaluate import ProfiledTrace, known_models, predict_profiled, profile_trace
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import DEFAULT_METHOD, KernelRequest, Method
from warpsight.pipeline.simulation import NAME, SimulatedLaunch, simulate_trace, write_timeline
from warpsight.result.prediction import Prediction, relative_error
from warpsight.traces.schema import KernelTrace


def code_views(profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> dict[str, Any]:
    """Explanation documents by PTX (or SASS) instruction, `line`, and where the kernel has any, by source line, `source`.

    They are those of `explain --json` without the prediction; `sources` and `missing_sources` are in the first of the two alone.
    """
    views = ["source"] if any(instruction.file for instruction in profiled.trace.instructions) else []
    found: dict[str, Any] = {}
    for explanation in explain_views(profiled, gpu, model, (*views, "line")):
        document = explanation.to_json()
        del document["prediction"]
        if found:
            del document["sources"], document["missing_sources"]
        found[explanation.by] = document
    return found


# -- What predictions are held against: the simulator's cycles or a measurement, and each model's error.

def simulated_prediction(
    trace: KernelTrace, gpu: GpuSpec, resident: Occupancy, window: Window, perfetto: str | None, watch: Watch | None
) -> tuple[Prediction, dict[str, Any]]:
    """The simulator's answer, and the document of the window of its timeline; all that is known of that goes to `perfetto` too.

    Raises what `simulate_launch` does, and UsageError for a window that nothing is known of or a file that cannot be written.
    """
    found = simulate_trace(trace, gpu, resident=resident, watch_sm=window.sm, watch=watch)
    timeline = found.simulation.timeline
    assert timeline is not None, "an SM was watched"
    part = timeline_part(trace, found.simulation, window)
    if perfetto:
        write_timeline(perfetto, trace, timeline)
    return _timeless(found), part


def _timeless(found: SimulatedLaunch) -> Prediction:
    """The prediction without how long the simulation took, so that the same kernel gives the same document."""
    provenance = dict(found.prediction.provenance)
    provenance["model"] = {key: value for key, value in provenance["model"].items() if key != "simulation_seconds"}
    return replace(found.prediction, provenance=provenance)


class Measured(Protocol):
    """A measured launch or a row of reference cycles, as far as a report shows it."""

    @property
    def cycles(self) -> float | None:
        """GPU cycles, None where not known."""

    @property
    def seconds(self) -> float | None:
        """The launch's duration, None where not known."""

    @property
    def place(self) -> str:
        """`file:line` of the row."""

    @property
    def measured(self) -> object | None:
        """The launch as a profiler measured it; None for a row of a table."""


def references(documents: list[dict[str, Any]], measured: Measured | None = None) -> list[dict[str, Any]]:
    """What the predictions are compared with: what was `measured`, then the simulator where its prediction document is among them.

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


# -- The dossier of one launch on one GPU: predictions, resources, code and everything else that its report shows.

SCHEMA = 1
KERNEL_REPORT, STUDY_REPORT, COMPARISON_REPORT = "kernel", "study", "comparison"


@dataclass(frozen=True)
class Parts:
    """Which parts that take time a dossier has: a run of the `simulator`, and how large a grid of designs (`modes.MODES`).

    `command` are the words of the command line that asks for it, which its provenance keeps. Of the simulator's run the `window` is
    shown, and all that is known of that SM goes into the file `perfetto`, if one is named. `measured` is what the predictions
    are compared with, beside the simulator's cycles.
    """

    simulator: bool = False
    what_if: str = QUICK
    command: tuple[str, ...] = ()
    window: Window = START
    perfetto: str | None = None
    measured: Measured | None = None


DEFAULT_PARTS = Parts()


def kernel_report_data(
    trace: KernelTrace,
    gpu: GpuSpec,
    model: str,
    method: Method = DEFAULT_METHOD,
    *,
    beside: Sequence[str] | None = None,
    parts: Parts = DEFAULT_PARTS,
    request: KernelRequest | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """`profiled_report_data` of `trace`, profiled on `gpu`. Raises also UsageError if a block does not fit an SM."""
    check_asked(model, beside, parts)
    profiled = profile_trace(trace, gpu, method, watch=watch)
    return profiled_report_data(profiled, gpu, model, beside=beside, parts=parts, request=request, watch=watch)


def check_asked(model: str, beside: Sequence[str] | None, parts: Parts) -> None:
    """Raise UsageError for a model or a size of the grid that is not known, before minutes are spent."""
    known_mode(parts.what_if)
    known_models([model, *(beside or ())])


def profiled_report_data(
    profiled: ProfiledTrace,
    gpu: GpuSpec,
    model: str,
    *,
    beside: Sequence[str] | None = None,
    parts: Parts = DEFAULT_PARTS,
    request: KernelRequest | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """The document of a profiled trace on `gpu`: all parts are about `model`, and those `beside` it (None: all others) answer too.

    Its keys, those left out that cannot be: `schema`, `kind`, `tool`, `title`, `model`, `predictions` (that of `model` first, with
    the simulator its second), `references` (what they are held against), `refused` (models that cannot answer, and why), `models`
    (what is known about each), `speed_of_light`, `alone`, `rooflines`, `code` (explanation documents by PTX line and, where there
    are any, by source line: `code_views`), `loads` and `loads_about` (what each memory instruction does: `loads.loads`), `what_if`
    (designs around the GPU, evaluated), `assumptions` (which of the model's the kernel violates), `provenance`, with the simulator
    `timeline`. docs/reference/report.md says them all.
    `request` is what the trace was made of, to run it again for the addresses of lanes.
    Raises UsageError for an unknown model, and what `model` raises where it cannot answer.
    """
    check_asked(model, beside, parts)
    others = [name for name in model_names() if name != model] if beside is None else list(beside)
    predictions, refused = _predictions(profiled, gpu, model, others)
    needs = needs_of(profiled, gpu)
    speed, each_alone = speed_of_light(needs, gpu, predictions[0]), alone(needs, profiled, gpu)
    about = {prediction.model: _about(prediction.model) for prediction in predictions}
    grid = what_if(profiled, gpu, model, parts.what_if, watch=watch)
    simulated: dict[str, Any] = {}
    if parts.simulator:
        run = simulated_prediction(profiled.trace, gpu, profiled.occupancy, parts.window, parts.perfetto, watch)
        predictions.insert(1, run[0])
        simulated["timeline"] = run[1]
    documents = [_beside_first(prediction.to_json(), number) for number, prediction in enumerate(predictions)]
    document = {
        "schema": SCHEMA,
        "kind": KERNEL_REPORT,
        "tool": TOOL,
        "title": f"{profiled.trace.header.kernel} on {gpu.name}",
        "model": model,
        "predictions": documents,
        "references": references(documents, parts.measured),
        "refused": refused,
        "models": about,
        "speed_of_light": speed,
        "alone": each_alone,
        "rooflines": rooflines(profiled, gpu, predictions[0]),
        "code": code_views(profiled, gpu, model),
        **loads(profiled, gpu, request, watch),
        "what_if": grid,
        "assumptions": assumptions(profiled, gpu, predictions[0], speed, each_alone, grid),
        "provenance": provenance(profiled, gpu, parts.command),
        **simulated,
    }
    return {key: part for key, part in document.items() if part is not None}


def _predictions(
    profiled: ProfiledTrace, gpu: GpuSpec, model: str, others: Sequence[str]
) -> tuple[list[Prediction], list[dict[str, str]]]:
    """The answer of `model`, those of the others that have one, and why the rest have none."""
    found, refused = predict_profiled(profiled, gpu, [model]), []
    for name in others:
        try:
            found += predict_profiled(profiled, gpu, [name])
        except WarpsightError as error:
            refused.append({"model": name, "why": error.what})
    return found, refused


def _beside_first(document: dict[str, Any], number: int) -> dict[str, Any]:
    """The first one whole; of the others' provenance only what is the model's own, as the rest is the same."""
    if number:
        provenance = document["provenance"]
        document["provenance"] = {key: provenance[key] for key in ("model", "notes", "varied") if key in provenance}
    return document


def _about(name: str) -> dict[str, Any]:
    """What a reader must know of a model."""
    model = get_model(name)
    return {"title": model.title, "source": model.source, **asdict(model.about)}


def predictions_report_data(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The dossier of prediction documents alone, as `predict --json` writes them: no code, no resources.

    The first one's model is the one that the report is about. Raises UsageError where they are not of one kernel on one GPU.
    """
    remedy = "give the predictions of one kernel on one GPU, by as many models as you like"
    if not documents:
        raise UsageError("there is no prediction to show", place="report", remedy=remedy)
    for what in ("kernel", "gpu"):
        names = list(dict.fromkeys(document[what] for document in documents))
        if len(names) > 1:
            raise UsageError(f"the predictions are of several {what}s: {', '.join(names)}", place="report", remedy=remedy)
    first = documents[0]
    return {
        "schema": SCHEMA,
        "kind": KERNEL_REPORT,
        "tool": TOOL,
        "title": f"{first['kernel']} on {first['gpu']}",
        "model": first["model"],
        "predictions": documents,
        "references": references(documents),
    }


# -- The dossier of a kernel with what would change its prediction: everything that its report shows.

def advised_report_data(
    trace: KernelTrace,
    gpu: GpuSpec,
    model: str,
    method: Method = DEFAULT_METHOD,
    *,
    beside: Sequence[str] | None = None,
    parts: Parts = DEFAULT_PARTS,
    request: KernelRequest | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """`kernel_report_data` with `advice`: the document of `advise`, without the prediction, which is there. Profiled once for both."""
    check_asked(model, beside, parts)
    profiled = profile_trace(trace, gpu, method, watch=watch)
    document = profiled_report_data(profiled, gpu, model, beside=beside, parts=parts, request=request, watch=watch)
    advice = advise_profiled(profiled, gpu, model, watch=watch).to_json()
    return document | {"advice": {key: value for key, value in advice.items() if key not in ("tool", "prediction")}}
