"""A table that is replaced by one with fewer results is kept beside it: a kernel's file may have gone, or Warpsight changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.explore.sweep.folder import StudyFolder
from warpsight.explore.sweep.rows import FAILED
from warpsight.explore.sweep.whole_files import temporary_beside

if TYPE_CHECKING:
    import pyarrow as pa


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
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=[FAILED])
    except (OSError, pa.ArrowException):
        return 0
    if table.schema.metadata != schema.metadata:
        return 0
    return int(pc.sum(pc.equal(table[FAILED].cast("string"), "")).as_py() or 0)
