"""`header.json` of a stored trace: what was run, how much there is, and a check sum of every byte beside it; the files' names."""

from __future__ import annotations

import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

from warpsight.base.errors import FormatError
from warpsight.base.inputs import read_input
from warpsight.traces.schema import SCHEMA_VERSION, TraceHeader

HEADER = "header.json"
INSTRUCTIONS, BLOCKS, PATHS, WARPS = "instructions.parquet", "blocks.parquet", "paths.parquet", "warps.parquet"
TABLES = (INSTRUCTIONS, BLOCKS, PATHS, WARPS)
FILES = (HEADER, *TABLES)

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
        document = json.loads(read_input(path))
    except FileNotFoundError:
        raise FormatError("there is no trace here: header.json is missing", place=str(path.parent), remedy=NAME_A_TRACE) from None
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"not readable as JSON ({_first_line(error)})", place=str(path), remedy=REMEDY) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError("not the header of a trace", place=str(path), remedy=NAME_A_TRACE)
    schema = document.get("schema")
    if schema != SCHEMA_VERSION:
        what = f"the trace has schema version {json.dumps(schema)}, and this Warpsight reads version {SCHEMA_VERSION}"
        remedy = f"{REMEDY}, or read it with the Warpsight that wrote it ({document.get('tool_version', 'unknown')})"
        raise FormatError(what, place=str(path), remedy=remedy)
    try:
        if document["crc32"] != _checksum(document):
            raise ValueError("its check sum does not match: it was altered or damaged")
        return _parse(document)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        what = f"{_first_line(error)} is missing" if isinstance(error, KeyError) else _first_line(error)
        raise FormatError(what, place=str(path), remedy=REMEDY) from None


_WITHOUT_CLUSTERS = {"cluster": [1, 1, 1]}  # older traces do not state it


def _parse(document: dict[str, Any]) -> StoredHeader:
    document = _WITHOUT_CLUSTERS | document
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
