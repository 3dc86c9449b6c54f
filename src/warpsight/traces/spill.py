"""Traces without a folder of their own: in memory while they are small, in a temporary folder beyond that."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsight.traces.schema import ChunkSource, InMemory, KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader
from warpsight.traces.store import FolderSink

# A trace takes about 3 bytes per warp instruction in memory, and well below 1 on disk: launches up to some 10^8 warp instructions
# never touch the disk.
MEMORY_LIMIT_BYTES = 512 << 20


class SpillingSink:
    """A sink for a trace without a folder of its own.

    Beyond `limit_bytes` of chunks they are moved to a temporary folder (`TMPDIR` names its place), which is deleted with the
    trace, or with the sink if the launch fails. Raises UsageError if the disk refuses.
    """

    def __init__(self, limit_bytes: int = MEMORY_LIMIT_BYTES) -> None:
        self._limit, self._bytes = limit_bytes, 0
        self._chunks: list[TraceChunk] = []
        self._folder: _TemporaryFolder | None = None
        self._disk: FolderSink | None = None

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk."""
        if self._disk is not None:
            self._disk.add(chunk)
            return
        self._chunks.append(chunk)
        self._bytes += chunk.events.nbytes + chunk.sectors.nbytes
        if self._bytes > self._limit:
            self._spill()

    def restart(self) -> None:
        """Forget all chunks, on disk too."""
        self._chunks, self._bytes = [], 0
        if self._disk is not None:
            self._disk.restart()

    def finish(
        self,
        header: TraceHeader,
        instructions: tuple[StaticInstruction, ...],
        block_start: npt.NDArray[np.int32],
        paths: PathTable,
    ) -> KernelTrace:
        """Close the trace and return it."""
        if self._disk is None or self._folder is None:
            return KernelTrace(header, instructions, block_start, paths, InMemory(self._chunks))
        stored = self._disk.finish(header, instructions, block_start, paths)
        return dataclasses.replace(stored, chunks=_Spilled(stored.chunks, self._folder), origin="")

    def _spill(self) -> None:
        self._folder = _TemporaryFolder()
        self._disk = FolderSink(self._folder.path / "trace")
        for chunk in self._chunks:
            self._disk.add(chunk)
        self._chunks = []


class _TemporaryFolder:
    """A folder that is deleted with this object, or at the end of the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="warpsight-trace."))
        self._cleanup = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _Spilled(ChunkSource):
    """Chunks in a temporary folder, which stays as long as they can be read."""

    def __init__(self, chunks: ChunkSource, folder: _TemporaryFolder) -> None:
        self._chunks, self._folder = chunks, folder

    def __iter__(self) -> Iterator[TraceChunk]:
        yield from self._chunks
