"""The files of Accel-Sim's tracer: their names, and their text in pieces (plain, gzip, xz, `.tracez`)."""

from __future__ import annotations

import gzip
import lzma
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

from warpsight.base.errors import FormatError, UsageError
from warpsight.traces.importers.launch import REMEDY

_MOST_HEADER, _MOST_DICTIONARY, _MOST_FRAME_TEXT = 1 << 20, 1 << 26, 1 << 28
_PIECE = 1 << 20
_REMEDY = "copy the trace again, or unpack it with Accel-Sim's traceDsm"


def tracez_pieces(path: Path) -> Iterator[bytes]:
    """The text of the file in pieces. Raises UsageError without the package zstandard, FormatError for a file that is damaged."""
    try:
        import zstandard
    except ImportError:
        what = "is packed with zstd, for which the package zstandard is needed"
        raise UsageError(
            what, place=str(path), remedy="python -m pip install 'warpsight[accelsim]', or unpack it with Accel-Sim's traceDsm"
        ) from None
    try:
        with path.open("rb") as file:
            yield from _Tracez(path, file, zstandard).text()
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None


class _Tracez:
    """An open `.tracez` file."""

    def __init__(self, path: Path, file: IO[bytes], zstandard: Any) -> None:
        self._path, self._file, self._zstandard = path, file, zstandard
        self._size = file.seek(0, 2)
        file.seek(0)

    def text(self) -> Iterator[bytes]:
        """Header, then blocks in the order of the index."""
        header = self._header()
        dictionary_size, _ = struct.unpack("<II", self._exactly(8, "the sizes after the header"))
        if dictionary_size > _MOST_DICTIONARY:
            self.damaged(f"a dictionary of {dictionary_size:,} bytes")
        dictionary = self._exactly(dictionary_size, "the dictionary")
        known = self._zstandard.ZstdCompressionDict(dictionary) if dictionary_size else None
        unpack = self._zstandard.ZstdDecompressor(dict_data=known)
        yield header
        index = _Index(self._read_index(), self)
        for _ in range(index.number("blocks")):
            place = [index.number("a block") for _ in range(11)]
            yield f"\n#BEGIN_TB\n\nthread block = {place[0]},{place[1]},{place[2]}\n".encode()
            for warp in range(place[10]):
                count, frames, at = index.number("a warp"), index.number("a warp"), index.number("a warp", "<Q")
                index.skip(4 * frames, "a warp")
                yield f"\nwarp = {warp}\ninsts = {count}\n".encode()
                if frames:
                    yield from self._warp(at, count, frames, unpack)
            yield b"\n#END_TB\n"

    def _header(self) -> bytes:
        found = b""
        while b"\0" not in found:
            piece = self._file.read(4096)
            found += piece
            if not piece or len(found) > _MOST_HEADER:
                self.damaged("its header does not end")
        text = found[: found.index(b"\0")]
        self._file.seek(len(text) + 1)
        if not text.endswith(b"\n"):
            text += b"\n"
        return text if any(line.startswith(b"#") for line in text.splitlines()) else text + b"#\n"

    def _read_index(self) -> bytes:
        self._file.seek(max(0, self._size - 8))
        (at,) = struct.unpack("<Q", self._exactly(8, "the place of the index"))
        if not 0 < at <= self._size - 12:
            self.damaged("its index is not at the place that its last bytes give; the file may be cut")
        self._file.seek(at)
        return self._exactly(self._size - 8 - at, "the index")

    def _warp(self, at: int, count: int, frames: int, unpack: Any) -> Iterator[bytes]:
        if at > self._size:
            self.damaged("a warp lies behind its end")
        self._file.seek(at)
        written = struct.unpack("<II", self._exactly(8, "a warp"))
        if written != (count, frames):
            self.damaged(f"a warp of {written[0]} instructions in {written[1]} frames, where the index says {count} in {frames}")
        for _ in range(frames):
            (size,) = struct.unpack("<I", self._exactly(4, "a frame"))
            packed = self._exactly(size, "a frame")
            try:
                text: bytes = unpack.decompress(packed, max_output_size=_MOST_FRAME_TEXT)
            except (self._zstandard.ZstdError, MemoryError) as error:
                self.damaged(f"a frame cannot be unpacked: {error}")
            yield text if text.endswith(b"\n") else text + b"\n"

    def _exactly(self, size: int, what: str) -> bytes:
        if size > self._size:
            self.damaged(f"{what} would be larger than the file")
        found = self._file.read(size)
        if len(found) < size:
            self.damaged(f"it ends inside {what}")
        return found

    def damaged(self, what: str) -> NoReturn:
        """Raise FormatError."""
        raise FormatError(f"the trace is damaged or cut: {what.splitlines()[0]}", place=str(self._path), remedy=_REMEDY)


class _Index:
    """The index, read number by number."""

    def __init__(self, data: bytes, file: _Tracez) -> None:
        self._data, self._file, self._at = data, file, 0

    def number(self, what: str, form: str = "<I") -> int:
        """The next u32, or the number of another `form`."""
        at = self.skip(struct.calcsize(form), what)
        return int(struct.unpack_from(form, self._data, at)[0])

    def skip(self, size: int, what: str) -> int:
        """Pass over bytes, and return where they begin."""
        at = self._at
        self._at += size
        if self._at > len(self._data):
            self._file.damaged(f"its index ends inside {what}")
        return at


# -- The bytes of a kernel's trace file, unpacked, in pieces.

PIECE_BYTES = 1 << 22
MOST_LINE_BYTES = 1 << 26
LIST = "kernelslist"
SUFFIXES = (".traceg", ".traceg.gz", ".traceg.xz", ".trace", ".trace.gz", ".trace.xz", ".tracez")
_DAMAGE = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError, OSError, ValueError)


def is_kernel_file(path: str | Path) -> bool:
    """Whether the name is that of a kernel's trace: ``kernel-1.traceg.xz`` and the like."""
    return Path(path).name.endswith(SUFFIXES)


def may_be_accelsim(path: str | Path) -> bool:
    """Whether the names at `path` are those of Accel-Sim's tracer: a kernel's file, a list of kernels, or a folder with either."""
    path = Path(path)
    try:
        if path.is_dir():
            names = [entry.name for entry in path.iterdir()]
            return "header.json" not in names and any(is_kernel_file(name) or name.startswith(LIST) for name in names)
        return (is_kernel_file(path) or path.name.startswith(LIST)) and path.is_file()
    except (OSError, ValueError):
        return False


def is_raw(path: Path) -> bool:
    """Whether the file is as the tracer wrote it: each line has its block and warp, and they are not grouped."""
    return path.name.endswith((".trace", ".trace.gz", ".trace.xz"))


def pieces(path: Path) -> Iterator[bytes]:
    """The text of the file in pieces of about 4 MiB.

    Raises FormatError, with the place reached, for a file that is cut or damaged.
    """
    if path.suffix == ".tracez":
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
