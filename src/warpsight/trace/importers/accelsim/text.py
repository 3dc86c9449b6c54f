"""The lines of a kernel's file behind its header, in the order in which they are read, and where each of them stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from warpsight.base.errors import FormatError
from warpsight.trace.importers.accelsim.files import is_raw, pieces
from warpsight.trace.importers.accelsim.header import read_header
from warpsight.trace.importers.launch import KernelHeader

_MASK = re.compile(r"[0-9a-fA-F]{8}")
_PEEK_BYTES = 1 << 16


def header_of(path: Path) -> KernelHeader:
    """The header of a kernel's file; not more of the file is read than that takes. Raises FormatError."""
    text = b""
    for piece in pieces(path):
        text += piece
        if re.search(rb"^\s*#[^\n]*\n", text, re.MULTILINE) or len(text) > _PEEK_BYTES:
            break
    if not text:
        raise FormatError("the file is empty", place=str(path), remedy="give a trace of Accel-Sim's tracer")
    return read_header(text, str(path))


class GroupedText:
    """A file whose lines are grouped by block and warp already, as it stands."""

    ordered = True

    def __init__(self, path: Path, header: KernelHeader) -> None:
        self._path, self._header = path, header

    def __iter__(self) -> Iterator[bytes]:
        skip = self._header.bytes
        for piece in pieces(self._path):
            yield piece[skip:] if skip < len(piece) else b""
            skip = max(0, skip - len(piece))

    def place(self, line: int) -> str:
        """File and line."""
        return f"{self._path}:{self._header.lines + line}"


def prefix_numbers(path: Path, header: KernelHeader) -> int:
    """How many numbers stand before the pc (and the source line): block and warp of raw files and of tracer versions 1 and 2.

    Raw files have 4 (block, warp), 6 (SM and warp slot too) or 11 (cluster too). Raises FormatError if the first line is no
    instruction.
    """
    if not is_raw(path):
        return 4 if header.version < 3 else 0
    text = b""
    for piece in GroupedText(path, header):
        text += piece
        if len(text) > _PEEK_BYTES:
            break
    for number, line in enumerate(text.decode("ascii", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        for k in range(1, len(words) - 1):
            if _MASK.fullmatch(words[k]) and words[k + 1].isdigit() and int(words[k + 1]) <= 8 and k - 1 - header.lineinfo >= 4:
                return k - 1 - header.lineinfo
        place = f"{path}:{header.lines + number}"
        raise FormatError(
            f"no line of a raw trace, which begin with block and warp: {line[:70]!r}",
            place=place,
            remedy="give the file as the tracer wrote it, or grouped by post-traces-processing (.traceg)",
        )
    return 4
