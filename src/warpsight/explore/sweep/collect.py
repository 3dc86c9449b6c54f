"""The table of a study's results, put together from what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.explore.runs.fingerprint import REFEREE as REFEREE_KIND
from warpsight.explore.sweep.evaluate import failed_rows
from warpsight.explore.sweep.part_files import read_part, rows_table
from warpsight.explore.sweep.plan import Batch, Plan, Simulation
from warpsight.explore.sweep.rows import DESIGN, FAILED, KERNEL, NUMBERS, REFEREE
from warpsight.explore.sweep.tasks import PARQUET, ROWS
from warpsight.result.prediction import COMPONENTS

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.explore.sweep.groups import Longs

NOT_YET = "not computed yet; `warpsight sweep resume` goes on"


def result_tables(plan: Plan, *, missing: str = "") -> Iterator[pa.Table]:
    """Rows in the order of launches, groups and models; then the referee's; then, for each kernel, designs that were refused.

    What is not kept is left out, or, with `missing`, a row that failed for that reason.
    """
    for batch in plan.batches:
        table = _rows(plan, batch, missing)
        if table is not None:
            yield table
    for each in plan.simulations:
        table = _referee_row(plan, each, missing)
        if table is not None:
            yield table
    refused = np.flatnonzero(plan.table.refused)
    if len(refused):
        reasons = [plan.table.refusal(int(design)) for design in refused]
        for kernel in plan.study.kernels:
            for model in plan.study.models:
                rows = failed_rows("", len(refused), model) | {FAILED: reasons}
                yield _with_design(plan, kernel.name, refused, rows_table(rows))


def designs_table(plan: Plan) -> pa.Table:
    """The number, axes and derived keys of every design."""
    numbers = np.arange(len(plan.table), dtype=np.int64)
    return rows_table({DESIGN: numbers, **plan.table.columns})


def empty_table(plan: Plan) -> pa.Table:
    """No rows, with the columns and types of all of them."""
    none = np.zeros(0, dtype=np.int64)
    return _with_design(plan, "", none, rows_table(failed_rows("", 0, "")))


def _rows(plan: Plan, batch: Batch, missing: str) -> pa.Table | None:
    models = plan.study.models
    designs = np.concatenate([np.tile(group.designs, len(models)) for group in batch.groups])
    data = plan.store.get_bytes(ROWS, batch.key, PARQUET) if batch.key else None
    if data is not None:
        return _with_design(plan, batch.launch.kernel, designs, read_part(data))
    reason = batch.launch.refused or missing
    if not reason:
        return None
    names = [model for group in batch.groups for model in models for _ in group.designs]
    rows = failed_rows(reason, len(designs), "") | {"model": names}
    return _with_design(plan, batch.launch.kernel, designs, rows_table(rows))


def _referee_row(plan: Plan, each: Simulation, missing: str) -> pa.Table | None:
    found = plan.store.get(REFEREE_KIND, each.key) if each.key else None
    reason = each.launch.refused or missing
    if found is None and not reason:
        return None
    if found is None or "failed" in found:
        rows = failed_rows(found["failed"] if found else reason, 1, REFEREE)
    else:
        stack = {f"cpi_stack.{name}": found["cpi_stack"][name] for name in COMPONENTS}
        floats = {name: np.array([{**found, **stack}[name]], dtype=np.float64) for name in (*NUMBERS, "dpki", "occupancy")}
        words = {name: [found[name]] for name in ("bound_by", "class", "occupancy_limiter")}
        executed = np.array([found["warp_instructions"]], dtype=np.int64)
        rows = {"model": [REFEREE], **floats, "warp_instructions": executed, **words, "failed": [""]}
    return _with_design(plan, each.launch.kernel, np.array([each.design]), rows_table(rows))


def _with_design(plan: Plan, kernel: str, designs: Longs, rows: pa.Table) -> pa.Table:
    """`rows` behind the number and the values of their designs and the kernel's name, in the order that `rows` describes."""
    values: dict[str, Any] = {DESIGN: designs.astype(np.int64)}
    values |= {key: column[designs] for key, column in plan.table.columns.items()}
    values[KERNEL] = [kernel] * len(designs)
    front = rows_table(values)
    for name in ("model", *NUMBERS, "warp_instructions", "dpki", "occupancy", "bound_by", "class", "occupancy_limiter", "failed"):
        front = front.append_column(name, rows.column(name))
    return front
