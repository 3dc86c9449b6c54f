"""The report data of one launch on one GPU: predictions, references, resources, code, advice and all else that its report shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from warpsight.analysis.advice.advise import advise_case, case_of
from warpsight.analysis.advice.rule import Case
from warpsight.analysis.assumptions import assumptions
from warpsight.analysis.explanation import Explanation, views_of
from warpsight.analysis.report_data.loads import AccessPatterns, loads
from warpsight.analysis.report_data.memory import memory_traffic
from warpsight.analysis.report_data.provenance import provenance
from warpsight.analysis.report_data.resources import occupancy_limits, rooflines
from warpsight.analysis.report_data.timeline import START, Window, timeline_part
from warpsight.analysis.summary import Findings, advised, summary
from warpsight.analysis.what_if import QUICK, known_mode, what_if
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.base.progress import Watch
from warpsight.gpu.occupancy import Occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import get_model, model_names
from warpsight.pipeline.evaluate import ProfiledTrace, known_models, predict_profiled, profile_trace
from warpsight.pipeline.provenance import TOOL, running
from warpsight.pipeline.request import DEFAULT_METHOD, PAPERS_MODELS, KernelRequest, Method
from warpsight.pipeline.simulation import NAME, simulate_trace, write_timeline
from warpsight.result.prediction import Prediction, relative_error
from warpsight.traces.schema import KernelTrace


def code_views(explanations: Sequence[Explanation], trace: KernelTrace) -> dict[str, Any]:
    """The documents of the explanations by `views_of` the trace: by source line, `source`, by PTX line, `line`, and by instruction
    of machine code, `sass`. In a trace of another tool a `line` is an instruction of machine code.

    They equal those of `explain --json` without the prediction; only the first one has `sources` and `missing_sources`. With
    machine code `line` has `unused`, by line number the text of PTX between, from which no instruction was made.
    """
    documents: dict[str, Any] = {}
    for explanation in explanations:
        document = explanation.to_json()
        del document["prediction"]
        if documents:
            del document["sources"], document["missing_sources"]
        documents[explanation.by] = document
    if "sass" in documents and "line" in documents:
        documents["line"]["unused"] = trace.extra.get("unused_ptx", {})
    return documents


# -- The references of predictions: the simulator's cycles or a measurement, and each model's error.

def simulated_prediction(
    trace: KernelTrace, gpu: GpuSpec, resident: Occupancy, window: Window, perfetto: str | None, watch: Watch | None, *,
    caches_before: str = DEFAULT_METHOD.caches_before,
) -> tuple[Prediction, dict[str, Any]]:
    """The simulator's prediction, and the document of a window of its timeline; the whole timeline is also written to `perfetto`.

    Raises as `simulate_launch`, and UsageError for a window outside the timeline or a file that cannot be written.
    """
    simulated = simulate_trace(trace, gpu, resident=resident, watch_sm=window.sm, caches_before=caches_before, watch=watch)
    timeline = simulated.simulation.timeline
    assert timeline is not None, "watch_sm was given"
    part = timeline_part(trace, simulated.simulation, window)
    if perfetto:
        write_timeline(perfetto, trace, timeline)
    # without the simulation's run time, so that the same kernel gives the same document
    provenance = dict(simulated.prediction.provenance)
    provenance["model"] = {key: value for key, value in provenance["model"].items() if key != "simulation_seconds"}
    return replace(simulated.prediction, provenance=provenance), part


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
    """The references of the predictions: the `measured` one, then the simulator if its prediction is among the documents.

    Each has `name`, `kind` (measurement, table or simulation), `cycles` and `seconds` (None: unknown), `place` (file and line, ""
    for none), `by` (cycles, or seconds if cycles are unknown) and the models' signed relative `errors` by name.
    """
    rows = []
    if measured is not None:
        kind = "measurement" if measured.measured else "table"
        by = "cycles" if measured.cycles else "seconds"
        rows.append({"name": "measured" if measured.measured else "given", "kind": kind, "cycles": measured.cycles,
                     "seconds": measured.seconds, "place": measured.place, "by": by})  # fmt: skip
    rows += [
        {"name": NAME, "kind": "simulation", "cycles": each["cycles"], "seconds": each["seconds"], "place": "", "by": "cycles"}
        for each in documents if each["model"] == NAME
    ]  # fmt: skip
    return [{**row, "errors": _errors(documents, row)} for row in rows]


def _errors(documents: list[dict[str, Any]], reference: dict[str, Any]) -> dict[str, float]:
    """For all predictions but the reference itself; empty if the reference has neither cycles nor a time."""
    by, value = reference["by"], reference[reference["by"]]
    others = [each for each in documents if each["model"] != reference["name"]]
    return {each["model"]: relative_error(each[by], value) for each in others} if value else {}


# -- The report data of one launch on one GPU.

SCHEMA = 1
KERNEL_REPORT, STUDY_REPORT, COMPARISON_REPORT, PROGRAM_REPORT = "kernel", "study", "comparison", "program"


def report_head(kind: str, title: str) -> dict[str, Any]:
    """The first keys of every report's data."""
    return {"schema": SCHEMA, "kind": kind, "tool": TOOL, "title": title}


@dataclass(frozen=True)
class Parts:
    """The optional parts of report data: a run of the `simulator`, and the size of the grid of designs (`what_if.MODES`).

    `command` are the words of the command line, for the provenance. The simulator's timeline is shown for `window`, and the whole
    timeline of the SM is written to the file `perfetto`, if given. `measured` is the reference of the predictions, in addition to
    the simulator's cycles.
    """

    simulator: bool = False
    what_if: str = QUICK
    command: tuple[str, ...] = ()
    window: Window = START
    perfetto: str | None = None
    measured: Measured | None = None


DEFAULT_PARTS = Parts()
Advice = Callable[[], dict[str, Any]]
Elsewhere = Callable[[Callable[[], Any]], Callable[[], Any]]
"""Takes what makes a part of the data, plain values, and gives what returns it, which may be made meanwhile by another process."""


def here(make: Callable[[], Any]) -> Callable[[], Any]:
    """The part is made when it is asked for."""
    return make


def kernel_report_data(
    trace: KernelTrace, gpu: GpuSpec, model: str, method: Method = DEFAULT_METHOD, *, beside: Sequence[str] | None = None,
    parts: Parts = DEFAULT_PARTS, request: KernelRequest | None = None, watch: Watch | None = None,
) -> dict[str, Any]:
    """`profiled_report_data` of `trace`, profiled on `gpu`. Also raises UsageError if a block does not fit on an SM."""
    check_request(model, beside, parts)
    profiled = profile_trace(trace, gpu, method, watch=watch)
    return profiled_report_data(profiled, gpu, model, beside=beside, parts=parts, request=request, watch=watch)


def check_request(model: str, beside: Sequence[str] | None, parts: Parts) -> None:
    """Raise UsageError for an unknown model or size of the grid, before minutes are spent."""
    known_mode(parts.what_if)
    known_models([model, *(beside or ())])


def profiled_report_data(
    profiled: ProfiledTrace, gpu: GpuSpec, model: str, *, beside: Sequence[str] | None = None, parts: Parts = DEFAULT_PARTS,
    request: KernelRequest | None = None, watch: Watch | None = None, advice: Advice | None = None, elsewhere: Elsewhere = here,
    patterns: Callable[[], AccessPatterns] | None = None, found: Findings | None = None,
) -> dict[str, Any]:
    """The document of a profiled trace on `gpu`, about `model`; the models `beside` it (None: all others) predict too.

    Its keys, if available: `schema`, `kind`, `tool`, `title`, `model`, `predictions` (that of `model` first, with its `summary` as
    `predict --json` has it, with the simulator its second), `references` (see `references`), `refused` (models that cannot answer,
    and why), `models` (documentation of each), `speed_of_light`, `memory` (the memory chart), `occupancy`, `alone`, `rooflines`,
    `code` (explanation documents by source line, PTX line and instruction of machine code, as far as there are any: `code_views`),
    `loads` and `loads_about` (memory instructions: `loads.loads`), `what_if` (designs around the GPU, evaluated), `assumptions`
    (which of the model's the kernel violates), `provenance`, with the simulator `timeline`. docs/reference/report.md describes them
    all. `request` is the origin of the trace, to run it again for the addresses of lanes. `advice` gives `advice_data`, and is
    called last; without it the document has no `advice`. `elsewhere` is given the parts that take long and need no other part;
    `patterns` gives `access_patterns`, if these are made by others; `found` is what `first_findings` gives. Raises UsageError for
    an unknown model, and as `model` if it cannot predict.
    """
    check_request(model, beside, parts)
    others = [name for name in model_names() if name != model] if beside is None else list(beside)
    found = (found or first_findings(profiled, gpu, model)).by(profiled, gpu, views_of(profiled.trace))
    predictions, refused = _predictions(profiled, gpu, found.prediction, others)
    models = [get_model(prediction.model) for prediction in predictions]
    about = {each.name: {"title": each.title, "source": each.source, **asdict(each.about)} for each in models}
    grid = what_if(profiled, gpu, model, parts.what_if, watch=watch)
    checked = elsewhere(lambda: assumptions(profiled, gpu, predictions[0], found.speed, found.alone, grid))
    papers = [each for name in PAPERS_MODELS for each in predictions[1:] if each.model == name]
    run, simulated = None, {}
    if parts.simulator:
        run = simulated_prediction(
            profiled.trace, gpu, profiled.occupancy, parts.window, parts.perfetto, watch,
            caches_before=profiled.method.caches_before,
        )  # fmt: skip
        predictions.insert(1, run[0])
        simulated["timeline"] = run[1]
    documents = [prediction.to_json() for prediction in predictions]
    for other in documents[1:]:  # the first is complete; the rest of the provenance is the same
        other["provenance"] = {key: other["provenance"][key] for key in ("model", "notes", "varied") if key in other["provenance"]}
    document = {
        **report_head(KERNEL_REPORT, f"{profiled.trace.header.kernel} on {gpu.name}"),
        "model": model,
        "predictions": documents,
        "references": references(documents, parts.measured),
        "refused": refused,
        "models": about,
        "speed_of_light": found.speed,
        "memory": memory_traffic(profiled, running(gpu, predictions[0]), predictions[0], found.needs),
        "occupancy": occupancy_limits(profiled, gpu),
        "alone": found.alone,
        "rooflines": rooflines(profiled, running(gpu, predictions[0]), predictions[0]),
        "code": code_views(found.explanations, profiled.trace),
        **loads(profiled, gpu, request, watch, patterns() if patterns else None),
        "what_if": grid,
        "assumptions": checked(),
        "provenance": provenance(profiled, gpu, parts.command),
        **simulated,
    }
    advised = advice() if advice else {"advice": None, "summary": None}
    documents[0]["summary"] = summary(profiled, gpu, predictions[0], papers, run and run[0], found, advised["summary"])
    return {key: part for key, part in (document | {"advice": advised["advice"]}).items() if part is not None}


def first_findings(profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> Findings:
    """The prediction of `model`, and what is found of it by the first view of the trace: all parts of a report start from that."""
    (prediction,) = predict_profiled(profiled, gpu, [model])
    return Findings.of(profiled, gpu, prediction, views_of(profiled.trace)[:1])


def first_report_data(profiled: ProfiledTrace, gpu: GpuSpec, found: Findings) -> dict[str, Any]:
    """The parts of `profiled_report_data` that come first: they need no further run of the kernel and no other design.

    They are the prediction of `first_findings` without its summary, `speed_of_light`, and of `code` the first view of the trace.
    """
    return {
        **report_head(KERNEL_REPORT, f"{profiled.trace.header.kernel} on {gpu.name}"),
        "model": found.prediction.model,
        "predictions": [found.prediction.to_json()],
        "speed_of_light": found.speed,
        "code": code_views(found.explanations, profiled.trace),
    }


def _predictions(
    profiled: ProfiledTrace, gpu: GpuSpec, first: Prediction, others: Sequence[str]
) -> tuple[list[Prediction], list[dict[str, str]]]:
    """The `first` prediction, those of other models, and the reasons of models that cannot predict."""
    predictions, refused = [first], list[dict[str, str]]()
    for name in others:
        try:
            predictions += predict_profiled(profiled, gpu, [name])
        except WarpsightError as error:
            refused.append({"model": name, "why": error.what})
    return predictions, refused


def predictions_report_data(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The report data of prediction documents as `predict --json` writes them: no code, no resources.

    The report is about the first one's model. Raises UsageError unless all are of one kernel on one GPU.
    """
    remedy = "give predictions of one kernel on one GPU, by any number of models"
    if not documents:
        raise UsageError("needs at least one prediction", place="report", remedy=remedy)
    for what in ("kernel", "gpu"):
        names = list(dict.fromkeys(document[what] for document in documents))
        if len(names) > 1:
            raise UsageError(f"the predictions are for several {what}s: {', '.join(names)}", place="report", remedy=remedy)
    first = documents[0]
    return {
        **report_head(KERNEL_REPORT, f"{first['kernel']} on {first['gpu']}"),
        "model": first["model"],
        "predictions": documents,
        "references": references(documents),
    }


# -- The report data of a kernel with advice: all parts of its report.

def advised_report_data(
    trace: KernelTrace, gpu: GpuSpec, model: str, method: Method = DEFAULT_METHOD, *, beside: Sequence[str] | None = None,
    parts: Parts = DEFAULT_PARTS, request: KernelRequest | None = None, watch: Watch | None = None,
) -> dict[str, Any]:
    """`kernel_report_data` with `advice`: the document of `advise` without the prediction. The trace is profiled once for both."""
    check_request(model, beside, parts)
    profiled = profile_trace(trace, gpu, method, watch=watch)
    return profiled_report_data(
        profiled, gpu, model, beside=beside, parts=parts, request=request, watch=watch,
        advice=lambda: advice_data(profiled, gpu, model, watch),
    )  # fmt: skip


def advice_data(
    profiled: ProfiledTrace, gpu: GpuSpec, model: str, watch: Watch | None = None, found: Findings | None = None
) -> dict[str, Any]:
    """The `advice` of report data, which is the document of `advise` without the prediction, and `summary`, what the summary of the
    prediction has of it. Each change is evaluated once for both. `found` is what `first_findings` gives.
    """
    if found is not None and running(gpu, found.prediction) is gpu:  # else their rows are those at another clock
        case = Case(profiled, gpu, model, found.prediction, found.explanations[0].rows, watch)
    else:
        case = case_of(profiled, gpu, model, watch)
    advice = advise_case(case).to_json()
    return {"advice": {key: value for key, value in advice.items() if key not in ("tool", "prediction")}, "summary": advised(case)}
