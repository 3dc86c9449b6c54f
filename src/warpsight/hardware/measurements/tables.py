"""Tables of comma-separated values among whatever else a profiled program and its profiler have printed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError

_DELIMITERS = ",;\t"
# a cell that goes on over more lines than this is no cell
_MOST_LINES = 100


@dataclass(frozen=True)
class Row:
    """The cells of the row that begins in `line`."""

    line: int
    cells: tuple[str, ...]


@dataclass
class Table:
    """A header and what follows it. `least` is how many cells a row must have, at most as many as the header."""

    line: int
    header: tuple[str, ...]
    quoted: bool
    least: int
    rows: list[Row] = field(default_factory=list)

    def column(self, name: str) -> int:
        """Where the column `name` is; -1 for nowhere."""
        return self.header.index(name) if name in self.header else -1


@dataclass(frozen=True)
class Kind:
    """How tables of a tool are told: `least_cells` gives for a header the least cells of a row, 0 for what is no header.

    With `strict` everything up to an empty line or one of the tool's own (`==...`) belongs to the table; without, only lines that
    begin as the header does, with a quotation mark or without.
    """

    least_cells: Callable[[Sequence[str]], int]
    strict: bool


def has_table(text: str, kind: Kind) -> bool:
    """Whether a line of `text` is a header of that kind."""
    return any(_header(line.rstrip("\r"), kind) for line in text.removeprefix("\ufeff").split("\n"))


def read_tables(text: str, origin: str, kind: Kind) -> tuple[list[Table], int]:
    """The tables of `text`, and how many lines belong to none and are not empty.

    Raises FormatError with `file:line` for a row of another length than its header's and a quoted cell that does not end.
    """
    found: list[Table] = []
    table: Table | None = None
    delimiter, others = ",", 0
    for line, record in _records(text, origin, found):
        opened = _header(record, kind)
        if opened:
            cells, delimiter, least = opened
            table = Table(line, cells, record.startswith('"'), least)
            _check_twice(table, origin)
            found.append(table)
        elif not record.strip() or record.startswith("=="):
            others += bool(record.strip())
            if kind.strict and not record.startswith("==") and table is not None and table.rows:
                table = None
        elif table is not None and _belongs(record, table, delimiter, kind.strict):
            table.rows.append(_row(record, line, table, delimiter, origin))
        else:
            others += 1
    return found, others


def _records(text: str, origin: str, opened: Sequence[Table]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; in a table those that a quoted cell spans are one."""
    held, start = "", 0
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        bare = line.rstrip("\r")
        held, start = (f"{held}\n{bare}", start) if held else (bare, number)
        if held.startswith('"') and opened and held.count('"') % 2:
            if number - start >= _MOST_LINES:
                break
            continue
        yield start, held
        held = ""
    if held:
        raise FormatError("a quoted cell does not end", place=f"{origin}:{start}", remedy="the file is cut; export it again")


def _header(record: str, kind: Kind) -> tuple[tuple[str, ...], str, int] | None:
    if "Name" not in record and "Kernel" not in record:
        return None  # no need to take every row apart
    for delimiter in _DELIMITERS:
        if delimiter in record:
            cells = tuple(cell.strip() for cell in _cells(record, delimiter))
            least = kind.least_cells(cells)
            if least:
                return cells, delimiter, least
    return None


def _cells(record: str, delimiter: str) -> list[str]:
    # a field of any length: the limit of the csv module is for the whole process, and ours are checked elsewhere
    try:
        return next(csv.reader([record], delimiter=delimiter), [])
    except csv.Error:
        return record.split(delimiter)


def _belongs(record: str, table: Table, delimiter: str, strict: bool) -> bool:
    if strict:
        return True
    if record.startswith('"'):
        return True
    # what a program prints may begin with a number too, among quoted rows
    numbered = delimiter in record and (record[0].isdigit() or record.startswith(delimiter))
    return numbered and (not table.quoted or table.least <= len(_cells(record, delimiter)) <= len(table.header))


def _row(record: str, line: int, table: Table, delimiter: str, origin: str) -> Row:
    cells = _cells(record, delimiter)
    if not table.least <= len(cells) <= len(table.header):
        what = f"has {len(cells)} cells, and the header in line {table.line} names {len(table.header)}"
        raise FormatError(what, place=f"{origin}:{line}", remedy="the line is cut, or is not of this table; export the file again")
    return Row(line, tuple(cells))


def _check_twice(table: Table, origin: str) -> None:
    for name in table.header:
        if name and table.header.count(name) > 1:
            raise FormatError(f'has two columns "{name}"', place=f"{origin}:{table.line}", remedy="keep one of them")
