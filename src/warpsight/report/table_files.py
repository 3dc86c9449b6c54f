"""Rows as CSV text or a Parquet file, and texts as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError


def csv_table(rows: Sequence[dict[str, Any]]) -> str:
    """A heading and one line per row; the columns are the keys of the first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_text(path: str, text: str) -> None:
    """Write `text` to `path`. Raises UsageError where that cannot be."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=path, remedy="name a file in a folder of yours") from None


def write_parquet(path: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with the same keys to `path`, compressed with zstd. Raises UsageError where that cannot be."""
    import pyarrow
    from pyarrow import parquet

    try:
        parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path, compression="zstd")
    except OSError as error:
        raise UsageError(f"cannot be written: {error}", place=path, remedy="name a file in a folder of yours") from None
