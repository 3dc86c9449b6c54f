"""A sweep from its study to its table: planned, computed by an executor, collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch, stage
from warpsight.jobs.executor import Executor
from warpsight.jobs.store import ResultStore, default_folder
from warpsight.sweeps.files import write_rows
from warpsight.sweeps.folder import StudyFolder, base_gpus
from warpsight.sweeps.launches import StudyLaunch
from warpsight.sweeps.names import DESIGN, FAILED, HALF_WIDTH, KERNEL, MODEL
from warpsight.sweeps.plan import Batch, Plan, Simulation, plan_sweep
from warpsight.sweeps.study import Study
from warpsight.sweeps.tables import NOT_YET, designs_table, empty_table, kept_if_better, labelled, result_tables
from warpsight.sweeps.tasks import run_rows, run_simulator, run_trace

# Traces and tasks that failed in the last run, with the reason. The next run tries them again.
_FAILURES = "failures"


@dataclass
class SweepRun:
    """A finished run. `reasons` are those of traces and tasks that failed as a whole, by key; refused rows have their own."""

    plan: Plan
    computed: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def open_store(results: str | Path | None) -> ResultStore:
    """The folder in which intermediate and final results are kept between runs; None: in the user's cache."""
    return ResultStore(results if results is not None else default_folder("sweeps"))


def run_sweep(study: Study, executor: Executor, *, results: str | Path | None = None, watch: Watch | None = None) -> SweepRun:
    """Everything of `study` that is not kept yet. A design or kernel that fails takes no other with it.

    Raises what `plan_sweep` raises, and NotKept when results cannot be kept.
    """
    started = perf_counter()
    store = open_store(results)
    done = SweepRun(plan_sweep(study, store))
    plan = done.plan
    distinct = list({each.key: each for each in plan.launches}.values())
    steps: tuple[tuple[str, str, Callable[[Any], str], Callable[[], list[Any]], Sequence[StudyLaunch]], ...] = (
        ("traces", "running the kernels", run_trace, plan.trace_tasks, distinct),
        ("tasks", "caches, profiles and models", run_rows, plan.row_tasks, [each.launch for each in plan.batches]),
        ("simulator runs", "simulating", run_simulator, plan.simulator_tasks, [each.launch for each in plan.simulations]),
    )
    for name, activity, work, tasks_of, launches in steps:
        tasks = tasks_of()
        # a kernel that cannot run is neither known nor computed
        possible = sum(bool(each.key) and (name == "traces" or each.known(store)) for each in launches)
        done.known[name], done.computed[name] = possible - len(tasks), len(tasks)
        if tasks:
            for task, reason in executor.run(work, tasks, stage(watch, activity)).items():
                store.put(_FAILURES, task.key, {"reason": reason})
                done.reasons[task.key] = reason
    _note_failures(plan, done.reasons)
    done.seconds = perf_counter() - started
    return done


def with_known_failures(plan: Plan) -> Plan:
    """`plan` whose launches and tasks that are not kept say why an earlier run could not make them."""
    traces = [each.key for each in plan.launches if each.key and not each.known(plan.store)]
    parts: list[Batch | Simulation] = [*plan.batches, *plan.simulations]
    tasks = [each.key for each in parts if each.key and not plan.is_kept(each)]
    failures = {key: plan.store.get(_FAILURES, key) for key in (*traces, *tasks)}
    _note_failures(plan, {key: str(failure["reason"]) for key, failure in failures.items() if failure is not None})
    return plan


def _note_failures(plan: Plan, reasons: dict[str, str]) -> None:
    """A trace or a task that failed gives its reason, by its key, to the rows that it would have made."""

    def refused(launch: StudyLaunch, *keys: str) -> StudyLaunch:
        reason = next((reasons[key] for key in (launch.key, *keys) if key in reasons), "")
        return replace(launch, refused=reason) if reason else launch

    plan.launches = tuple(refused(each) for each in plan.launches)
    plan.batches = tuple(replace(each, launch=refused(each.launch, each.key)) for each in plan.batches)
    plan.simulations = tuple(replace(each, launch=refused(each.launch, each.key)) for each in plan.simulations)


def write_results(plan: Plan, folder: StudyFolder, *, missing: str = NOT_YET) -> int:
    """The folder's tables, each whole or not at all. The number of rows. Raises UsageError when they cannot be written."""
    try:
        designs = designs_table(plan)
        write_rows([designs], labelled(plan, folder, designs.schema), folder.designs)
        schema = labelled(plan, folder, empty_table(plan).schema)
        with kept_if_better(folder, schema):
            return write_rows(result_tables(plan, missing=missing), schema, folder.table)
    except OSError as error:
        remedy = "free space, then `warpsight sweep collect`: what was computed is kept"
        raise UsageError(f"cannot be written: {error.strerror or error}", place=str(folder.table), remedy=remedy) from None


def outcome_document(done: SweepRun, folder: StudyFolder) -> dict[str, Any]:
    """What a run did and where its table is, as JSON."""
    plan = done.plan
    return {
        **collected_document(folder),
        "excluded_designs": plan.table.excluded,
        "computed": done.computed,
        "known": done.known,
        "seconds": done.seconds,
        "kept_in": str(plan.store.folder),
    }


def collected_document(folder: StudyFolder) -> dict[str, Any]:
    """What is in a study's table: numbers of rows, and the reasons of those that failed, the most frequent first."""
    table = pq.read_table(folder.table, columns=[DESIGN, KERNEL, MODEL, FAILED, HALF_WIDTH])
    widths = table[HALF_WIDTH].to_numpy()
    failed = {row["values"]: row["counts"] for row in pc.value_counts(table[FAILED].cast("string")).to_pylist() if row["values"]}
    return {
        "study": folder.study.name,
        "folder": str(folder.path),
        "table": str(folder.table),
        "rows": table.num_rows,
        "gpu": base_gpus(folder.study),
        "designs": len(pc.unique(table[DESIGN])),
        "kernels": sorted(pc.unique(table[KERNEL].cast("string")).to_pylist()),
        "models": sorted(pc.unique(table[MODEL].cast("string")).to_pylist()),
        "failed_rows": sum(failed.values()),
        "sampled_rows": int((widths > 0).sum()),
        "largest_half_width": float(np.nanmax(widths, initial=0.0)),
        "before": str(folder.before) if folder.before.exists() else None,
        "reasons": dict(sorted(failed.items(), key=lambda item: (-item[1], item[0]))),
    }
