"""The dossier of one launch on one GPU: predictions, resources, code and everything else that its report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.explore.dossier.assumptions import assumptions
from warpsight.explore.dossier.code import code_views
from warpsight.explore.dossier.loads import loads
from warpsight.explore.dossier.modes import QUICK, known_mode
from warpsight.explore.dossier.provenance import provenance
from warpsight.explore.dossier.reference import held_against, refereed, references
from warpsight.explore.dossier.resources import alone, needs_of, speed_of_light
from warpsight.explore.dossier.roofline import rooflines
from warpsight.explore.dossier.timeline import START, Window
from warpsight.explore.dossier.what_if import what_if
from warpsight.explore.pipeline import ProfiledTrace, known_models, predict_profiled, profile_trace
from warpsight.explore.provenance import TOOL
from warpsight.explore.request import DEFAULT_METHOD, Method
from warpsight.explore.watch import Watch

if TYPE_CHECKING:
    from warpsight.explore.request import KernelRequest
    from warpsight.gpu.spec import GpuSpec
    from warpsight.result.prediction import Prediction
    from warpsight.trace.schema import KernelTrace

SCHEMA = 1
KERNEL, STUDY, COMPARISON = "kernel", "study", "comparison"


@dataclass(frozen=True)
class Parts:
    """Which parts that take time a dossier has: a run of the `referee`, and how large a grid of designs (`modes.MODES`).

    `command` are the words of the command line that asks for it, which its provenance keeps. Of the referee's run the `window` is
    shown, and all that is known of that SM goes into the file `perfetto`, if one is named. `against` is a file of measurements or
    reference cycles, as for `warpsight compare`, and `label` the launch's name in it, where its kernel's does not do.
    """

    referee: bool = False
    what_if: str = QUICK
    command: tuple[str, ...] = ()
    window: Window = START
    perfetto: str | None = None
    against: str | None = None
    label: str = ""


DEFAULT_PARTS = Parts()


def kernel_dossier(
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
    """`profiled_dossier` of `trace`, profiled on `gpu`. Raises also UsageError if a block does not fit an SM."""
    check_asked(model, beside, parts)
    profiled = profile_trace(trace, gpu, method, watch=watch)
    return profiled_dossier(profiled, gpu, model, beside=beside, parts=parts, request=request, watch=watch)


def check_asked(model: str, beside: Sequence[str] | None, parts: Parts) -> None:
    """Raise UsageError for a model or a size of the grid that is not known, before minutes are spent."""
    known_mode(parts.what_if)
    known_models([model, *(beside or ())])


def profiled_dossier(
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
    the referee its second), `references` (what they are held against), `refused` (models that cannot answer, and why), `models`
    (what is known about each), `speed_of_light`, `alone`, `rooflines`, `code` (explanation documents by PTX line and, where there
    are any, by source line: `code_views`), `loads` and `loads_about` (what each memory instruction does: `loads.loads`), `what_if`
    (designs around the GPU, evaluated), `assumptions` (which of the model's the kernel strains), `provenance`, and with the referee
    `timeline`. docs/reference/report.md says them all.
    `request` is what the trace was made of, to run it again for the addresses of lanes.
    Raises UsageError for an unknown model, and what `model` raises where it cannot answer.
    """
    from warpsight.models.registry import model_names

    check_asked(model, beside, parts)
    others = [name for name in model_names() if name != model] if beside is None else list(beside)
    measured = held_against(parts.against, gpu, profiled.trace, parts.label) if parts.against else None
    predictions, refused = _predictions(profiled, gpu, model, others)
    needs = needs_of(profiled, gpu)
    speed, each_alone = speed_of_light(needs, gpu, predictions[0]), alone(needs, profiled, gpu)
    about = {prediction.model: _about(prediction.model) for prediction in predictions}
    grid = what_if(profiled, gpu, model, parts.what_if, watch=watch)
    simulated: dict[str, Any] = {}
    if parts.referee:
        run = refereed(profiled.trace, gpu, profiled.occupancy, parts.window, parts.perfetto, watch)
        predictions.insert(1, run[0])
        simulated["timeline"] = run[1]
    documents = [_beside_first(prediction.to_json(), number) for number, prediction in enumerate(predictions)]
    document = {
        "schema": SCHEMA,
        "kind": KERNEL,
        "tool": TOOL,
        "title": f"{profiled.trace.header.kernel} on {gpu.name}",
        "model": model,
        "predictions": documents,
        "references": references(documents, measured),
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
    from warpsight.models.registry import get_model

    model = get_model(name)
    return {"title": model.title, "source": model.source, **asdict(model.about)}


def result_dossier(documents: list[dict[str, Any]]) -> dict[str, Any]:
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
        "kind": KERNEL,
        "tool": TOOL,
        "title": f"{first['kernel']} on {first['gpu']}",
        "model": first["model"],
        "predictions": documents,
        "references": references(documents),
    }
