"""Reports of Nsight Compute (`.ncu-rep`), read with NVIDIA's own package `ncu-report`, which needs no GPU and no CUDA toolkit."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpsight.base.errors import FormatError, UsageError
from warpsight.hardware.measurements.launch import MeasuredLaunch, Measurements, above_one
from warpsight.hardware.measurements.metrics import Cell, Notation, is_used, measured

TOOL = "ncu"
_MAGIC = b"NVR\0"
_AGAIN = "write it again with `ncu --export`, or use `ncu --import FILE --csv`"


def is_report(data: bytes) -> bool:
    """Whether a file with this beginning is a report of Nsight Compute."""
    return data.startswith(_MAGIC)


def report_documents(path: str) -> list[dict[str, Any]]:
    """The kernels of a report, each as a document of `analysis.nsight.documents`, with all metrics that it has.

    Raises UsageError where the file or the package is not there, FormatError for a file that is no report or has no kernel.
    """
    documents = [_document(action, path) for action in _kernels(path)]
    if not documents:
        raise FormatError("is not a report of Nsight Compute, or has no kernel", place=path, remedy=_AGAIN)
    return documents


def read_report(path: str) -> Measurements:
    """The launches of a report, as those of a CSV file. Raises as `report_documents`."""
    launches = []
    for number, document in enumerate(report_documents(path)):
        place = f"{path}, launch {number}"
        cells = [
            Cell(name, metric["unit"], repr(metric["value"]), place)
            for name, metric in document["metrics"].items() if is_used(name) and not isinstance(metric["value"], str)
        ]  # fmt: skip
        measures, stalls, absent = measured(cells, Notation("."), once=True)
        launches.append(MeasuredLaunch(
            number=str(number), kernel=document["kernel"], device=document["device"], grid=tuple(document["grid"]),
            block=tuple(document["block"]), invocations=1, measures=measures, stalls=stalls, absent=absent, place=place,
        ))
    return Measurements(TOOL, path, tuple(launches), tuple(above_one(launches)))


def _kernels(path: str) -> Iterator[Any]:
    if not Path(path).is_file():
        raise UsageError("does not exist, or is not a file", place=path, remedy="name a report that `ncu --export` wrote")
    try:
        load = importlib.import_module("ncu_report").load_report
    except ImportError:
        remedy = "`python -m pip install ncu-report`, or write CSV with `ncu --import FILE --csv`"
        raise UsageError("NVIDIA's package ncu-report, which reads it, is not installed", place=path, remedy=remedy) from None
    try:
        report = load(path)
    except (OSError, RuntimeError, ValueError) as error:
        raise FormatError(f"cannot be read: {error}", place=path, remedy=_AGAIN) from None
    for range_number in range(report.num_ranges()):
        profiled = report.range_by_idx(range_number)
        yield from (profiled.action_by_idx(number) for number in range(profiled.num_actions()))


def _document(action: Any, path: str) -> dict[str, Any]:
    metrics: dict[str, dict[str, Any]] = {}
    for name in sorted(action.metric_names()):
        metric = action.metric_by_name(name)
        value = metric.value() if metric is not None else None
        metrics[name] = {"value": value if isinstance(value, (int, float, str)) else None, "unit": metric.unit() if metric else ""}

    def number(name: str) -> int:
        value = metrics.get(name, {}).get("value")
        if not isinstance(value, (int, float)):
            raise FormatError(f"has no {name} of {action.name()}", place=path, remedy=_AGAIN)
        return int(value)

    capability = ".".join(str(number(f"device__attribute_compute_capability_{part}")) for part in ("major", "minor"))
    return {
        "tool": "Nsight Compute", "process": Path(path).name, "kernel": action.name(action.NameBase_DEMANGLED),
        "grid": [number(f"launch__grid_dim_{axis}") for axis in "xyz"],
        "block": [number(f"launch__block_dim_{axis}") for axis in "xyz"],
        "device": str(metrics.get("device__attribute_display_name", {}).get("value") or ""), "compute_capability": capability,
        "metrics": metrics,
    }  # fmt: skip
