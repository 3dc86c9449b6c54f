"""One task of a study, in whichever process: a trace, rows of designs, a run of the simulator. Results go to the store."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.diskcache import content_key
from warpsight.base.errors import FormatError, WarpsightError
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.document import flatten, value_text
from warpsight.gpu.keys import KEYS, ORDER
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import Occupancy
from warpsight.gpu.spec import GpuSpec, ordered
from warpsight.intervals.build import build_profile
from warpsight.intervals.interchange import profile_document, profile_from_document
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.jobs.store import NotKept, ResultStore, StoreAddress
from warpsight.models.base import STACK_PREFIX, Design, Model, components_of, evaluate, get_model, require
from warpsight.pipeline.files import trace_into
from warpsight.pipeline.predict import convert_launches, miss_profile, trace_occupancy
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.pipeline.simulation import simulate_trace
from warpsight.result.prediction import bound_by_rows, memory_class
from warpsight.sweeps.files import part_bytes
from warpsight.sweeps.names import NUMBERS, number_columns
from warpsight.traces.schema import InMemory, KernelTrace
from warpsight.traces.store import open_trace

# Keys that enter the models' equations alone, unless the order of accesses follows them, and the array of `Design` that they are.
MODEL_ONLY: dict[str, str] = {
    "core_clock": "core_clock_hz",
    "l1.mshrs": "mshrs",
    "noc.bandwidth": "noc_bytes_per_s",
    "noc.queue": "noc_queue",
    "dram.bandwidth": "dram_bytes_per_s",
    "dvfs.target_clock": "target_clock_hz",
    "mwp.memory_latency": "mwp_memory_latency_cycles",
    "mwp.departure_coalesced": "mwp_departure_coalesced_cycles",
    "mwp.departure_uncoalesced": "mwp_departure_uncoalesced_cycles",
    "mwp.issue_cycles": "mwp_issue_cycles",
}
# Keys that the simulator alone reads.
SIMULATOR_ONLY = frozenset({
    "sm.fetch_width", "l1.miss_queue", "noc.flit", "noc.buffer", "dram.queue", "dram.row", "dram.banks",
    "dram.activate", "dram.precharge", "dram.turnaround",
})  # fmt: skip
# Keys that come in after the caches: latencies of what they found, and what decides residency, which they are given.
_AFTER_CACHES = frozenset({
    *(key for key in KEYS if key.startswith("initiation.")), "mwp.coalescing", "l1.allocation",
    "sm.max_warps", "sm.max_blocks", "sm.registers", "sm.shared_memory", "sm.max_threads_per_block", "sm.max_registers_per_thread",
    "sm.register_unit", "sm.shared_memory_unit", "sm.max_shared_memory_per_block", "sm.shared_memory_reserved",
})  # fmt: skip
# Keys of which the caches see the order's value, and the profile the design's own.
_LATENCIES = ("l1.latency", "l2.latency", "dram.latency")


def model_only(base: GpuSpec, columns: Mapping[str, npt.NDArray[Any]]) -> frozenset[str]:
    """Those of `MODEL_ONLY` that on none of the designs (`columns` by key, each [D]) around `base` enter an earlier step.

    The caches see a design's own clock, bandwidths and MSHRs where the order of accesses follows them (`order.core_clock` is 0).
    """
    described = flatten(base)
    following = {
        followed for name, followed in ORDER.items()
        if ((columns[name] == 0).any() if name in columns else described[name] == 0)
    }  # fmt: skip
    return frozenset(MODEL_ONLY.keys() - following)


def cache_view(gpu: GpuSpec) -> dict[str, str]:
    """The values that decide what the caches make of a trace, besides the blocks that are resident, as a file writes them."""
    return {name: text for name, text in _ordered_view(gpu).items() if name not in _AFTER_CACHES}


def profile_view(gpu: GpuSpec) -> dict[str, str]:
    """The values that decide the interval profile."""
    own = flatten(gpu)
    return _ordered_view(gpu) | {f"own {name}": value_text(name, own[name]) for name in _LATENCIES}


def _ordered_view(gpu: GpuSpec) -> dict[str, str]:
    # a design's own clock, bandwidths and MSHRs are not seen once its order's stand in their place
    skipped = SIMULATOR_ONLY | ORDER.keys() | (MODEL_ONLY.keys() - ORDER.values())
    return {name: value_text(name, content) for name, content in flatten(ordered(gpu)).items() if name not in skipped}


def view_hash(view: dict[str, Any]) -> str:
    """SHA-256 (64 hexadecimal digits) of such values."""
    return hashlib.sha256(json.dumps(view, sort_keys=True).encode()).hexdigest()


# -- From an interval profile and the models' own numbers of many designs to rows of results.

Columns = Mapping[str, npt.NDArray[np.float64]]


def designs_of(gpu: GpuSpec, columns: Columns, count: int) -> Design:
    """`count` design points: `gpu` with its model-only keys replaced by `columns`, float64 [count] in base units by key."""
    changes: dict[str, npt.NDArray[np.float64]] = {}
    for key, values in columns.items():
        # no bound, as the description says it, is infinitely many places
        changes[MODEL_ONLY[key]] = np.where(values == 0, np.inf, values) if key == "noc.queue" else values
    return Design.of(gpu).varied(**changes, sm_count=np.full(count, float(gpu.sm_count)))


def model_rows(
    profile: IntervalProfile, gpu: GpuSpec, columns: Columns, count: int, model: str, numbers: Sequence[str] = NUMBERS
) -> dict[str, Any]:
    """The columns of `rows` for `count` designs and one model: arrays or lists [count]. A refusal is the reason in `failed`.

    `numbers` are the columns of numbers of all models that the rows are put together with (`number_columns`). A model that refuses one design refuses all that it is asked of at once; the others are asked again without it.
    """
    try:
        chosen = get_model(model)
        require(chosen, profile)
    except WarpsightError as error:
        return failed_rows(str(error), count, model, numbers)
    return joined(list(_evaluated(profile, chosen, model, designs_of(gpu, columns, count), gpu.sm.max_warps, numbers)))


def _evaluated(
    profile: IntervalProfile, model: Model, name: str, designs: Design, max_warps: int, numbers: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Rows, of the model called `name`, in the order of the designs. Halves are tried until what is refused stands alone."""
    count = len(designs)
    try:
        found = evaluate(model, profile, designs)
    except WarpsightError as error:
        if count == 1:
            yield failed_rows(str(error), 1, name, numbers)
            return
        for half in (slice(None, count // 2), slice(count // 2, None)):
            yield from _evaluated(profile, model, name, designs.pick(half), max_warps, numbers)
        return
    launch, components = profile.launch, components_of(model)
    stacks = {component: found[f"{STACK_PREFIX}{component}"] for component in components}
    yield {
        "model": [name] * count,
        **{number: found.get(number, np.zeros(count)) for number in numbers},
        "warp_instructions": np.full(count, profile.total_warp_instructions, dtype=np.int64),
        "dpki": np.full(count, np.nan if profile.dpki is None else profile.dpki),
        "occupancy": np.full(count, launch.occupancy if launch else profile.warps_per_sm / max_warps),
        "bound_by": bound_by_rows(stacks, components),
        "class": [memory_class(profile.dpki)] * count,
        "occupancy_limiter": [launch.limiter if launch else ""] * count,
        "failed": [""] * count,
    }


def failed_rows(reason: str, count: int, model: str, numbers: Sequence[str] = NUMBERS) -> dict[str, Any]:
    """Rows without numbers, each with the reason."""
    return {
        "model": [model] * count,
        **{name: np.full(count, np.nan) for name in (*numbers, "dpki", "occupancy")},
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
    found, numbers = [], number_columns(task.models)
    try:
        for work in task.parts:
            try:
                gpu = design_gpu(task.gpu, work.overrides)
                profile = shared_profile(store, task, gpu, work.method)
            except (NotKept, FormatError):
                raise
            except WarpsightError as error:
                found += [failed_rows(str(error), work.count, model, numbers) for model in task.models]
                continue
            found += [model_rows(profile, gpu, work.columns, work.count, model, numbers) for model in task.models]
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
    return content_key(PROFILE, trace, view_hash(profile_view(gpu)), *map(str, asdict(method).values()), code, str(counts))


def misses_key(trace: str, gpu: GpuSpec, blocks_per_sm: int, method: Method, code: str) -> str:
    """The key of the trace's cache misses with so many resident blocks."""
    how = asdict(replace(method, representative=""))
    return content_key(MISSES, trace, view_hash(cache_view(gpu)), str(blocks_per_sm), *map(str, how.values()), code)


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
