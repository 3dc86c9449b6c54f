"""The tables of a stored trace as Parquet files: schemas, conversion from and to arrays, checked writing.

Other modules load this one lazily, since importing pyarrow takes a third of a second.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warpsight.traces.path_store import pieces
from warpsight.traces.schema import SCHEMA_VERSION, PathTable, StaticInstruction, TraceChunk
from warpsight.traces.store_format import BLOCKS, INSTRUCTIONS, PATHS, WARPS, Pieces

_COMPRESSION_LEVEL = 3
DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError)


def _columns(**types: Any) -> Any:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


def _list(kind: Any) -> Any:
    return pa.large_list(pa.field("element", kind, nullable=False))


SCHEMAS: dict[str, Any] = {
    INSTRUCTIONS: _columns(
        pc=pa.int32(), opcode=pa.string(), op_class=pa.string(), destinations=_list(pa.int32()), sources=_list(pa.int32()),
        space=pa.string(), access=pa.string(), access_bytes=pa.int32(), file=pa.string(), line=pa.int32(), ptx_line=pa.int32(),
        stall=pa.int32(), write_barrier=pa.int32(), read_barrier=pa.int32(), waits=pa.int32(), wait_groups=pa.int32(),
        count_bytes=pa.int32(), wait_kind=pa.string(), at_barrier=pa.bool_(), ends_products=pa.bool_(),
    ),
    BLOCKS: _columns(block=pa.int32(), first_pc=pa.int32(), instructions=pa.int32()),
    PATHS: _columns(path=pa.int32(), block=pa.int32(), lanes=pa.uint8(), repeat=pa.int32()),
    WARPS: _columns(warp=pa.int64(), path=pa.int32(), events=pa.large_binary(), sectors=_list(pa.uint32())),
}

# Byte by byte, the high bytes of neighbouring sector numbers are equal and the low ones climb; a dictionary only gets in the way.
WRITE_OPTIONS: dict[str, dict[str, Any]] = {
    WARPS: {"use_dictionary": ["path"],
            "column_encoding": {"warp": "DELTA_BINARY_PACKED", "sectors.list.element": "BYTE_STREAM_SPLIT"}},
    PATHS: {"use_dictionary": ["lanes", "block"],
            "column_encoding": {"path": "DELTA_BINARY_PACKED", "repeat": "DELTA_BINARY_PACKED"}},
}  # fmt: skip


def instruction_table(instructions: tuple[StaticInstruction, ...]) -> Any:
    """One row per instruction, in order of pc."""
    schema = SCHEMAS[INSTRUCTIONS]
    return pa.table({name: [getattr(i, name) for i in instructions] for name in schema.names}, schema=schema)


def block_table(block_start: np.ndarray[Any, np.dtype[np.int32]]) -> Any:
    """One row per basic block."""
    block = np.arange(len(block_start) - 1, dtype=np.int32)
    columns = {"block": block, "first_pc": block_start[:-1], "instructions": np.diff(block_start)}
    return pa.table({name: _flat(values, np.int32) for name, values in columns.items()}, schema=SCHEMAS[BLOCKS])


def path_tables(paths: PathTable) -> Iterator[Any]:
    """One row per run of a path, in one table or several. A path without runs has no row."""
    for part, piece in pieces(paths):
        number = np.repeat(np.arange(part.start, part.stop, dtype=np.int32), np.diff(piece.offset))
        columns = {"path": number, "block": piece.block, "lanes": piece.lanes, "repeat": piece.repeat}
        yield pa.table(columns, schema=SCHEMAS[PATHS])
    if not len(paths):
        yield SCHEMAS[PATHS].empty_table()


def warp_table(chunks: list[TraceChunk]) -> Any:
    """One row per warp of consecutive chunks."""
    return pa.concat_tables([_table_of_chunk(chunk) for chunk in chunks]).combine_chunks()


def _table_of_chunk(chunk: TraceChunk) -> Any:
    n = len(chunk.path)
    buffers = pa.py_buffer(_flat(chunk.event_offset, np.int64)), pa.py_buffer(_flat(chunk.events, np.uint8))
    events = pa.Array.from_buffers(pa.large_binary(), n, [None, *buffers])
    kind = SCHEMAS[WARPS].field("sectors").type
    offset, values = pa.array(_flat(chunk.sector_offset, np.int64)), pa.array(_flat(chunk.sectors, np.uint32))
    sectors = pa.LargeListArray.from_arrays(offset, values, type=kind)
    warp = np.arange(chunk.first_warp, chunk.first_warp + n, dtype=np.int64)
    return pa.table([pa.array(warp), pa.array(_flat(chunk.path, np.int32)), events, sectors], schema=SCHEMAS[WARPS])


def _flat(values: Any, dtype: Any) -> Any:
    return np.ascontiguousarray(values, dtype)


def chunk_of(table: Any) -> TraceChunk:
    """The chunk that `warp_table` made this table from. Raises ValueError if the rows are not consecutive warps."""
    warp = table.column("warp").to_numpy()
    first = int(warp[0]) if len(warp) else 0
    if not np.array_equal(warp, np.arange(first, first + len(warp))):
        raise ValueError("its warps are not consecutive")
    events = _one(table.column("events"))
    _, offsets, data = events.buffers()
    event_offset = np.frombuffer(offsets, np.int64)[events.offset : events.offset + len(events) + 1]
    event_data = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    sectors = _one(table.column("sectors"))
    sector_offset = sectors.offsets.to_numpy()
    # Copies, since Arrow's memory is read-only and compiled loops would be compiled once more for read-only arrays.
    return TraceChunk(
        first_warp=first,
        path=table.column("path").to_numpy().copy(),
        event_offset=event_offset - event_offset[0],
        events=event_data[event_offset[0] : event_offset[-1]].copy(),
        sector_offset=sector_offset - sector_offset[0],
        sectors=sectors.flatten().to_numpy().copy(),
    )


def _one(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# -- Files of these tables.


class _CheckedFile(io.RawIOBase):
    """A file that keeps the length and CRC-32 of what was written since `cut` was last called."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._size = self._crc = self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        self._size += view.nbytes
        self._position += view.nbytes
        self._crc = zlib.crc32(view, self._crc)
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def cut(self) -> tuple[int, int]:
        piece = (self._size, self._crc)
        self._size = self._crc = 0
        return piece

    def close(self) -> None:
        self._file.close()
        super().close()


class TableFile:
    """One Parquet file, a row group per `write`; `close` gives its pieces."""

    def __init__(self, path: Path) -> None:
        self._file = _CheckedFile(path)
        self._pieces: Pieces = []
        options: dict[str, Any] = {"compression": "zstd", "compression_level": _COMPRESSION_LEVEL, "use_dictionary": True}
        options |= WRITE_OPTIONS.get(path.name, {})
        self._writer = pq.ParquetWriter(self._file, SCHEMAS[path.name], write_statistics=False, **options)

    def write(self, table: Any) -> None:
        """Write one row group."""
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pieces.append(self._file.cut())

    def close(self) -> Pieces:
        """Write the footer and close."""
        self._writer.close()
        self._pieces.append(self._file.cut())
        self._file.close()
        return self._pieces


def write_tables(path: Path, tables: Iterable[Any]) -> Pieces:
    """Write a file with a row group for each of `tables`; its name says which table it is. Raises OSError if the disk refuses."""
    file = TableFile(path)
    for table in tables:
        file.write(table)
    return file.close()


def opened(path: Path, file: IO[bytes]) -> Any:
    """The open Parquet file of a table. Raises one of `DAMAGE`, or ValueError if its columns are not those of the table."""
    parquet = pq.ParquetFile(file)
    schema = parquet.schema_arrow
    if not schema.equals(SCHEMAS[path.name]):
        raise ValueError(f"its columns are {', '.join(schema.names)}, or have other types than schema version {SCHEMA_VERSION}")
    return parquet
