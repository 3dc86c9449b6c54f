"""CSV of Nsight Compute (`ncu --csv`).

With `--page raw` it has a row for each launch and a row of units below the header, else (details, `--metrics`) one for each metric.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError
from warpsight.hardware.measurements.launch import MeasuredLaunch, Measurements, above_one
from warpsight.hardware.measurements.metrics import Cell, Notation, is_none, is_used, measured, notation_of
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

    def add(self, metric: str, unit: str, text: str, place: str) -> None:
        """Add the cell of a metric if it is used."""
        if is_used(metric):
            self.cells.append(Cell(metric, unit, text, place))


def is_ncu(text: str) -> bool:
    """Whether a line of `text` is the header of a table of Nsight Compute."""
    return has_table(text, _TABLES)


def read_ncu(text: str, origin: str) -> Measurements:
    """The launches of `text`. Raises FormatError with `file:line`."""
    tables, others = read_tables(text, origin, _TABLES)
    launches: dict[tuple[str, ...], _LaunchCells] = {}
    for number, table in enumerate(tables):
        for name in (_UNIT, _VALUE) if _METRIC in table.header else ():
            if name not in table.header:
                raise FormatError(f'has no column "{name}"', place=f"{origin}:{table.line}", remedy="export it with ncu --csv")
        for row in table.rows:
            _add_row(row, table, number, launches, origin)
    if not launches:
        message = "has the header of a table of Nsight Compute, but no launch"
        raise FormatError(message, place=f"{origin}:{tables[0].line}", remedy="profile a program that launches a kernel")
    cells = [cell for launch in launches.values() for cell in launch.cells if not is_none(cell.text)]
    notation = notation_of((cell.text, cell.place) for cell in cells)
    measured_launches = tuple(_launch(launch, notation, origin) for launch in launches.values())
    notes = [f"{others} line{'s' if others > 1 else ''} outside of tables ignored"] if others else []
    return Measurements(TOOL, origin, measured_launches, (*notes, *above_one(measured_launches)))


def _least_cells(header: Sequence[str]) -> int:
    if _ID not in header or _KERNEL not in header:
        return 0
    # Rows of the long form may end before the columns of the rules.
    return list(header).index(_VALUE) + 1 if _METRIC in header and _VALUE in header else len(header)


_TABLES = TableKind(_least_cells, strict=False)


def _add_row(row: TableRow, table: Table, number: int, launches: dict[tuple[str, ...], _LaunchCells], origin: str) -> None:
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
            launch.add(name, unit.strip(), cell.strip(), place)
    elif by_column.get(_METRIC):  # rows without a metric are a rule's advice
        launch = _launch_of(by_column, row, number, launches, place)
        launch.add(by_column[_METRIC], by_column[_UNIT], by_column[_VALUE], place)


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
        message = f"is of {by_column[_KERNEL]}, and line {launch.line} has the same ID for {launch.row[_KERNEL]}"
        raise FormatError(message, place=place, remedy="keep one run in a file")
    if _METRIC not in by_column and launch.line != row.line:
        raise FormatError(f"has the ID of line {launch.line}", place=place, remedy="keep one run in a file")
    return launch


def _launch(launch: _LaunchCells, notation: Notation, origin: str) -> MeasuredLaunch:
    measures, stalls, absent = measured(launch.cells, notation, once=True)
    place = f"{origin}:{launch.line}"
    grid, block = (_dimensions(launch.row.get(name, ""), name, place) for name in ("Grid Size", "Block Size"))
    return MeasuredLaunch(
        number=launch.row[_ID], kernel=launch.row[_KERNEL], device=launch.row.get("Device", ""), grid=grid, block=block,
        invocations=1, measures=measures, stalls=stalls, absent=absent, place=place,
    )


def _dimensions(text: str, name: str, place: str) -> tuple[int, int, int] | None:
    if not text:
        return None
    match = re.fullmatch(r"\(?\s*(\d{1,10}(?:\s*[,;x ]\s*\d{1,10}){0,3})\s*\)?", text)
    numbers = [int(part) for part in re.findall(r"\d+", match[1])] if match else []
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise FormatError(f'{name} is "{text[:60]}", not three numbers', place=place, remedy='ncu writes it as "(256, 1, 1)"')
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z
