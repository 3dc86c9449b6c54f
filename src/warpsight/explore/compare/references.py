"""Reference or measured cycles from a CSV file: one row a launch.

Columns `gpu`, `kernel` and `cycles`; where they are there also `size` (a kernel's launches told apart), `grid` and `block` (as
`512x1x1`, checked against the launch), and `cpi_stack.NAME` (cycles per warp instruction and SM). Others are passed over.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.result.prediction import COMPONENTS

if TYPE_CHECKING:
    from warpsight.explore.measurements.launch import MeasuredLaunch
    from warpsight.trace.schema import TraceHeader

REQUIRED = ("gpu", "kernel", "cycles")
KNOWN = (*REQUIRED, "size", "grid", "block")
_STACK = "cpi_stack."
# What no launch takes, and no table has room for.
_MOST = 2**63 - 1


@dataclass(frozen=True)
class Reference:
    """One row. `grid` and `block` are None, and `cpi_stack` empty, where the file does not say. `place` is `file:line`.

    Of a profiler's file `measured` is the launch, `gpu` is empty, and `cycles` or `seconds` are None where they were not measured.
    """

    gpu: str
    kernel: str
    size: str
    cycles: float | None
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    cpi_stack: dict[str, float]
    place: str
    seconds: float | None = None
    measured: MeasuredLaunch | None = None

    @property
    def name(self) -> str:
        """The kernel, with its size where there is one: `grid_stride 32`."""
        return f"{self.kernel} {self.size}" if self.size else self.kernel


def references_of(text: str, origin: str) -> list[Reference]:
    """The rows of the file `origin` with the content `text`. Raises FormatError with `file:line`."""
    reader = csv.DictReader(io.StringIO(text))
    _check_header(reader.fieldnames or [], origin)
    rows: list[Reference] = []
    for row in reader:
        rows.append(_reference({name: (value or "").strip() for name, value in row.items() if name}, f"{origin}:{reader.line_num}"))
    seen: dict[tuple[object, ...], Reference] = {}
    for found in rows:
        first = seen.setdefault((found.gpu, found.name, found.grid, found.block), found)
        if first is not found:
            raise FormatError(f"says again what {first.place} says", place=found.place, remedy="keep one row for each launch")
    return rows


def match(references: Sequence[Reference], gpu: str, header: TraceHeader, label: str, place: str) -> Reference:
    """The row of a launch on `gpu`: of the name `label` where one is given, else of its kernel. Raises UsageError.

    Of several rows those with the launch's grid and block are taken; a single row with another grid or block is refused.
    """
    here = [row for row in references if row.gpu == gpu]
    if not here:
        known = sorted({row.gpu for row in references})
        what = f"there is no row for the GPU {gpu}{suggestion(gpu, known)}"
        raise UsageError(what, place=place, remedy=f"--gpu chooses one of: {', '.join(known) or 'none, the file is empty'}")
    named = [row for row in here if (row.name == label if label else row.kernel in (header.kernel, header.mangled))]
    if not named:
        wanted, known = label or header.kernel, sorted({row.name for row in here})
        what = f'there is no row for "{wanted}" on {gpu}{suggestion(wanted, known)}'
        raise UsageError(what, place=place, remedy=f"NAME=KERNEL says which row is meant; {gpu} has: {', '.join(known)}")
    fitting = [row for row in named if _fits(row.grid, header.grid) and _fits(row.block, header.block)]
    if not fitting:
        row = named[0]
        what = f"is of another launch: grid {_shown(row.grid)} block {_shown(row.block)}"
        ours = f"{header.kernel} was launched with grid {_shown(header.grid)} block {_shown(header.block)}"
        raise UsageError(what, place=row.place, remedy=f"{ours}; launch it as there, or correct the row")
    if len(fitting) > 1:
        what = f"{len(fitting)} rows are for {header.kernel} on {gpu}: {', '.join(row.name for row in fitting)}"
        raise UsageError(what, place=place, remedy=f"say which, as '{fitting[0].name}=KERNEL'")
    return fitting[0]


def _check_header(names: Sequence[str], origin: str) -> None:
    for name in REQUIRED:
        if name not in names:
            what = f"has no column {name}{suggestion(name, names)}"
            remedy = f"the columns {', '.join(REQUIRED)} are needed, or a table of ncu or nvprof"
            raise FormatError(what, place=f"{origin}:1", remedy=remedy)
    for name in names:
        if names.count(name) > 1 and (name in KNOWN or name.startswith(_STACK)):
            raise FormatError(f'has two columns "{name}"', place=f"{origin}:1", remedy="keep one of them")
        component = name.removeprefix(_STACK)
        if name.startswith(_STACK) and component not in COMPONENTS:
            what = f'"{name}" is no component of the CPI stack{suggestion(component, COMPONENTS)}'
            raise FormatError(what, place=f"{origin}:1", remedy=f"known: {', '.join(COMPONENTS)}")


def _reference(row: dict[str, str], place: str) -> Reference:
    told = {name: value for name, value in row.items() if name.startswith(_STACK) and value}
    stack = {name.removeprefix(_STACK): _number(value, name, place) for name, value in told.items()}
    cycles = _number(row["cycles"], "cycles", place)
    if cycles < 1:
        what = f"{cycles:g} cycles are fewer than any launch takes"
        raise FormatError(what, place=place, remedy="leave the row out, or correct it")
    if not row["kernel"] or not row["gpu"]:
        raise FormatError("names no kernel, or no GPU", place=place, remedy="fill in both")
    sizes = [_dimensions(row[name], name, place) if row.get(name) else None for name in ("grid", "block")]
    return Reference(row["gpu"], row["kernel"], row.get("size", ""), cycles, sizes[0], sizes[1], stack, place)


def _number(text: str, name: str, place: str) -> float:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise FormatError(f'{name} is "{text}", where a number of 0 or more is due', place=place, remedy="correct it")
    if value > _MOST:
        raise FormatError(f"{name} is {value:g}, and the most that makes sense is {_MOST:g}", place=place, remedy="correct it")
    return value


def _dimensions(text: str, name: str, place: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+([x, ]\d+){0,2}", text):
        raise FormatError(f'{name} is "{text}", where one to three numbers are due', place=place, remedy="write 512x1x1")
    numbers = [int(part) for part in re.split(r"[x, ]", text)]
    return tuple(numbers + [1] * (3 - len(numbers)))


def _fits(told: tuple[int, ...] | None, launched: tuple[int, ...]) -> bool:
    return told is None or told == launched


def _shown(size: tuple[int, ...] | None) -> str:
    return "not said" if size is None else "x".join(map(str, size))
