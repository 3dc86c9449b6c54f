"""The plan of a study: launches, groups of designs and tasks, which of their results are kept, and the progress of the study."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.base.diskcache import content_key
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.describe import spec_hash
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import Occupancy, with_own_l1
from warpsight.gpu.spec import GpuSpec
from warpsight.gpu.steps import model_only
from warpsight.jobs.fingerprint import MODELS, SIMULATOR, fingerprint
from warpsight.jobs.store import ResultStore
from warpsight.models.base import get_model
from warpsight.pipeline.caches_before import resolved
from warpsight.pipeline.evaluate import (
    MISSES,
    PROFILE,
    Designs,
    known_models,
    misses_key,
    need_counts,
    profile_key,
    trace_occupancy,
)
from warpsight.pipeline.request import CACHES_BEFORE
from warpsight.sweeps.designs import DesignTable, Group, design_table, groups_of, simulator_designs
from warpsight.sweeps.launches import Choice, StudyLaunch, study_launch
from warpsight.sweeps.study import Study
from warpsight.sweeps.tasks import PARQUET, ROWS, KeptStages, RowsTask, SimulatorTask, TraceTask, opened

SCHEMA = "2"
# A task is large enough to be worth a process's turn and small enough for many to share the work and for little to be lost.
MOST_DESIGNS, MOST_GROUPS = 65_536, 8


@dataclass(frozen=True)
class Batch:
    """Rows that one task makes: `launch` on the designs of each of `groups`. `key` is empty while the launch is refused."""

    launch: StudyLaunch
    groups: tuple[Group, ...]
    key: str = ""


@dataclass(frozen=True)
class Simulation:
    """A run of the simulator: `launch` on one design, a change of the GPU named `gpu`, its caches before as `Method` has them."""

    launch: StudyLaunch
    design: int
    gpu: str
    caches_before: str
    key: str = ""


@dataclass
class Plan:
    """A study resolved against a results folder. Nothing is computed yet.

    `bases` are its GPUs by name, `around` the same with the study's overrides.
    """

    study: Study
    store: ResultStore
    bases: dict[str, GpuSpec]
    around: dict[str, GpuSpec]
    table: DesignTable
    launches: tuple[StudyLaunch, ...]
    batches: tuple[Batch, ...]
    simulations: tuple[Simulation, ...]

    @cached_property
    def own_keys(self) -> frozenset[str]:
        """Keys in which designs with one interval profile may differ."""
        return model_only(self.table.columns, self.study.method.order)

    @cached_property
    def base_hashes(self) -> dict[str, str]:
        """The described GPUs, in keys of results."""
        return {name: spec_hash(base) for name, base in self.bases.items()}

    def gpu_name(self, group: Group) -> str:
        """Which of `bases` the group's designs are changes of."""
        return group.gpu or self.study.gpu

    @cached_property
    def shared_key(self) -> tuple[str, ...]:
        """What the keys of all rows have in common: the models and the code."""
        models = self.study.models
        return (fingerprint(PROFILE), fingerprint(MODELS), *map(_code_of, models), *models)

    def trace_tasks(self) -> list[TraceTask]:
        """Launches whose trace is still to be recorded, each once."""
        missing = {each.key: each for each in self.launches if each.key and not each.known(self.store)}
        method = self.study.method
        return [TraceTask(self.store.address, key, each.request, each.gpu, each.sampled, method) for key, each in missing.items()]

    def row_tasks(self) -> list[RowsTask]:
        """Batches whose rows are not kept and whose trace exists."""
        return [
            RowsTask(self.store.address, batch.key, batch.launch.key, batch.launch.folder, self.designs(batch),
                     self.study.models, fingerprint(PROFILE),
                     batch.launch.request, batch.launch.gpu, batch.launch.sampled, self.study.samples)
            for batch in self.batches
            if batch.launch.known(self.store) and not self.is_kept(batch)
        ]  # fmt: skip

    def simulator_tasks(self) -> list[SimulatorTask]:
        """Simulations that are not kept and whose trace exists."""
        limit = self.study.simulator.max_cycles if self.study.simulator else None
        return [
            SimulatorTask(self.store.address, each.key, each.launch.folder, self.bases[each.gpu], self.overrides(each.design),
                          limit, each.caches_before)
            for each in self.simulations
            if each.launch.traced and not self.is_kept(each)
        ]  # fmt: skip

    def is_kept(self, each: Batch | Simulation) -> bool:
        """Whether its rows, or its simulation, are kept."""
        if not each.key:
            return False
        if isinstance(each, Batch):
            return self.store.get_bytes(ROWS, each.key, PARQUET) is not None
        return self.store.get(SIMULATOR, each.key) is not None

    def overrides(self, design: int) -> tuple[str, ...]:
        """The GPU keys of one design as `overrides` has them."""
        return (*self.study.overrides, *self.table.settings(design))

    def designs(self, batch: Batch) -> tuple[Designs, ...]:
        """What the batch's task evaluates, group by group."""
        own = {key: values for key, values in self.table.columns.items() if key in self.own_keys}
        return tuple(
            _resolved(self, group, group.on(self.bases[self.gpu_name(group)], own, self.study.method, self.study.overrides))
            for group in batch.groups
        )


def plan_sweep(study: Study, store: ResultStore) -> Plan:
    """The plan of `study`. Raises as `load_gpu` and `design_table`, and for an unknown model; a kernel that fails is refused."""
    known_models(study.models)
    bases = {name: load_gpu(name) for name in study.gpus}
    around = {name: load_gpu(base, study.overrides) for name, base in bases.items()}
    table = design_table(study, around)
    groups = groups_of(table.columns, np.flatnonzero(table.refused == 0), model_only(table.columns, study.method.order))
    plan = Plan(study, store, bases, around, table, (), (), ())
    alike: dict[tuple[Choice, str], list[Group]] = {}
    for group in groups:
        alike.setdefault((group.launch, _capability(plan, group)), []).append(group)
    executing = {key: around[plan.gpu_name(some[0])] for key, some in alike.items()}
    if not groups:  # every design is refused, and a kernel may be too
        executing = {((), gpu.compute_capability): gpu for gpu in around.values()}
    plan.launches = tuple(
        study_launch(kernel, choice, replace(gpu, compute_capability=capability), store, study.samples)
        for kernel in study.kernels
        for (choice, capability), gpu in executing.items()
    )
    plan.batches = tuple(
        _keyed(plan, batch)
        for launch in plan.launches
        for batch in _batches(launch, alike.get((launch.choice, launch.gpu.compute_capability), ()))
    )
    plan.simulations = tuple(_simulations(plan))
    return plan


def _capability(plan: Plan, group: Group) -> str:
    """The compute capability of the group's designs, which says whose machine code they execute."""
    settings = dict(text.split("=", 1) for text in group.overrides)
    return settings.get("compute_capability", plan.around[plan.gpu_name(group)].compute_capability)


def _before(plan: Plan, group: Group, caches_before: str) -> str:
    """The state of the caches for the designs of the group, resolved. Raises UsageError for the file of a launch."""
    if caches_before not in CACHES_BEFORE:
        what = f'"{caches_before}" is not a state of the caches that a study knows'
        raise UsageError(what, place="method.caches_before", remedy=f"use one of {', '.join(CACHES_BEFORE)}")
    return resolved(caches_before, replace(plan.around[plan.gpu_name(group)], compute_capability=_capability(plan, group)))


def _resolved(plan: Plan, group: Group, designs: Designs) -> Designs:
    return replace(designs, method=replace(designs.method, caches_before=_before(plan, group, designs.method.caches_before)))


def _batches(launch: StudyLaunch, groups: Sequence[Group]) -> Iterator[Batch]:
    """The groups of a launch, in the order of their first designs, cut into tasks."""
    pieces = [
        replace(group, designs=group.designs[first : first + MOST_DESIGNS])
        for group in groups
        for first in range(0, len(group.designs), MOST_DESIGNS)
    ]
    batch: list[Group] = []
    for piece in pieces:
        held = sum(len(group.designs) for group in batch)
        if batch and (len(batch) == MOST_GROUPS or held + len(piece.designs) > MOST_DESIGNS):
            yield Batch(launch, tuple(batch))
            batch = []
        batch.append(piece)
    if batch:
        yield Batch(launch, tuple(batch))


def _keyed(plan: Plan, batch: Batch) -> Batch:
    """With the key of its rows: everything that they depend on, and not the designs' places in the table."""
    if not batch.launch.key:
        return batch
    parts: list[str | bytes] = [SCHEMA, batch.launch.key, *plan.shared_key]
    if batch.launch.sampled:
        parts.append(f"accuracy {plan.study.samples}")
    for group, work in zip(batch.groups, plan.designs(batch), strict=True):
        parts += [plan.base_hashes[plan.gpu_name(group)], *work.overrides, repr(work.method), str(work.count)]
        for key, values in work.columns.items():
            parts += [key, values.tobytes()]
    return replace(batch, key=content_key(ROWS, *parts))


def _code_of(model: str) -> str:
    """What tells versions of a model apart that is not Warpsight's own: the hash of its module."""
    module = sys.modules[type(get_model(model)).__module__]
    if module.__name__.partition(".")[0] == "warpsight" or not module.__file__:
        return module.__name__
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def _simulations(plan: Plan) -> Iterator[Simulation]:
    simulator = plan.study.simulator
    if simulator is None:
        return
    for design in simulator_designs(simulator, plan.table, plan.around, plan.study.method).tolist():
        (group,) = groups_of(plan.table.columns, np.array([design]), plan.own_keys)
        name, own = plan.gpu_name(group), (group.launch, _capability(plan, group))
        before = _before(plan, group, dict(group.method).get("caches_before", plan.study.method.caches_before))
        for launch in (each for each in plan.launches if (each.choice, each.gpu.compute_capability) == own):
            described = (plan.base_hashes[name], *plan.overrides(design), before)
            key = content_key(SIMULATOR, launch.key, *described, str(simulator.max_cycles), fingerprint(SIMULATOR))
            yield Simulation(launch, design, name, before, key if launch.key else "")


# -- The progress of a study: the results that it needs, step by step, and how many of them are kept.

def steps_of(plan: Plan) -> list[dict[str, Any]]:
    """Traces, cache simulations, interval profiles, rows, simulator runs: how many are `wanted`, and how many are `known` (kept).

    What depends on a trace that does not exist is not known.
    """
    launches = {each.key: each.known(plan.store) for each in plan.launches if each.key}
    models = len(plan.study.models)
    rows = [(plan.is_kept(batch), models * sum(len(group.designs) for group in batch.groups)) for batch in plan.batches]
    misses, profiles = _shared(plan)
    counts = (
        ("traces", len(launches), sum(launches.values())),
        ("cache simulations", len(misses), sum(misses.values())),
        ("interval profiles", len(profiles), sum(profiles.values())),
        ("rows", sum(count for _, count in rows), sum(count for kept, count in rows if kept)),
        ("simulator runs", len(plan.simulations), sum(map(plan.is_kept, plan.simulations))),
    )
    return [{"what": what, "wanted": wanted, "known": known} for what, wanted, known in counts]


def _shared(plan: Plan) -> tuple[dict[str, bool], dict[str, bool]]:
    """Cache simulations and interval profiles by key, each with whether it is kept."""
    misses: dict[str, bool] = {}
    profiles: dict[str, bool] = {}
    specs: dict[tuple[str, ...], GpuSpec | None] = {}
    counts, code = need_counts(plan.study.models), fingerprint(PROFILE)
    for batch in plan.batches:
        launch = batch.launch
        kept = KeptStages(plan.store, launch.key, code)
        for each in plan.designs(batch) if launch.key else ():
            if each.overrides not in specs:
                with suppress(WarpsightError):  # the reason will be in its rows
                    specs[each.overrides] = each.gpu()
            gpu = specs.setdefault(each.overrides, None)
            if gpu is None:
                continue
            key = profile_key(gpu, each.method, counts)
            profile = f"{launch.key} {key}"
            if profile not in profiles:
                if launch.is_sampled(plan.store):  # nothing is kept but its rows
                    profiles[profile] = plan.is_kept(batch)
                else:
                    profiles[profile] = launch.traced and kept.has(PROFILE, key)
                resident = _resident(launch, gpu)
                key = misses_key(with_own_l1(gpu, resident), resident.blocks_per_sm, each.method)
                misses[f"{launch.key} {key}"] = profiles[profile] or (resident.blocks_per_sm > 0 and kept.has(MISSES, key))
    return misses, profiles


def _resident(launch: StudyLaunch, gpu: GpuSpec) -> Occupancy:
    """Of no blocks while the trace is not there, or when none fits."""
    with suppress(WarpsightError):
        if launch.traced:
            return trace_occupancy(opened(launch.folder), gpu)
    return Occupancy(0, 0, 0.0, "")


def gpu_names(plan: Plan) -> str:
    """The GPUs of the study, for people."""
    return ", ".join(gpu.name for gpu in plan.around.values())


def plan_document(plan: Plan) -> dict[str, Any]:
    """What a study needs and what is known, as JSON."""
    table, study = plan.table, plan.study

    capabilities = len({each.gpu.compute_capability for each in plan.launches}) > 1

    def called(launch: StudyLaunch) -> str:
        settings = [f"launch.{name}={text}" for name, text in launch.choice]
        settings += [f"compute_capability={launch.gpu.compute_capability}"] if capabilities else []
        return " ".join([launch.kernel, *settings])

    return {
        "study": study.name,
        "gpu": gpu_names(plan),
        "kernels": [kernel.name for kernel in study.kernels],
        "models": list(study.models),
        "axes": {axis.key: len(axis.values) for axis in study.axes},
        "derived": [key for key, _ in study.derived],
        "sampling": study.sampling.kind,
        "drawn": table.drawn,
        "excluded": table.excluded,
        "designs": len(table),
        "refused_designs": int((table.refused != 0).sum()),
        "steps": steps_of(plan),
        "refused_kernels": {called(each): each.refused for each in plan.launches if each.refused},
        "results": str(plan.store.folder),
    }
