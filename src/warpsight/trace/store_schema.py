"""The stored trace as tables: names of the files, their columns, and the way each column is encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.trace.schema import PathTable, StaticInstruction, TraceChunk

HEADER = "header.json"
INSTRUCTIONS, BLOCKS, PATHS, WARPS = "instructions.parquet", "blocks.parquet", "paths.parquet", "warps.parquet"
TABLES = (INSTRUCTIONS, BLOCKS, PATHS, WARPS)
FILES = (HEADER, *TABLES)


def _columns(**types: Any) -> Any:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


def _list(kind: Any) -> Any:
    return pa.large_list(pa.field("element", kind, nullable=False))


SCHEMAS: dict[str, Any] = {
    INSTRUCTIONS: _columns(
        pc=pa.int32(),
        opcode=pa.string(),
        op_class=pa.string(),
        destinations=_list(pa.int32()),
        sources=_list(pa.int32()),
        space=pa.string(),
        access=pa.string(),
        access_bytes=pa.int32(),
        file=pa.string(),
        line=pa.int32(),
        ptx_line=pa.int32(),
    ),
    BLOCKS: _columns(block=pa.int32(), first_pc=pa.int32(), instructions=pa.int32()),
    PATHS: _columns(path=pa.int32(), block=pa.int32(), lanes=pa.uint8(), repeat=pa.int32()),
    WARPS: _columns(warp=pa.int64(), path=pa.int32(), events=pa.large_binary(), sectors=_list(pa.uint32())),
}

# Byte by byte, the high bytes of neighbouring sector numbers are equal and the low ones climb; a dictionary only gets in the way.
WRITE_OPTIONS: dict[str, dict[str, Any]] = {
    WARPS: {
        "use_dictionary": ["path"],
        "column_encoding": {"warp": "DELTA_BINARY_PACKED", "sectors.list.element": "BYTE_STREAM_SPLIT"},
    },
    PATHS: {
        "use_dictionary": ["lanes", "block"],
        "column_encoding": {"path": "DELTA_BINARY_PACKED", "repeat": "DELTA_BINARY_PACKED"},
    },
}


def instruction_table(instructions: tuple[StaticInstruction, ...]) -> Any:
    """One row per instruction, in order of pc."""
    schema = SCHEMAS[INSTRUCTIONS]
    return pa.table({name: [getattr(i, name) for i in instructions] for name in schema.names}, schema=schema)


def block_table(block_start: np.ndarray[Any, np.dtype[np.int32]]) -> Any:
    """One row per basic block."""
    block = np.arange(len(block_start) - 1, dtype=np.int32)
    columns = {"block": block, "first_pc": block_start[:-1], "instructions": np.diff(block_start)}
    return pa.table({name: _flat(values, np.int32) for name, values in columns.items()}, schema=SCHEMAS[BLOCKS])


def path_table(paths: PathTable) -> Any:
    """One row per run of a path. A path without runs has no row."""
    number = np.repeat(np.arange(len(paths), dtype=np.int32), np.diff(paths.offset))
    columns = {"path": number, "block": paths.block, "lanes": paths.lanes, "repeat": paths.repeat}
    return pa.table(columns, schema=SCHEMAS[PATHS])


def warp_table(chunks: list[TraceChunk]) -> Any:
    """One row per warp of consecutive chunks."""
    parts = [_warp_part(chunk) for chunk in chunks]
    return pa.concat_tables(parts).combine_chunks()


def _warp_part(chunk: TraceChunk) -> Any:
    n = len(chunk.path)
    events = pa.Array.from_buffers(
        pa.large_binary(), n, [None, pa.py_buffer(_flat(chunk.event_offset, np.int64)), pa.py_buffer(_flat(chunk.events, np.uint8))]
    )
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
