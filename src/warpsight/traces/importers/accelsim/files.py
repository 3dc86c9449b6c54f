"""The files of Accel-Sim's tracer: their names, their text in pieces (plain, gzip, xz, `.tracez`), header, and lines behind it."""

from __future__ import annotations

import dataclasses
import gzip
import io
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

from warpsight.base.errors import FormatError, UsageError
from warpsight.base.inputs import open_input
from warpsight.traces.importers.launch import REMEDY, KernelHeader
from warpsight.traces.importers.layout import ADDRESS_LIMIT

_MOST_HEADER, _MOST_DICTIONARY, _MOST_FRAME_TEXT = 1 << 20, 1 << 26, 1 << 28
_PIECE = 1 << 20
_REMEDY = "copy the trace again, or unpack it with Accel-Sim's traceDsm"


def tracez_pieces(path: Path) -> Iterator[bytes]:
    """The text of the file in pieces. Raises UsageError without the package zstandard, FormatError for a file that is damaged."""
    try:
        import zstandard
    except ImportError:
        what = "is packed with zstd, for which the package zstandard is needed"
        remedy = "`python -m pip install zstandard`, or unpack it with Accel-Sim's traceDsm"
        raise UsageError(what, place=str(path), remedy=remedy) from None
    try:
        with open_input(path) as file:
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
            self._damaged(f"a dictionary of {dictionary_size:,} bytes")
        dictionary = self._exactly(dictionary_size, "the dictionary")
        known = self._zstandard.ZstdCompressionDict(dictionary) if dictionary_size else None
        unpack = self._zstandard.ZstdDecompressor(dict_data=known)
        yield header
        index = self._index()

        def next_of(what: str, form: str) -> tuple[int, ...]:
            size = struct.calcsize(form)
            data = index.read(size)
            if len(data) < size:
                self._damaged(f"its index ends inside {what}")
            return struct.unpack(form, data)

        (blocks,) = next_of("blocks", "<I")
        for _ in range(blocks):
            x, y, z, *_, warps = next_of("a block", "<11I")
            yield f"\n#BEGIN_TB\n\nthread block = {x},{y},{z}\n".encode()
            for warp in range(warps):
                count, frames, position = next_of("a warp", "<IIQ")
                next_of("a warp", f"<{4 * frames}x")
                yield f"\nwarp = {warp}\ninsts = {count}\n".encode()
                if frames:
                    yield from self._warp(position, count, frames, unpack)
            yield b"\n#END_TB\n"

    def _header(self) -> bytes:
        text = b""
        while b"\0" not in text:
            piece = self._file.read(4096)
            text += piece
            if not piece or len(text) > _MOST_HEADER:
                self._damaged("its header does not end")
        text = text[: text.index(b"\0")]
        self._file.seek(len(text) + 1)
        if not text.endswith(b"\n"):
            text += b"\n"
        return text if any(line.startswith(b"#") for line in text.splitlines()) else text + b"#\n"

    def _index(self) -> io.BytesIO:
        self._file.seek(max(0, self._size - 8))
        (position,) = struct.unpack("<Q", self._exactly(8, "the place of the index"))
        if not 0 < position <= self._size - 12:
            self._damaged("its index is not at the place that its last bytes give; the file may be cut")
        self._file.seek(position)
        return io.BytesIO(self._exactly(self._size - 8 - position, "the index"))

    def _warp(self, position: int, count: int, frames: int, unpack: Any) -> Iterator[bytes]:
        if position > self._size:
            self._damaged("a warp lies behind its end")
        self._file.seek(position)
        written = struct.unpack("<II", self._exactly(8, "a warp"))
        if written != (count, frames):
            self._damaged(f"a warp of {written[0]} instructions in {written[1]} frames, where the index says {count} in {frames}")
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
        data = self._file.read(size)
        if len(data) < size:
            self._damaged(f"it ends inside {what}")
        return data

    def _damaged(self, what: str) -> NoReturn:
        raise FormatError(f"the trace is damaged or cut: {what.splitlines()[0]}", place=str(self._path), remedy=_REMEDY)


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
    """The text of the file in pieces of about 4 MiB. Raises FormatError, with the place reached, for one that is cut or damaged."""
    if path.suffix == ".tracez":
        yield from tracez_pieces(path)
        return
    done = 0
    with reading(path) as file:
        while True:
            try:
                piece = file.read(PIECE_BYTES)
            except _DAMAGE as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                what = f"cannot be unpacked after {done:,} bytes of text: {reason}"
                raise FormatError(what, place=str(path), remedy=REMEDY) from None
            if not piece:
                return
            done += len(piece)
            yield piece


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """The file opened for reading, unpacked by its suffix."""
    unpack: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix)
    try:
        packed = open_input(path)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None
    with packed, unpack(packed) if unpack is not None else packed as file:
        yield file


# -- The header of a kernel's file: what was launched, where, and the form of the lines.

_OURS = {"written by"}
_LINE = re.compile(r"-([^=]*?)\s*=\s*(.*)")
_TRIPLE = re.compile(r"\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)")
VERSIONS = range(1, 7)
_MOST_GRID = ((1 << 31) - 1, 65_535, 65_535)  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"


@dataclasses.dataclass(frozen=True)
class TraceFileHeader(KernelHeader):
    """The header of a kernel's file: `other` keys that no known tracer writes, and its size with the line of `#` that ends it."""

    lineinfo: bool = False
    other: tuple[str, ...] = ()
    lines: int = 0
    bytes: int = 0

    def notes(self) -> list[str]:
        """Notes on what the header says."""
        notes = []
        if self.tracer < 6:
            notes.append("this tracer leaves out predicates, uniform registers or constants: dependences through them are not seen")
        if self.other:
            named = ", ".join(f"-{key[:40]}" for key in self.other[:6])
            notes.append(f"keys of the header that no known tracer writes are ignored: {named}")
        return notes


def read_header(text: bytes, place: str) -> TraceFileHeader:
    """Parse the header that `text` begins with. Raises FormatError, at file and line, for what is missing or no number."""
    header = _HeaderLines(place)
    start = 0
    while start < _MOST_HEADER and (end := text.find(b"\n", start)) >= 0:
        line = text[start:end].decode("utf-8", "replace").strip()
        if line.startswith("#BEGIN_TB"):  # a block's first line, where the one about the form of lines is left out
            return header.finish(start)
        header.line += 1
        start = end + 1
        if line.startswith("#"):
            return header.finish(start)
        if line:
            header.take(line)
    what = "the header does not end: a line of # must follow it"
    raise FormatError(what, place=place, remedy="give a trace of Accel-Sim's tracer")


class _HeaderLines:
    """The header's lines by key."""

    def __init__(self, place: str) -> None:
        self.place, self.line, self._last = place, 0, 0
        self._values: dict[str, tuple[int, str]] = {}

    def take(self, line: str) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            self._refuse(f'"{line[:60]}" is not a line of a header (-key = value)')
        key = " ".join(match[1].split())
        if key in self._values:
            self._refuse(f"-{key} is given twice")
        self._values[key] = (self.line, match[2].strip())

    def finish(self, size: int) -> TraceFileHeader:
        lines = self._last = self.line  # from here on, `line` is that of the current value
        version = self._number("accelsim tracer version")
        if version not in VERSIONS:
            self._refuse(f"tracer version {version} is not known; 1 to 6 are read")
        header = TraceFileHeader(
            name=self._text("kernel name"), number=self._number("kernel id", 0), grid=self._triple("grid dim"),
            block=self._triple("block dim"), shared_bytes=self._number("shmem"), registers=self._number("nregs"),
            binary=self._number("binary version"), stream=self._number("cuda stream id", 0, 20), origin="",
            shared_base=self._address("shmem base_addr"), local_base=self._address("local mem base_addr"),
            nvbit=self._text("nvbit version", ""), lineinfo=self._number("enable lineinfo", 0) != 0,
            thread_instructions=self._number("thread instructions", -1),
            one_register=self._number("one register an operand", 0) != 0, tracer=version,
            other=tuple(sorted(self._values.keys() - _OURS)), lines=lines, bytes=size,
        )  # fmt: skip
        fits = all(n <= most for n, most in zip(header.grid, _MOST_GRID, strict=True))
        if header.threads_per_block > 1024 or header.blocks > 1 << 40 or not fits:
            self._refuse(f"grid {header.grid} of blocks {header.block} exceeds CUDA's launch limits")
        tool = f"Accel-Sim tracer {version}" + (f", NVBit {header.nvbit}" if header.nvbit else "")
        origin = f"SASS of sm_{header.binary} ({tool}): addresses and control flow carry over to other GPUs, opcodes do not"
        return dataclasses.replace(header, origin=origin)

    def _text(self, key: str, default: str | None = None) -> str:
        if key in self._values:
            self.line, text = self._values.pop(key)
            return text
        if default is None:
            self.line = self._last
            self._refuse(f"the header has no -{key}")
        return default

    def _parsed(self, key: str, default: int | None, pattern: str, parse: Callable[[str], int]) -> int:
        if key not in self._values and default is not None:
            return default
        text = self._text(key)
        if not re.fullmatch(pattern, text):
            self._refuse(f'-{key} is "{text[:40]}", not a number')
        return parse(text)

    def _number(self, key: str, default: int | None = None, digits: int = 15) -> int:
        return self._parsed(key, default, rf"\d{{1,{digits}}}", int)

    def _address(self, key: str) -> int:
        address = self._parsed(key, 0, r"(0[xX])?[0-9a-fA-F]{1,16}", lambda text: int(text, 16))
        if address >= ADDRESS_LIMIT:
            self._refuse(f"-{key} is {address:#x}, which is not an address below {ADDRESS_LIMIT:#x}")
        return address

    def _triple(self, key: str) -> tuple[int, int, int]:
        text = self._text(key)
        match = _TRIPLE.fullmatch(text)
        if not match or min(int(match[k]) for k in (1, 2, 3)) < 1:
            self._refuse(f'-{key} is "{text[:40]}", not three counts as (8,1,1)')
        return int(match[1]), int(match[2]), int(match[3])

    def _refuse(self, what: str) -> NoReturn:
        raise FormatError(what, place=f"{self.place}:{self.line}", remedy="correct the line, or trace the program again")


# -- The lines of a kernel's file behind its header, and where each of them stands.

_MASK = re.compile(r"[0-9a-fA-F]{8}")
_PEEK_BYTES = 1 << 16


def header_of(path: Path) -> TraceFileHeader:
    """The header of a kernel's file, of which no more is read than necessary. Raises FormatError."""
    text = b""
    for piece in pieces(path):
        text += piece
        if re.search(rb"^\s*#[^\n]*\n", text, re.MULTILINE) or len(text) > _PEEK_BYTES:
            break
    if not text:
        raise FormatError("the file is empty", place=str(path), remedy="give a trace of Accel-Sim's tracer")
    return read_header(text, str(path))


class GroupedText:
    """A file whose lines are grouped by block and warp already."""

    ordered = True

    def __init__(self, path: Path, header: TraceFileHeader) -> None:
        self._path, self._header = path, header

    def __iter__(self) -> Iterator[bytes]:
        skip = self._header.bytes
        for piece in pieces(self._path):
            yield piece[skip:] if skip < len(piece) else b""
            skip = max(0, skip - len(piece))

    def place(self, line: int) -> str:
        """File and line."""
        return f"{self._path}:{self._header.lines + line}"


def prefix_numbers(path: Path, header: TraceFileHeader) -> int:
    """How many numbers stand before the pc (and the source line): block and warp of raw files and of tracer versions 1 and 2.

    Raw files have 4 (block, warp), 6 (also SM and warp slot) or 11 (also the cluster). Raises FormatError if the first line is not
    an instruction.
    """
    if not is_raw(path):
        return 4 if header.tracer < 3 else 0
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
        what = f"not a line of a raw trace, which begins with block and warp: {line[:70]!r}"
        remedy = "give the file as the tracer wrote it, or grouped by post-traces-processing (.traceg)"
        raise FormatError(what, place=f"{path}:{header.lines + number}", remedy=remedy)
    return 4
