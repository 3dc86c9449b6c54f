"""The text and the CSV of Nsight Compute's command line (`ncu`), of launches that were predicted or read from a report.

The columns, their order, the quoting, and units that follow the size of a value are those of `ncu --csv`, `--page details` and
`--page raw`, so that a script that reads those files reads these.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.analysis.nsight.metrics import METRICS, SECTIONS, Metric

PAGES = DETAILS, RAW = ("details", "raw")
UNITS = AUTO, BASE = ("auto", "base")
_COMMAND_LINE = "Command line profiler metrics"
_LAUNCH_COLUMNS = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
                   "Device", "CC")  # fmt: skip
_METRIC_COLUMNS = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
_RULE_COLUMNS = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")
# What a prediction has no value for: a context, a stream, a process and a host. These are what one program on one GPU shows.
_PROCESS, _HOST, _CONTEXT, _STREAM, _DEVICE = "1", "127.0.0.1", "1", "7", "0"

_LARGER = {"byte": "K M G T", "hz": "K M G T"}  # prefixes, each a thousand times the one before
_TIMES = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))


@dataclass(frozen=True)
class Shown:
    """What of each launch is shown: identifiers of `sections`, or `metrics` by name; units as `UNITS`."""

    sections: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    units: str = AUTO

    def tables(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """The title of each table of the details page, and its rows: the name that is shown, and the name of the metric."""
        for section in self.sections:
            labelled = [(each.label, each.name) for each in METRICS.values() if each.section == section and each.label]
            yield SECTIONS[section], labelled
        if self.metrics:
            yield _COMMAND_LINE, sorted((each.name, each.name) for each in self.metrics)

    def names(self) -> list[str]:
        """The metrics of the raw page, in the order of their names."""
        of_sections = (each.name for each in METRICS.values() if each.section in self.sections)
        return sorted({*of_sections, *(each.name for each in self.metrics)})


# -- Values.

def cell(metric: dict[str, Any] | None, units: str) -> tuple[str, str]:
    """The unit and the value of a metric of a document as text; `n/a` without a value."""
    if metric is None or metric["value"] is None:
        return ("" if metric is None else metric["unit"]), "n/a"
    value, unit = metric["value"], metric["unit"]
    if isinstance(value, str):
        return unit, value
    if units == AUTO:
        value, unit = scaled(float(value), unit)
    return unit, f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def scaled(value: float, unit: str) -> tuple[float, str]:
    """A value in the unit in which it has one to three digits before the point, for times, bytes and hertz."""
    noun, slash, below = unit.partition("/")
    if unit == "ns":
        name, factor = next(((name, factor) for name, factor in reversed(_TIMES) if value >= factor), _TIMES[0])
        return value / factor, name
    if noun not in _LARGER:
        return value, unit
    prefix = ""
    for larger in _LARGER[noun].split():
        if abs(value) < 1000.0:
            break
        value, prefix = value / 1000.0, larger
    return value, f"{prefix}{noun}{slash}{below}"


# -- Text.

def details_text(documents: Sequence[dict[str, Any]], shown: Shown) -> str:
    """The details page of all launches."""
    lines: list[str] = []
    process = ""
    for document in documents:
        if document["process"] != process:
            process = document["process"]
            lines.append(f"[{_PROCESS}] {process}@{_HOST}")
        columns = _launch_cells(0, document)
        lines.append(f"  {document['kernel']} {columns[8]}x{columns[7]}, Context {_CONTEXT}, Stream {_STREAM}, Device {_DEVICE}, "
                     f"CC {columns[10]}")
        for title, rows in shown.tables():
            lines += _table(title, [(label, *cell(document["metrics"].get(name), shown.units)) for label, name in rows])
    return "\n".join(lines).rstrip()


def _table(title: str, rows: Sequence[tuple[str, str, str]]) -> list[str]:
    head = ("Metric Name", "Metric Unit", "Metric Value")
    names, units, values = (max(len(row[column]) for row in (head, *rows)) for column in range(3))
    rule = f"    {'-' * names} {'-' * units} {'-' * values}"
    body = [f"    {name.ljust(names)} {unit.rjust(units)} {value.rjust(values)}" for name, unit, value in (head, *rows)]
    return [f"    Section: {title}", rule, body[0], rule, *body[1:], rule, ""]


# -- CSV.

def details_csv(documents: Sequence[dict[str, Any]], shown: Shown) -> str:
    """A row for each metric of each launch. Rules have their columns, which are empty: the advice is that of `warpsight advise`."""
    rules = _RULE_COLUMNS if shown.sections else ()
    rows = (
        [*_launch_cells(number, document), title, label, *cell(document["metrics"].get(name), shown.units), *("" for _ in rules)]
        for number, document in enumerate(documents)
        for title, table in shown.tables()
        for label, name in table
    )
    return _quoted([(*_LAUNCH_COLUMNS, *_METRIC_COLUMNS, *rules), *rows])


def raw_csv(documents: Sequence[dict[str, Any]], shown: Shown) -> str:
    """A row for each launch, under the names of the metrics and a row with their units, in base units."""
    names = shown.names()
    cells = [[cell(document["metrics"].get(name), BASE) for name in names] for document in documents]
    units = [next((row[column][0] for row in cells if row[column][0]), "") for column in range(len(names))]
    rows = [[*_launch_cells(number, document), *(value for _, value in row)]
            for number, (document, row) in enumerate(zip(documents, cells, strict=True))]  # fmt: skip
    return _quoted([(*_LAUNCH_COLUMNS, *names), [*("" for _ in _LAUNCH_COLUMNS), *units], *rows])


def raw_text(documents: Sequence[dict[str, Any]], shown: Shown) -> str:
    """The raw page: every metric by its name."""
    return details_text(documents, Shown(metrics=tuple(METRICS[name] for name in shown.names()), units=shown.units))


def _launch_cells(number: int, document: dict[str, Any]) -> list[str]:
    sizes = [f"({', '.join(str(each) for each in document[name])})" for name in ("block", "grid")]
    capability = document["compute_capability"]
    return [str(number), _PROCESS, document["process"], _HOST, document["kernel"], _CONTEXT, _STREAM, *sizes, _DEVICE,
            "n/a" if capability == "none" else capability]  # fmt: skip


def _quoted(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


def metrics_text() -> str:
    """The metrics that a prediction has, by section: name, unit and what it is computed from."""
    width = max(map(len, METRICS))
    lines = []
    for section, title in SECTIONS.items():
        lines += [f"{section} ({title})", *(
            f"  {each.name.ljust(width)}  {each.unit:<14}  {each.how}" for each in METRICS.values() if each.section == section
        ), ""]  # fmt: skip
    return "\n".join(lines).rstrip()
