"""Fat binaries, and host programs that embed them, byte by byte as nvcc lays them out."""

from __future__ import annotations

import struct

import pyarrow as pa

LZ4, ZSTD, PLAIN = 0x2011, 0x8011, 0x11


def entry(kind: int, architecture: int, payload: bytes, flags: int = PLAIN, plain: int = 0) -> bytes:
    padded = payload + b"\0" * (-len(payload) % 8)
    head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 80, len(padded), len(payload), 64, 0, 9, architecture, 0, 0, flags, 0, plain)
    return head.ljust(80, b"\0") + padded


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def compressed(text: bytes, codec: str, flags: int, architecture: int) -> bytes:
    return entry(1, architecture, pa.Codec(codec).compress(text).to_pybytes(), flags, len(text))


def program(fatbin: bytes, section: str = ".nv_fatbin", machine: int = 62) -> bytes:
    """An ELF file, of x86-64 unless `machine` says another, whose one section has the bytes of a fat binary."""
    names = b"\0" + section.encode() + b"\0.shstrtab\0"
    start = 64 + len(fatbin) + -len(fatbin) % 8
    table = start + len(names) + -len(names) % 8
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, machine, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2
    )  # fmt: skip
    rows = [(0, 0, 0, 0), (1, 1, 64, len(fatbin)), (len(section) + 2, 3, start, len(names))]
    sections = b"".join(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, place, size, 0, 0, 8, 0) for name, kind, place, size in rows)
    return ((head + fatbin).ljust(start, b"\0") + names).ljust(table, b"\0") + sections
