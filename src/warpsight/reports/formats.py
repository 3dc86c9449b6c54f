"""Documents and rows as JSON, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.outputs import write_whole, written_whole


def json_text(document: Any) -> str:
    """Indented JSON, keys in the document's order. Raises ValueError for NaN or infinity, which JSON cannot represent."""
    return json.dumps(document, indent=2, allow_nan=False, default=_plain)


def documents_json(documents: list[Any]) -> str:
    """One document as an object, several as a list."""
    return json_text(documents[0] if len(documents) == 1 else documents)


def plain(document: Any) -> Any:
    """The document after a round trip through JSON: tuples become lists, keys become strings."""
    return json.loads(json_line(document))


def json_line(document: Any) -> str:
    """The document as one line of JSON, by Python's encoder in C, which makes no indents. Raises ValueError for NaN or infinity."""
    return json.dumps(document, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as Python objects."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a result document")


# -- Predictions as CSV: one row each, one column per CPI-stack component.

_FLAT = (
    "kernel", "gpu", "model", "cycles", "seconds", "warp_instructions", "ipc_sm_warp", "ipc_gpu_warp", "ipc_gpu_thread", "cpi",
    "bound_by", "dpki", "class", "occupancy", "occupancy_limiter",
)  # fmt: skip


def predictions_csv(documents: list[dict[str, Any]]) -> str:
    """A header and one row per prediction, with the documents' components as `cpi_stack.NAME`. Unknown values are empty.

    The keys of `provenance.varied` come first.
    """
    labels = dict.fromkeys(name for document in documents for name in document["provenance"].get("varied", ()))
    varied = [name for name in labels if name not in _FLAT]
    stack = list(dict.fromkeys(name for document in documents for name in document["cpi_stack"]))
    rows = [
        [*(document["provenance"].get("varied", {}).get(key) for key in varied), *(document[key] for key in _FLAT),
         *(document["cpi_stack"].get(name) for name in stack)]
        for document in documents
    ]  # fmt: skip
    return csv_text([*varied, *_FLAT, *(f"cpi_stack.{name}" for name in stack)], rows).rstrip("\n")


# -- Rows as CSV text or a Parquet file, and texts as files.

def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header and one line per row; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def csv_table(rows: Sequence[dict[str, Any]]) -> str:
    """A header and one line per row; the columns are the keys of the first."""
    keys = list(rows[0]) if rows else []
    return csv_text(keys, ([row[key] for key in keys] for row in rows))


def write_text(path: str, text: str) -> None:
    """Write `text` to `path`. Raises UsageError if it cannot be written."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=path, remedy="name a file in a writable folder") from None


def write_parquet(path: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with the same keys to `path`, compressed with zstd. Raises UsageError if it cannot be written."""
    from pyarrow import Table, parquet  # not at the top: it takes long to load, and a lazy submodule would load it at once

    try:
        with written_whole(path) as temporary:
            parquet.write_table(Table.from_pylist(list(rows)), temporary, compression="zstd")
    except OSError as error:
        what, remedy = f"cannot be written: {error.strerror or error}", "name a file in a writable folder"
        raise UsageError(what, place=path, remedy=remedy) from None
