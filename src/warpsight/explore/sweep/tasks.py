"""One piece of a study's work, in whichever process: a trace, rows of designs, a run of the referee. Results go to the store."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpsight.base.diskcache import content_key
from warpsight.base.errors import FormatError, WarpsightError
from warpsight.explore.request import KernelRequest, Method
from warpsight.explore.runs.fingerprint import PROFILE, REFEREE
from warpsight.explore.runs.store import NotKept, ResultStore, StoreAddress
from warpsight.explore.sweep.stages import cache_view, profile_view, view_hash

if TYPE_CHECKING:
    from warpsight.caches.miss_profile import MissProfile
    from warpsight.gpu.occupancy import Occupancy
    from warpsight.gpu.spec import GpuSpec
    from warpsight.profile.interval_profile import IntervalProfile
    from warpsight.trace.schema import KernelTrace

MISSES, ROWS = "misses", "rows"
PARQUET = ".parquet"
MOST_LOADED_BYTES = 1 << 28


@dataclass(frozen=True)
class TraceTask:
    """Record `request`, or convert it if it is another tool's trace; the trace is kept under `key`."""

    store: StoreAddress
    key: str
    request: KernelRequest = field(compare=False)


@dataclass(frozen=True)
class SharedWork:
    """Designs with one profile: the base GPU's `overrides`, the `method`, and the models' own numbers, float64 [count] by key."""

    overrides: tuple[str, ...]
    method: Method
    columns: dict[str, npt.NDArray[np.float64]]
    count: int


@dataclass(frozen=True)
class RowsTask:
    """Rows of `parts`, one kernel and all `models`, kept under `key`. `trace` is the key of the kernel's trace, in `folder`.

    `profile_print` is the fingerprint of the code that makes profiles, so that no two versions mix.
    """

    store: StoreAddress
    key: str
    trace: str
    folder: str
    gpu: GpuSpec = field(compare=False)
    parts: tuple[SharedWork, ...] = field(compare=False)
    models: tuple[str, ...] = field(compare=False)
    profile_print: str = field(compare=False)


@dataclass(frozen=True)
class RefereeTask:
    """Simulate one design, `gpu` with `overrides`; the answer is kept under `key`."""

    store: StoreAddress
    key: str
    folder: str
    gpu: GpuSpec = field(compare=False)
    overrides: tuple[str, ...] = field(compare=False)
    max_cycles: int | None = field(compare=False)


def run_trace(task: TraceTask) -> str:
    """Record a kernel, or convert the trace of another tool. Why that fails is its exception's to say (`runs/attempt.py`)."""
    from warpsight.explore.imported import convert
    from warpsight.explore.store import trace_into

    store = ResultStore.reopen(task.store)
    # what the kernel prints must not stand among anybody's answer
    request = replace(task.request, output=sys.stderr)
    store.make_folder(task.key, lambda place: convert(request, place) if request.is_foreign else trace_into(request, place))
    return ""


def run_rows(task: RowsTask) -> str:
    """Profile and evaluate. What is refused is a row with its reason; of a damaged trace the reason is returned."""
    from warpsight.explore.sweep.evaluate import failed_rows, joined, model_rows
    from warpsight.explore.sweep.part_files import part_bytes

    store = ResultStore.reopen(task.store)
    found = []
    try:
        for work in task.parts:
            try:
                gpu = design_gpu(task.gpu, work.overrides)
                profile = shared_profile(store, task, gpu, work.method)
            except (NotKept, FormatError):
                raise
            except WarpsightError as error:
                found += [failed_rows(str(error), work.count, model) for model in task.models]
                continue
            found += [model_rows(profile, gpu, work.columns, work.count, model) for model in task.models]
    except FormatError as error:
        return _forgotten(store, task.folder, error)
    store.put_bytes(ROWS, task.key, part_bytes(joined(found)), PARQUET)
    return ""


def run_referee(task: RefereeTask) -> str:
    """Simulate. A refusal is kept as a result too; of a damaged trace the reason is returned."""
    from warpsight.explore.referee import simulate_trace

    store = ResultStore.reopen(task.store)
    started = perf_counter()
    try:
        gpu = design_gpu(task.gpu, task.overrides)
        answer = simulate_trace(opened(task.folder), gpu, max_cycles=task.max_cycles)
        found = {**answer.prediction.to_json(), "provenance": None, "simulation_seconds": perf_counter() - started}
    except FormatError as error:
        return _forgotten(store, task.folder, error)
    except WarpsightError as error:
        found = {"failed": str(error)}
    store.put(REFEREE, task.key, found)
    return ""


def _forgotten(store: ResultStore, folder: str, error: FormatError) -> str:
    """A trace that is damaged is the fault of no design, and no result. Of the store's own the next run makes a new one."""
    if store.folder_of(Path(folder).name) != Path(folder):
        return str(error)
    opened.cache_clear()
    loaded.cache_clear()
    shutil.rmtree(folder, ignore_errors=True)
    return f"{error.place}: {error.what}; it is forgotten, and `warpsight sweep resume` records it again"


def design_gpu(base: GpuSpec, overrides: tuple[str, ...]) -> GpuSpec:
    """`base` with `overrides`. Raises SpecError for a design that does not fit together."""
    from warpsight.gpu.loader import load_gpu

    return load_gpu(base, overrides)


@lru_cache(maxsize=4)
def opened(folder: str) -> KernelTrace:
    """The trace in `folder`."""
    from warpsight.trace.store import open_trace

    return open_trace(folder)


@lru_cache(maxsize=2)
def loaded(folder: str) -> KernelTrace:
    """The trace in `folder`, its chunks in memory if they are not many: a profile goes over them four times, for each design."""
    from warpsight.trace.schema import InMemory

    trace, chunks, size = opened(folder), [], 0
    for chunk in trace.chunks:
        size += chunk.path.nbytes + chunk.events.nbytes + chunk.sectors.nbytes
        size += chunk.event_offset.nbytes + chunk.sector_offset.nbytes
        if size > MOST_LOADED_BYTES:
            return trace
        chunks.append(chunk)
    return replace(trace, chunks=InMemory(chunks))


def shared_profile(store: ResultStore, task: RowsTask, gpu: GpuSpec, method: Method) -> IntervalProfile:
    """The interval profile of the task's trace on `gpu`, from the store or made and kept. Raises as `profile_trace`."""
    from warpsight.explore.pipeline import trace_occupancy
    from warpsight.profile.build import build_profile
    from warpsight.profile.interchange import profile_document, profile_from_document

    counts = need_counts(task.models)
    key = profile_key(task.trace, gpu, method, task.profile_print, counts)
    kept = store.get(PROFILE, key)
    if kept is not None:
        return profile_from_document(kept, origin=key)
    trace = loaded(task.folder)
    resident = trace_occupancy(trace, gpu)
    misses = _shared_misses(store, task, trace, gpu, resident, method)
    profile = build_profile(trace, misses, gpu, resident, representative=method.representative, counts=counts)
    store.put(PROFILE, key, profile_document(profile))
    return profile


def need_counts(models: Sequence[str]) -> bool:
    """Whether one of the models asks for counts of instructions, which are a tenth of a profile's cost."""
    from warpsight.models.registry import get_model

    return any("counts" in get_model(model).needs for model in models)


def profile_key(trace: str, gpu: GpuSpec, method: Method, code: str, counts: bool) -> str:
    """The key of the interval profile of the trace called `trace`; `code` is the fingerprint of what makes it."""
    return content_key(PROFILE, trace, view_hash(profile_view(gpu)), *map(str, asdict(method).values()), code, str(counts))


def misses_key(trace: str, gpu: GpuSpec, blocks_per_sm: int, method: Method, code: str) -> str:
    """The key of the trace's cache misses with so many resident blocks."""
    how = asdict(replace(method, representative=""))
    return content_key(MISSES, trace, view_hash(cache_view(gpu)), str(blocks_per_sm), *map(str, how.values()), code)


def _shared_misses(
    store: ResultStore, task: RowsTask, trace: KernelTrace, gpu: GpuSpec, resident: Occupancy, method: Method
) -> MissProfile:
    from warpsight.caches.miss_profile import MissProfile
    from warpsight.explore.pipeline import miss_profile

    key = misses_key(task.trace, gpu, resident.blocks_per_sm, method, task.profile_print)
    kept = store.get(MISSES, key)
    if kept is not None:
        return MissProfile.of_document(kept)
    found = miss_profile(trace, gpu, resident.blocks_per_sm, method, None)
    store.put(MISSES, key, found.document())
    return found
