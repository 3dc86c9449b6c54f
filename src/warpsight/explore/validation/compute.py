"""One computation of a study, in whichever process: a trace, a simulation, a profile. Results go to the store at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from warpsight.base.diskcache import content_key
from warpsight.base.errors import LimitError, WarpsightError
from warpsight.explore.runs.fingerprint import REFEREE, TRACE, files_hash, fingerprint
from warpsight.explore.runs.store import ResultStore, StoreAddress
from warpsight.explore.validation.points import Point

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec
    from warpsight.trace.schema import KernelTrace

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
    from warpsight.gpu.describe import spec_hash

    hashes = (trace["kernel_hash"], trace["input_hash"], str(trace["sampled_blocks"]), spec_hash(point.variant.spec()))
    method = "" if point.what == REFEREE else point.representative
    return content_key(point.what, str(SCHEMA), *hashes, method, fingerprint(point.what))


def run_trace(task: TraceTask) -> str:
    """Record a kernel and keep what a study needs to know of the trace. Its exception says why that fails (`runs/attempt.py`)."""
    from warpsight.explore.request import KernelRequest
    from warpsight.explore.store import trace_into
    from warpsight.trace.store import open_trace

    store, started = ResultStore.reopen(task.store), perf_counter()
    folder = store.make_folder(task.key, lambda place: trace_into(KernelRequest(path=task.path), place))
    seconds = perf_counter() - started
    trace = open_trace(folder)
    header = trace.header
    store.put(
        TRACE,
        task.key,
        {
            "kernel_hash": header.kernel_hash,
            "input_hash": header.input_hash,
            "sampled_blocks": header.sampled_blocks,
            "warp_instructions": header.warp_instructions,
            "active_share": header.thread_instructions / (32 * header.warp_instructions) if header.warp_instructions else 1.0,
            "paths": len(trace.paths),
            "blocks": header.blocks,
            "warps_per_block": header.warps_per_block,
            "trace_seconds": seconds,
        },
    )
    return ""


def run_point(task: PointTask) -> str:
    """Compute a point and keep it. A refusal (`WarpsightError`) is a result; other exceptions are reasons (`runs/attempt.py`)."""
    store = ResultStore.reopen(task.store)
    try:
        trace = _opened(task.folder)
        gpu = task.point.variant.spec()
        _warm_up(task.point.what, trace, gpu)
        found = _simulate(trace, gpu) if task.point.what == REFEREE else _profile(trace, gpu, task.point.representative)
    except WarpsightError as error:
        found = {"failed": str(error)}
    store.put(task.point.what, task.key, found)
    return ""


@lru_cache(maxsize=2)
def _opened(folder: str) -> KernelTrace:
    from warpsight.trace.store import open_trace

    return open_trace(folder)


def _warm_up(what: str, trace: KernelTrace, gpu: GpuSpec) -> None:
    """Loads or compiles the engine once in a process, so that no point's time holds it."""
    if what in _WARM:
        return
    _WARM.add(what)
    if what == REFEREE:
        from warpsight.explore.referee import simulate_trace

        try:
            simulate_trace(trace, gpu, max_cycles=1)
        except LimitError:
            return
    else:
        _profile(trace, gpu, "kmeans")


def _simulate(trace: KernelTrace, gpu: GpuSpec) -> dict[str, Any]:
    from warpsight.explore.pipeline import trace_occupancy
    from warpsight.explore.referee import simulate_trace

    resident = trace_occupancy(trace, gpu)
    started = perf_counter()
    answer = simulate_trace(trace, gpu, resident=resident).prediction
    seconds = perf_counter() - started
    details = answer.provenance["model"]
    kept = ("l1_miss_latency", "l1_read_hit_rate", "l2_read_hit_rate", "counts")
    numbers = ("cycles", "seconds", "warp_instructions", "ipc_gpu_warp", "cpi", "cpi_stack", "dpki", "bound_by")
    return {
        **{name: getattr(answer, name) for name in numbers},
        "class": answer.memory_class,
        "warps_per_sm": resident.warps_per_sm,
        **{name: details[name] for name in kept},
        "simulation_seconds": seconds,
    }


def _profile(trace: KernelTrace, gpu: GpuSpec, representative: str) -> dict[str, Any]:
    from warpsight.explore.pipeline import profile_trace
    from warpsight.explore.request import Method
    from warpsight.models.registry import get_model
    from warpsight.profile.interchange import profile_document

    started = perf_counter()
    profiled = profile_trace(trace, gpu, Method(representative=representative))
    seconds = perf_counter() - started
    started = perf_counter()
    get_model("mdm").predict(profiled.profile, gpu)
    model_seconds = perf_counter() - started
    return {"profile": profile_document(profiled.profile), "profile_seconds": seconds, "mdm_seconds": model_seconds}
