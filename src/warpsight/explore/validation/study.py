"""A study: the points that figures need, from the results folder where they are there, else computed and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsight.explore.runs.executor import Executor, make_executor
from warpsight.explore.runs.fingerprint import TRACE
from warpsight.explore.runs.store import ResultStore, default_folder
from warpsight.explore.validation.compute import (
    PointTask,
    TraceTask,
    point_key,
    run_point,
    run_trace,
    trace_key,
)
from warpsight.explore.validation.points import Cast, Point
from warpsight.explore.validation.results import Results
from warpsight.explore.watch import Watch, stage


def run_study(
    cast: Cast,
    points: Sequence[Point],
    *,
    results: str | Path | None = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
) -> Results:
    """Everything that `points` ask for. What fails is in `Results.reasons`; what is kept already is not computed again.

    `results` is the folder (None: in the user's cache), `executor` who computes (None: this process, one after the other). Raises
    UsageError when the folder cannot be written, and what the executor raises.
    """
    store = ResultStore(results if results is not None else default_folder("validation"), option="--results")
    executor = executor or make_executor("inline")
    wanted = list(dict.fromkeys(points))
    traces, no_trace = _traces(store, cast, {point.kernel for point in wanted}, executor, watch)
    reasons = {point: no_trace[point.kernel] for point in wanted if point.kernel in no_trace}
    keys = {point: point_key(point, traces[point.kernel]) for point in wanted if point.kernel in traces}
    documents = {point: store.get(point.what, key) for point, key in keys.items()}
    tasks = [
        PointTask(store.address, keys[point], traces[point.kernel]["folder"], point)
        for point, document in documents.items()
        if document is None
    ]
    if tasks:
        failed = executor.run(run_point, tasks, stage(watch, "simulating and profiling"))
        reasons |= {task.point: reason for task, reason in failed.items()}
        documents |= {task.point: store.get(task.point.what, task.key) for task in tasks if task not in failed}
    found = {point: document for point, document in documents.items() if document is not None and "failed" not in document}
    reasons |= {point: document["failed"] for point, document in documents.items() if document and "failed" in document}
    for point, document in documents.items():
        if document is None and point not in reasons:
            reasons[point] = "its result could not be read back from the results folder"
    return Results(found, traces, reasons)


def _traces(
    store: ResultStore, cast: Cast, names: set[str], executor: Executor, watch: Watch | None
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What is known of the traces of the kernels `names`, recorded where they are missing; and why some have none."""
    keys = {member.name: trace_key(member.path) for member in cast.members if member.name in names}
    paths = {member.name: member.path for member in cast.members}
    tasks = {
        name: TraceTask(store.address, key, paths[name])
        for name, key in keys.items()
        if store.get(TRACE, key) is None or not store.folder_of(key).is_dir()
    }
    failed: dict[TraceTask, str] = {}
    if tasks:
        failed = executor.run(run_trace, list(tasks.values()), stage(watch, "running the kernels"))
    reasons = {name: failed[task] for name, task in tasks.items() if task in failed}
    known: dict[str, dict[str, Any]] = {}
    for name, key in keys.items():
        document = store.get(TRACE, key)
        if document is not None and name not in reasons:
            known[name] = {**document, "folder": str(store.folder_of(key))}
    reasons |= {name: "its trace could not be read back" for name in keys if name not in known and name not in reasons}
    return known, reasons
