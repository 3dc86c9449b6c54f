"""The bytes of a kernel's trace file, whatever it is packed with, in pieces; what cannot be unpacked is an error with its place."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from warpsight.base.errors import FormatError
from warpsight.trace.importers.launch import REMEDY

PIECE_BYTES = 1 << 22
MOST_LINE_BYTES = 1 << 26
LIST = "kernelslist"
SUFFIXES = (".traceg", ".traceg.gz", ".traceg.xz", ".trace", ".trace.gz", ".trace.xz", ".tracez")
_DAMAGE = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError, OSError, ValueError)


def is_kernel_file(path: str | Path) -> bool:
    """Whether the name is that of a kernel's trace: ``kernel-1.traceg.xz`` and the like."""
    return Path(path).name.endswith(SUFFIXES)


def may_be_accelsim(path: str | Path) -> bool:
    """Whether `path` is by its names a trace of Accel-Sim's tracer: a kernel's file, a list of kernels, or a folder with either."""
    path = Path(path)
    try:
        if path.is_dir():
            names = [entry.name for entry in path.iterdir()]
            return "header.json" not in names and any(is_kernel_file(name) or name.startswith(LIST) for name in names)
        return (is_kernel_file(path) or path.name.startswith(LIST)) and path.is_file()
    except (OSError, ValueError):
        return False


def is_raw(path: Path) -> bool:
    """Whether the lines are as the tracer wrote them, each with its block and warp, not grouped."""
    return path.name.endswith((".trace", ".trace.gz", ".trace.xz"))


def pieces(path: Path) -> Iterator[bytes]:
    """The text of the file in pieces of about 4 MiB.

    Raises FormatError, with the place reached, for a file that is cut or damaged.
    """
    if path.suffix == ".tracez":
        from warpsight.trace.importers.accelsim.tracez import tracez_pieces

        yield from tracez_pieces(path)
        return
    done = 0
    with reading(path) as file:
        while True:
            try:
                piece = file.read(PIECE_BYTES)
            except _DAMAGE as error:
                what = f"cannot be unpacked after {done:,} bytes of text: {_why(error)}"
                raise FormatError(what, place=str(path), remedy=REMEDY) from None
            if not piece:
                return
            done += len(piece)
            yield piece


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """The file opened for reading, unpacked by its suffix."""
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        file = opener(path, "rb")
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None
    with file:
        yield file


def _why(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
