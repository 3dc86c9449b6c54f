"""CSV of Nsight Compute (`ncu --csv`).

With `--page raw` it has a row for each launch and a row of units below the header, else (details, `--metrics`) one for each metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError
from warpsight.hardware.measurements.launch import MeasuredLaunch, Measurements, above_one
from warpsight.hardware.measurements.metrics import Cell, Notation, is_none, measured, notation_of, says_something
from warpsight.hardware.measurements.tables import Table, TableKind, TableRow, has_table, read_tables

TOOL = "ncu"
_ID, _KERNEL, _METRIC, _UNIT, _VALUE = "ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
# the columns that identify a launch in a file with several runs
_RUN = ("ID", "Process ID", "Host Name")


@dataclass
class _LaunchCells:
    """The cells of one launch, before their numbers are parsed: `row` is its first row by column."""

    row: dict[str, str]
    line: int
    cells: list[Cell] = field(default_factory=list)


def is_ncu(text: str) -> bool:
    """Whether a line of `text` is the header of a table of Nsight Compute."""
    return has_table(text, _TABLES)


def read_ncu(text: str, origin: str) -> Measurements:
    """The launches of `text`. Raises FormatError with `file:line`."""
    tables, others = read_tables(text, origin, _TABLES)
    launches: dict[tuple[str, ...], _LaunchCells] = {}
    for number, table in enumerate(tables):
        _check_header(table, origin)
        for row in table.rows:
            _take(row, table, number, launches, origin)
    if not launches:
        what = "has the header of a table of Nsight Compute, but no launch"
        raise FormatError(what, place=f"{origin}:{tables[0].line}", remedy="profile a program that launches a kernel")
    cells = [cell for launch in launches.values() for cell in launch.cells if not is_none(cell.text)]
    notation = notation_of((cell.text, cell.place) for cell in cells)
    made = tuple(_launch(launch, notation, origin) for launch in launches.values())
    notes = [f"{others} line{'s' if others > 1 else ''} outside of tables ignored"] if others else []
    return Measurements(TOOL, origin, made, (*notes, *above_one(made)))


def _least_cells(header: Sequence[str]) -> int:
    if _ID not in header or _KERNEL not in header:
        return 0
    # Rows of the long form may end before the columns of the rules.
    return list(header).index(_VALUE) + 1 if _METRIC in header and _VALUE in header else len(header)


_TABLES = TableKind(_least_cells, strict=False)


def _check_header(table: Table, origin: str) -> None:
    if _METRIC in table.header:
        for name in (_UNIT, _VALUE):
            if name not in table.header:
                raise FormatError(f'has no column "{name}"', place=f"{origin}:{table.line}", remedy="export it with ncu --csv")


def _take(row: TableRow, table: Table, number: int, launches: dict[tuple[str, ...], _LaunchCells], origin: str) -> None:
    """Add the cells of a row to its launch."""
    by_column = {name: cell.strip() for name, cell in zip(table.header, row.cells, strict=False)}
    place = f"{origin}:{row.line}"
    if _METRIC not in table.header:
        if not by_column[_ID]:
            if row is not table.rows[0]:
                raise FormatError("has no ID, and is not the row of units", place=place, remedy="export the file again")
            return
        launch = _launch_of(by_column, row, number, launches, place)
        units = table.rows[0].cells if not table.rows[0].cells[table.column(_ID)].strip() else ("",) * len(table.header)
        for name, unit, cell in zip(table.header, units, row.cells, strict=True):
            _add(launch, name, unit.strip(), cell.strip(), place)
    elif by_column.get(_METRIC):  # rows without a metric are a rule's advice
        _add(_launch_of(by_column, row, number, launches, place), by_column[_METRIC], by_column[_UNIT], by_column[_VALUE], place)


def _launch_of(
    by_column: dict[str, str], row: TableRow, number: int, launches: dict[tuple[str, ...], _LaunchCells], place: str
) -> _LaunchCells:
    if not re.fullmatch(r"\d{1,18}", by_column[_ID]):
        raise FormatError(f'the ID is "{by_column[_ID][:40]}", not a number', place=place, remedy="export the file again")
    if not by_column[_KERNEL]:
        raise FormatError("names no kernel", place=place, remedy="export the file again")
    # A wide table is one run; several long tables may have sections and metrics of one launch.
    key = (str(number) if _METRIC not in by_column else "", *(by_column.get(name, "") for name in _RUN))
    launch = launches.setdefault(key, _LaunchCells(by_column, row.line))
    if launch.row[_KERNEL] != by_column[_KERNEL]:
        what = f"is of {by_column[_KERNEL]}, and line {launch.line} has the same ID for {launch.row[_KERNEL]}"
        raise FormatError(what, place=place, remedy="keep one run in a file")
    if _METRIC not in by_column and launch.line != row.line:
        raise FormatError(f"has the ID of line {launch.line}", place=place, remedy="keep one run in a file")
    return launch


def _add(launch: _LaunchCells, metric: str, unit: str, text: str, place: str) -> None:
    if says_something(metric):
        launch.cells.append(Cell(metric, unit, text, place))


def _launch(launch: _LaunchCells, notation: Notation, origin: str) -> MeasuredLaunch:
    measures, stalls, absent = measured(launch.cells, notation, once=True)
    place = f"{origin}:{launch.line}"
    sizes = [_dimensions(launch.row.get(name, ""), name, place) for name in ("Grid Size", "Block Size")]
    return MeasuredLaunch(
        number=launch.row[_ID], kernel=launch.row[_KERNEL], device=launch.row.get("Device", ""), grid=sizes[0], block=sizes[1],
        invocations=1, measures=measures, stalls=stalls, absent=absent, place=place,
    )


def _dimensions(text: str, name: str, place: str) -> tuple[int, int, int] | None:
    if not text:
        return None
    numbers = [int(part) for part in _parts(text)]
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise FormatError(f'{name} is "{text[:60]}", not three numbers', place=place, remedy='ncu writes it as "(256, 1, 1)"')
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def _parts(text: str) -> Iterator[str]:
    match = re.fullmatch(r"\(?\s*(\d{1,10}(?:\s*[,;x ]\s*\d{1,10}){0,3})\s*\)?", text)
    return iter(re.findall(r"\d+", match[1])) if match else iter(())
