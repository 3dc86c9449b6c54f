"""Answers of a sweep as terminal text: three significant digits, at most 120 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.base.units import (
    BANDWIDTH,
    COUNT,
    CYCLES,
    FRACTIONAL,
    FREQUENCY,
    SIZE,
    TIME,
    UNITS,
    format_quantity,
    percent,
    thousands,
    three_digits,
)
from warpsight.gpu.keys import find_key
from warpsight.reports.drawing.charts import Axis
from warpsight.reports.terminal import PLAIN, Column, Style, aligned, fits, shortened, wrapped

_LONGEST_NUMBER = 12
_METRICS = {"geomean": "geometric mean of the kernels' speedups", "total": "speedup of the total time",
            "worst": "lowest speedup of any kernel"}  # fmt: skip
# from the largest: the first that the greatest value reaches
_SCALES = {FREQUENCY: ("GHz", "MHz", "Hz"), BANDWIDTH: ("GB/s", "MB/s", "B/s"), SIZE: ("MiB", "KiB", "B"), CYCLES: ("cycles",),
           TIME: ("us", "ns")}  # fmt: skip
_PREFIXES = (("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9), ("p", 1e-12), ("f", 1e-15), ("a", 1e-18))


def key_text(key: str, value: Any) -> str:
    """The value of a key in its unit (`1.05 TB/s`, `96 KiB`, `28`): in full if short, else with four digits."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    known = find_key(key)
    kind = known.kind if known is not None else ""
    whole = float(value).is_integer()
    if value < 0 or kind not in _SCALES or not (whole or kind in FRACTIONAL):
        return f"{value:.0f}" if whole and abs(value) < 1e15 else three_digits(value)
    text = format_quantity(int(value) if whole and kind in (SIZE, COUNT, CYCLES) else value, kind)
    if len(text) <= _LONGEST_NUMBER or kind not in FRACTIONAL:
        return text
    return format_quantity(float(f"{value:.3e}"), kind)


def keys_text(keys: dict[str, Any]) -> str:
    """All keys of a design: `sm_count=28, noc.bandwidth=1.05 TB/s`."""
    return ", ".join(f"{key}={key_text(key, value)}" for key, value in keys.items())


def metric_text(metric: str) -> str:
    """The meaning of performance by that metric."""
    return _METRICS.get(metric, f"speedup of {metric.removeprefix('kernel:')}")


def si_prefix(value: float) -> tuple[str, float]:
    """The SI prefix (down to atto) for one to three digits before the point, and its factor; "" for values of 1 or more."""
    return next(((prefix, scale) for prefix, scale in _PREFIXES if value >= scale), _PREFIXES[-1])


def axis_over(key: str, values: Sequence[float]) -> tuple[Axis, list[float]]:
    """An axis for the values of a key, in the largest unit that the maximum reaches, and the values in that unit."""
    known = find_key(key)
    kind = known.kind if known is not None else ""
    if kind not in _SCALES:
        return Axis(key), list(values)
    units = _SCALES[kind]
    unit = next((each for each in units if max(values) >= UNITS[kind][each]), units[-1])
    return Axis(key, unit), [value / UNITS[kind][unit] for value in values]


# -- Shared by all answers: the heading, and tables that keep within the width.

_LONGEST_CELL = 40
_MOST_ROWS = 40


def spread(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """All rows if they are at most 40, else 40 evenly spaced ones, including the first and the last."""
    if len(rows) <= _MOST_ROWS:
        return rows
    return [rows[round(n * (len(rows) - 1) / (_MOST_ROWS - 1))] for n in range(_MOST_ROWS)]


def head(document: dict[str, Any], title: str, style: Style, *, metric: bool = True) -> list[str]:
    """Tool, model, with `metric` the metric and the baseline; how many designs there are, how many are left out, and why."""
    kernels = document["kernels"]
    many = f"{len(kernels)} kernels" if len(kernels) > 1 else f"kernel {kernels[0]}"
    lines = wrapped(f"{document['tool']}   {title}   {document['gpu']}   model {document['model']}   {many}")
    if metric:
        base = document["baseline"]
        meaning = metric_text(document["metric"]) if len(kernels) > 1 else f"speedup of {kernels[0]}"
        lines += wrapped(f" performance: {meaning} over design {base['design']}: {keys_text(base['keys'])}")
    left = document["left_out"]
    parts = [f"{thousands(document['designs'])} designs"]
    if left["designs"]:
        parts.append(f"{thousands(left['designs'])} left out ({left['failed']} failed, {left['missing']} without a row)")
    if document["where"]:
        parts.append(f"{thousands(document['excluded'])} excluded (kept: {' and '.join(document['where'])})")
    lines += wrapped(f" {', '.join(parts)}; {thousands(document['chosen'])} considered")
    for row in left["reasons"]:
        reason = " ".join(row["reason"].split())  # the remedy is on a separate line
        lines += map(style.faint, wrapped(f"   failed on design {row['first']}: {reason} (rows: {row['rows']})"))
    return lines


def key_columns(rows: Sequence[dict[str, Any]]) -> list[Column]:
    """A column for each key of the designs."""
    keys = rows[0]["keys"] if rows else ()
    return [Column(key, [key_text(key, row["keys"][key]) for row in rows]) for key in keys]


def table(columns: Sequence[Column], style: Style) -> list[str]:
    """The columns as lines with a bold heading; those that do not fit are left out from the end, and a line lists them.

    Headings and words longer than 40 characters are shortened, so that a long name does not displace the numbers.
    """
    shown = [
        Column(shortened(each.heading, _LONGEST_CELL),
               [shortened(cell, _LONGEST_CELL) for cell in each.cells] if each.left else each.cells, each.left)
        for each in columns
    ]  # fmt: skip
    headings = [column.heading for column in shown]
    while len(shown) > 1 and not fits(shown, cut=False):
        shown.pop()
    lines = aligned(shown, style)
    left = headings[len(shown) :]
    if left:
        named = ", ".join(left[:8]) + (f" and {len(left) - 8} more" if len(left) > 8 else "")
        lines += map(style.faint, wrapped(f" columns that do not fit: {named}; --json has all"))
    return lines


# -- Answers of a sweep as terminal text: three significant digits, at most 120 columns.

def answer_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The text of any answer's document, by its `answer`."""
    return _TEXTS[document["answer"]](document, style)


def best_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The designs with their keys, best first, then the bottleneck of each kernel on each of them."""
    rows = document["best"]
    columns = [
        Column("design", [str(row["design"]) for row in rows]),
        Column("performance", [three_digits(row["performance"]) for row in rows]),
        Column("time", [style.time(row["seconds"]) for row in rows]),
    ]
    single = len(document["kernels"]) == 1
    if single:
        columns.append(Column("bound by", [row["kernels"][0]["bound_by"] for row in rows], left=True))
    lines = [*head(document, "best designs", style), "", *table([*columns, *key_columns(rows)], style)]
    if document["ties"]:
        lines.append(style.faint(f" {thousands(document['ties'])} more tie with the last"))
    if not single:
        kernels = [each["kernel"] for each in rows[0]["kernels"]]
        bound = [
            Column(str(row["design"]), [f"{three_digits(k['speedup'])} {k['bound_by']}" for k in row["kernels"]], left=True)
            for row in rows
        ]
        below = table([Column("kernel", kernels, left=True), *bound], style)
        lines += ["", " speedup and bottleneck of each kernel, by design", *below]
    return "\n".join(lines)


def pareto_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The front, by ascending cost."""
    rows = spread(document["front"])
    columns = [Column("design", [str(row["design"]) for row in rows])]
    columns += [Column(objective["name"], [three_digits(row["values"][n]) for row in rows])
                for n, objective in enumerate(document["objectives"])]  # fmt: skip
    if any(row["equal"] for row in rows):
        columns.append(Column("equal", [f"+{row['equal']}" if row["equal"] else "" for row in rows]))
    lines = [*head(document, "Pareto front", style), "", *table([*columns, *key_columns(rows)], style)]
    notes = [f" {thousands(document['bettered'])} designs are dominated: no better in any objective, worse in at least one"]
    if len(rows) < len(document["front"]):
        notes.insert(0, f" {len(rows)} of {thousands(len(document['front']))} points of the front; --json has all")
    return "\n".join([*lines, *map(style.faint, notes)])


def sensitivity_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Each axis's share of the variance over all kernels, most first, then by kernel."""
    grid = document["estimator"] == "grid"
    quantity = "the logarithm of the performance" if document["scale"] == "log" else "the performance"
    lines = head(document, "sensitivity", style)
    lines += wrapped(f" share of the variance of {quantity} over {thousands(document['chosen'])} designs, by {document['about']}")
    if document["why"]:
        lines += wrapped(f" treated as a sample: {document['why']}", hyphens=True)
    whole, *kernels = document["of"]
    lines += ["", *_shares(whole, grid, style)]
    if kernels:
        index = "total" if grid else "first"
        columns = [Column("kernel", [each["kernel"] for each in kernels], left=True)]
        columns += [Column(row["key"], [_share(each["keys"][n][index]) for each in kernels]) for n, row in enumerate(whole["keys"])]
        lines += ["", f" {'total' if grid else 'first-order'} index by kernel", *table(columns, style)]
    return "\n".join(lines)


def _shares(entry: dict[str, Any], grid: bool, style: Style) -> list[str]:
    if not entry["variance"]:
        return [" no axis changes the performance"]
    index = "total" if grid else "first"
    rows = sorted(entry["keys"], key=lambda row: -(row[index] if row[index] is not None else -1))
    columns = [Column("axis", [row["key"] for row in rows], left=True), Column("alone", [_share(row["first"]) for row in rows])]
    if grid:
        columns.append(Column("with others", [_share(row["total"]) for row in rows]))
    else:
        columns.append(Column("chance", [f"+-{_share(row['noise'])}" if row["noise"] is not None else "-" for row in rows]))
    columns.append(Column("rank correlation", [_signed(row["rank_correlation"]) for row in rows]))
    if any(row["elasticity"] for row in rows):
        columns.append(Column("elasticity", [_signed(row["elasticity"]["median"]) if row["elasticity"] else "-" for row in rows]))
        ranges = [f"{_signed(e['low'])} to {_signed(e['high'])}" if (e := row["elasticity"]) else "-" for row in rows]
        columns.append(Column("8 of 10 within", ranges))
    lines = table(columns, style)
    if entry["interactions"]:
        text = f" interactions of axes explain {percent(entry['interactions']['share'])}"
        pairs = [f"{' with '.join(each['keys'])} {percent(each['share'])}" for each in entry["interactions"]["pairs"]
                 if each["share"] >= 5e-4]  # fmt: skip
        lines += wrapped(f"{text}: {', '.join(pairs)}" if pairs else text, hyphens=True)
    return lines


def map_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """A row for each y value, the largest first, a column for each x value."""
    x, y = document["x"], document["y"]
    of = f" of {document['kernel']}" if document["kernel"] else ""
    fixed = "".join(f", {key}={key_text(key, value)}" for key, value in document["fixed"].items())
    others = {"mean": ", mean of the designs in a cell", "best": ", best design in a cell", None: ""}[document["others"]]
    order = range(len(y["values"]))[::-1]
    columns = [Column(y["key"], [key_text(y["key"], y["values"][n]) for n in order])]
    columns += [Column(key_text(x["key"], value), [_cell(document["values"][n][column]) for n in order])
                for column, value in enumerate(x["values"])]  # fmt: skip
    title = wrapped(f" {document['value']}{of} over {x['key']} (across) and {y['key']} (down){fixed}{others}", hyphens=True)
    return "\n".join([*head(document, "map", style), "", *title, *table(columns, style)])


def speedups_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """A row for each kernel, a column for each design or value of the axis."""
    axis, many = document["axis"], len(document["kernels"]) > 1
    columns = [Column("kernel", [*document["kernels"], *(["geometric mean"] if many else [])], left=True)]
    values = [*document["values"], *([document["geomean"]] if many else [])]
    for n, design in enumerate(document["columns"]):
        title = key_text(axis, design["keys"][axis]) if axis else str(design["design"])
        columns.append(Column(title, [_cell(row[n]) for row in values]))
    lines = [*head(document, "speedups", style), "", f" speedup over the baseline, by {axis or 'design'}", *table(columns, style)]
    if axis is None:
        rows = spread(document["columns"])
        lines += ["", *table([Column("design", [str(row["design"]) for row in rows]), *key_columns(rows)], style)]
        if len(rows) < len(document["columns"]):
            lines.append(style.faint(f" {len(rows)} of {len(document['columns'])} designs; --json has all"))
    return "\n".join(lines)


def _share(value: float | None) -> str:
    # rounding hides floating-point error at 100 %
    return "-" if value is None else percent(round(value, 12) + 0.0)


def _signed(value: float | None) -> str:
    # never -0.00
    return "-" if value is None else f"{value if abs(value) >= 5e-3 else 0.0:+.2f}"


def _cell(value: float | str | None) -> str:
    if value is None or value == "":
        return "-"
    return value if isinstance(value, str) else three_digits(value)


_TEXTS = {"best": best_text, "pareto": pareto_text, "sensitivity": sensitivity_text, "map": map_text, "speedups": speedups_text}


# -- Time and energy over clocks as terminal text.

# Name and unit.
MEASURES = {"seconds": ("time", "s"), "joules": ("energy", "J"), "edp": ("energy x time", "J s"),
            "ed2p": ("energy x time^2", "J s^2")}  # fmt: skip


def energy_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """A row for each pair of clocks, for all kernels together; then the clocks with the minimum of each measure, by kernel."""
    whole = document["of"][0]
    columns = _clocks(document, whole["clocks"])
    names = [name for name in MEASURES if name in whole["best"]]
    shares = [row["utilisation"] for row in whole["clocks"]]
    columns.append(Column("issuing", ["-" if share is None else percent(share) for share in shares]))
    if document["power"]:
        columns.append(Column("power", [f"{three_digits(row['watts'])} W" for row in whole["clocks"]]))
    for name in names:
        marks = ["*" if row["design"] == whole["best"][name] else " " for row in whole["clocks"]]
        cells = [_measure(name, row[name], style) + mark for row, mark in zip(whole["clocks"], marks, strict=True)]
        columns.append(Column(f"{MEASURES[name][0]} ", cells))
    return "\n".join([
        *head(document, "clocks", style, metric=False), *_power(document["power"]), "", *table(columns, style),
        style.faint(" *: minimum"), "",
        " clocks with the minimum of each, by kernel", *_best(document, names, style),
        *(style.faint(f" {note}") for note in document["notes"]),
    ])  # fmt: skip


def _power(power: dict[str, Any] | None) -> list[str]:
    """The source of the power values."""
    if power is None:
        return [" no power curve was given: only times"]
    if power["kind"] == "expression":
        return wrapped(f" power in W: {power['text']}", hyphens=True)
    ends = " to ".join(format_quantity(power["points"][n][0], FREQUENCY) for n in (0, -1))
    return [f" power: linear interpolation of {len(power['points'])} points, {ends}"]


def _measure(name: str, value: float, style: Style) -> str:
    """A time or an energy with its unit."""
    if name == "seconds":
        return style.time(value)
    prefix, scale = si_prefix(value)
    return f"{three_digits(value / scale)} {prefix}{MEASURES[name][1]}"


def _clocks(document: dict[str, Any], rows: list[dict[str, Any]]) -> list[Column]:
    keys = [(name, document[name]) for name in ("core", "memory") if document[name]]
    return [Column(key, [key_text(key, row[name]) for row in rows]) for name, key in keys]


def _best(document: dict[str, Any], names: list[str], style: Style) -> list[str]:
    columns = [Column("kernel", [entry["kernel"] for entry in document["of"]], left=True)]
    for name in names:
        cells = []
        for entry in document["of"]:
            row = next(each for each in entry["clocks"] if each["design"] == entry["best"][name])
            cells.append(", ".join(column.cells[0] for column in _clocks(document, [row])))
        columns.append(Column(MEASURES[name][0], cells))
    return table(columns, style)
