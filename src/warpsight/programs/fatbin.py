"""Fat binaries: the containers in which nvcc embeds PTX and machine code in a program.

A container is a header (magic, version, header bytes, bytes that follow) and entries, each with a header of its own that says kind,
architecture, and how the payload is compressed. The layout is not documented by NVIDIA; it is read as nvcc 11 to 13 write it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from warpsight.base.errors import FormatError, UnsupportedError

MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _ELF = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000
_MAX_PTX_BYTES = 1 << 30
_REMEDY = "compile with -gencode arch=compute_75,code=compute_75, so that PTX is embedded"


@dataclass(frozen=True)
class Entry:
    """One payload. `kind` is ptx, elf or a number; `architecture` is 75 for compute_75; `data` is uncompressed."""

    kind: str
    architecture: int
    data: bytes


def read_entries(content: bytes, place: str) -> list[Entry]:
    """All entries of the containers that follow each other in `content`. Raises FormatError for what is cut or no container."""
    entries: list[Entry] = []
    offset = 0
    while offset + _CONTAINER.size <= len(content):
        magic, _, header_bytes, size = _CONTAINER.unpack_from(content, offset)
        if magic != MAGIC:
            break
        start, end = offset + header_bytes, offset + header_bytes + size
        if end > len(content) or header_bytes < _CONTAINER.size:
            raise _damaged(place, f"a container of {size:,} bytes is cut")
        while start + _ENTRY.size <= end:
            entry, start = _read_entry(content, start, end, place)
            entries.append(entry)
        offset = end
    if offset == 0:
        raise _damaged(place, "it does not begin as one")
    return entries


def _read_entry(content: bytes, at: int, end: int, place: str) -> tuple[Entry, int]:
    fields = _ENTRY.unpack_from(content, at)
    kind, header_bytes, size, compressed, architecture = fields[0], fields[2], fields[3], fields[4], fields[8]
    flags, plain_bytes = fields[11], fields[13]
    payload = at + header_bytes
    if header_bytes < _ENTRY.size or payload + size > end:
        raise _damaged(place, f"an entry of {size:,} bytes is cut")
    data = content[payload : payload + size]
    if flags & (_LZ4 | _ZSTD):
        if compressed > size or plain_bytes > _MAX_PTX_BYTES:
            raise _damaged(place, "the sizes of a compressed entry cannot be right")
        data = _expand(data[:compressed], plain_bytes, "lz4_raw" if flags & _LZ4 else "zstd", place)
    return Entry({_PTX: "ptx", _ELF: "elf"}.get(kind, str(kind)), architecture, data), payload + size


def _expand(data: bytes, size: int, codec: str, place: str) -> bytes:
    import pyarrow as pa

    try:
        return bytes(pa.Codec(codec).decompress(data, decompressed_size=size).to_pybytes())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _damaged(place, f"an entry cannot be decompressed ({error})") from error


def _damaged(place: str, why: str) -> FormatError:
    return FormatError(f"the fat binary in the program cannot be read: {why}", place=place, remedy="build the program again")


def best_ptx(content: bytes, place: str) -> str:
    """The PTX for the highest virtual architecture. Raises UnsupportedError where there is only machine code, and FormatError."""
    return ptx_choices(content, place)[0]


def ptx_choices(content: bytes, place: str) -> list[str]:
    """All PTX of a fat binary, the highest virtual architecture first; at least one. Raises as `best_ptx` does."""
    entries = read_entries(content, place)
    texts = sorted((e for e in entries if e.kind == "ptx"), key=lambda e: -e.architecture)
    if not texts:
        found = ", ".join(sorted({f"sm_{e.architecture}" for e in entries if e.kind == "elf"})) or "nothing"
        raise UnsupportedError(f"only machine code is embedded in the program ({found}), no PTX", place=place, remedy=_REMEDY)
    return [_text(entry, place) for entry in texts]


def _text(entry: Entry, place: str) -> str:
    try:
        return entry.data.rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise _damaged(place, "its PTX is not text") from error
