"""Tables of comma-separated values among other output of a profiled program and its profiler."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError

_DELIMITERS = ",;\t"
_MOST_LINES = 100  # of one cell


@dataclass(frozen=True)
class TableRow:
    """The cells of the row that begins in `line`."""

    line: int
    cells: tuple[str, ...]


@dataclass
class Table:
    """A header and its rows. A row has at least `least` cells, and at most as many as the header."""

    line: int
    header: tuple[str, ...]
    quoted: bool
    least: int
    rows: list[TableRow] = field(default_factory=list)

    def column(self, name: str) -> int:
        """The index of the column `name`; -1 if there is none."""
        return self.header.index(name) if name in self.header else -1


@dataclass(frozen=True)
class TableKind:
    """How to recognise the tables of a tool: `least_cells` of a header is the least number of cells of a row, 0 if it is no header.

    With `strict`, everything up to an empty line or a message of the tool (`==...`) belongs to the table; without, only lines that
    begin as the header does, with or without a quotation mark.
    """

    least_cells: Callable[[Sequence[str]], int]
    strict: bool


def has_table(text: str, kind: TableKind) -> bool:
    """Whether a line of `text` is a header of that kind."""
    return any(_header(line.rstrip("\r"), kind) for line in text.removeprefix("\ufeff").split("\n"))


def read_tables(text: str, origin: str, kind: TableKind) -> tuple[list[Table], int]:
    """The tables of `text`, and the number of other lines that are not empty.

    Raises FormatError with `file:line` for a row that does not have the header's length and for a quoted cell that does not end.
    """
    tables: list[Table] = []
    table: Table | None = None
    delimiter, others = ",", 0
    for line, record in _records(text, origin, tables):
        opened = _header(record, kind)
        if opened:
            cells, delimiter, least = opened
            table = Table(line, cells, record.startswith('"'), least)
            if twice := next((name for name in cells if name and cells.count(name) > 1), ""):
                raise FormatError(f'has two columns "{twice}"', place=f"{origin}:{line}", remedy="keep one of them")
            tables.append(table)
        elif not record.strip() or record.startswith("=="):
            others += bool(record.strip())
            if kind.strict and not record.startswith("==") and table is not None and table.rows:
                table = None
        elif table is not None and _belongs(record, table, delimiter, kind.strict):
            table.rows.append(_row(record, line, table, delimiter, origin))
        else:
            others += 1
    return tables, others


def _records(text: str, origin: str, opened: Sequence[Table]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers. In a table, the lines that a quoted cell spans are one."""
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


def _header(record: str, kind: TableKind) -> tuple[tuple[str, ...], str, int] | None:
    if "Name" not in record and "Kernel" not in record:
        return None  # saves splitting every row
    for delimiter in _DELIMITERS:
        if delimiter in record:
            cells = tuple(cell.strip() for cell in _cells(record, delimiter))
            least = kind.least_cells(cells)
            if least:
                return cells, delimiter, least
    return None


def _cells(record: str, delimiter: str) -> list[str]:
    # The csv module's limit on the length of a field holds for the whole process, so a field may exceed it here.
    try:
        return next(csv.reader([record], delimiter=delimiter), [])
    except csv.Error:
        return record.split(delimiter)


def _belongs(record: str, table: Table, delimiter: str, strict: bool) -> bool:
    if strict or record.startswith('"'):
        return True
    # A program's own output may begin with a number too, between quoted rows.
    numbered = delimiter in record and (record[0].isdigit() or record.startswith(delimiter))
    return numbered and (not table.quoted or table.least <= len(_cells(record, delimiter)) <= len(table.header))


def _row(record: str, line: int, table: Table, delimiter: str, origin: str) -> TableRow:
    cells = _cells(record, delimiter)
    if not table.least <= len(cells) <= len(table.header):
        message = f"has {len(cells)} cells, and the header in line {table.line} names {len(table.header)}"
        raise FormatError(message, place=f"{origin}:{line}", remedy="the line is cut, or not of this table; export the file again")
    return TableRow(line, tuple(cells))
