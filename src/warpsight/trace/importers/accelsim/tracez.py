"""`.tracez` of Accel-Sim 2.0: the lines of each warp in zstd frames with a common dictionary, and an index at the end of the file.

Layout (little endian; `util/tracer_nvbit/tracer_tool/tracez_format.h` of accel-sim-framework): header text up to a zero byte; u32
size of the dictionary, u32
instructions in a frame; the dictionary; for each warp u32 instructions, u32 frames, and each frame after its u32 size; the index:
u32 blocks, for each 11 u32 (block x y z, cluster x y z, block in cluster x y z, rank, warps), for each warp u32 instructions, u32
frames, u64 place, u32 instructions of each frame; u64 place of the index.

It is read as the text of a grouped file, as `traceDsm` would write it; places in messages are lines of that text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from warpsight.base.errors import FormatError, UsageError

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
            yield from _Reader(path, file, zstandard).text()
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None


class _Reader:
    """An open file."""

    def __init__(self, path: Path, file: IO[bytes], zstandard: Any) -> None:
        self._path, self._file, self._zstandard = path, file, zstandard
        self._size = file.seek(0, 2)
        file.seek(0)

    def text(self) -> Iterator[bytes]:
        """Header, then blocks in the order of the index."""
        header = self._header()
        dictionary_size, _ = struct.unpack("<II", self._exactly(8, "the sizes after the header"))
        if dictionary_size > _MOST_DICTIONARY:
            self._damaged(f"a dictionary of {dictionary_size:,} bytes")
        dictionary = self._exactly(dictionary_size, "the dictionary")
        known = self._zstandard.ZstdCompressionDict(dictionary) if dictionary_size else None
        unpack = self._zstandard.ZstdDecompressor(dict_data=known)
        yield header
        index = _Index(self._read_index(), self)
        for _ in range(index.number("blocks")):
            place = [index.number("a block") for _ in range(11)]
            yield f"\n#BEGIN_TB\n\nthread block = {place[0]},{place[1]},{place[2]}\n".encode()
            for warp in range(place[10]):
                count, frames, at = index.number("a warp"), index.number("a warp"), index.place()
                index.skip(frames)
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
                self._damaged("its header does not end")
        text = found[: found.index(b"\0")]
        self._file.seek(len(text) + 1)
        if not text.endswith(b"\n"):
            text += b"\n"
        return text if any(line.startswith(b"#") for line in text.splitlines()) else text + b"#\n"

    def _read_index(self) -> bytes:
        self._file.seek(max(0, self._size - 8))
        (at,) = struct.unpack("<Q", self._exactly(8, "the place of the index"))
        if not 0 < at <= self._size - 12:
            self._damaged("its index is not where its last bytes say; the file may be cut")
        self._file.seek(at)
        return self._exactly(self._size - 8 - at, "the index")

    def _warp(self, at: int, count: int, frames: int, unpack: Any) -> Iterator[bytes]:
        if at > self._size:
            self._damaged("a warp lies behind its end")
        self._file.seek(at)
        said = struct.unpack("<II", self._exactly(8, "a warp"))
        if said != (count, frames):
            self._damaged(f"a warp of {said[0]} instructions in {said[1]} frames, where the index says {count} in {frames}")
        for _ in range(frames):
            (size,) = struct.unpack("<I", self._exactly(4, "a frame"))
            packed = self._exactly(size, "a frame")
            try:
                text: bytes = unpack.decompress(packed, max_output_size=_MOST_FRAME_TEXT)
            except (self._zstandard.ZstdError, MemoryError) as error:
                self._damaged(f"a frame cannot be unpacked: {error}")
            yield text if text.endswith(b"\n") else text + b"\n"

    def _exactly(self, size: int, what: str) -> bytes:
        if size > self._size:
            self._damaged(f"{what} would be larger than the file")
        found = self._file.read(size)
        if len(found) < size:
            self._damaged(f"it ends inside {what}")
        return found

    def _damaged(self, what: str) -> NoReturn:
        raise FormatError(f"the trace is damaged or cut: {what.splitlines()[0]}", place=str(self._path), remedy=_REMEDY)

    def refuse_index(self, what: str) -> NoReturn:
        """Raise FormatError: the index ends too early."""
        self._damaged(f"its index ends inside {what}")


class _Index:
    """The index, read number by number."""

    def __init__(self, data: bytes, reader: _Reader) -> None:
        self._data, self._reader, self._at = data, reader, 0

    def number(self, what: str) -> int:
        """The next u32."""
        return self._next("<I", 4, what)

    def place(self) -> int:
        """The next u64."""
        return self._next("<Q", 8, "a warp")

    def skip(self, count: int) -> None:
        """Pass over u32s."""
        self._at += 4 * count
        if self._at > len(self._data):
            self._reader.refuse_index("a warp")

    def _next(self, form: str, size: int, what: str) -> int:
        if self._at + size > len(self._data):
            self._reader.refuse_index(what)
        (found,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(found)
