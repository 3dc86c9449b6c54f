"""Text level of the PTX parser: comments, statements, and the place of every error, down to the file that the user gave.

PTX is read one statement at a time with compiled regular expressions instead of one token at a time: a statement of compiler
output is a line, so this keeps the Python work per line to a handful of calls.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warpsight.base.errors import FormatError, UnsupportedError

IDENTIFIER = r"[A-Za-z_$%][\w$]*"
CUT = "the file is cut or corrupted: write the PTX again and pass the whole file"

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_BRACE = re.compile(r'[{}]|"(?:[^"\\\n]|\\.)*"')

# One statement of a function body. Groups: .loc file, .loc line; brace; label; guard negation, guard register, opcode, modifiers,
# operands; directive, its text.
STATEMENT = re.compile(
    rf"""\s*(?:
      \.loc[ \t]+(\d+)[ \t]+(\d+)[^\n]*
    | ([{{}}])
    | ({IDENTIFIER})\s*:(?!:)
    | (?:@\s*(!?)\s*({IDENTIFIER}(?:\.\w+)?)\s+)?([a-z]\w*)((?:\.[\w:]+)*)(?=[\s;(\[{{])([^;]*);
    | (\.[a-z_]\w*)\b([^;]*);
    )""",
    re.VERBOSE,
)
SPACE = re.compile(r"\s*")


class Source:
    """PTX text without comments (lines kept), and the way to name a place in it."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        if "//" in text or "/*" in text:
            text = _COMMENT.sub(_blank, text)
        self.text = text.rstrip("\0 \t\r\n\f\v")
        self._newlines = [match.start() for match in re.finditer("\n", self.text)]

    def line(self, position: int) -> int:
        """The line number, from 1, of a character position."""
        return bisect_left(self._newlines, position) + 1

    def error(self, position: int, what: str, remedy: str = CUT) -> FormatError:
        """A FormatError placed at the line of a character position."""
        return self.error_at(self.line(position), what, remedy)

    def error_at(self, line: int, what: str, remedy: str = CUT) -> FormatError:
        """A FormatError placed at a line. What it quotes from the text may hold line ends; the message is one line."""
        return FormatError(" ".join(what.split()), place=f"{self.path}:{line}", remedy=remedy)

    def skip(self, position: int) -> int:
        """The position of the next character that is not white space."""
        match = SPACE.match(self.text, position)
        return match.end() if match else position

    def excerpt(self, position: int, end: int | None = None) -> str:
        """The rest of the line at a position (up to `end`), shortened, for a message."""
        rest = self.text[position : min(position + 200, len(self.text) if end is None else end)].split("\n", 1)[0].strip()
        printable = "".join(c if c.isprintable() else "?" for c in rest)
        return printable if len(printable) <= 48 else printable[:45] + "..."

    def closing_brace(self, position: int) -> int:
        """The position of the `}` that closes the `{` at `position`, or -1. Braces inside strings do not count."""
        depth = 0
        for match in _BRACE.finditer(self.text, position):
            kind = match.group()
            if kind == "{":
                depth += 1
            elif kind == "}":
                depth -= 1
                if depth == 0:
                    return match.start()
        return -1

    def end_of_line(self, position: int) -> int:
        """The position of the end of the line (before the line feed)."""
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end


def _blank(match: re.Match[str]) -> str:
    """A comment becomes its line feeds (at least one space, as it separates words); a string stays."""
    word = match.group()
    return word if word[0] == '"' else "\n" * word.count("\n") or " "


def split_top(text: str, fail: Callable[[str], FormatError]) -> list[str]:
    """Split at the commas that stand outside brackets; pieces are stripped. `fail` makes the error for unbalanced brackets."""
    if "{" not in text and "[" not in text and "(" not in text:
        return [piece.strip() for piece in text.split(",")]
    pieces, depth, begin = [], 0, 0
    for match in re.finditer(r"[\[\]{}(),]", text):
        kind = match.group()
        if kind in "[{(":
            depth += 1
        elif kind in "]})":
            depth -= 1
            if depth < 0:
                raise fail(f'"{kind}" has no opening bracket')
        elif depth == 0:
            pieces.append(text[begin : match.start()].strip())
            begin = match.end()
    if depth:
        raise fail("a bracket is not closed")
    pieces.append(text[begin:].strip())
    return pieces


_ANONYMOUS = "ptx:"  # errors of this floor know a PTX line, and not the name of the file that the user gave


@contextmanager
def lines_of(path: str) -> Iterator[None]:
    """Name `path` in errors about PTX lines that are raised inside."""
    try:
        yield
    except UnsupportedError as error:
        if not error.place.startswith(_ANONYMOUS):
            raise
        place = f"{path}:{error.place.removeprefix(_ANONYMOUS)}"
        raise UnsupportedError(error.what, place=place, remedy=error.remedy) from error
