"""One task of a study, in whichever process: a trace, rows of designs, a run of the simulator. Results go to the store."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from warpsight.base.diskcache import content_key
from warpsight.base.errors import FormatError, WarpsightError
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interchange import profile_document, profile_from_document
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.jobs.fingerprint import SIMULATOR
from warpsight.jobs.store import ResultStore, StoreAddress
from warpsight.pipeline.evaluate import MISSES, Designs, Evaluation, Kind, evaluate
from warpsight.pipeline.files import trace_into
from warpsight.pipeline.request import DEFAULT_METHOD, KernelRequest, Method
from warpsight.pipeline.rows import Rows, joined
from warpsight.pipeline.sampling import NotSampled, Sampler, is_sampled
from warpsight.pipeline.simulation import simulation_document
from warpsight.pipeline.tracing import convert_launches, launch_of
from warpsight.sweeps.files import part_bytes
from warpsight.sweeps.names import HALF_WIDTH
from warpsight.traces.schema import InMemory, KernelTrace
from warpsight.traces.store import open_trace

ROWS = "rows"
PARQUET = ".parquet"
MOST_LOADED_BYTES = 1 << 28


@dataclass(frozen=True)
class TraceTask:
    """Record `request` for `gpu`, or convert it if it is another tool's trace; the trace is kept under `key`.

    Of a launch that predictions by `method` sample there is no trace; the key `sampled` (empty: none is) then says so.
    """

    store: StoreAddress
    key: str
    request: KernelRequest = field(compare=False)
    gpu: GpuSpec = field(compare=False)
    sampled: str = field(default="", compare=False)
    method: Method = field(default=DEFAULT_METHOD, compare=False)


@dataclass(frozen=True)
class RowsTask:
    """Rows of `designs`, one kernel and all `models`, kept under `key`. `trace` is the key of the kernel's trace, in `folder`.

    If the key `sampled` is kept, `request`, on GPUs that execute the instructions of `gpu`, is predicted from sampled waves within
    `accuracy`.

    `profile_code` is the fingerprint of the code that makes profiles, so that results of two versions never mix.
    """

    store: StoreAddress
    key: str
    trace: str
    folder: str
    designs: tuple[Designs, ...] = field(compare=False)
    models: tuple[str, ...] = field(compare=False)
    profile_code: str = field(compare=False)
    request: KernelRequest = field(compare=False)
    gpu: GpuSpec = field(compare=False)
    sampled: str = field(default="", compare=False)
    accuracy: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SimulatorTask:
    """Simulate one design, `gpu` with `overrides` and the caches before as `Method` has them; the answer is kept under `key`."""

    store: StoreAddress
    key: str
    folder: str
    gpu: GpuSpec = field(compare=False)
    overrides: tuple[str, ...] = field(compare=False)
    max_cycles: int | None = field(compare=False)
    caches_before: str = field(compare=False)


def run_trace(task: TraceTask) -> str:
    """Record a kernel, or convert the trace of another tool. An exception is the reason of a failure (`jobs.executor.attempt`)."""
    store = ResultStore.reopen(task.store)
    # the output of the kernel must not mix with a result on stdout
    request = replace(task.request, output=sys.stderr)
    if task.sampled and is_sampled(request, task.gpu, task.method):
        store.make_folder(task.sampled, Path.mkdir)
        return ""
    make = convert_launches if request.is_foreign else partial(trace_into, gpu=task.gpu)
    store.make_folder(task.key, lambda place: make(request, place))
    return ""


def run_rows(task: RowsTask) -> str:
    """Evaluate. A refusal is a row with its reason; for a damaged trace the reason is returned."""
    store = ResultStore.reopen(task.store)
    kept = KeptStages(store, task.trace, task.profile_code)
    rows: list[Rows] = []
    try:
        if task.accuracy is not None and store.has_folder(task.sampled):
            rows = _sampled_rows(task, kept, task.accuracy)
        else:
            for evaluation in evaluate(lambda: loaded(task.folder), task.designs, task.models, kept):
                rows += evaluation.rows()
    except FormatError as error:
        return _remove_damaged(store, task.folder, error)
    store.put_bytes(ROWS, task.key, part_bytes(joined(rows)), PARQUET)
    return ""


def _sampled_rows(task: RowsTask, kept: KeptStages, accuracy: float) -> list[Rows]:
    """Rows from sampled waves. Each GPU has its own waves; blocks that have run serve all whose waves have them. Designs that
    cannot be sampled are predicted from the whole launch, which is recorded and kept for that.
    """
    request, rows = replace(task.request, output=sys.stderr), list[Rows]()
    with Sampler(*launch_of(request, task.gpu)) as sampler:
        for designs in task.designs:
            try:
                gpu = designs.gpu()
                found = sampler.grown(gpu, task.models, designs.method, accuracy, columns=designs.columns, count=designs.count)
            except NotSampled:
                run_trace(TraceTask(task.store, task.trace, task.request, task.gpu))
                (evaluation,) = evaluate(lambda: loaded(task.folder), [designs], task.models, kept)
                rows += evaluation.rows()
            except WarpsightError as error:
                rows += Evaluation(designs, task.models, "", refused=error).rows()
            else:
                (evaluation,) = evaluate(found.trace, [designs], task.models)
                own = zip(evaluation.rows(), found.half_width, strict=True)
                rows += [each | {HALF_WIDTH: half_width} for each, half_width in own]
    return rows


def run_simulator(task: SimulatorTask) -> str:
    """Simulate. A refusal is kept as a result too; of a damaged trace the reason is returned."""
    store = ResultStore.reopen(task.store)
    try:
        gpu = load_gpu(task.gpu, task.overrides)
        document = simulation_document(opened(task.folder), gpu, task.max_cycles, task.caches_before)
    except FormatError as error:
        return _remove_damaged(store, task.folder, error)
    except WarpsightError as error:
        document = {"failed": str(error)}
    store.put(SIMULATOR, task.key, document)
    return ""


def _remove_damaged(store: ResultStore, folder: str, error: FormatError) -> str:
    """Remove a damaged trace if it is in the store, and return the reason; the next run records it again."""
    if store.folder_of(Path(folder).name) != Path(folder):
        return str(error)
    opened.cache_clear()
    loaded.cache_clear()
    shutil.rmtree(folder, ignore_errors=True)
    return f"{error.place}: {error.what}; it was removed, and `warpsight sweep resume` records it again"


@lru_cache(maxsize=4)
def opened(folder: str) -> KernelTrace:
    """The trace in `folder`."""
    return open_trace(folder)


@lru_cache(maxsize=2)
def loaded(folder: str) -> KernelTrace:
    """The trace in `folder`, its chunks in memory if they are not many: a profile goes over them four times, for each design."""
    trace, chunks, size = opened(folder), [], 0
    for chunk in trace.chunks:
        size += sum(array.nbytes for array in (chunk.path, chunk.events, chunk.sectors, chunk.event_offset, chunk.sector_offset))
        if size > MOST_LOADED_BYTES:
            return trace
        chunks.append(chunk)
    return replace(trace, chunks=InMemory(chunks))


class KeptStages:
    """A trace's cache misses and interval profiles in the results folder (`pipeline.evaluate.StageStore`).

    `trace` is the trace's key, `code` the fingerprint of the code that makes them.
    """

    def __init__(self, store: ResultStore, trace: str, code: str) -> None:
        self._store, self._trace, self._code = store, trace, code

    def get(self, kind: Kind, key: str) -> MissProfile | IntervalProfile | None:
        """As `StageStore.get`."""
        document = self._store.get(kind, self._place(key))
        if document is None:
            return None
        return MissProfile.of_document(document) if kind == MISSES else profile_from_document(document, origin=key)

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """As `StageStore.put`."""
        self._store.put(kind, self._place(key), value.document() if kind == MISSES else profile_document(value))

    def has(self, kind: Kind, key: str) -> bool:
        """Whether it is kept."""
        return self._store.get(kind, self._place(key)) is not None

    def _place(self, key: str) -> str:
        return content_key(self._trace, key, self._code)
