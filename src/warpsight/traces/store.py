"""Traces on disk: a folder of Parquet files (zstd) and one JSON header, written as a stream and read one row group at a time.

The layout is described in `docs/reference/trace.md`. A folder is written under a temporary name and renamed when complete. A trace
without a folder of its own stays in memory, or goes to a temporary folder if it is large.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Self

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError, UsageError
from warpsight.base.inputs import open_input
from warpsight.base.outputs import folder_beside, put_in_place
from warpsight.base.room import drop_pages, give_back, room_for
from warpsight.base.temporary import TemporaryFolder
from warpsight.traces.packing import Packed, unpacked
from warpsight.traces.schema import ChunkSource, KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader
from warpsight.traces.store_format import (
    BLOCKS,
    FILES,
    HEADER,
    INSTRUCTIONS,
    NAME_A_TRACE,
    PATHS,
    REMEDY,
    TABLES,
    WARPS,
    StoredHeader,
    read_header,
    write_header,
)
from warpsight.traces.validate import ChunkChecker

parquet: Any = lazy.load("warpsight.traces.parquet_tables", suppress_warning=True)  # pyarrow takes long to load

# -- Reading a trace from its folder, one row group at a time.

def open_trace(path: str | Path) -> KernelTrace:
    """The trace in folder `path`. Its chunks are read from disk, and checked, as they are iterated.

    Raises FormatError, here or while the chunks are iterated, if a file is missing, cut, damaged or of another schema version,
    or if the trace contradicts itself.
    """
    folder = Path(path)
    stored = read_header(folder / HEADER)
    for name in TABLES:
        _check_size(folder / name, stored)
    instructions = _instructions(_small_table(folder / INSTRUCTIONS, stored), folder / INSTRUCTIONS)
    block_start = _block_start(_small_table(folder / BLOCKS, stored))
    paths = _paths(folder / PATHS, stored)
    checker = ChunkChecker(stored.header, instructions, block_start, paths, str(folder))
    chunks = FolderChunks(folder, stored, checker)
    return KernelTrace(stored.header, instructions, block_start, paths, chunks, str(folder), stored.notes, stored.extra)


class FolderChunks(ChunkSource):
    """The chunks of a stored trace: each row group of `warps.parquet` is one. Every row group is checked when first read, by the
    `checker` too if there is one.
    """

    def __init__(self, folder: Path, stored: StoredHeader, checker: ChunkChecker | None) -> None:
        self._path, self._stored, self._checker = folder / WARPS, stored, checker
        self._pieces = stored.files[WARPS]
        self._checked = 0
        with self._open() as file:
            _check_piece(self._path, file, sum(size for size, _ in self._pieces[:-1]), self._pieces[-1])
            metadata = _opened(self._path, file).metadata
        groups, warps = metadata.num_row_groups, metadata.num_rows
        if groups != len(self._pieces) - 1 or warps != stored.header.warps:
            stated = f"{stored.header.warps} in {len(self._pieces) - 1}"
            _damaged(self._path, f"it holds {warps} warps in {groups} row groups, and the header states {stated}")

    def __iter__(self) -> Iterator[TraceChunk]:
        with self._open() as file:
            opened = _opened(self._path, file)
            warp = position = 0
            for number, piece in enumerate(self._pieces[:-1]):
                unchecked = number >= self._checked
                if unchecked:
                    _check_piece(self._path, file, position, piece)
                try:
                    chunk: TraceChunk = parquet.chunk_of(opened.read_row_group(number, use_threads=False))
                except parquet.DAMAGE as error:
                    _damaged(self._path, str(error))
                if unchecked:
                    if self._checker is not None:
                        self._checker.check(chunk, warp)
                    self._checked = number + 1
                yield chunk
                position += piece[0]
                warp += len(chunk.path)

    def _open(self) -> IO[bytes]:
        try:
            return open_input(self._path)
        except OSError as error:
            _damaged(self._path, str(error.strerror))


def _check_size(path: Path, stored: StoredHeader) -> None:
    pieces = stored.files.get(path.name)
    if not pieces:
        _damaged(path, "header.json does not list it")
    written = sum(size for size, _ in pieces)
    try:
        size = path.stat().st_size
    except OSError as error:
        _damaged(path, str(error.strerror))
    if size != written:
        _damaged(path, f"{size} bytes, and {written} were written")


def _check_piece(path: Path, file: IO[bytes], position: int, piece: tuple[int, int]) -> None:
    try:
        file.seek(position)
        crc, left = 0, piece[0]
        while left:
            data = file.read(min(left, 1 << 20))
            if not data:
                _damaged(path, "it ends too early")
            crc, left = zlib.crc32(data, crc), left - len(data)
    except OSError as error:
        _damaged(path, str(error.strerror))
    if crc != piece[1]:
        _damaged(path, f"its bytes {position} to {position + piece[0]} are not what was written")


def _opened(path: Path, file: IO[bytes]) -> Any:
    try:
        return parquet.opened(path, file)
    except parquet.DAMAGE as error:
        _damaged(path, str(error))


@contextmanager
def _checked(path: Path, stored: StoredHeader) -> Iterator[Any]:
    """The open Parquet file, of which every byte is what was written."""
    try:
        with open_input(path) as file:
            position = 0
            for piece in stored.files[path.name]:
                _check_piece(path, file, position, piece)
                position += piece[0]
            yield _opened(path, file)
    except parquet.DAMAGE as error:
        _damaged(path, str(error))


def _small_table(path: Path, stored: StoredHeader) -> Any:
    with _checked(path, stored) as file:
        return file.read(use_threads=False)


def _instructions(table: Any, path: Path) -> tuple[StaticInstruction, ...]:
    try:
        columns = {name: table.column(name).to_pylist() for name in table.schema.names}
    except UnicodeDecodeError as error:
        _damaged(path, f"a name is not UTF-8 ({error.reason})")
    for name in ("destinations", "sources"):
        columns[name] = [tuple(registers) for registers in columns[name]]
    return tuple(StaticInstruction(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _block_start(table: Any) -> Any:
    first, size = table.column("first_pc").to_numpy(), table.column("instructions").to_numpy()
    end = first[-1:] + size[-1:] if len(first) else np.zeros(1, np.int32)
    return np.concatenate((first, end)).astype(np.int32)


def _paths(path: Path, stored: StoredHeader) -> PathTable:
    count = stored.paths
    with _checked(path, stored) as file:
        runs = file.metadata.num_rows
        if count > runs + stored.header.warps:
            _damaged(path, f"its header states {count:,} paths, more than its runs and warps can have")
        columns = {"block": room_for(runs, np.int32), "lanes": room_for(runs, np.uint8), "repeat": room_for(runs, np.int32)}
        lengths, at, last = np.zeros(count, np.int64), 0, 0
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            number = table.column("path").to_numpy()
            if not len(number):
                continue
            if bool((np.diff(number) < 0).any()) or number[0] < last or number[-1] >= count:
                _damaged(path, f"its runs are not in order of the {count} paths")
            lengths[last:] += np.bincount(number - last, minlength=count - last)
            for name, column in columns.items():
                column[at : at + len(number)] = table.column(name).to_numpy()
            drop_pages(*columns.values())
            at, last = at + len(number), int(number[-1])
    return PathTable(np.concatenate([[0], np.cumsum(lengths)]), *columns.values())


def _damaged(path: Path, why: str) -> NoReturn:
    line = (why.splitlines() or ["unreadable"])[0]
    raise FormatError(f"the trace is damaged or cut: {line}", place=str(path), remedy=REMEDY)


# -- Writing a trace to a folder while it is being made.

ROW_GROUP_BYTES = 1 << 20


class FolderSink:
    """Stores a trace in folder `path` as its chunks come; holds about one row group (1 MiB, or one chunk if larger) in memory.

    The folder has a temporary name until `finish`, and is deleted if the sink is dropped. Leaving a `with` block without `finish`
    drops it.

    Raises UsageError if `path` exists and is neither an empty folder nor (with `overwrite`) a trace: Warpsight only replaces what
    it wrote. Also if the disk refuses.
    """

    def __init__(
        self, path: str | Path, *, overwrite: bool = False, notes: tuple[str, ...] = (), extra: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
        self.notes, self.extra = notes, dict(extra or {})
        self._pending: list[TraceChunk] = []
        self._pending_bytes = self._warps = 0
        _refuse_to_destroy(self.path, overwrite)
        with _writing(self.path):
            self._new = folder_beside(self.path)
            self._folder = self._new.path
            self._warps_file = parquet.TableFile(self._folder / WARPS)

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk. A gap between chunks is the producer's defect (ValueError)."""
        if chunk.first_warp != self._warps:
            raise ValueError(f"chunk begins at warp {chunk.first_warp}, expected {self._warps}")
        self._warps += len(chunk.path)
        self._pending.append(chunk)
        self._pending_bytes += chunk.events.nbytes + chunk.sectors.nbytes + 16 * len(chunk.path)
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def describe(self, notes: tuple[str, ...], extra: Mapping[str, Any]) -> None:
        """Add notes, and keys of `extra`, that are known only after all chunks."""
        self.notes, self.extra = (*self.notes, *notes), {**self.extra, **extra}

    def restart(self) -> None:
        """Drop all chunks, on disk too."""
        self._pending, self._pending_bytes, self._warps = [], 0, 0
        with _writing(self.path):
            self._warps_file.close()
            self._warps_file = parquet.TableFile(self._folder / WARPS)

    def finish(
        self, header: TraceHeader, instructions: tuple[StaticInstruction, ...], block_start: npt.NDArray[np.int32], paths: PathTable
    ) -> KernelTrace:
        """Write what is left, rename the folder, and return the trace, opened for reading."""
        self._flush()
        small = {
            INSTRUCTIONS: [parquet.instruction_table(instructions)],
            BLOCKS: [parquet.block_table(block_start)],
            PATHS: parquet.path_tables(paths),
        }
        try:
            with _writing(self.path):
                files = {name: parquet.write_tables(self._folder / name, tables) for name, tables in small.items()}
                files[WARPS] = self._warps_file.close()
                write_header(self._folder / HEADER, StoredHeader(header, self.notes, self.extra, len(paths), files))
                put_in_place(self._new, self.path)
        except (TypeError, ValueError) as error:
            what = f"the trace has no stored form ({error})"
            raise UsageError(what, place=str(self.path), remedy="keep `extra` to JSON values, and columns to their types") from None
        return open_trace(self.path)

    def chunks(self, header: TraceHeader) -> ChunkSource:
        """Instead of `finish`: the chunks alone. They can be read as long as this sink is kept."""
        self._flush()
        with _writing(self.path):
            files = {WARPS: self._warps_file.close()}
        return FolderChunks(self._folder, StoredHeader(header, self.notes, self.extra, 0, files), None)

    def discard(self) -> None:
        """Drop what has been written. Nothing happens after `finish`."""
        if self._new.remove.alive:
            with suppress(*parquet.DAMAGE):
                self._warps_file.close()
            self._new.remove()

    def _flush(self) -> None:
        if self._pending:
            with _writing(self.path):
                self._warps_file.write(parquet.warp_table(self._pending))
            self._pending, self._pending_bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.discard()


def _refuse_to_destroy(path: Path, overwrite: bool) -> None:
    remedy = "name another folder"
    try:
        present = {entry.name for entry in path.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UsageError("this is a file, not a folder", place=str(path), remedy=remedy) from None
    except OSError as error:
        raise _disk_refuses(path, error) from None
    if present and (HEADER not in present or not present <= set(FILES)):
        raise UsageError("the folder exists and holds something other than a trace", place=str(path), remedy=remedy)
    if present and not overwrite:
        raise UsageError("the folder already contains a trace", place=str(path), remedy=f"{remedy}, or set `overwrite`")


def _disk_refuses(path: Path, error: OSError) -> UsageError:
    what = f"the trace cannot be written ({error.strerror or error})"
    return UsageError(what, place=str(path), remedy="name a folder that can be written, with space left")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _disk_refuses(path, error) from None


# -- Traces without a folder of their own: in memory while they are small, in a temporary folder beyond that.

# A trace takes about 3 bytes per warp instruction in memory, and well below 1 on disk: launches up to some 10^8 warp instructions
# never touch the disk.
MEMORY_LIMIT_BYTES = 384 << 20


class SpillingSink:
    """A sink for a trace without a folder of its own.

    Beyond `limit_bytes` of chunks they are moved to a temporary folder (`TMPDIR` names its place), which is deleted with the
    trace, or with the sink if the launch fails. Raises UsageError if the disk refuses.
    """

    def __init__(self, limit_bytes: int = MEMORY_LIMIT_BYTES) -> None:
        self._limit, self._bytes = limit_bytes, 0
        self._chunks: list[TraceChunk] = []
        self._folder: TemporaryFolder | None = None
        self._disk: FolderSink | None = None

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk, packed or not."""
        if self._disk is not None:
            self._disk.add(unpacked(chunk))
            return
        self._chunks.append(chunk)
        columns = (chunk.path, chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors)
        self._bytes += sum(column.nbytes for column in columns)
        if self._bytes > self._limit:
            self._folder = TemporaryFolder()
            self._disk = FolderSink(self._folder.path / "trace")
            for held in self._chunks:
                self._disk.add(unpacked(held))
            self._chunks = []
            give_back()

    def restart(self) -> None:
        """Forget all chunks, on disk too."""
        self._chunks, self._bytes = [], 0
        if self._disk is not None:
            self._disk.restart()

    def chunks(self, header: TraceHeader) -> ChunkSource:
        """Instead of `finish`, for a part of a trace: its chunks alone. The table of paths, which parts share, is not stored."""
        if self._disk is None or self._folder is None:
            return Packed(self._chunks)
        return _Spilled(self._disk.chunks(header), self._folder, self._disk)

    def finish(
        self, header: TraceHeader, instructions: tuple[StaticInstruction, ...], block_start: npt.NDArray[np.int32], paths: PathTable
    ) -> KernelTrace:
        """Close the trace and return it."""
        if self._disk is None or self._folder is None:
            return KernelTrace(header, instructions, block_start, paths, Packed(self._chunks))
        stored = self._disk.finish(header, instructions, block_start, paths)
        return dataclasses.replace(stored, chunks=_Spilled(stored.chunks, self._folder), origin="")


class _Spilled(ChunkSource):
    """Chunks in a temporary folder, which stays as long as they can be read: `owners` are kept."""

    def __init__(self, chunks: ChunkSource, *owners: TemporaryFolder | FolderSink) -> None:
        self._chunks, self._owners = chunks, owners

    def __iter__(self) -> Iterator[TraceChunk]:
        yield from self._chunks


# -- Whole traces.


def save_trace(trace: KernelTrace, path: str | Path, *, overwrite: bool = False) -> KernelTrace:
    """Store a trace from memory or another folder, and return the stored one.

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
