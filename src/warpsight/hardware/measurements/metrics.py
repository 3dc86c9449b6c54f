"""From the metrics of a launch, written by any tool, to its measures: numbers and units, metrics by field, values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from warpsight.base.errors import FormatError
from warpsight.hardware.measurements.launch import Measure, Stall, is_stall, stalls_of

# apostrophes and spaces that group thousands
_GROUPING = "'\u2019 \u00a0\u202f\u2009"
_NUMBER = re.compile(rf"[+-]?[\d.,{_GROUPING}]*\d(?:[.,])?(?:[eE][+-]?\d{{1,3}})?")
# the values of the instances behind a value, as --print-metric-instances writes them
_INSTANCES = re.compile(r"\s*\(.*\)\s*$")
_NONE = {"", "n/a", "nan", "-nan", "inf", "-inf", "<invalid>", "no data", "<overflow>", "overflow"}
_LONGEST = 64

_PREFIX = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 2.0**10, "Mi": 2.0**20,
           "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
_TIME = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "µs": 1e-6,
    "ns": 1e-9, "nsecond": 1e-9,
}  # fmt: skip
TIME, CLOCK, CYCLES, COUNT, BYTES = "time", "clock", "cycles", "count", "bytes"
RATE, PERCENT, RATIO = "bytes a second", "%", "ratio"


def is_none(text: str) -> bool:
    """Whether the tool has no value: `n/a`, `nan`, `(!)` before or after one."""
    return "(!)" in text or text.strip().lower() in _NONE


@dataclass(frozen=True)
class Notation:
    """The decimal mark of a file."""

    decimal: str

    def number(self, text: str, metric: str, place: str) -> float:
        """The number `text` of `metric`. Raises FormatError."""
        bare = _bare(text)
        if len(bare) > _LONGEST or not _NUMBER.fullmatch(bare):
            raise FormatError(f'{metric} is "{text[:_LONGEST]}", which is not a number', place=place, remedy="correct the cell")
        other = "," if self.decimal == "." else "."
        digits = re.sub(f"[{_GROUPING}{other}]", "", bare)
        whole = bare.partition(self.decimal)[0]
        groups = re.split(f"[{_GROUPING}{other}]", whole.lstrip("+-"))
        # groups of three digits, or as in India of two before the last
        if len(groups) > 1 and (len(groups[-1].lower().partition("e")[0]) != 3 or any(len(g) not in (2, 3) for g in groups[1:-1])):
            message = f'{metric} is "{text}", whose digits are not in groups of three'
            raise FormatError(message, place=place, remedy="correct the cell")
        try:
            value = float(digits.replace(self.decimal, "."))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise FormatError(f'{metric} is "{text}", which is not a number', place=place, remedy="correct the cell")
        return value


def notation_of(cells: Iterable[tuple[str, str]]) -> Notation:
    """The notation of a file, from its cells with values, each (text, place). Raises FormatError if two differ."""
    marks: dict[str, tuple[str, str]] = {}
    for text, place in cells:
        if decimal := _decimal_of(_bare(text)):
            marks.setdefault(decimal, (text, place))
    if len(marks) > 1:
        (point, first), (comma, second) = marks["."], marks[","]
        remedy = "use one decimal mark for all numbers; LC_ALL=C makes the tools use the point"
        raise FormatError(f'"{comma}" has a decimal comma, and "{point}" of {first} a decimal point', place=second, remedy=remedy)
    return Notation(next(iter(marks), "."))


def _bare(text: str) -> str:
    """The number of a cell, without the values of instances behind it."""
    return _INSTANCES.sub("", text.strip()).strip()


def _decimal_of(text: str) -> str:
    """The decimal mark that `text` must have, or "" if it may be either."""
    if not _NUMBER.fullmatch(text):
        return ""
    marks = [c for c in text if c in ".,"]
    if not marks:
        return ""
    mark, other = marks[-1], "," if marks[-1] == "." else "."
    if other in marks:
        return mark if marks.count(mark) == 1 else ""
    if len(marks) > 1:
        return other
    before, _, after = text.lstrip("+-").partition(mark)
    digits = after.lower().partition("e")[0]
    grouped = 1 <= len(before) <= 3 and before != "0" and len(digits) == 3 and "e" not in after.lower()
    if any(c in before for c in _GROUPING):
        return mark
    return "" if grouped else mark


def factor(unit: str, kind: str) -> float | None:
    """The factor from `unit` to the base unit of `kind`; None if it is not a unit of that kind.

    Base units: s, Hz, cycles, pieces, B, B/s; PERCENT and RATIO become fractions, or stay plain numbers.
    """
    unit = unit.strip()
    low = unit.lower()
    if kind == TIME:
        return _TIME.get(low)
    if kind == PERCENT:
        return 0.01 if unit == "%" else None
    if kind == RATIO:
        return None if low in _TIME or unit == "%" else 1.0
    if kind == CLOCK:
        numerator, slash, below = low.partition("/")
        if slash:
            time, prefix = _TIME.get(below), _prefix(numerator, ("cycle", "cycles"))
            return prefix / time if time and prefix else None
        return _prefix(unit[:-2] + "hz" if low.endswith("hz") else unit, ("hz",))
    if kind == RATE:
        above, slash, below = unit.partition("/")
        time, prefix = _TIME.get(below.lower()), _prefix(above, ("byte", "bytes", "B"))
        return prefix / time if slash and time and prefix else None
    if kind == BYTES:
        return _prefix(unit, ("byte", "bytes", "B"))
    if low in _TIME or unit == "%" or "/" in unit:
        return None
    nouns = ("cycle", "cycles") if kind == CYCLES else ("inst", "sector", "request", "warp", "thread", "transaction", "count")
    return _prefix(unit, ("", *nouns))


def _prefix(unit: str, nouns: tuple[str, ...]) -> float | None:
    for noun in nouns:
        head = unit[: len(unit) - len(noun)]
        if unit.endswith(noun) and head in _PREFIX:
            return _PREFIX[head]
        if unit.endswith(noun) and head.lower() in ("k", "m", "g", "t"):
            return _PREFIX[head.upper()]
    return None


# -- The metrics of Nsight Compute and nvprof for each field of `launch.FIELDS`, the best first.
#
# Names and meanings: Nsight Compute documentation ("Metrics Decoder", "nvprof metric comparison" and the section files), nvprof's
# `--query-metrics`. Names with blanks are those of Nsight Compute's details page, the others of its raw page and of nvprof.
# A metric with a similar meaning only is not in the table: `sm__cycles_active` is not elapsed cycles, and nvprof's event
# `elapsed_cycles_sm` is summed over an unknown number of SMs.

SECTOR = 32.0
_LOAD, _STORE = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "l1tex__t_sectors_pipe_lsu_mem_global_op_st"


@dataclass(frozen=True)
class Source:
    """A metric: the `kind` of its unit, and the factor from its base unit to that of the field."""

    metric: str
    kind: str
    scale: float = 1.0

    def measure(self, values: Mapping[str, float]) -> Measure | None:
        """The field by this metric, from `values` in base units; None without it."""
        return Measure(values[self.metric] * self.scale, self.metric) if self.metric in values else None


@dataclass(frozen=True)
class Quotient:
    """A field that is the product or the quotient of two metrics, for tools that do not give it directly."""

    first: Source
    second: Source
    times: bool = False

    def measure(self, values: Mapping[str, float]) -> Measure | None:
        """As `Source.measure`; None too for a quotient by 0."""
        first, second = self.first.measure(values), self.second.measure(values)
        if first is None or second is None or not (self.times or second.value):
            return None
        if self.times:
            return Measure(first.value * second.value, f"{first.metric} x {second.metric}")
        return Measure(first.value / second.value, f"{first.metric} / {second.metric}")


def _counts(*metrics: str, scale: float = 1.0) -> tuple[Source, ...]:
    return tuple(Source(metric, COUNT, scale) for metric in metrics)


def _shares(*metrics: str) -> tuple[Source, ...]:
    return tuple(Source(metric, PERCENT) for metric in metrics)


_BYTES_READ = (Source("dram__bytes_read.sum", BYTES), Source("dram__sectors_read.sum", COUNT, SECTOR))
_BYTES_WRITTEN = (Source("dram__bytes_write.sum", BYTES), Source("dram__sectors_write.sum", COUNT, SECTOR))
_DURATION = Source("Duration", TIME)

SOURCES: dict[str, tuple[Source | Quotient, ...]] = {
    "cycles": tuple(
        Source(metric, CYCLES)
        for metric in ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "smsp__cycles_elapsed.max", "Elapsed Cycles",
                       "gpc__cycles_elapsed.avg", "sm__cycles_elapsed.avg", "smsp__cycles_elapsed.avg")
    ),
    "seconds": (Source("gpu__time_duration.sum", TIME), Source("gpu__time_duration_measured_user.sum", TIME), _DURATION,
                Source("gpu__time_duration.avg", TIME), Source("gpu__time_duration.max", TIME)),
    "sm_clock": tuple(
        Source(metric, CLOCK)
        for metric in ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second",
                       "gpc__cycles_elapsed.avg.per_second", "SM Frequency")
    ),
    "warp_instructions": _counts("smsp__inst_executed.sum", "sm__inst_executed.sum", "Executed Instructions", "inst_executed"),
    "thread_instructions": _counts("smsp__thread_inst_executed.sum", "sm__thread_inst_executed.sum",
                                   "smsp__sass_thread_inst_executed.sum", "thread_inst_executed"),
    "ipc": tuple(Source(metric, RATIO) for metric in ("sm__inst_executed.avg.per_cycle_elapsed", "Executed Ipc Elapsed")),
    "ipc_active": tuple(
        Source(metric, RATIO) for metric in ("sm__inst_executed.avg.per_cycle_active", "Executed Ipc Active", "ipc")
    ),
    "l1_hit_rate": (
        *_shares("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate", "L1 Hit Rate", "tex_cache_hit_rate"),
        Quotient(Source("l1tex__t_sectors_lookup_hit.sum", COUNT), Source("l1tex__t_sectors.sum", COUNT)),
    ),
    "l1_load_hit_rate": (
        *_shares("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", "global_hit_rate", "l1_cache_global_hit_rate"),
        Quotient(Source(f"{_LOAD}_lookup_hit.sum", COUNT), Source(f"{_LOAD}.sum", COUNT)),
    ),
    "l2_hit_rate": (
        *_shares("lts__t_sector_hit_rate.pct", "L2 Hit Rate", "l2_tex_hit_rate"),
        Quotient(Source("lts__t_sectors_lookup_hit.sum", COUNT), Source("lts__t_sectors.sum", COUNT)),
    ),
    "l1_load_sectors": _counts(f"{_LOAD}.sum", "gld_transactions"),
    "l1_store_sectors": _counts(f"{_STORE}.sum", "gst_transactions"),
    "l2_sectors": _counts("lts__t_sectors.sum"),
    "l2_read_sectors": _counts("lts__t_sectors_op_read.sum", "lts__t_sectors_srcunit_tex_op_read.sum", "l2_read_transactions"),
    "l2_write_sectors": _counts("lts__t_sectors_op_write.sum", "lts__t_sectors_srcunit_tex_op_write.sum", "l2_write_transactions"),
    "dram_bytes": (
        Source("dram__bytes.sum", BYTES),
        Source("dram__sectors.sum", COUNT, SECTOR),
        Quotient(Source("Memory Throughput", RATE), _DURATION, times=True),
    ),
    "dram_read_bytes": (*_BYTES_READ, *_counts("dram_read_transactions", scale=SECTOR), Source("dram_read_bytes", BYTES)),
    "dram_write_bytes": (*_BYTES_WRITTEN, *_counts("dram_write_transactions", scale=SECTOR), Source("dram_write_bytes", BYTES)),
    "occupancy": (
        *_shares("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"), Source("achieved_occupancy", RATIO)
    ),
}  # fmt: skip

# nvprof's descriptions of its metrics, which some tables have in place of names
DESCRIPTIONS = {
    "Instructions Executed": "inst_executed", "Executed IPC": "ipc", "Achieved Occupancy": "achieved_occupancy",
    "Unified Cache Hit Rate": "tex_cache_hit_rate", "Texture Cache Hit Rate": "tex_cache_hit_rate",
    "Global Hit Rate in unified l1/tex": "global_hit_rate", "L1 Global Hit Rate": "l1_cache_global_hit_rate",
    "L2 Hit Rate (Texture Reads)": "l2_tex_hit_rate", "L2 Cache Hit Rate": "l2_tex_hit_rate",
    "Global Load Transactions": "gld_transactions", "Global Store Transactions": "gst_transactions",
    "L2 Read Transactions": "l2_read_transactions", "L2 Write Transactions": "l2_write_transactions",
    "Device Memory Read Transactions": "dram_read_transactions",
    "Device Memory Write Transactions": "dram_write_transactions",
}  # fmt: skip


# every metric that a field is computed from, and the kind of its unit
METRIC_KINDS: dict[str, str] = {
    part.metric: part.kind
    for sources in SOURCES.values()
    for source in sources
    for part in ((source,) if isinstance(source, Source) else (source.first, source.second))
}


@dataclass(frozen=True)
class Cell:
    """One cell of a profiler's table: the `text` of a metric's value, in `unit`."""

    metric: str
    unit: str
    text: str
    place: str


def is_used(metric: str) -> bool:
    """Whether a field or a stall reason is computed from the metric."""
    return metric in METRIC_KINDS or is_stall(metric)


def measured(
    cells: Iterable[Cell], notation: Notation, *, once: bool = False
) -> tuple[dict[str, Measure], tuple[Stall, ...], tuple[str, ...]]:
    """The measures and stall reasons of a launch, and the metrics without a value.

    Raises FormatError for a cell that is not a number, and with `once` for a metric that has two values.
    """
    values: dict[str, float] = {}
    stalls: dict[str, float] = {}
    absent: list[str] = []
    for cell in cells:
        if is_none(cell.text):
            absent.append(cell.metric)
        elif is_stall(cell.metric):
            stalls[cell.metric] = notation.number(cell.text, cell.metric, cell.place)
        elif (value := _in_base_unit(cell, notation)) is not None:
            if once and values.setdefault(cell.metric, value) != value and " " not in cell.metric:
                raise FormatError(f"has {cell.metric} again, with another value", place=cell.place, remedy="keep one run in a file")
            values[cell.metric] = values[cell.metric] if once else value
    return measures_of(values), stalls_of(stalls), tuple(metric for metric in dict.fromkeys(absent) if metric not in values)


def _in_base_unit(cell: Cell, notation: Notation) -> float | None:
    """The value in the base unit of the metric's kind; None for a unit of another kind, if two metrics share the name.

    Raises FormatError for text that is not a number, for a negative number, and for a unit that the metric cannot have.
    """
    metric, kind = cell.metric, METRIC_KINDS[cell.metric]
    scale = factor(cell.unit, kind)
    if scale is None:
        if " " in metric:
            return None  # a details page has Memory Throughput both in % and in byte/second
        expected = "a share in %" if kind == PERCENT else f"one of {kind}"
        message = f'{metric} has the unit "{cell.unit}", and {expected} is expected'
        raise FormatError(message, place=cell.place, remedy="keep the row of units, as the profiler writes it")
    value = notation.number(cell.text, metric, cell.place) * scale
    if value < 0:
        raise FormatError(f'{metric} is "{cell.text}", which is negative', place=cell.place, remedy="measure it again")
    return value


def measures_of(values: Mapping[str, float]) -> dict[str, Measure]:
    """The fields that follow from `values` (base units, by metric), each from the best available metric."""
    measures: dict[str, Measure] = {}
    for name, sources in SOURCES.items():
        available = (source.measure(values) for source in sources)
        if (best := next((measure for measure in available if measure is not None), None)) is not None:
            measures[name] = best
    if "dram_bytes" not in measures and {"dram_read_bytes", "dram_write_bytes"} <= set(measures):
        read, write = measures["dram_read_bytes"], measures["dram_write_bytes"]
        measures["dram_bytes"] = Measure(read.value + write.value, f"{read.metric} + {write.metric}")
    return measures
