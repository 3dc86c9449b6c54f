"""The cache files of MDM's scripts, `L1_cache` and `L2_cache`: four lines of ``name = value``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import FormatError

_KEYS = ("line size", "number of lines", "associativity", "replacement policy")
_LINE = re.compile(r"\s*([a-z ]+?)\s*=\s*(\w+)\s*")
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class CacheFile:
    """`line_bytes`, number of `lines`, `ways` and replacement `policy` as written, ``LRU``."""

    line_bytes: int
    lines: int
    ways: int
    policy: str


def read_cache_file(path: Path) -> CacheFile:
    """Read a cache file. Raises FormatError, with file and line, for a line that is none and for what is missing."""
    try:
        text = path.read_bytes()[:_MOST_BYTES].decode("ascii", "replace")
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line)
        if not found or found[1] not in _KEYS or found[1] in values or (found[1] != _KEYS[3] and not _is_size(found[2])):
            what = f"no line of a cache file: {line[:60]!r}"
            raise FormatError(what, place=f"{path}:{number}", remedy=f"write {' = ..., '.join(_KEYS)} = ...")
        values[found[1]] = found[2]
    missing = [key for key in _KEYS if key not in values]
    if missing:
        raise FormatError(f"does not say {', '.join(missing)}", place=str(path), remedy="write a line `name = value` for each")
    return CacheFile(int(values[_KEYS[0]]), int(values[_KEYS[1]]), int(values[_KEYS[2]]), values[_KEYS[3]])


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:10]) > 0 and len(text) <= 10
