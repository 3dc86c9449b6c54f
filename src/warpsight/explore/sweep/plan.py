"""What a study takes: launches, groups of designs, tasks, and which of their results are kept already."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from warpsight.base.diskcache import content_key
from warpsight.explore.runs.fingerprint import MODELS, PROFILE, REFEREE, fingerprint
from warpsight.explore.runs.store import ResultStore
from warpsight.explore.sweep.groups import Group, groups_of
from warpsight.explore.sweep.launches import StudyLaunch, study_launch
from warpsight.explore.sweep.space import DesignTable, design_table, referee_designs
from warpsight.explore.sweep.stages import model_only
from warpsight.explore.sweep.study import Study
from warpsight.explore.sweep.tasks import PARQUET, ROWS, RefereeTask, RowsTask, SharedWork, TraceTask
from warpsight.gpu.describe import spec_hash

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec

SCHEMA = "1"
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
    """A run of the referee: `launch` on one design."""

    launch: StudyLaunch
    design: int
    key: str = ""


@dataclass
class Plan:
    """A study resolved against a results folder. Nothing is computed yet. `around` is the GPU `base` with the study's overrides."""

    study: Study
    store: ResultStore
    base: GpuSpec
    around: GpuSpec
    table: DesignTable
    launches: tuple[StudyLaunch, ...]
    batches: tuple[Batch, ...]
    simulations: tuple[Simulation, ...]

    @cached_property
    def own_keys(self) -> frozenset[str]:
        """Keys in which designs with one interval profile may differ."""
        return model_only(self.around, self.table.columns)

    @cached_property
    def base_hash(self) -> str:
        """The described GPU, in keys of results."""
        return spec_hash(self.base)

    @cached_property
    def shared_key(self) -> tuple[str, ...]:
        """What the keys of all rows have in common: the described GPU, the models and the code."""
        models = self.study.models
        return (self.base_hash, fingerprint(PROFILE), fingerprint(MODELS), *map(_code_of, models), *models)

    def trace_tasks(self) -> list[TraceTask]:
        """Launches whose trace is still to be recorded, each once."""
        missing = {each.key: each.request for each in self.launches if each.key and not each.known}
        return [TraceTask(self.store.address, key, request) for key, request in missing.items()]

    def row_tasks(self) -> list[RowsTask]:
        """Batches whose rows are not kept and whose trace is there."""
        return [
            RowsTask(self.store.address, batch.key, batch.launch.key, batch.launch.folder, self.base, self.shared_work(batch),
                     self.study.models, fingerprint(PROFILE))
            for batch in self.batches
            if batch.launch.known and not self.is_kept(batch)
        ]  # fmt: skip

    def referee_tasks(self) -> list[RefereeTask]:
        """Simulations that are not kept and whose trace is there."""
        assert self.study.referee is not None or not self.simulations
        limit = self.study.referee.max_cycles if self.study.referee else None
        return [
            RefereeTask(self.store.address, each.key, each.launch.folder, self.base, self.overrides(each.design), limit)
            for each in self.simulations
            if each.launch.known and not self.is_kept(each)
        ]

    def is_kept(self, each: Batch | Simulation) -> bool:
        """Whether its rows are there, or its answer."""
        if not each.key:
            return False
        if isinstance(each, Batch):
            return self.store.get_bytes(ROWS, each.key, PARQUET) is not None
        return self.store.get(REFEREE, each.key) is not None

    def overrides(self, design: int) -> tuple[str, ...]:
        """The GPU keys of one design as `--set` takes them."""
        return (*self.study.overrides, *self.table.settings(design))

    def shared_work(self, batch: Batch) -> tuple[SharedWork, ...]:
        """What the batch's task computes, group by group."""
        own = {key: values for key, values in self.table.columns.items() if key in self.own_keys}
        return tuple(
            SharedWork(
                (*self.study.overrides, *group.overrides),
                group.method_over(self.study.method),
                {key: np.ascontiguousarray(values[group.designs], dtype=np.float64) for key, values in own.items()},
                len(group.designs),
            )
            for group in batch.groups
        )


def plan_sweep(study: Study, store: ResultStore) -> Plan:
    """What `study` takes. Raises what the base GPU, the axes and an unknown model raise; a kernel that fails says so itself."""
    from warpsight.explore.pipeline import known_models
    from warpsight.gpu.loader import load_gpu

    known_models(study.models)
    base = load_gpu(study.gpu)
    around = load_gpu(base, study.overrides)
    table = design_table(study, around)
    groups = groups_of(table.columns, np.flatnonzero(table.refused == 0), model_only(around, table.columns))
    choices = list(dict.fromkeys(group.launch for group in groups)) or [()]
    launches = tuple(study_launch(kernel, choice, store) for kernel in study.kernels for choice in choices)
    plan = Plan(study, store, base, around, table, launches, (), ())
    plan.batches = tuple(_keyed(plan, batch) for launch in launches for batch in _batches(launch, groups))
    plan.simulations = tuple(_simulations(plan))
    return plan


def _batches(launch: StudyLaunch, groups: Sequence[Group]) -> Iterator[Batch]:
    """The launch's groups, in the order of their first designs, cut into tasks."""
    pieces = [
        replace(group, designs=group.designs[first : first + MOST_DESIGNS])
        for group in groups
        if group.launch == launch.choice
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
    for work in plan.shared_work(batch):
        parts += [*work.overrides, repr(work.method), str(work.count)]
        for key, values in work.columns.items():
            parts += [key, values.tobytes()]
    return replace(batch, key=content_key(ROWS, *parts))


def _code_of(model: str) -> str:
    """What tells versions of a model apart that is not Warpsight's own: the hash of its module."""
    from warpsight.models.registry import get_model

    module = sys.modules[type(get_model(model)).__module__]
    if module.__name__.partition(".")[0] == "warpsight" or not module.__file__:
        return module.__name__
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def _simulations(plan: Plan) -> Iterator[Simulation]:
    referee = plan.study.referee
    if referee is None:
        return
    for design in referee_designs(referee, plan.table, plan.around, plan.study.method).tolist():
        choice = _choice(plan, design)
        for launch in (each for each in plan.launches if each.choice == choice):
            limit = str(referee.max_cycles)
            key = content_key(REFEREE, launch.key, plan.base_hash, *plan.overrides(design), limit, fingerprint(REFEREE))
            yield Simulation(launch, design, key if launch.key else "")


def _choice(plan: Plan, design: int) -> tuple[tuple[str, str], ...]:
    return groups_of(plan.table.columns, np.array([design]), plan.own_keys)[0].launch
