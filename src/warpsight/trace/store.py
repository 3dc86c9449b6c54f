"""Traces on disk: a folder of Parquet files (zstd) and one JSON header, written as a stream and read piece by piece.

The layout is described in `docs/reference/trace.md`. A folder appears whole or not at all: it is made beside its place and renamed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.trace.schema import KernelTrace
from warpsight.trace.store_header import NAME_A_TRACE
from warpsight.trace.store_read import open_trace
from warpsight.trace.store_schema import FILES
from warpsight.trace.store_write import FolderSink

__all__ = ["FolderSink", "open_trace", "save_trace", "trace_bytes"]


def save_trace(trace: KernelTrace, path: str | Path, *, overwrite: bool = False) -> KernelTrace:
    """Store a trace that exists already, in memory or in another folder, and give the stored one back.

    Raises UsageError if `path` cannot be written or must not be overwritten (see FolderSink), or if `trace.extra` has no JSON form.
    """
    with FolderSink(path, overwrite=overwrite, notes=trace.notes, extra=trace.extra) as sink:
        for chunk in trace.chunks:
            sink.add(chunk)
        return sink.finish(trace.header, trace.instructions, np.asarray(trace.block_start, np.int32), trace.paths)


def trace_bytes(path: str | Path) -> int:
    """Bytes of the files of the trace in folder `path`. Raises UsageError if there is none."""
    folder = Path(path)
    try:
        return sum((folder / name).stat().st_size for name in FILES)
    except OSError as error:
        what = f"there is no trace here ({error.strerror})"
        raise UsageError(what, place=str(folder), remedy=NAME_A_TRACE) from None
