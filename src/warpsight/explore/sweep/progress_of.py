"""How far a study is: what it takes, step by step, and what is kept of it already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import WarpsightError
from warpsight.explore.runs.fingerprint import PROFILE, fingerprint
from warpsight.explore.sweep.plan import Plan
from warpsight.explore.sweep.tasks import MISSES, design_gpu, misses_key, need_counts, opened, profile_key

if TYPE_CHECKING:
    from warpsight.explore.request import Method
    from warpsight.explore.sweep.launches import StudyLaunch
    from warpsight.gpu.spec import GpuSpec


@dataclass(frozen=True)
class Step:
    """`wanted` things of a kind, of which `known` are kept."""

    what: str
    wanted: int
    known: int


def steps_of(plan: Plan) -> list[Step]:
    """Traces, cache simulations, interval profiles, rows, referee runs. What hangs on a trace that is not there is not known."""
    launches = {each.key: each for each in plan.launches if each.key}
    tasks = [(batch, plan.is_kept(batch)) for batch in plan.batches]
    rows = len(plan.study.models) * sum(len(group.designs) for batch, _ in tasks for group in batch.groups)
    kept = len(plan.study.models) * sum(len(group.designs) for batch, known in tasks if known for group in batch.groups)
    simulated = sum(map(plan.is_kept, plan.simulations))
    misses, profiles = _shared(plan)
    return [
        Step("traces", len(launches), sum(each.known for each in launches.values())),
        Step("cache simulations", len(misses), sum(misses.values())),
        Step("interval profiles", len(profiles), sum(profiles.values())),
        Step("rows", rows, kept),
        Step("referee runs", len(plan.simulations), simulated),
    ]


def _shared(plan: Plan) -> tuple[dict[str, bool], dict[str, bool]]:
    """Cache simulations and interval profiles by key, each with whether it is kept."""
    misses: dict[str, bool] = {}
    profiles: dict[str, bool] = {}
    specs: dict[tuple[str, ...], GpuSpec | None] = {}
    counts = need_counts(plan.study.models)
    code = fingerprint(PROFILE)
    for launch, overrides, method in _works(plan):
        if overrides not in specs:
            specs[overrides] = _gpu(plan, overrides)
        gpu = specs[overrides]
        if gpu is None:
            continue
        profile = profile_key(launch.key, gpu, method, code, counts)
        if profile not in profiles:
            profiles[profile] = launch.known and plan.store.get(PROFILE, profile) is not None
            blocks = _blocks_per_sm(launch, gpu)
            key = misses_key(launch.key, gpu, blocks, method, code)
            misses[key] = profiles[profile] or (blocks > 0 and plan.store.get(MISSES, key) is not None)
    return misses, profiles


def _works(plan: Plan) -> Iterator[tuple[StudyLaunch, tuple[str, ...], Method]]:
    for batch in plan.batches:
        if batch.launch.key:
            for group in batch.groups:
                yield batch.launch, (*plan.study.overrides, *group.overrides), group.method_over(plan.study.method)


def _gpu(plan: Plan, overrides: tuple[str, ...]) -> GpuSpec | None:
    try:
        return design_gpu(plan.base, overrides)
    except WarpsightError:  # its rows will say so; it costs nothing
        return None


def _blocks_per_sm(launch: StudyLaunch, gpu: GpuSpec) -> int:
    """0 while the trace is not there, or when no block fits."""
    from warpsight.explore.pipeline import trace_occupancy

    try:
        return trace_occupancy(opened(launch.folder), gpu).blocks_per_sm if launch.known else 0
    except WarpsightError:
        return 0


def _called(launch: StudyLaunch) -> str:
    """The kernel's name, with what the launch axes say."""
    return " ".join([launch.kernel, *(f"launch.{name}={text}" for name, text in launch.choice)])


def plan_document(plan: Plan) -> dict[str, Any]:
    """What a study takes and what is known, as JSON."""
    table, study = plan.table, plan.study
    return {
        "study": study.name,
        "gpu": plan.around.name,
        "kernels": [kernel.name for kernel in study.kernels],
        "models": list(study.models),
        "axes": {axis.key: len(axis.values) for axis in study.axes},
        "derived": [key for key, _ in study.derived],
        "sampling": study.sampling.kind,
        "drawn": table.drawn,
        "excluded": table.excluded,
        "designs": len(table),
        "refused_designs": int((table.refused != 0).sum()),
        "steps": [{"what": step.what, "wanted": step.wanted, "known": step.known} for step in steps_of(plan)],
        "refused_kernels": {_called(each): each.refused for each in plan.launches if each.refused},
        "results": str(plan.store.folder),
    }
