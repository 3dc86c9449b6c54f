"""The CSV of timings that the micro-benchmarks write: one line per run of a kernel."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from warpsight.base.errors import FormatError, suggestion

HEADER = ("benchmark", "bytes", "stride", "count", "blocks", "threads", "cycles", "nanoseconds")
CHASE, MISSES, STREAM, RESIDENT = "chase", "misses", "stream", "resident"
# The unit of each benchmark's timings.
_TIMED = {CHASE: "cycles", MISSES: "cycles", STREAM: "nanoseconds", RESIDENT: "nanoseconds"}
_MOST = 1e18
_PAGE = "docs/reference/measurements.md describes the columns"


@dataclass(frozen=True)
class Timing:
    """One configuration of a benchmark, by its fastest run: `time` in cycles (chase, misses) or nanoseconds.

    `size` are bytes of memory (chase, misses) or bytes moved, `stride` bytes apart; `count` timed loads, misses, or passes.
    """

    benchmark: str
    size: int
    stride: int
    count: int
    blocks: int
    threads: int
    time: float
    runs: int
    place: str

    @property
    def each(self) -> float:
        """Time per `count`."""
        return self.time / self.count


@dataclass(frozen=True)
class Timings:
    """The timings of one file; `device` as the program names it, empty if the file does not."""

    origin: str
    device: str
    rows: tuple[Timing, ...]

    def of(self, benchmark: str, accept: Callable[[Timing], bool] = lambda row: True) -> list[Timing]:
        """The rows of a benchmark, by size."""
        return sorted((row for row in self.rows if row.benchmark == benchmark and accept(row)), key=lambda row: row.size)


def is_timings(text: str) -> bool:
    """Whether the first line other than comments starts like the header of timings."""
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return first.replace('"', "").split(",")[0].strip() == HEADER[0]


def read_timings(text: str, origin: str) -> Timings:
    """The timings in `text`; the fastest of several runs of one configuration, as disturbances only slow a run down.

    Raises FormatError with `file:line`.
    """
    lines = list(enumerate(text.removeprefix("\ufeff").splitlines(), 1))
    device = next((line.partition(":")[2].strip() for _, line in lines if line.startswith("# device:")), "")
    rows = [(number, next(csv.reader([line]), [])) for number, line in lines if line.strip() and not line.startswith("#")]
    if not rows:
        raise FormatError("is empty", place=origin, remedy=_PAGE)
    _check_header([cell.strip() for cell in rows[0][1]], f"{origin}:{rows[0][0]}")
    best: dict[tuple[object, ...], Timing] = {}
    for number, cells in rows[1:]:
        row = _timing(cells, f"{origin}:{number}")
        key = (row.benchmark, row.size, row.stride, row.count, row.blocks, row.threads)
        other = best.get(key)
        runs = row.runs + (other.runs if other else 0)
        best[key] = replace(row if other is None or row.time < other.time else other, runs=runs)
    if not best:
        raise FormatError("has no timings", place=origin, remedy="run the micro-benchmarks of `warpsight calibrate` on a GPU")
    return Timings(origin, device, tuple(best.values()))


def _check_header(header: Sequence[str], place: str) -> None:
    for name in header:
        if name not in HEADER:
            message = f'"{name}" is not a column of timings{suggestion(name, HEADER)}'
            raise FormatError(message, place=place, remedy=f"the columns are {','.join(HEADER)}")
    if tuple(header) != HEADER:
        raise FormatError("is not the header of timings", place=place, remedy=f"the columns are {','.join(HEADER)}, in this order")


def _timing(cells: Sequence[str], place: str) -> Timing:
    if len(cells) != len(HEADER):
        message = f"has {len(cells)} cells, but the header has {len(HEADER)}"
        raise FormatError(message, place=place, remedy="the file is truncated; run the program again")
    cells_by_name = dict(zip(HEADER, (cell.strip() for cell in cells), strict=True))
    benchmark = cells_by_name["benchmark"]
    if benchmark not in _TIMED:
        message = f'"{benchmark[:40]}" is not a micro-benchmark{suggestion(benchmark, _TIMED)}'
        raise FormatError(message, place=place, remedy=f"known: {', '.join(_TIMED)}")
    size, stride, count, blocks, threads = (int(_number(cells_by_name, name, place, whole=True)) for name in HEADER[1:6])
    if benchmark in (CHASE, MISSES) and size % stride:
        message = f"{size} bytes is not a multiple of the stride of {stride} bytes"
        raise FormatError(message, place=place, remedy="correct the cell, or remove the line")
    time = _number(cells_by_name, _TIMED[benchmark], place)
    return Timing(benchmark, size, stride, count, blocks, threads, time, 1, place)


def _number(cells_by_name: dict[str, str], name: str, place: str, *, whole: bool = False) -> float:
    try:
        value = float(cells_by_name[name])
    except ValueError:
        value = math.nan
    if not 0 < value < _MOST or (whole and not value.is_integer()):
        kind = "whole number" if whole else "number"
        message = f'{name} is "{cells_by_name[name][:40]}", not a {kind} above 0 and below {_MOST:g}'
        raise FormatError(message, place=place, remedy="correct the cell, or remove the line")
    return value
