"""The dossier of one launch on one GPU: predictions, resources, code and everything else that its report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import WarpsightError
from warpsight.explore.dossier.code import code_views
from warpsight.explore.dossier.loads import loads
from warpsight.explore.dossier.reference import held_against, refereed, references
from warpsight.explore.dossier.resources import alone, speed_of_light
from warpsight.explore.dossier.roofline import rooflines
from warpsight.explore.dossier.timeline import START, Window
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
    """Which parts that take time a dossier has: a run of the `referee`, and the grid of designs of `what_if`.

    Of the referee's run the `window` is shown, and all that is known of that SM goes into the file `perfetto`, if one is named.
    `against` is a file of measurements or reference cycles, as for `warpsight compare`.
    """

    referee: bool = False
    what_if: bool = True
    window: Window = START
    perfetto: str | None = None
    against: str | None = None


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
    """The document of `trace` on `gpu`: all parts are about `model`, the models `beside` it (None: all others) are compared.

    Its keys, those left out that cannot be: `schema`, `kind`, `tool`, `title`, `model`, `predictions` (prediction documents, the
    first of `model`), `refused` (models that cannot answer, and why), `models` (what is known about each), `speed_of_light`,
    `alone`, `rooflines`, `code` (explanation documents by PTX line and, where there are any, by source line: `code_views`), `loads`
    and `loads_about` (what each memory instruction does: `loads.loads`), `references` (`reference.references`). With the referee,
    whose prediction is then the second, `timeline` (`timeline.timeline_part`).
    `request` is what `trace` was made of, to run it again for the addresses of lanes.
    Raises UsageError for an unknown model or if a block does not fit an SM, and what `model` raises where it cannot answer.
    """
    from warpsight.models.registry import model_names

    others = [name for name in model_names() if name != model] if beside is None else list(beside)
    known_models([model, *others])
    measured = held_against(parts.against, gpu, trace) if parts.against else None
    profiled = profile_trace(trace, gpu, method, watch=watch)
    predictions, refused = _predictions(profiled, gpu, model, others)
    about = {prediction.model: _about(prediction.model) for prediction in predictions}
    simulated: dict[str, Any] = {}
    if parts.referee:
        answer, simulated["timeline"] = refereed(trace, gpu, profiled.occupancy, parts.window, parts.perfetto, watch)
        predictions.insert(1, answer)
    documents = [_beside_first(prediction.to_json(), number) for number, prediction in enumerate(predictions)]
    return {
        "schema": SCHEMA,
        "kind": KERNEL,
        "tool": TOOL,
        "title": f"{trace.header.kernel} on {gpu.name}",
        "model": model,
        "predictions": documents,
        "references": references(documents, measured),
        "refused": refused,
        "models": about,
        "speed_of_light": speed_of_light(profiled, gpu, predictions[0]),
        "alone": alone(profiled, gpu),
        "rooflines": rooflines(profiled, gpu, predictions[0]),
        "code": code_views(profiled, gpu, model),
        **loads(profiled, gpu, request, watch),
        **simulated,
    }


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

    The documents are of one kernel on one GPU; the first one's model is the one that the report is about.
    """
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
