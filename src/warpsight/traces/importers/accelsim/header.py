"""The text of a kernel's file: its header (what was launched, where, the form of the lines) and the lines behind it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from warpsight.base.errors import FormatError
from warpsight.traces.importers.accelsim.files import is_raw, pieces
from warpsight.traces.importers.launch import KernelHeader
from warpsight.traces.importers.layout import ADDRESS_LIMIT

MOST_HEADER_BYTES = 1 << 20
_OURS = {"written by"}
_LINE = re.compile(r"-([^=]*?)\s*=\s*(.*)")
_TRIPLE = re.compile(r"\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)")
VERSIONS = range(1, 7)
_MOST_GRID = ((1 << 31) - 1, 65_535, 65_535)  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"


@dataclasses.dataclass(frozen=True)
class TraceFileHeader(KernelHeader):
    """The header of a kernel's file. `other` are keys that no known tracer writes, `lines` and `bytes` the size of the header with
    the line of `#` that ends it, `tracer` the version of the tracer.
    """

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
    reader = _HeaderLines(place)
    at = 0
    while at < len(text) and at < MOST_HEADER_BYTES:
        end = text.find(b"\n", at)
        if end < 0:
            break
        line = text[at:end].decode("utf-8", "replace").strip()
        reader.line += 1
        start, at = at, end + 1
        if line.startswith("#BEGIN_TB"):  # a block's first line, where the one about the form of lines is left out
            reader.line -= 1
            return reader.finish(start)
        if line.startswith("#"):
            return reader.finish(at)
        if line:
            reader.take(line)
    raise FormatError(
        "the header does not end: a line of # must follow it", place=place, remedy="give a trace of Accel-Sim's tracer"
    )


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
            self._refuse(f"grid {header.grid} of blocks {header.block} is larger than any GPU launches")
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
        place = f"{path}:{header.lines + number}"
        raise FormatError(
            f"not a line of a raw trace, which begins with block and warp: {line[:70]!r}",
            place=place,
            remedy="give the file as the tracer wrote it, or grouped by post-traces-processing (.traceg)",
        )
    return 4
