"""From a trace to predictions: the only chain of residency, cache misses, interval profile and models (MDM, MICRO 2020, Fig. 1).

`evaluate` takes any number of designs and makes each intermediate result once for all designs that share its inputs.
`predict_trace` passes one design. Sweeps, what-if grids, curves, advice and the checks of assumptions pass more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import lazy_loader as lazy
import numpy as np

from warpsight.base.diskcache import content_key
from warpsight.base.errors import FormatError, NotKept, UsageError, WarpsightError
from warpsight.base.progress import Watch, stage, step
from warpsight.caches.exact.between import L2Lines, lines_left
from warpsight.caches.exact.geometry import most_dirty
from warpsight.caches.exact.program import program_of
from warpsight.caches.exact.simulate import CacheSimulation, Progress
from warpsight.caches.exact.waves import WaveMisses, wave_misses
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import Occupancy, occupancy, with_own_l1
from warpsight.gpu.spec import GpuSpec
from warpsight.gpu.steps import ORDERS, cache_view, ordered, profile_view, view_hash
from warpsight.intervals.build import build_profile
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import get_model
from warpsight.pipeline.caches_before import CarriedL2, at_start, check_carried, launch_before, resolved, trace_key
from warpsight.pipeline.provenance import merged_provenance, profile_provenance, trace_provenance
from warpsight.pipeline.request import CACHES, COLD, DEFAULT_METHOD, WARM, Method
from warpsight.pipeline.rows import Columns, Rows, failed_rows, model_rows, number_columns
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import ATOMIC, KernelTrace, WaveSample
from warpsight.traces.waves import part_of

reuse: Any = lazy.load("warpsight.caches.reuse.miss_source", suppress_warning=True)  # for `caches="reuse-distance"` alone

TraceSource = KernelTrace | Callable[[], KernelTrace]
"""A trace, or how to open it: it is opened when an intermediate result has to be made."""


def _opened(source: TraceSource) -> KernelTrace:
    return source if isinstance(source, KernelTrace) else source()


@dataclass(frozen=True)
class Designs:
    """`count` designs that share one interval profile of a trace.

    They are `base` with `overrides` (`key=value` texts), profiled by `method`. They differ only in `columns`: values of keys that
    the models alone read, float64 [count] in base units by key. `resident` replaces the residency that the launch would have.
    """

    base: GpuSpec
    method: Method = DEFAULT_METHOD
    overrides: tuple[str, ...] = ()
    columns: Columns = field(default_factory=dict)
    count: int = 1
    resident: Occupancy | None = None

    def gpu(self) -> GpuSpec:
        """The description without `columns`. Raises SpecError for values that do not fit together."""
        return load_gpu(self.base, self.overrides) if self.overrides else self.base


# -- Intermediate results, and where they are kept.

Kind = Literal["misses", "profile"]
MISSES: Kind = "misses"
PROFILE: Kind = "profile"


class StageStore(Protocol):
    """Keeps the cache misses and interval profiles of one trace, by a key of everything that they depend on besides the trace."""

    def get(self, kind: Kind, key: str) -> Any | None:
        """The MissProfile or IntervalProfile under that key; None when there is none."""

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """Keep one. Raises NotKept when that is impossible."""


class MemoryStore:
    """Keeps results in memory; beyond `most_bytes`, those that have not been used for longest are dropped."""

    def __init__(self, most_bytes: int = 1 << 28) -> None:
        self._most, self._bytes = most_bytes, 0
        self._kept: dict[tuple[Kind, str], Any] = {}

    def get(self, kind: Kind, key: str) -> Any | None:
        """As `StageStore.get`."""
        value = self._kept.pop((kind, key), None)
        if value is not None:
            self._kept[kind, key] = value  # a dict is in order of insertion: the last used one is at its end
        return value

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """As `StageStore.put`."""
        self._kept[kind, key] = value
        self._bytes += _array_bytes(value)
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= _array_bytes(self._kept.pop(next(iter(self._kept))))


def _array_bytes(value: object) -> int:
    return sum(array.nbytes for array in vars(value).values() if isinstance(array, np.ndarray))


def misses_key(gpu: GpuSpec, blocks_per_sm: int, method: Method, before: str = "") -> str:
    """The key of a trace's cache misses on `gpu` with so many resident blocks; `before` is that of the launch before, of a file."""
    state = resolved(method.caches_before, gpu)
    return content_key(MISSES, view_hash(cache_view(gpu, method.order)), str(blocks_per_sm), method.interleaving, method.caches,
                       state, before)  # fmt: skip


def profile_key(gpu: GpuSpec, method: Method, counts: bool, resident: Occupancy | None = None, before: str = "") -> str:
    """The key of a trace's interval profile on `gpu`; `before` as for `misses_key`."""
    view = view_hash(profile_view(gpu, method.order))  # the timing by which accesses are ordered is a part of it
    words = (method.interleaving, method.caches, resolved(method.caches_before, gpu), before, method.representative)
    return content_key(PROFILE, view, *words, str(counts), repr(resident))


def need_counts(models: Iterable[str]) -> bool:
    """Whether one of the models needs counts of instructions, which are a tenth of a profile's cost."""
    return any("counts" in get_model(model).needs for model in models)


class Stages:
    """The stages before the models for one trace: each result is taken from `store`, or made and kept there.

    `carried` is the L2 for state `program`.
    """

    def __init__(
        self, trace: TraceSource, store: StageStore, *, counts: bool = True, carried: CarriedL2 | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._source, self._store, self._counts, self._carried, self._watch = trace, store, counts, carried, watch
        self._befores: dict[str, tuple[KernelTrace | None, str]] = {}
        self._left: dict[str, L2Lines | None] = {}  # what the launch leaves in an empty L2, by the key of its misses there

    def _before(self, gpu: GpuSpec, method: Method) -> tuple[KernelTrace | None, str]:
        """The launch before, where the state is that of a file, and its key."""
        path = method.caches_before
        if path not in self._befores:
            trace = launch_before(path, gpu, self._watch)
            self._befores[path] = (trace, "" if trace is None else trace_key(trace))
        return self._befores[path]

    def profile(self, gpu: GpuSpec, method: Method, resident: Occupancy | None = None) -> IntervalProfile:
        """The interval profile of the representative warp. Raises UsageError if a block does not fit an SM."""
        before = self._before(gpu, method)[1]
        key = profile_key(gpu, method, self._counts, resident, before)
        kept: IntervalProfile | None = self._store.get(PROFILE, key)
        if kept is None and not self._counts:  # one with counts serves as well
            kept = self._store.get(PROFILE, profile_key(gpu, method, True, resident, before))
        if kept is None:
            trace = _opened(self._source)
            resident = resident or trace_occupancy(trace, gpu)
            misses = self.misses(gpu, method, resident)
            with step(f"interval profile on {gpu.name}, representative warp by {method.representative}"):
                kept = build_profile(trace, misses, gpu, resident, representative=method.representative, counts=self._counts)
            self._store.put(PROFILE, key, kept)
        return kept

    def misses(self, gpu: GpuSpec, method: Method, resident: Occupancy) -> MissProfile:
        """What the caches make of the trace."""
        before, content = self._before(gpu, method)
        own = with_own_l1(gpu, resident)
        key = misses_key(own, resident.blocks_per_sm, method, content)
        kept: MissProfile | None = self._store.get(MISSES, key)
        if kept is None:
            progress = stage(self._watch, "simulating the caches")
            one_launch = misses_key(own, resident.blocks_per_sm, replace(method, caches_before=COLD))
            with step(f"caches of {gpu.name}, {method.caches}, {method.interleaving}, L2 {resolved(method.caches_before, gpu)}"):
                trace = _opened(self._source)
                if method.caches == "exact" and self._carried is None:
                    kept = self._simulated(trace, gpu, resident, method, one_launch, progress)
                else:
                    kept, self._left[one_launch] = miss_profile(
                        trace, gpu, resident, method, progress, before, self._carried, self._left.get(one_launch)
                    )
            self._store.put(MISSES, key, kept)
        return kept

    def _simulated(
        self, trace: KernelTrace, gpu: GpuSpec, resident: Occupancy, method: Method, one_launch: str, progress: Progress | None
    ) -> MissProfile:
        """What the exact caches of `gpu` make of `trace`: as for another design that is the same to it, or simulated."""
        before, content = self._before(gpu, method)
        own, known = with_own_l1(gpu, resident), trace.kept.setdefault(MISSES, {})
        key, key_in_l2 = _simulation_key(trace, own, resident.blocks_per_sm, method, content), ""
        kept: MissProfile | None = known.get(key)
        if kept is None:
            is_warm = trace.waves is None and at_start(method.caches_before, gpu, trace) == WARM
            left = lines_left(trace, own) if is_warm else None
            if left is not None:
                key_in_l2 = _simulation_key(trace, own, resident.blocks_per_sm, method, content, in_l2=True)
                kept = known.get(key_in_l2)
            if kept is None:
                left = self._left.get(one_launch) if left is None else left
                kept, self._left[one_launch] = miss_profile(trace, gpu, resident, method, progress, before, own=left)
            if len(known) < _MOST_KNOWN:
                known[key] = kept
                if key_in_l2 and not any(each.any() for each in (kept.l2_read_misses, kept.l2_write_misses, kept.dram_writes)):
                    known[key_in_l2] = kept
        return kept


_MOST_KNOWN = 64  # cache misses that are kept with a trace


_OF_SETS = frozenset({"l2.size", "l2.ways", "l2.index", "l2.replacement", "dram.queue", "dram.row"})


def _simulation_key(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, method: Method, before: str, *, in_l2: bool = False
) -> str:
    """The key of the cache misses by what the simulation reads of `gpu` for this kernel: instead of latencies the times that follow
    from them, the width of atomics if there are any, and how many lines of a set may be dirty.

    `in_l2`: all that is accessed is in the L2 from the start and stays there, so that its sets and rows of memory decide nothing.
    """
    view, code = cache_view(gpu, method.order), program_of(trace, ordered(gpu, method.order), method.interleaving == "clocked")
    unread = {f"latency.{each}" for each in gpu.latency_cycles} | {"l2.dirty_share"} | (_OF_SETS if in_l2 else set())
    if not any(instruction.access == ATOMIC for instruction in trace.instructions):
        unread.add("l2.atomic_width")
    seen = {name: text for name, text in view.items() if name not in unread}
    seen["dirty lines"] = "" if in_l2 else str(most_dirty(gpu.l2))
    times = hashlib.sha256(code.basic_blocks.tobytes() + code.stops.tobytes()).hexdigest()
    state = resolved(method.caches_before, gpu)
    return content_key(view_hash(seen), times, str(blocks_per_sm), method.interleaving, state, before)


def trace_occupancy(trace: KernelTrace, gpu: GpuSpec) -> Occupancy:
    """The residency of the launch on `gpu`. Raises UsageError if a block does not fit an SM."""
    header = trace.header
    shared = header.static_shared_bytes + header.dynamic_shared_bytes
    return occupancy(gpu, header.threads_per_block, header.registers_per_thread, shared, header.cluster_blocks)


def miss_profile(
    trace: KernelTrace, gpu: GpuSpec, resident: Occupancy, method: Method, progress: Progress | None,
    before: KernelTrace | None = None, carried: CarriedL2 | None = None, own: L2Lines | None = None,
) -> tuple[MissProfile, L2Lines | None]:
    """What the caches of `gpu` make of `trace`, by `method`, with `resident` blocks, and what the launch leaves in an empty L2.

    `before` is the launch before, if the state is that of a file; `carried` is the L2 for state `program`, and moves on; `own` is
    what the launch leaves in an empty L2, if that is known, as the second result (None: not known).
    Raises UsageError for unknown words of `method`.
    """
    if method.order not in ORDERS:
        raise UsageError(f'unknown order "{method.order}"', place="order", remedy=f"use one of {', '.join(ORDERS)}")
    if method.caches not in CACHES:
        raise UsageError(f'unknown caches "{method.caches}"', place="caches", remedy=f"use one of {', '.join(CACHES)}")

    def machine(resident: Occupancy) -> GpuSpec:
        return ordered(with_own_l1(gpu, resident), method.order)

    state = at_start(method.caches_before, gpu, trace)
    check_carried(state, carried)
    if method.caches == "reuse-distance":
        if state not in (COLD, WARM):
            what = "the reuse-distance model begins with cold or warm caches, not after other launches"
            raise UsageError(what, place="caches_before", remedy="give cold or warm, or use exact caches")
        approximate: MissProfile = reuse.reuse_miss_profile(
            trace, machine(resident), resident.blocks_per_sm, progress=progress, warm=state == WARM
        )
        return approximate, None
    if trace.waves is not None:
        waves = _misses_of_waves(trace.waves, machine(resident), resident, method, state, progress, carried)
        if carried is not None and waves.left is not None:
            carried.becomes(waves.left)
        return waves.together(), own
    simulated = partial(CacheSimulation, interleaving=method.interleaving, progress=progress)
    simulation = simulated(trace, machine(resident), resident.blocks_per_sm)
    if carried is not None:
        return carried.misses(simulation), own
    if state == COLD:
        return simulation.run()
    if before is None:
        own = simulation.left() if own is None else own
        return simulation.misses(own), own
    of_before = trace_occupancy(before, gpu)
    return simulation.misses(simulated(before, machine(of_before), of_before.blocks_per_sm).left()), own


def _misses_of_waves(
    sample: WaveSample, gpu: GpuSpec, resident: Occupancy, method: Method, state: str, progress: Progress | None,
    carried: CarriedL2 | None = None,
) -> WaveMisses:
    """What the caches make of the measured waves, kept with the sample. Raises UsageError after the launch of a file."""
    if state not in (COLD, WARM) and carried is None:
        what = "sampled waves begin with cold or warm caches, not after the launch of a file"
        raise UsageError(what, place="caches_before", remedy="give cold or warm, or run all blocks with `--exact`")
    before = "" if carried is None else carried.key
    key = content_key(view_hash(cache_view(gpu, method.order)), str(resident.blocks_per_sm), method.interleaving, state, before)
    if key not in sample.kept:
        sample.kept[key] = wave_misses(
            sample, gpu, resident.blocks_per_sm, interleaving=method.interleaving, progress=progress, warm=state == WARM,
            carried=None if carried is None else carried.lines, known=sample.stretches.setdefault(key, {}),
        )
    kept: WaveMisses = sample.kept[key]
    return kept


def misses_of_waves(
    trace: KernelTrace, gpu: GpuSpec, method: Method, watch: Watch | None = None, carried: CarriedL2 | None = None
) -> WaveMisses:
    """What the caches make of the measured waves of a sampled `trace`, simulated once for each GPU and method.

    `carried` is the L2 at the start for state `program`, and stays.
    """
    sample, resident = trace.waves, trace_occupancy(trace, gpu)
    assert sample is not None
    progress, state = stage(watch, "simulating the caches"), at_start(method.caches_before, gpu, trace)
    machine = ordered(with_own_l1(gpu, resident), method.order)
    return _misses_of_waves(sample, machine, resident, method, state, progress, carried)


def profile_of_waves(
    trace: KernelTrace, misses: WaveMisses, waves: Sequence[int], stretches: Sequence[int], gpu: GpuSpec, method: Method,
    half: int | None = None, *, counts: bool = False,
) -> IntervalProfile:
    """The interval profile that measured waves of a sampled `trace` give, with the traffic of the `stretches` of these numbers,
    or of one half of it, as `WaveMisses.together` has them; with `counts` of instructions for models that need them.
    """
    sample = trace.waves
    assert sample is not None
    chosen, found = part_of(sample.executed, np.isin(sample.label, waves)), misses.together(waves, stretches, half)
    resident = trace_occupancy(trace, gpu)
    return build_profile(chosen, found, gpu, resident, representative=method.representative, counts=counts)


# -- From designs to rows and predictions.

@dataclass(frozen=True)
class Evaluation:
    """`designs` with their interval profile, for `models` to be evaluated on; `refused` says why there is no profile.

    `origin` is the trace, or where a profile without a trace was read from.
    """

    designs: Designs
    models: Sequence[str]
    origin: TraceSource | str
    gpu: GpuSpec | None = None
    profile: IntervalProfile | None = None
    refused: WarpsightError | None = None

    def rows(self) -> list[Rows]:
        """For each model the rows of all designs. A refusal is the reason in the rows."""
        designs, numbers = self.designs, number_columns(self.models)
        if self.gpu is None or self.profile is None:
            return [failed_rows(str(self.refused), designs.count, model, numbers) for model in self.models]
        return [model_rows(self.profile, self.gpu, designs.columns, designs.count, model, numbers) for model in self.models]

    def cycles(self) -> float:
        """The cycles of the one design by the first model. Raises as `predictions`."""
        gpu, profile = self._profiled()
        return get_model(self.models[0]).predict(profile, gpu).cycles

    def _profiled(self) -> tuple[GpuSpec, IntervalProfile]:
        if self.gpu is None or self.profile is None:
            raise self.refused or UsageError("there is no profile")
        return self.gpu, self.profile

    def predictions(self) -> list[Prediction]:
        """For each model the prediction of the one design, with its provenance. Raises the refusal, and what the models raise."""
        gpu, profile = self._profiled()
        if isinstance(self.origin, str):
            provenance = profile_provenance(profile, gpu, self.origin)
        else:
            provenance = trace_provenance(_opened(self.origin), gpu, self.designs.method, profile.notes)
        predictions = []
        for name in self.models:
            with step(f"model {name}"):
                prediction = get_model(name).predict(profile, gpu)
            predictions.append(replace(prediction, provenance=merged_provenance(prediction.provenance, provenance)))
        return predictions


def evaluate(
    trace: TraceSource, designs: Iterable[Designs], models: Sequence[str], store: StageStore | None = None,
    *, carried: CarriedL2 | None = None, watch: Watch | None = None,
) -> Iterator[Evaluation]:
    """`models` on each of `designs`, in order; intermediate results are shared through `store` (None: memory, for this call).

    `carried` is the L2 for state `program`.

    Raises UsageError for an unknown model, FormatError for a damaged trace and NotKept by the store. What refuses a design
    otherwise is in its `Evaluation`.
    """
    known_models(models)
    kept = store if store is not None else MemoryStore()
    stages = Stages(trace, kept, counts=need_counts(models), carried=carried, watch=watch)
    for each in designs:
        try:
            gpu = each.gpu()
            profile = stages.profile(gpu, each.method, each.resident)
        except (FormatError, NotKept):
            raise
        except WarpsightError as error:
            yield Evaluation(each, models, trace, refused=error)
        else:
            yield Evaluation(each, models, trace, gpu, profile)


def known_models(models: Iterable[str]) -> None:
    """Raises UsageError for an unknown model, before minutes are spent on a trace."""
    for name in models:
        get_model(name)


def predict_trace(
    trace: KernelTrace, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *,
    resident: Occupancy | None = None, store: StageStore | None = None, carried: CarriedL2 | None = None,
    watch: Watch | None = None,
) -> list[Prediction]:
    """One prediction per model, in order. Raises UsageError for an unknown model and if a block does not fit an SM.

    `resident` replaces the residency that the launch would have; intermediate results are shared through `store`; `carried` is the
    L2 for state `program`.
    """
    (evaluation,) = evaluate(trace, [Designs(gpu, method, resident=resident)], models, store, carried=carried, watch=watch)
    return evaluation.predictions()


def predict_profile(profile: IntervalProfile, gpu: GpuSpec, models: Sequence[str], origin: str = "") -> list[Prediction]:
    """Predictions from an interval profile alone; `origin` is where it was read from."""
    return Evaluation(Designs(gpu), models, origin, gpu, profile).predictions()


@dataclass(frozen=True)
class ProfiledTrace:
    """A trace with its intermediate results on one GPU: residency, cache misses, interval profile.

    `store` has these and what was made of the trace for other designs.
    """

    trace: KernelTrace
    occupancy: Occupancy
    misses: MissProfile
    profile: IntervalProfile
    method: Method
    store: StageStore = field(default_factory=MemoryStore, compare=False, repr=False)

    def changed(self, gpu: GpuSpec, misses: MissProfile, trace: KernelTrace | None = None) -> ProfiledTrace:
        """With other cache misses and, if given, another trace that is not simulated again; profiled on `gpu`."""
        trace = trace or self.trace
        profile = build_profile(trace, misses, gpu, self.occupancy, representative=self.method.representative)
        return ProfiledTrace(trace, self.occupancy, misses, profile, self.method)


def profile_trace(
    trace: KernelTrace, gpu: GpuSpec, method: Method = DEFAULT_METHOD, *, resident: Occupancy | None = None,
    models: Iterable[str] | None = None, watch: Watch | None = None,
) -> ProfiledTrace:
    """Residency, cache misses and the interval profile of `trace` on `gpu`. Raises UsageError if a block does not fit an SM.

    `resident` replaces the residency that the launch would have. The profile has what `models` need (None: all of them).
    """
    store = MemoryStore()
    stages = Stages(trace, store, counts=models is None or need_counts(models), watch=watch)
    profile = stages.profile(gpu, method, resident)
    resident = resident or trace_occupancy(trace, gpu)
    return ProfiledTrace(trace, resident, stages.misses(gpu, method, resident), profile, method, store)


def predict_profiled(profiled: ProfiledTrace, gpu: GpuSpec, models: Sequence[str]) -> list[Prediction]:
    """One prediction per model from a profile that exists already. Raises UsageError for an unknown model."""
    return Evaluation(Designs(gpu, profiled.method), models, profiled.trace, gpu, profiled.profile).predictions()
