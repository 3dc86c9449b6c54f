"""`memory_traces/kernel_<k>_block_<b>.mem`: the addresses of a block's accesses, in the order in which the tracer met them.

A record is ``OPCODE 0xaddress ...``; PPT-GPU puts ``=====`` on a line before each, AMALI only a line feed. A blank stands behind
every word. Addresses that are zero are not written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import FormatError
from warpsight.trace.importers.accelsim.layout import ADDRESS_LIMIT
from warpsight.trace.importers.launch import REMEDY
from warpsight.trace.importers.lines import whole_lines

_RULE = b"====="
_RECORD = re.compile(rb"([A-Za-z][\w.]{0,80})((?: 0x[0-9a-fA-F]{1,16})*) ?\r?")
_LONG = re.compile(rb"0x0*[1-9a-fA-F][0-9a-fA-F]{14}")
_OPCODES = re.compile(rb"^[A-Za-z][\w.]{0,80}(?=[ \n]|$)", re.MULTILINE)
_LANES = 32


@dataclass(frozen=True, slots=True)
class Record:
    """One access: its addresses as text with blanks between, `count` of them; `line` in the file."""

    opcode: str
    addresses: bytes
    count: int
    line: int


@dataclass
class Dropped:
    """Addresses that no memory has, and so were left out: values of lanes that were off."""

    addresses: int = 0


def opcodes_with_records(paths: Iterable[Path]) -> frozenset[str]:
    """All opcodes that have a record in one of the files."""
    found: set[bytes] = set()
    for path in paths:
        for lines in whole_lines(path):
            found.update(_OPCODES.findall(b"\n".join(lines)))
    return frozenset(opcode.decode("ascii") for opcode in found)


def read_records(path: Path, dropped: Dropped) -> list[Record]:
    """The records of a block. Raises FormatError, with file and line, for what is none and for a file that is cut."""
    opcodes: dict[bytes, str] = {}
    records: list[Record] = []
    line, last, blanks = 0, b"", 0
    for piece in whole_lines(path):
        for raw in piece:
            line += 1
            if not raw or raw == _RULE or raw.isspace():
                continue
            found = _RECORD.fullmatch(raw)
            if found is None:
                shown = raw[:60].decode("ascii", "replace")
                what = f"no record of an access: {shown!r}"
                raise FormatError(what, place=f"{path}:{line}", remedy=f"the trace is cut or damaged here: {REMEDY}")
            addresses = found[2]
            if _LONG.search(addresses):
                addresses = _real(addresses, dropped)
            count = addresses.count(b"x")
            opcode = opcodes.setdefault(found[1], found[1].decode("ascii"))
            if count > _LANES and not opcode.startswith("LDGSTS"):
                raise FormatError(f"an access has {count} addresses, and a warp 32 lanes", place=f"{path}:{line}", remedy=REMEDY)
            records.append(Record(opcode, addresses[1:], count, line))
            last = raw
            blanks += raw.rstrip(b"\r").endswith(b" ")
    if records and blanks == len(records) - 1 and blanks and not last.rstrip(b"\r").endswith(b" "):
        raise FormatError("the file ends inside a record", place=f"{path}:{records[-1].line}", remedy=f"the trace is cut: {REMEDY}")
    return records


def _real(addresses: bytes, dropped: Dropped) -> bytes:
    """The addresses that are below the limit of any GPU's."""
    words = addresses.split()
    kept = [word for word in words if int(word, 16) < ADDRESS_LIMIT]
    dropped.addresses += len(words) - len(kept)
    return b"".join(b" " + word for word in kept)
