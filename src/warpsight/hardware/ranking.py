"""GPUs ranked by how fast they run kernels: predicted time, speedup and bottleneck."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from warpsight.base.errors import WarpsightError
from warpsight.base.progress import Watch
from warpsight.gpu.spec import GpuSpec
from warpsight.hardware.comparison import told_apart, with_speedups
from warpsight.hardware.launch_matching import Part, launches_apart
from warpsight.pipeline.evaluate import known_models, predict_trace
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method
from warpsight.pipeline.tracing import obtain_trace


def rank_gpus(
    requests: Sequence[KernelRequest], gpus: Sequence[GpuSpec], model: str = DEFAULT_MODEL, method: Method = DEFAULT_METHOD, *,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """The document of every request on every GPU: `tool`, `model`, `gpus`, `launches` and `overall`.

    A launch has `label`, `kernel`, `grid`, `block` and its `rows`, the fastest GPU first: `gpu`, `code` (`sm_80` or `PTX`),
    `cycles`, `seconds`, `speedup` over the first of `gpus`, `bound_by`, `occupancy`, and `refused`, the reason where there is no
    prediction. `overall` has for each GPU the `speedup` as the geometric mean over the launches that it and the first GPU can run,
    and their number; it is empty for one launch.

    Raises the refusal of a launch that no GPU can run, and UsageError for an unknown model.
    """
    known_models([model])
    launches = [
        _ranked(part, label, gpus, model, method, watch)
        for label, request in told_apart(requests)
        for part in launches_apart(request, label)
    ]
    return {
        "tool": TOOL, "model": model, "gpus": [gpu.name for gpu in gpus], "launches": launches,
        "overall": _overall(launches, [gpu.name for gpu in gpus]) if len(launches) > 1 else [],
    }  # fmt: skip


def _ranked(
    part: Part, label: str, gpus: Sequence[GpuSpec], model: str, method: Method, watch: Watch | None
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    refusals: list[WarpsightError] = []
    launch: dict[str, Any] = {}
    for gpu in gpus:
        row: dict[str, Any] = {"gpu": gpu.name, "refused": ""}
        try:
            trace = obtain_trace(part.request, gpu=gpu, watch=watch)
            (prediction,) = predict_trace(trace, gpu, [model], method, watch=watch)
        except WarpsightError as error:
            refusals.append(error)
            rows.append({**row, "refused": error.what})
            continue
        header, document = trace.header, prediction.to_json()
        name = label or part.shown or header.kernel
        launch = {"label": name, "kernel": header.kernel, "grid": list(header.grid), "block": list(header.block)}
        row |= {name: document[name] for name in ("cycles", "seconds", "bound_by", "occupancy")}
        rows.append(row | {"code": header.target if header.level == "sass" else "PTX"})
    if len(refusals) == len(gpus):
        raise refusals[0]
    return {**launch, "rows": with_speedups(rows)}


def _overall(launches: Sequence[dict[str, Any]], gpus: Sequence[str]) -> list[dict[str, Any]]:
    """Speedups over all launches, the largest first."""
    found = []
    for gpu in gpus:
        known = [row["speedup"] for launch in launches for row in launch["rows"] if row["gpu"] == gpu and row["speedup"]]
        mean = math.exp(sum(map(math.log, known)) / len(known)) if known else None
        found.append({"gpu": gpu, "speedup": mean, "launches": len(known)})
    return sorted(found, key=lambda row: -(row["speedup"] or 0.0))
