"""A study: the points that figures need, from the results folder where they are there, else computed and kept.

A point (a simulation or a profile) is computed in whichever process the executor chooses, and kept at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

from warpsight.base.diskcache import content_key
from warpsight.base.errors import LimitError, WarpsightError
from warpsight.base.progress import Watch, stage
from warpsight.gpu.describe import spec_hash
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interchange import profile_document
from warpsight.jobs.executor import Executor, make_executor
from warpsight.jobs.fingerprint import SIMULATOR, TRACE, files_hash, fingerprint
from warpsight.jobs.store import ResultStore, StoreAddress, default_folder
from warpsight.models.base import get_model
from warpsight.papers.results import Cast, Point, Results
from warpsight.pipeline.evaluate import profile_trace
from warpsight.pipeline.files import trace_into
from warpsight.pipeline.request import COLD, KernelRequest, Method
from warpsight.pipeline.simulation import simulate_trace, simulation_document
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import open_trace

SCHEMA = 1  # of what is kept; part of every key
_WARM: set[str] = set()


@dataclass(frozen=True)
class TraceTask:
    """Record the kernel of the manifest `path`; the trace is kept under `key` in the results folder `store`."""

    store: StoreAddress
    key: str
    path: str


@dataclass(frozen=True)
class PointTask:
    """Compute `point` from the trace in `folder`; the result is kept under `key` in the results folder `store`."""

    store: StoreAddress
    key: str
    folder: str
    point: Point


def trace_key(path: str) -> str:
    """The key of the trace of the kernel of the manifest `path`: its folder's files, less the check, and the recording code."""
    return content_key(TRACE, str(SCHEMA), files_hash(Path(path).parent, without=("check.py",)), fingerprint(TRACE))


def point_key(point: Point, trace: dict[str, Any]) -> str:
    """The key of a result: kernel and inputs by the hashes in the trace's document, the resolved GPU, the computing code."""
    hashes = (trace["kernel_hash"], trace["input_hash"], str(trace["sampled_blocks"]), spec_hash(point.variant.spec()))
    method = "" if point.kind == SIMULATOR else point.representative
    return content_key(point.kind, str(SCHEMA), *hashes, method, fingerprint(point.kind))


def run_trace(task: TraceTask) -> str:
    """Record a kernel and keep what a study needs to know of the trace. Its exception says why that fails (`runs/attempt.py`)."""
    store, started = ResultStore.reopen(task.store), perf_counter()
    folder = store.make_folder(task.key, lambda place: trace_into(KernelRequest(path=task.path), place))
    seconds = perf_counter() - started
    trace = open_trace(folder)
    header = trace.header
    copied = ("kernel_hash", "input_hash", "sampled_blocks", "warp_instructions", "blocks", "warps_per_block")
    document = {name: getattr(header, name) for name in copied} | {
        "active_share": header.thread_instructions / (32 * header.warp_instructions) if header.warp_instructions else 1.0,
        "paths": len(trace.paths), "trace_seconds": seconds,
    }  # fmt: skip
    store.put(TRACE, task.key, document)
    return ""


def run_point(task: PointTask) -> str:
    """Compute a point and keep it. A refusal (`WarpsightError`) is a result; other exceptions are reasons (`runs/attempt.py`)."""
    store, point = ResultStore.reopen(task.store), task.point
    try:
        trace = _opened(task.folder)
        gpu = point.variant.spec()
        _warm_up(point.kind, trace, gpu)
        if point.kind == SIMULATOR:
            document = simulation_document(trace, gpu, caches_before=COLD)
        else:
            document = _profile(trace, gpu, point.representative)
    except WarpsightError as error:
        document = {"failed": str(error)}
    store.put(point.kind, task.key, document)
    return ""


@lru_cache(maxsize=2)
def _opened(folder: str) -> KernelTrace:
    return open_trace(folder)


def _warm_up(kind: str, trace: KernelTrace, gpu: GpuSpec) -> None:
    """Loads or compiles the engine once in a process, so that no point's time holds it."""
    if kind in _WARM:
        return
    _WARM.add(kind)
    if kind == SIMULATOR:
        with suppress(LimitError):
            simulate_trace(trace, gpu, max_cycles=1, caches_before=COLD)
    else:
        _profile(trace, gpu, "kmeans")


def _profile(trace: KernelTrace, gpu: GpuSpec, representative: str) -> dict[str, Any]:
    started = perf_counter()
    profiled = profile_trace(trace, gpu, Method(representative=representative, caches_before=COLD))
    seconds = perf_counter() - started
    started = perf_counter()
    get_model("mdm").predict(profiled.profile, gpu)
    model_seconds = perf_counter() - started
    return {"profile": profile_document(profiled.profile), "profile_seconds": seconds, "mdm_seconds": model_seconds}


def run_study(
    cast: Cast, points: Sequence[Point], *, results: str | Path | None = None, executor: Executor | None = None,
    watch: Watch | None = None,
) -> Results:
    """Everything that `points` ask for. What fails is in `Results.reasons`; what is kept already is not computed again.

    `results` is the folder (None: in the user's cache), `executor` who computes (None: this process, one after the other). Raises
    UsageError when the folder cannot be written, and what the executor raises.
    """
    store = ResultStore(results if results is not None else default_folder("validation"))
    executor = executor or make_executor("inline")
    unique = list(dict.fromkeys(points))
    traces, no_trace = _traces(store, cast, {point.kernel for point in unique}, executor, watch)
    reasons = {point: no_trace[point.kernel] for point in unique if point.kernel in no_trace}
    keys = {point: point_key(point, traces[point.kernel]) for point in unique if point.kernel in traces}
    documents = {point: store.get(point.kind, key) for point, key in keys.items()}
    tasks = [
        PointTask(store.address, keys[point], traces[point.kernel]["folder"], point)
        for point, document in documents.items()
        if document is None
    ]
    if tasks:
        failed = executor.run(run_point, tasks, stage(watch, "simulating and profiling"))
        reasons |= {task.point: reason for task, reason in failed.items()}
        documents |= {task.point: store.get(task.point.kind, task.key) for task in tasks if task not in failed}
    for point, document in documents.items():
        if document is None:
            reasons.setdefault(point, "its result could not be read back from the results folder")
        elif "failed" in document:
            reasons[point] = document["failed"]
    return Results({point: document for point, document in documents.items() if document and point not in reasons}, traces, reasons)


def _traces(
    store: ResultStore, cast: Cast, names: set[str], executor: Executor, watch: Watch | None
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What is known of the traces of the kernels `names`, recorded where they are missing; and why some have none."""
    paths = {member.name: member.path for member in cast.members if member.name in names}
    keys = {name: trace_key(path) for name, path in paths.items()}
    tasks = {
        name: TraceTask(store.address, key, paths[name])
        for name, key in keys.items()
        if store.get(TRACE, key) is None or not store.has_folder(key)
    }
    failed = executor.run(run_trace, list(tasks.values()), stage(watch, "running the kernels")) if tasks else {}
    reasons = {name: failed[task] for name, task in tasks.items() if task in failed}
    traces: dict[str, dict[str, Any]] = {}
    for name, key in keys.items():
        if name not in reasons and (document := store.get(TRACE, key)) is not None:
            traces[name] = {**document, "folder": str(store.folder_of(key))}
        elif name not in reasons:
            reasons[name] = "its trace could not be read back"
    return traces, reasons
