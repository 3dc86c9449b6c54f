"""Reading a trace from its folder, one row group at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warpsight.base.errors import FormatError
from warpsight.trace import store_schema as tables
from warpsight.trace.schema import ChunkSource, KernelTrace, PathTable, StaticInstruction, TraceChunk
from warpsight.trace.store_header import REMEDY, StoredHeader, read_header
from warpsight.trace.validate import ChunkChecker

_DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError)


def open_trace(path: str | Path) -> KernelTrace:
    """The trace in folder `path`. Its chunks are read from disk, and checked, as they are iterated.

    Raises FormatError, here or while the chunks are iterated, if a file is missing, cut, damaged or of another schema version,
    or if the trace contradicts itself.
    """
    folder = Path(path)
    stored = read_header(folder / tables.HEADER)
    for name in tables.TABLES:
        _size_is_right(folder / name, stored)
    instructions = _instructions(_small_table(folder / tables.INSTRUCTIONS, stored))
    block_start = _block_start(_small_table(folder / tables.BLOCKS, stored))
    paths = _paths(_small_table(folder / tables.PATHS, stored), stored.paths, folder / tables.PATHS)
    checker = ChunkChecker(stored.header, instructions, block_start, paths, str(folder))
    chunks = FolderChunks(folder, stored, checker)
    return KernelTrace(stored.header, instructions, block_start, paths, chunks, str(folder), stored.notes, stored.extra)


class FolderChunks(ChunkSource):
    """The chunks of a stored trace: each row group of `warps.parquet` is one. Every row group is checked when first read."""

    def __init__(self, folder: Path, stored: StoredHeader, checker: ChunkChecker) -> None:
        self._path, self._stored, self._checker = folder / tables.WARPS, stored, checker
        self._pieces = stored.files[tables.WARPS]
        self._checked = 0
        with self._open() as file:
            size = sum(size for size, _ in self._pieces)
            _piece_is_whole(self._path, file, size - self._pieces[-1][0], self._pieces[-1])
            groups, warps = _shape(self._path, file)
        if groups != len(self._pieces) - 1 or warps != stored.header.warps:
            wanted = f"{stored.header.warps} in {len(self._pieces) - 1}"
            _damaged(self._path, f"it holds {warps} warps in {groups} row groups, where the header says {wanted}")

    def __iter__(self) -> Iterator[TraceChunk]:
        with self._open() as file:
            parquet = _opened(self._path, file)
            warp = at = 0
            for number, piece in enumerate(self._pieces[:-1]):
                chunk = self._read(file, parquet, number, at, warp)
                yield chunk
                at += piece[0]
                warp += len(chunk.path)

    def _read(self, file: IO[bytes], parquet: Any, number: int, at: int, warp: int) -> TraceChunk:
        fresh = number >= self._checked
        if fresh:
            _piece_is_whole(self._path, file, at, self._pieces[number])
        try:
            chunk = tables.chunk_of(parquet.read_row_group(number, use_threads=False))
        except _DAMAGE as error:
            _damaged(self._path, str(error))
        if fresh:
            self._checker.check(chunk, warp)
            self._checked = number + 1
        return chunk

    def _open(self) -> IO[bytes]:
        try:
            return self._path.open("rb")
        except OSError as error:
            _damaged(self._path, str(error.strerror))


def _size_is_right(path: Path, stored: StoredHeader) -> None:
    pieces = stored.files.get(path.name)
    if not pieces:
        _damaged(path, "header.json does not list it")
    wanted = sum(size for size, _ in pieces)
    try:
        got = path.stat().st_size
    except OSError as error:
        _damaged(path, str(error.strerror))
    if got != wanted:
        _damaged(path, f"{got} bytes, where {wanted} were written")


def _piece_is_whole(path: Path, file: IO[bytes], at: int, piece: tuple[int, int]) -> None:
    try:
        file.seek(at)
        crc, left = 0, piece[0]
        while left:
            data = file.read(min(left, 1 << 20))
            if not data:
                _damaged(path, "it ends too early")
            crc, left = zlib.crc32(data, crc), left - len(data)
    except OSError as error:
        _damaged(path, str(error.strerror))
    if crc != piece[1]:
        _damaged(path, f"its bytes {at} to {at + piece[0]} are not what was written")


def _opened(path: Path, file: IO[bytes]) -> Any:
    try:
        parquet = pq.ParquetFile(file)
        schema = parquet.schema_arrow
    except _DAMAGE as error:
        _damaged(path, str(error))
    if not schema.equals(tables.SCHEMAS[path.name]):
        _damaged(path, f"its columns are {', '.join(schema.names)}, or of other types than schema version 1 has")
    return parquet


def _shape(path: Path, file: IO[bytes]) -> tuple[int, int]:
    metadata = _opened(path, file).metadata
    return metadata.num_row_groups, metadata.num_rows


def _small_table(path: Path, stored: StoredHeader) -> Any:
    try:
        with path.open("rb") as file:
            at = 0
            for piece in stored.files[path.name]:
                _piece_is_whole(path, file, at, piece)
                at += piece[0]
            return _opened(path, file).read(use_threads=False)
    except _DAMAGE as error:
        _damaged(path, str(error))


def _instructions(table: Any) -> tuple[StaticInstruction, ...]:
    columns = {name: table.column(name).to_pylist() for name in table.schema.names}
    for name in ("destinations", "sources"):
        columns[name] = [tuple(registers) for registers in columns[name]]
    return tuple(StaticInstruction(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _block_start(table: Any) -> Any:
    first, size = table.column("first_pc").to_numpy(), table.column("instructions").to_numpy()
    end = first[-1:] + size[-1:] if len(first) else np.zeros(1, np.int32)
    return np.concatenate((first, end)).astype(np.int32)


def _paths(table: Any, count: int, path: Path) -> PathTable:
    number = table.column("path").to_numpy()
    if len(number) and (bool((np.diff(number) < 0).any()) or number[0] < 0 or number[-1] >= count):
        _damaged(path, f"its runs are not in order of the {count} paths")
    offset = np.searchsorted(number, np.arange(count + 1)).astype(np.int64)
    return PathTable(offset, *(table.column(name).to_numpy().copy() for name in ("block", "lanes", "repeat")))


def _damaged(path: Path, why: str) -> NoReturn:
    line = (why.splitlines() or ["unreadable"])[0]
    raise FormatError(f"the trace is damaged or cut: {line}", place=str(path), remedy=REMEDY)
