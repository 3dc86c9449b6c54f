"""Files of a study: written whole or not at all, also where two runs write them at once, and rows of results as Parquet."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warpsight.base.outputs import written_whole
from warpsight.jobs.store import remove_if_stale
from warpsight.models.base import STACK_PREFIX
from warpsight.pipeline.rows import NUMBERS, WORDS
from warpsight.sweeps.names import FAILED, KERNEL, MODEL


def temporary_beside(path: Path) -> Path:
    """A unique name beside `path`, which `forget_the_unfinished` recognizes after a run was killed."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")


def is_unfinished(path: Path) -> bool:
    """Whether `path` is a temporary file that a killed run left."""
    return path.name.startswith(".") and path.suffix == ".new"


def forget_the_unfinished(folder: Path) -> None:
    """Removes temporary files in `folder` that runs killed a day ago or more left."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_unfinished(path):
                remove_if_stale(path)


# -- Rows as Parquet: parts as they are computed, and a study's whole table.

_REPEATED = (KERNEL, MODEL, *WORDS, FAILED)
_FLOATS = (*NUMBERS, "dpki", "occupancy")


def rows_table(columns: dict[str, Any]) -> pa.Table:
    """Columns of `rows` as an Arrow table; texts that repeat are dictionary-encoded."""
    arrays = {}
    for name, values in columns.items():
        if name in _REPEATED or (not isinstance(values, np.ndarray) or values.dtype.kind not in "fi"):
            arrays[name] = pa.array(list(values), pa.string()).dictionary_encode()
        else:
            # no number is absent, not NaN: what reads the table then leaves it out of its means
            arrays[name] = pa.array(values, from_pandas=name in _FLOATS or name.startswith(STACK_PREFIX))
    return pa.table(arrays)


def part_bytes(columns: dict[str, Any]) -> bytes:
    """Rows of one task as a Parquet file."""
    out = pa.BufferOutputStream()
    pq.write_table(rows_table(columns), out, compression="zstd")
    return bytes(out.getvalue())


def read_part(data: bytes) -> pa.Table:
    """What `part_bytes` wrote."""
    return pq.read_table(pa.BufferReader(data))


def write_rows(tables: Iterable[pa.Table], schema: pa.Schema, path: Path) -> int:
    """The tables below each other in one file, which appears whole. The number of rows."""
    rows = 0
    with written_whole(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table.cast(schema))
            rows += table.num_rows
    return rows
