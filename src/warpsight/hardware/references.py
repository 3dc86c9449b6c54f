"""The references of predictions: a CSV of reference or measured cycles, one row per launch, or the file of a profiler.

Columns `gpu`, `kernel` and `cycles`; optional: `size` (to distinguish a kernel's launches), `grid` and `block` (as
`512x1x1`, checked against the launch), and `cpi_stack.NAME` (cycles per warp instruction and SM). Other columns are ignored.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.base.inputs import read_input
from warpsight.hardware.launch_matching import Turn, match_measured
from warpsight.hardware.measurements.accelsim import is_accelsim, read_accelsim
from warpsight.hardware.measurements.launch import MeasuredLaunch, Measurements
from warpsight.hardware.measurements.ncu import is_ncu, read_ncu
from warpsight.hardware.measurements.ncu_report import is_report, read_report
from warpsight.hardware.measurements.nvprof import is_nvprof, read_nvprof
from warpsight.models.base import components_of, get_model, model_names
from warpsight.result.prediction import SHARED
from warpsight.traces.schema import TraceHeader

REQUIRED = ("gpu", "kernel", "cycles")
KNOWN = (*REQUIRED, "size", "grid", "block")
_STACK = "cpi_stack."
# Above the cycles of any launch.
_MOST = 2**63 - 1


@dataclass(frozen=True)
class Reference:
    """One row. `grid` and `block` are None, and `cpi_stack` is empty, if the file lacks them. `place` is `file:line`.

    For a profiler's file `measured` is the launch, `gpu` is empty, and `cycles` or `seconds` are None if they were not measured.
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
        """The kernel, with its size if there is one: `grid_stride 32`."""
        return f"{self.kernel} {self.size}" if self.size else self.kernel


def references_of(text: str, origin: str) -> list[Reference]:
    """The rows of the file `origin` with the content `text`. Raises FormatError with `file:line`."""
    reader = csv.DictReader(io.StringIO(text))
    _check_header(reader.fieldnames or [], origin)
    rows = [
        _reference({name: (value or "").strip() for name, value in row.items() if name}, f"{origin}:{reader.line_num}")
        for row in reader
    ]
    seen: dict[tuple[object, ...], Reference] = {}
    for reference in rows:
        first = seen.setdefault((reference.gpu, reference.name, reference.grid, reference.block), reference)
        if first is not reference:
            raise FormatError(f"is a duplicate of {first.place}", place=reference.place, remedy="keep one row for each launch")
    return rows


def match(references: Sequence[Reference], gpu: str, header: TraceHeader, label: str, place: str) -> Reference:
    """The row of a launch on `gpu`: that named `label` if given, else that of its kernel. Raises UsageError.

    Of several rows, the one with the launch's grid and block is used; a single row with another grid or block is refused.
    """
    here = [row for row in references if row.gpu == gpu]
    if not here:
        known = sorted({row.gpu for row in references})
        message = f"has no row for the GPU {gpu}{suggestion(gpu, known)}"
        raise UsageError(message, place=place, remedy=f"set `gpu` to one of: {', '.join(known) or 'none, the file is empty'}")
    named = [row for row in here if (row.name == label if label else row.kernel in (header.kernel, header.mangled))]
    if not named:
        name, known = label or header.kernel, sorted({row.name for row in here})
        message = f'has no row for "{name}" on {gpu}{suggestion(name, known)}'
        raise UsageError(message, place=place, remedy=f"select a row with NAME=KERNEL; {gpu} has: {', '.join(known)}")
    fitting = [row for row in named if row.grid in (None, header.grid) and row.block in (None, header.block)]
    if not fitting:
        row = named[0]
        message = f"is of another launch: grid {_shown(row.grid)} block {_shown(row.block)}"
        ours = f"{header.kernel} was launched with grid {_shown(header.grid)} block {_shown(header.block)}"
        raise UsageError(message, place=row.place, remedy=f"{ours}; use the same launch, or correct the row")
    if len(fitting) > 1:
        message = f"{len(fitting)} rows are for {header.kernel} on {gpu}: {', '.join(row.name for row in fitting)}"
        raise UsageError(message, place=place, remedy=f"select one, as '{fitting[0].name}=KERNEL'")
    return fitting[0]


def _check_header(names: Sequence[str], origin: str) -> None:
    for name in REQUIRED:
        if name not in names:
            remedy = f"give the columns {', '.join(REQUIRED)}, or a table of ncu or nvprof"
            raise FormatError(f"has no column {name}{suggestion(name, names)}", place=f"{origin}:1", remedy=remedy)
    for name in names:
        if names.count(name) > 1 and (name in KNOWN or name.startswith(_STACK)):
            raise FormatError(f'has two columns "{name}"', place=f"{origin}:1", remedy="keep one of them")
        component = name.removeprefix(_STACK)
        if name.startswith(_STACK) and component not in SHARED:
            known = dict(SHARED)
            for model in model_names():
                with suppress(UsageError):  # a plug-in that cannot be loaded declares nothing
                    known |= components_of(get_model(model))
            if component not in known:
                message = f'"{name}" is not a component of the CPI stack of any model{suggestion(component, known)}'
                raise FormatError(message, place=f"{origin}:1", remedy=f"known: {', '.join(known)}")


def _reference(row: dict[str, str], place: str) -> Reference:
    components = [(name, text) for name, text in row.items() if name.startswith(_STACK) and text]
    stack = {name.removeprefix(_STACK): _number(text, name, place) for name, text in components}
    cycles = _number(row["cycles"], "cycles", place)
    if cycles < 1:
        message = f"{cycles:g} cycles is less than any launch takes"
        raise FormatError(message, place=place, remedy="leave the row out, or correct it")
    if not row["kernel"] or not row["gpu"]:
        raise FormatError("has no kernel or no GPU", place=place, remedy="fill in both")
    grid, block = (_dimensions(row[name], name, place) if row.get(name) else None for name in ("grid", "block"))
    return Reference(row["gpu"], row["kernel"], row.get("size", ""), cycles, grid, block, stack, place)


def _number(text: str, name: str, place: str) -> float:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise FormatError(f'{name} is "{text}", not a number of 0 or more', place=place, remedy="correct it")
    if value > _MOST:
        raise FormatError(f"{name} is {value:g}, above the maximum of {_MOST:g}", place=place, remedy="correct it")
    return value


def _dimensions(text: str, name: str, place: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+([x, ]\d+){0,2}", text):
        raise FormatError(f'{name} is "{text}", not one to three numbers', place=place, remedy="write 512x1x1")
    numbers = [int(part) for part in re.split(r"[x, ]", text)]
    return tuple(numbers + [1] * (3 - len(numbers)))


def _shown(size: tuple[int, ...] | None) -> str:
    return "unknown" if size is None else "x".join(map(str, size))


_REMEDY = (
    "give the output of `ncu --csv` (--page raw or details), `nvprof --csv` or Accel-Sim; see docs/reference/measurements.md"
)


def read_measurements(path: str) -> Measurements:
    """The measurements in the file `path`. Raises UsageError if it cannot be read, FormatError with `file:line`."""
    try:
        data = read_input(path)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=_REMEDY) from None
    measurements = read_report(path) if is_report(data) else measurements_of(text_of(data, path), path)
    if measurements is None:
        raise FormatError("is not a table of Nsight Compute or nvprof, or a log of Accel-Sim", place=path, remedy=_REMEDY)
    return measurements


def measurements_of(text: str, origin: str) -> Measurements | None:
    """The measurements in `text`, None if it has no table of a known tool. Raises FormatError."""
    if is_accelsim(text):
        return read_accelsim(text, origin)
    if is_ncu(text):
        return read_ncu(text, origin)
    return read_nvprof(text, origin) if is_nvprof(text) else None


def text_of(data: bytes, origin: str) -> str:
    """The text of a file: UTF-8, or UTF-16 with a byte-order mark, as PowerShell redirects. Raises FormatError."""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError("is not UTF-8 text", place=origin, remedy="write it as CSV") from None


@dataclass(frozen=True)
class Against:
    """The file `origin`: rows of references, or (`measurements` not None) launches that a profiler measured."""

    origin: str
    references: tuple[Reference, ...]
    measurements: Measurements | None

    def match(self, gpu: str, header: TraceHeader, label: str, turn: Turn | None = None) -> Reference:
        """The row of a launch on `gpu`, named `label` if given. Raises UsageError.

        `turn` is its place among the program's launches, to select one of several in a profiler's file.
        """
        if self.measurements is None:
            return match(self.references, gpu, header, label, self.origin)
        launch = match_measured(self.measurements, header, label, turn)
        return Reference(
            gpu="", kernel=launch.kernel, size="", cycles=launch.value("cycles"), grid=launch.grid, block=launch.block,
            cpi_stack={}, place=launch.place, seconds=launch.value("seconds"), measured=launch,
        )


def read_against(path: str) -> Against:
    """The file `path`, or stdin for ``-``. Raises UsageError if it cannot be read, FormatError with `file:line`."""
    origin = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.read().encode("utf-8", "surrogateescape") if path == "-" else read_input(path)
    except OSError as error:
        remedy = "name a CSV file with the columns gpu,kernel,cycles, or the output of ncu --csv, nvprof --csv or Accel-Sim"
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=remedy) from None
    if is_report(data) and path != "-":
        return Against(origin, (), read_report(path))
    text = text_of(data, origin)
    measurements = measurements_of(text, origin)
    return Against(origin, () if measurements else tuple(references_of(text, origin)), measurements)
