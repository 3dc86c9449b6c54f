"""Writing a trace to a folder while it is being made."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.base.errors import UsageError
from warpsight.trace import store_schema as tables
from warpsight.trace.schema import KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader
from warpsight.trace.store_files import TableFile, write_table
from warpsight.trace.store_header import StoredHeader, write_header
from warpsight.trace.store_read import open_trace

ROW_GROUP_BYTES = 1 << 20


class FolderSink:
    """Stores a trace in folder `path` as its chunks come; holds about one row group (1 MiB, or one chunk if larger) in memory.

    The folder appears at `finish`, whole; until then it grows beside its place under a temporary name, which goes away if the sink
    is dropped. Used in a `with` block, leaving the block without `finish` drops it.

    Raises UsageError at once if `path` exists and is neither an empty folder nor (with `overwrite`) a trace: what Warpsight did not
    write is never replaced. Also whenever the disk refuses.
    """

    def __init__(
        self, path: str | Path, *, overwrite: bool = False, notes: tuple[str, ...] = (), extra: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
        self.notes, self.extra = notes, dict(extra or {})
        self._pending: list[TraceChunk] = []
        self._pending_bytes = self._warps = 0
        _refuse_to_destroy(self.path, overwrite)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", suffix=".partial", dir=self.path.parent))
            self._cleanup = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self._warps_file = TableFile(self._folder / tables.WARPS)
        except OSError as error:
            raise _disk_refuses(self.path, error) from None

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk. Chunks follow each other without a gap; a gap is the producer's defect (ValueError)."""
        if chunk.first_warp != self._warps:
            raise ValueError(f"chunk begins at warp {chunk.first_warp}, expected {self._warps}")
        self._warps += len(chunk.path)
        self._pending.append(chunk)
        self._pending_bytes += chunk.events.nbytes + chunk.sectors.nbytes + 16 * len(chunk.path)
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def describe(self, notes: tuple[str, ...], extra: Mapping[str, Any]) -> None:
        """Add notes, and keys of `extra`, that are only known when all chunks have come."""
        self.notes, self.extra = (*self.notes, *notes), {**self.extra, **extra}

    def restart(self) -> None:
        """Forget all chunks, on disk too."""
        self._pending, self._pending_bytes, self._warps = [], 0, 0
        try:
            self._warps_file.close()
            self._warps_file = TableFile(self._folder / tables.WARPS)
        except OSError as error:
            raise _disk_refuses(self.path, error) from None

    def finish(
        self,
        header: TraceHeader,
        instructions: tuple[StaticInstruction, ...],
        block_start: npt.NDArray[np.int32],
        paths: PathTable,
    ) -> KernelTrace:
        """Write what is left, put the folder in its place, and give the trace back, opened for reading."""
        self._flush()
        small = {
            tables.INSTRUCTIONS: tables.instruction_table(instructions),
            tables.BLOCKS: tables.block_table(block_start),
            tables.PATHS: tables.path_table(paths),
        }
        try:
            files = {name: write_table(self._folder / name, table) for name, table in small.items()}
            files[tables.WARPS] = self._warps_file.close()
            write_header(self._folder / tables.HEADER, StoredHeader(header, self.notes, self.extra, len(paths), files))
            _put_in_place(self._folder, self.path)
        except OSError as error:
            raise _disk_refuses(self.path, error) from None
        except (TypeError, ValueError) as error:
            what = f"the trace has no stored form ({error})"
            raise UsageError(what, place=str(self.path), remedy="keep `extra` to JSON values, and columns to their types") from None
        self._cleanup.detach()
        return open_trace(self.path)

    def discard(self) -> None:
        """Drop what has been written. Nothing happens after `finish`."""
        if self._cleanup.alive:
            with suppress(OSError, ValueError, pa.ArrowException):
                self._warps_file.close()
            self._cleanup()

    def _flush(self) -> None:
        if not self._pending:
            return
        try:
            self._warps_file.write(tables.warp_table(self._pending))
        except OSError as error:
            raise _disk_refuses(self.path, error) from None
        self._pending, self._pending_bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.discard()


def _refuse_to_destroy(path: Path, overwrite: bool) -> None:
    remedy = "name another folder"
    try:
        found = {entry.name for entry in path.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UsageError("the trace cannot go here: it is a file", place=str(path), remedy=remedy) from None
    except OSError as error:
        raise _disk_refuses(path, error) from None
    if not found:
        return
    if tables.HEADER not in found or not found <= set(tables.FILES):
        raise UsageError("the folder exists and holds something other than a trace", place=str(path), remedy=remedy)
    if not overwrite:
        overwriting = f"{remedy}, or ask for it to be overwritten (overwrite=True)"
        raise UsageError("a trace is here already", place=str(path), remedy=overwriting)


def _put_in_place(new: Path, place: Path) -> None:
    new.chmod(0o755)
    if not place.exists():
        new.rename(place)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".old", dir=place.parent))
    place.rename(old)  # onto an empty folder, which rename replaces
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _disk_refuses(path: Path, error: OSError) -> UsageError:
    what = f"the trace cannot be written ({error.strerror or error})"
    return UsageError(what, place=str(path), remedy="name a folder that can be written, with space left")
