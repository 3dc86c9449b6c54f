"""Predictions as CSV: one row each, the CPI stack spread over columns."""

from __future__ import annotations

import csv
import io
from typing import Any

_FLAT = (
    "kernel", "gpu", "model", "cycles", "seconds", "warp_instructions", "ipc_sm_warp", "ipc_gpu_warp", "ipc_gpu_thread", "cpi",
    "bound_by", "dpki", "class", "occupancy", "occupancy_limiter",
)  # fmt: skip


def predictions_csv(documents: list[dict[str, Any]]) -> str:
    """A header and one row per prediction; `cpi_stack.NAME` columns as the documents have them. Unknown values are empty.

    What `provenance.varied` names comes first.
    """
    labels = dict.fromkeys(name for document in documents for name in document["provenance"].get("varied", ()))
    varied = [name for name in labels if name not in _FLAT]
    stack = list(dict.fromkeys(name for document in documents for name in document["cpi_stack"]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*varied, *_FLAT, *(f"cpi_stack.{name}" for name in stack)])
    for document in documents:
        row = [document["provenance"].get("varied", {}).get(key) for key in varied]
        row += [document[key] for key in _FLAT] + [document["cpi_stack"].get(name) for name in stack]
        writer.writerow(["" if value is None else value for value in row])
    return out.getvalue().rstrip("\n")
