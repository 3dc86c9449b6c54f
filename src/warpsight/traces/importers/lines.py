"""Files with one instruction per line, preceded by its warp: read once into arrays of small numbers.

A text is stored once however often it occurs, so a million lines take about ten megabytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.base.inputs import open_input
from warpsight.traces.importers.launch import REMEDY, damaged
from warpsight.traces.importers.layout import Ints

_PIECE_BYTES = 1 << 22
_MOST_TEXTS = 1 << 22
_MOST_DIGITS = 10
_MOST_LINE = 1 << 20


@dataclass(frozen=True)
class Lines:
    """`keys`: the distinct numbers before a text, in order of appearance; `texts`: the distinct texts, cleaned.

    For each line, in order, int32: `who` (index in keys), `text` (index in texts), `line` (its number in the file).
    """

    keys: list[tuple[int, ...]]
    texts: list[str]
    who: Ints
    text: Ints
    line: Ints


def whole_lines(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file in pieces, without their line feeds. The very last one is empty unless the file ends inside a line.

    Raises FormatError if the file cannot be read or a line is too long.
    """
    held = b""
    try:
        with open_input(path) as file:
            while piece := file.read(_PIECE_BYTES):
                *lines, held = (held + piece).split(b"\n")
                if len(held) > _MOST_LINE:
                    raise FormatError("has a line that is too long for a trace", place=str(path), remedy=REMEDY)
                yield lines
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None
    yield [held]


def read_lines(path: Path, numbers: int, separator: bytes, clean: Callable[[bytes], str]) -> Lines:
    """Read a file of lines with `numbers` whole numbers, `separator` behind each, and a text.

    `clean` returns the text to keep, or raises ValueError with what is wrong. Raises FormatError with file and line for an invalid
    line, for a file that ends inside a line and for a file without lines.
    """
    reader = _LineReader(path, numbers, separator, clean)
    pieces = whole_lines(path)
    piece: list[bytes] = []
    for piece in pieces:
        reader.take(piece)
    if piece and piece[-1].strip():
        raise FormatError("the file ends inside a line", place=f"{path}:{reader.line}", remedy=f"the trace is cut: {REMEDY}")
    if not reader.who:
        raise FormatError("the file holds no instruction", place=str(path), remedy="trace the program again")
    columns = (np.frombuffer(column, np.int32) for column in (reader.who, reader.text, reader.lines))
    return Lines(reader.keys, reader.texts, *columns)


class _LineReader:
    """The lines read so far of a file."""

    def __init__(self, path: Path, numbers: int, separator: bytes, clean: Callable[[bytes], str]) -> None:
        self._path, self._numbers, self._separator, self._clean = path, numbers, separator, clean
        self.line = 0
        self.keys: list[tuple[int, ...]] = []
        self.texts: list[str] = []
        self.who, self.text, self.lines = array("i"), array("i"), array("i")
        self._known_keys: dict[tuple[bytes, ...], int] = {}
        self._known_texts: dict[bytes, int] = {}
        self._cleaned: dict[str, int] = {}
        self._numbered: dict[tuple[int, ...], int] = {}

    def take(self, piece: list[bytes]) -> None:
        """Read some whole lines."""
        numbers, separator = self._numbers, self._separator
        keys, texts = self._known_keys, self._known_texts
        for raw in piece:
            self.line += 1
            *key, text = raw.split(separator, numbers)
            if len(key) < numbers:
                if raw.strip():
                    self._refuse(raw, f"{numbers} numbers and an instruction are expected")
                continue
            before = tuple(key)
            who, number = keys.get(before), texts.get(text)
            self.who.append(self._new_key(before, raw) if who is None else who)
            self.text.append(self._new_text(text, raw) if number is None else number)
            self.lines.append(self.line)

    def _new_key(self, key: tuple[bytes, ...], raw: bytes) -> int:
        if not all(part.isdigit() and len(part) <= _MOST_DIGITS for part in key):
            self._refuse(raw, "it does not begin with whole numbers")
        number = tuple(int(part) for part in key)
        who = self._numbered.setdefault(number, len(self.keys))
        if who == len(self.keys):
            self.keys.append(number)
        self._known_keys[key] = who
        return who

    def _new_text(self, text: bytes, raw: bytes) -> int:
        try:
            cleaned = self._clean(text)
        except ValueError as error:
            self._refuse(raw, str(error))
        number = self._cleaned.setdefault(cleaned, len(self.texts))
        if number == len(self.texts):
            self.texts.append(cleaned)
        if len(self._known_texts) >= _MOST_TEXTS:
            self._refuse(raw, "the file has more distinct instructions than any kernel")
        self._known_texts[text] = number
        return number

    def _refuse(self, raw: bytes, what: str) -> NoReturn:
        shown = raw[:60].decode("ascii", "replace").strip()
        raise damaged(f"not a line of a trace: {shown!r}: {what}", f"{self._path}:{self.line}")
