"""CSV of nvprof (`nvprof --csv`): its summary, `--print-gpu-trace`, and the metrics or events of either.

A summary has one row per kernel: the mean of its launches is one `MeasuredLaunch`. A trace has a row per launch. The tables of a
file are of one program, so a kernel's n-th row in one table is its n-th row in another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError
from warpsight.hardware.measurements.launch import MeasuredLaunch, Measurements, above_one
from warpsight.hardware.measurements.metrics import DESCRIPTIONS, Cell, Notation, is_used, measured, notation_of
from warpsight.hardware.measurements.tables import Table, TableKind, TableRow, has_table, read_tables

TOOL = "nvprof"
MEAN = "mean"
_TRACE = ("Start", "Duration", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z", "Name")
_SUMMARY = ("Time(%)", "Time", "Calls", "Avg", "Name")
_METRICS = ("Device", "Kernel", "Invocations", "Avg")
_PER_LAUNCH = ("Device", "Kernel")
_NOT_PER_LAUNCH = ("Invocations", "Calls", "Metric Name", "Event Name", "Kernel Name", "Name")
# Copies and settings of memory are rows of a trace too; without a column for the type, so are calls of the host.
_NO_KERNEL = re.compile(r"\[CUDA mem(cpy|set).*|\[Unified Memory.*")
_HOST_CALL = re.compile(r"cu(da)?[A-Z]\w*")
_VALUE = re.compile(r"(?P<number>.*?\d)\s*(?P<unit>[A-Za-z%µ][\w/%]*)?")

_Key = tuple[str, str]


@dataclass
class _LaunchCells:
    """What the file has of one launch, before its numbers are parsed."""

    device: str
    line: int
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    invocations: int = 1
    cells: list[Cell] = field(default_factory=list)

    def add(self, metric: str, unit: str, text: str, place: str) -> None:
        """Add the cell of a metric if it is used; a unit behind the number goes before the column's."""
        metric, match = DESCRIPTIONS.get(metric, metric), _VALUE.fullmatch(text)
        if is_used(metric):
            self.cells.append(Cell(metric, (match and match["unit"]) or unit, match["number"] if match else text, place))


def is_nvprof(text: str) -> bool:
    """Whether a line of `text` is the header of a table of nvprof's kernels."""
    return has_table(text, _TABLES)


def read_nvprof(text: str, origin: str) -> Measurements:
    """The kernels' launches of `text`. Raises FormatError with `file:line`."""
    tables, others = read_tables(text, origin, _TABLES)
    cells = [(cell, f"{origin}:{row.line}") for table in tables for row in table.rows for cell in row.cells if cell.strip()]
    notation = notation_of((match["number"], place) for cell, place in cells if (match := _VALUE.fullmatch(cell.strip())))
    launches: dict[_Key, _LaunchCells] = {}
    for table in tables:
        _add_table(table, launches, origin)
    if not launches:
        remedy = "profile a program that launches a kernel"
        raise FormatError("has a table of nvprof, but no kernel", place=f"{origin}:{tables[0].line}", remedy=remedy)
    notes = []
    if any(launch.invocations > 1 for launch in launches.values()):
        notes.append("nvprof's summary gives the mean of a kernel's launches; nvprof --print-gpu-trace lists each")
    count = others - sum(line.startswith("=") for line in text.splitlines())
    if count > 0:
        notes.append(f"{count} line{'s' if count > 1 else ''} outside of tables ignored")
    measured_launches = tuple(_launch(key, launch, notation, origin) for key, launch in launches.items())
    return Measurements(TOOL, origin, measured_launches, (*notes, *above_one(measured_launches)))


def _least_cells(header: Sequence[str]) -> int:
    names = set(header)
    per_launch = names.issuperset(_PER_LAUNCH) and names.isdisjoint(_NOT_PER_LAUNCH) and len(header) > len(_PER_LAUNCH)
    return len(header) if per_launch or any(names.issuperset(kind) for kind in (_TRACE, _SUMMARY, _METRICS)) else 0


_TABLES = TableKind(_least_cells, strict=True)


def _add_table(table: Table, launches: dict[_Key, _LaunchCells], origin: str) -> None:
    name = "Name" if "Name" in table.header else "Kernel"
    rows = list(table.rows)
    units: dict[str, str] = {}
    if rows and not rows[0].cells[table.column(name)].strip():
        units = dict(zip(table.header, (cell.strip() for cell in rows.pop(0).cells), strict=True))
    seen: dict[str, int] = {}
    for row in rows:
        by_column = dict(zip(table.header, (cell.strip() for cell in row.cells), strict=True))
        place, kernel = f"{origin}:{row.line}", by_column[name]
        if not kernel:
            raise FormatError("names no kernel", place=place, remedy="export the file again")
        if _passed_over(by_column, kernel):
            continue
        if "Metric Name" in by_column or "Event Name" in by_column:
            metric = by_column.get("Metric Name") or by_column.get("Event Name") or ""
            _mean(by_column, kernel, "Invocations", row, launches, place).add(metric, "", by_column["Avg"], place)
        elif "Calls" in by_column:
            launch = _mean(by_column, kernel, "Calls", row, launches, place)
            launch.add("Duration", units.get("Avg", ""), by_column["Avg"], place)
        else:
            number = seen[kernel] = seen.get(kernel, -1) + 1
            launch = launches.setdefault((kernel, str(number)), _LaunchCells(by_column.get("Device", ""), row.line))
            _single(by_column, units, launch, place)


def _passed_over(by_column: dict[str, str], kernel: str) -> bool:
    if _NO_KERNEL.fullmatch(kernel) or by_column.get("Type", "GPU activities") != "GPU activities":
        return True
    return "Calls" in by_column and "Type" not in by_column and bool(_HOST_CALL.fullmatch(kernel))


def _mean(
    by_column: dict[str, str], kernel: str, column: str, row: TableRow, launches: dict[_Key, _LaunchCells], place: str
) -> _LaunchCells:
    """The entry for all launches of a kernel, or for the only one."""
    if not re.fullmatch(r"[1-9]\d{0,17}", by_column[column]):
        raise FormatError(f'{column} is "{by_column[column][:40]}", not a count', place=place, remedy="export the file again")
    count = int(by_column[column])
    launch = launches.setdefault((kernel, "0" if count == 1 else MEAN), _LaunchCells(by_column.get("Device", ""), row.line))
    launch.invocations = count
    launch.device = launch.device or by_column.get("Device", "")
    return launch


def _single(by_column: dict[str, str], units: dict[str, str], launch: _LaunchCells, place: str) -> None:
    """A row of a trace: a launch's size and time, or its metrics."""
    if "Duration" in by_column:
        launch.grid, launch.block = (
            _size([by_column[f"{name} {axis}"] for axis in "XYZ"], name, place) for name in ("Grid", "Block")
        )
    for column, text in by_column.items():
        launch.add(column, units.get(column, ""), text, place)


def _size(texts: Sequence[str], name: str, place: str) -> tuple[int, int, int]:
    if not all(re.fullmatch(r"[1-9]\d{0,9}", text) for text in texts):
        raise FormatError(f'{name} is "{" ".join(texts)[:60]}", not three counts', place=place, remedy="export the file again")
    x, y, z = (int(text) for text in texts)
    return x, y, z


def _launch(key: _Key, launch: _LaunchCells, notation: Notation, origin: str) -> MeasuredLaunch:
    measures, stalls, absent = measured(launch.cells, notation)
    return MeasuredLaunch(
        number=key[1], kernel=key[0], device=launch.device, grid=launch.grid, block=launch.block, invocations=launch.invocations,
        measures=measures, stalls=stalls, absent=absent, place=f"{origin}:{launch.line}",
    )

