"""The format of a stored trace: the tables of its Parquet files, and `header.json` with the check sums of every byte beside it."""

from __future__ import annotations

import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.base.errors import FormatError
from warpsight.traces.schema import SCHEMA_VERSION, PathTable, StaticInstruction, TraceChunk, TraceHeader

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


# -- `header.json` of a stored trace: what was run, how much there is, and a check of every byte beside it.

FORMAT = "warpsight-trace"
NAME_A_TRACE = "name a folder that `warpsight trace` wrote"
REMEDY = "make the trace again with `warpsight trace`"

Pieces = list[tuple[int, int]]
"""A file as consecutive pieces, each (bytes, CRC-32): one per row group, and one for what follows the last."""


@dataclasses.dataclass(frozen=True)
class StoredHeader:
    """Everything in `header.json`. `paths` counts paths, since one without runs has no row; `files` gives each file's pieces."""

    header: TraceHeader
    notes: tuple[str, ...]
    extra: dict[str, Any]
    paths: int
    files: dict[str, Pieces]


def write_header(path: Path, stored: StoredHeader) -> None:
    """Write `header.json`. Raises TypeError or ValueError if `extra` has no JSON form."""
    document: dict[str, Any] = {"format": FORMAT, **dataclasses.asdict(stored.header)}
    document["warps_per_block"] = stored.header.warps_per_block
    document |= {"notes": stored.notes, "extra": stored.extra, "paths": stored.paths, "files": stored.files}
    document["crc32"] = _checksum(document)
    lines = (f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _checksum(document: dict[str, Any]) -> int:
    bare = {key: value for key, value in document.items() if key != "crc32"}
    return zlib.crc32(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode())


def read_header(path: Path) -> StoredHeader:
    """Read and check `header.json`. Raises FormatError if it is missing, cut, altered, or of another schema version."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError("there is no trace here: header.json is missing", place=str(path.parent), remedy=NAME_A_TRACE) from None
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"not readable as JSON ({_first_line(error)})", place=str(path), remedy=REMEDY) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError("not the header of a trace", place=str(path), remedy=NAME_A_TRACE)
    _refuse_other_schema(document, path)
    try:
        if document["crc32"] != _checksum(document):
            raise ValueError("its check sum does not match: it was altered or damaged")
        return _parse(document)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        what = f"{_first_line(error)} is missing" if isinstance(error, KeyError) else _first_line(error)
        raise FormatError(what, place=str(path), remedy=REMEDY) from None


def _refuse_other_schema(document: dict[str, Any], path: Path) -> None:
    schema = document.get("schema")
    if schema != SCHEMA_VERSION:
        what = f"the trace has schema version {json.dumps(schema)}, and this Warpsight reads version {SCHEMA_VERSION}"
        remedy = f"{REMEDY}, or read it with the Warpsight that wrote it ({document.get('tool_version', 'unknown')})"
        raise FormatError(what, place=str(path), remedy=remedy)


def _parse(document: dict[str, Any]) -> StoredHeader:
    fields = {field.name: _typed(field.name, document[field.name], str(field.type)) for field in dataclasses.fields(TraceHeader)}
    notes, extra, paths = document["notes"], document["extra"], document["paths"]
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes) or not isinstance(extra, dict):
        raise TypeError("notes must be a list of strings and extra an object")
    if not _is_count(paths):
        raise TypeError("paths must be a count")
    files = {name: _pieces(pieces) for name, pieces in document["files"].items()}
    return StoredHeader(TraceHeader(**fields), tuple(notes), extra, paths, files)


def _pieces(value: Any) -> Pieces:
    pieces = [(size, crc) for size, crc in value]
    if not all(_is_count(size) and _is_count(crc) for size, crc in pieces):
        raise TypeError("files must give a count of bytes and a CRC-32 for each piece")
    return pieces


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _typed(name: str, value: Any, kind: str) -> Any:
    if kind == "int" and _is_count(value):
        return value
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if kind == "str" and isinstance(value, str):
        return value
    if kind.startswith("tuple") and isinstance(value, list) and len(value) == 3 and all(_is_count(part) for part in value):
        return tuple(value)
    raise TypeError(f"{name} must be of type {kind} and not negative")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
