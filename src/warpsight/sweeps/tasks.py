"""One task of a study, in whichever process: a trace, rows of designs, a run of the simulator. Results go to the store."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.diskcache import content_key
from warpsight.base.errors import FormatError, WarpsightError
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.design import Design
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import Occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.gpu.steps import BY_REFERENCE, cache_view, enters_models_alone, profile_view, view_hash
from warpsight.intervals.build import build_profile
from warpsight.intervals.interchange import profile_document, profile_from_document
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.jobs.store import NotKept, ResultStore, StoreAddress
from warpsight.models.base import Model, get_model, require
from warpsight.pipeline.files import trace_into
from warpsight.pipeline.predict import convert_launches, miss_profile, trace_occupancy
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.pipeline.simulation import simulate_trace
from warpsight.result.prediction import COMPONENTS, bound_by_rows, memory_class
from warpsight.sweeps.files import part_bytes
from warpsight.sweeps.names import NUMBERS, gpu_key
from warpsight.traces.schema import InMemory, KernelTrace
from warpsight.traces.store import open_trace


def model_only(method: Method, columns: Iterable[str]) -> frozenset[str]:
    """Those of the keys of `columns` in which designs with one interval profile may differ.

    Where accesses are ordered by the designs' own timing, the caches see their clock, bandwidths and MSHRs.
    """
    names = list(columns)
    own = method.order != BY_REFERENCE or "method.order" in names
    return frozenset(name for name in names if gpu_key(name) and enters_models_alone(name, ordered_by_own=own))


# -- From an interval profile and the models' own numbers of many designs to rows of results.

Columns = Mapping[str, npt.NDArray[np.float64]]


def designs_of(gpu: GpuSpec, columns: Columns, count: int) -> Design:
    """`count` design points: `gpu` with its model-only keys replaced by `columns`, float64 [count] in base units by key."""
    return Design.of(gpu).varied(columns, sm_count=np.full(count, float(gpu.sm_count)))


def model_rows(profile: IntervalProfile, gpu: GpuSpec, columns: Columns, count: int, model: str) -> dict[str, Any]:
    """The columns of `rows` for `count` designs and one model: arrays or lists [count]. A refusal is the reason in `failed`.

    A model that refuses one design refuses all that it is asked of at once; the others are asked again without it.
    """
    try:
        chosen = get_model(model)
        require(chosen, profile)
    except WarpsightError as error:
        return failed_rows(str(error), count, model)
    return joined(list(_evaluated(profile, chosen, model, designs_of(gpu, columns, count), gpu.sm.max_warps)))


def _evaluated(
    profile: IntervalProfile, model: Model, name: str, designs: Design, max_warps: int
) -> Iterator[dict[str, Any]]:
    """Rows, of the model called `name`, in the order of the designs. Halves are tried until what is refused stands alone."""
    count = len(designs)
    try:
        found = model.evaluate(profile, designs)
    except WarpsightError as error:
        if count == 1:
            yield failed_rows(str(error), 1, name)
            return
        for half in (slice(None, count // 2), slice(count // 2, None)):
            yield from _evaluated(profile, model, name, designs.pick(half), max_warps)
        return
    launch = profile.launch
    yield {
        "model": [name] * count,
        **{number: found[number] for number in NUMBERS},
        "warp_instructions": np.full(count, profile.total_warp_instructions, dtype=np.int64),
        "dpki": np.full(count, np.nan if profile.dpki is None else profile.dpki),
        "occupancy": np.full(count, launch.occupancy if launch else profile.warps_per_sm / max_warps),
        "bound_by": bound_by_rows(np.stack([found[f"cpi_stack.{part}"] for part in COMPONENTS])),
        "class": [memory_class(profile.dpki)] * count,
        "occupancy_limiter": [launch.limiter if launch else ""] * count,
        "failed": [""] * count,
    }


def failed_rows(reason: str, count: int, model: str) -> dict[str, Any]:
    """Rows without numbers, each with the reason."""
    return {
        "model": [model] * count,
        **{name: np.full(count, np.nan) for name in (*NUMBERS, "dpki", "occupancy")},
        "warp_instructions": np.zeros(count, dtype=np.int64),
        **{name: [""] * count for name in ("bound_by", "class", "occupancy_limiter")},
        "failed": [reason] * count,
    }


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows below each other."""
    return {
        name: np.concatenate([part[name] for part in parts])
        if isinstance(parts[0][name], np.ndarray)
        else [value for part in parts for value in part[name]]
        for name in parts[0]
    }


# -- One piece of a study's work, in whichever process: a trace, rows of designs, a run of the simulator. Results go to the store.

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
class SimulatorTask:
    """Simulate one design, `gpu` with `overrides`; the answer is kept under `key`."""

    store: StoreAddress
    key: str
    folder: str
    gpu: GpuSpec = field(compare=False)
    overrides: tuple[str, ...] = field(compare=False)
    max_cycles: int | None = field(compare=False)


def run_trace(task: TraceTask) -> str:
    """Record a kernel, or convert the trace of another tool. Why that fails is its exception's to say (`runs/attempt.py`)."""
    store = ResultStore.reopen(task.store)
    # what the kernel prints must not stand among anybody's answer
    request = replace(task.request, output=sys.stderr)
    store.make_folder(task.key, lambda place: convert_launches(request, place) if request.is_foreign else trace_into(request, place))
    return ""


def run_rows(task: RowsTask) -> str:
    """Profile and evaluate. What is refused is a row with its reason; of a damaged trace the reason is returned."""
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


def run_simulator(task: SimulatorTask) -> str:
    """Simulate. A refusal is kept as a result too; of a damaged trace the reason is returned."""
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
    store.put(SIMULATOR, task.key, found)
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
    return load_gpu(base, overrides)


@lru_cache(maxsize=4)
def opened(folder: str) -> KernelTrace:
    """The trace in `folder`."""
    return open_trace(folder)


@lru_cache(maxsize=2)
def loaded(folder: str) -> KernelTrace:
    """The trace in `folder`, its chunks in memory if they are not many: a profile goes over them four times, for each design."""
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
    return any("counts" in get_model(model).needs for model in models)


def profile_key(trace: str, gpu: GpuSpec, method: Method, code: str, counts: bool) -> str:
    """The key of the interval profile of the trace called `trace`; `code` is the fingerprint of what makes it."""
    return content_key(PROFILE, trace, view_hash(profile_view(gpu, method.order)), *_caches_by(method), method.representative, code, str(counts))


def misses_key(trace: str, gpu: GpuSpec, blocks_per_sm: int, method: Method, code: str) -> str:
    """The key of the trace's cache misses with so many resident blocks."""
    view = view_hash(cache_view(gpu, method.order))
    return content_key(MISSES, trace, view, str(blocks_per_sm), *_caches_by(method), code)


def _caches_by(method: Method) -> tuple[str, ...]:
    """How misses are found, without the order, whose timing is a part of the view."""
    return method.interleaving, method.caches


def _shared_misses(
    store: ResultStore, task: RowsTask, trace: KernelTrace, gpu: GpuSpec, resident: Occupancy, method: Method
) -> MissProfile:
    key = misses_key(task.trace, gpu, resident.blocks_per_sm, method, task.profile_print)
    kept = store.get(MISSES, key)
    if kept is not None:
        return MissProfile.of_document(kept)
    found = miss_profile(trace, gpu, resident.blocks_per_sm, method, None)
    store.put(MISSES, key, found.document())
    return found
