"""The PTX ISA version that a driver reads.

A compiler marks its PTX with its own version, also where older drivers know every instruction in it; they refuse it by that mark.
"""

from __future__ import annotations

import re

# CUDA version of a driver (1000 * major + 10 * minor) -> PTX ISA version, from the release table of the PTX ISA (section 13)
_READS = {
    11000: "7.0", 11010: "7.1", 11020: "7.2", 11030: "7.3", 11040: "7.4", 11050: "7.5", 11060: "7.6", 11070: "7.7", 11080: "7.8",
    12000: "8.0", 12010: "8.1", 12020: "8.2", 12030: "8.3", 12040: "8.4", 12050: "8.5", 12060: "8.5", 12070: "8.6", 12080: "8.7",
    12090: "8.8", 13000: "9.0",
}  # fmt: skip
_VERSION = re.compile(r"^(\s*\.version\s+)(\d+)\.(\d+)", re.MULTILINE)


def readable_version(cuda: int) -> str:
    """The newest PTX ISA version of the table that a driver of that CUDA version reads; the oldest for one that is older."""
    return _READS[max((known for known in _READS if known <= cuda), default=min(_READS))]


def for_driver(ptx: str, cuda: int) -> str:
    """`ptx`, its `.version` lowered to what the driver reads where that is lower. Nothing else changes: the assembler then refuses
    what that version has not.
    """
    newest = tuple(map(int, readable_version(cuda).split(".")))
    found = _VERSION.search(ptx)
    # a driver newer than the table reads what the table's newest does, and more
    if found is None or cuda >= max(_READS) or (int(found[2]), int(found[3])) <= newest:
        return ptx
    return f"{ptx[: found.start(2)]}{newest[0]}.{newest[1]}{ptx[found.end(3) :]}"
