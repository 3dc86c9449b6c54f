"""The tables of a study: put together from what is kept, labelled with the study and GPU that they are of, and replaced safely."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warpsight.base.errors import FormatError
from warpsight.gpu.key import FLAG
from warpsight.gpu.keys import key_of
from warpsight.jobs.fingerprint import SIMULATOR as SIMULATOR_KIND
from warpsight.models.base import STACK_PREFIX
from warpsight.pipeline.rows import WORDS, failed_rows, number_columns
from warpsight.sweeps.designs import Longs
from warpsight.sweeps.files import read_part, rows_table, temporary_beside
from warpsight.sweeps.folder import StudyFolder
from warpsight.sweeps.names import DESIGN, FAILED, KERNEL, SIMULATOR
from warpsight.sweeps.plan import Batch, Plan, Simulation
from warpsight.sweeps.study import Study
from warpsight.sweeps.study_document import study_document
from warpsight.sweeps.tasks import PARQUET, ROWS

NOT_YET = "not computed yet; `warpsight sweep resume` continues"


def result_tables(plan: Plan, *, missing: str = "") -> Iterator[pa.Table]:
    """Rows in the order of launches, groups and models; then the simulator's; then, for each kernel, designs that were refused.

    What is not kept is left out, or, with `missing`, a row that failed for that reason.
    """
    batches = (_rows(plan, batch, missing) for batch in plan.batches)
    simulations = (_simulator_row(plan, each, missing) for each in plan.simulations)
    yield from (table for table in chain(batches, simulations) if table is not None)
    refused = np.flatnonzero(plan.table.refused)
    if len(refused):
        reasons = [plan.table.refusal(int(design)) for design in refused]
        for kernel in plan.study.kernels:
            for model in plan.study.models:
                rows = failed_rows("", len(refused), model, _numbers(plan)) | {FAILED: reasons}
                yield _with_design(plan, kernel.name, refused, rows_table(rows))


def designs_table(plan: Plan) -> pa.Table:
    """The number, axes and derived keys of every design."""
    return rows_table({DESIGN: np.arange(len(plan.table), dtype=np.int64), **plan.table.columns})


def empty_table(plan: Plan) -> pa.Table:
    """No rows, with the columns and types of all of them."""
    return _with_design(plan, "", np.zeros(0, dtype=np.int64), rows_table(failed_rows("", 0, "", _numbers(plan))))


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
    rows = failed_rows(reason, len(designs), "", _numbers(plan)) | {"model": names}
    return _with_design(plan, batch.launch.kernel, designs, rows_table(rows))


def _simulator_row(plan: Plan, each: Simulation, missing: str) -> pa.Table | None:
    document = plan.store.get(SIMULATOR_KIND, each.key) if each.key else None
    reason = each.launch.refused or missing
    if document is None and not reason:
        return None
    if document is None or "failed" in document:
        rows = failed_rows(document["failed"] if document else reason, 1, SIMULATOR, _numbers(plan))
    else:
        values = {**document, **{f"{STACK_PREFIX}{name}": value for name, value in document["cpi_stack"].items()}}
        names = (*_numbers(plan), "dpki", "occupancy")
        floats = {name: np.array([values.get(name, 0.0)], dtype=np.float64) for name in names}
        words = {name: [document[name]] for name in WORDS}
        executed = np.array([document["warp_instructions"]], dtype=np.int64)
        rows = {"model": [SIMULATOR], **floats, "warp_instructions": executed, **words, "failed": [""]}
    return _with_design(plan, each.launch.kernel, np.array([each.design]), rows_table(rows))


def _numbers(plan: Plan) -> tuple[str, ...]:
    return number_columns(plan.study.models)


def _with_design(plan: Plan, kernel: str, designs: Longs, rows: pa.Table) -> pa.Table:
    """`rows` behind the number and the values of their designs and the kernel's name, in the order that `rows` describes."""
    values: dict[str, Any] = {DESIGN: designs.astype(np.int64)}
    values |= {key: column[designs] for key, column in plan.table.columns.items()}
    values[KERNEL] = [kernel] * len(designs)
    front = rows_table(values)
    for name in ("model", *_numbers(plan), "warp_instructions", "dpki", "occupancy", *WORDS, FAILED):
        front = front.append_column(name, rows.column(name))
    return front


# -- The labels of the tables: the study and GPU that they belong to, so that no two runs are taken for one.
#
# A run that ends between the two tables, or before both, leaves tables of another study beside the new description.

_STUDY, _GPU, _CONSTANTS = b"warpsight.study", b"warpsight.gpu", b"warpsight.constants"
Constants = dict[str, float | str]


def labelled(plan: Plan, folder: StudyFolder, schema: pa.Schema) -> pa.Schema:
    """`schema` with the labels of the folder's study, and the values of the GPU around which its designs lie."""
    constants = json.dumps(constants_of(plan), sort_keys=True)
    described = " ".join(plan.base_hashes.values())
    return schema.with_metadata({
        _STUDY: _study_hash(folder.study).encode(), _GPU: described.encode(), _CONSTANTS: constants.encode(),
    })  # fmt: skip


def checked_constants(folder: StudyFolder, table: pa.Table, designs: pa.Table) -> Constants:
    """The values of the GPU around which the designs lie. Raises FormatError for tables that are not of the folder's study."""
    labels, beside = ({**(each.schema.metadata or {})} for each in (table, designs))
    same = all(labels.get(label) == beside.get(label) for label in (_STUDY, _GPU))
    if not same or labels.get(_STUDY) != _study_hash(folder.study).encode():
        what = "belongs to another run than the rest of its folder: an earlier study, or another description of the GPU"
        raise FormatError(what, place=str(folder.table), remedy=f"`warpsight sweep resume {folder.path}` writes it again")
    try:
        constants: Constants = json.loads(beside[_CONSTANTS])
    except (KeyError, ValueError):
        remedy = f"`warpsight sweep collect {folder.path}` writes it again"
        raise FormatError("does not say what its GPU is", place=str(folder.designs), remedy=remedy) from None
    return constants


def constants_of(plan: Plan) -> Constants:
    """The values that all GPUs of the study have, as columns of designs have them: numbers in base units, words, flags as texts."""
    first, *others = (gpu.by_key for gpu in plan.around.values())
    values: dict[str, Any] = {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}
    return {
        name: value if isinstance(value, str) else str(value).lower() if key_of(name).kind == FLAG else float(value)
        for name, value in values.items()
    }


def _study_hash(study: Study) -> str:
    return hashlib.sha256(json.dumps(study_document(study), sort_keys=True).encode()).hexdigest()


# -- A table that is replaced by one with fewer results is kept beside it: a kernel's file may have gone, or Warpsight changed.

@contextmanager
def kept_if_better(folder: StudyFolder, schema: pa.Schema) -> Iterator[None]:
    """Around the writing of the table: what was there stays as `folder.before` if it is of the same study and had more results."""
    there = _results_in(folder.table, schema)
    held = temporary_beside(folder.before)
    if there:
        os.link(folder.table, held)
    try:
        yield
        now = _results_in(folder.table, schema)
        if there > now:
            held.replace(folder.before)
        elif _results_in(folder.before, schema) <= now:
            folder.before.unlink(missing_ok=True)
    finally:
        held.unlink(missing_ok=True)


def _results_in(path: Path, schema: pa.Schema) -> int:
    """Rows with numbers, of a table with the labels of `schema`; 0 where there is none or it is another's or damaged."""
    try:
        table = pq.read_table(path, columns=[FAILED])
    except (OSError, pa.ArrowException):
        return 0
    if table.schema.metadata != schema.metadata:
        return 0
    return int(pc.sum(pc.equal(table[FAILED].cast("string"), "")).as_py() or 0)
