"""Rows as Parquet: parts as they are computed, and a study's whole table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.explore.sweep.rows import FAILED, KERNEL, MODEL, NUMBERS, WORDS
from warpsight.explore.sweep.whole_files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

_REPEATED = (KERNEL, MODEL, *WORDS, FAILED)
_FLOATS = (*NUMBERS, "dpki", "occupancy")


def rows_table(columns: dict[str, Any]) -> pa.Table:
    """Columns of `rows` as an Arrow table; texts that repeat are dictionary-encoded."""
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if name in _REPEATED or (not isinstance(values, np.ndarray) or values.dtype.kind not in "fi"):
            arrays[name] = pa.array(list(values), pa.string()).dictionary_encode()
        else:
            # no number is absent, not NaN: what reads the table then leaves it out of its means
            arrays[name] = pa.array(values, from_pandas=name in _FLOATS)
    return pa.table(arrays)


def part_bytes(columns: dict[str, Any]) -> bytes:
    """Rows of one task as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = pa.BufferOutputStream()
    pq.write_table(rows_table(columns), out, compression="zstd")
    return bytes(out.getvalue())


def read_part(data: bytes) -> pa.Table:
    """What `part_bytes` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(data))


def write_rows(tables: Iterable[pa.Table], schema: pa.Schema, path: Path) -> int:
    """The tables below each other in one file, which appears whole. The number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    with written_whole(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table.cast(schema))
            rows += table.num_rows
    return rows
