"""Answers of a sweep as terminal text: three significant digits, at most 120 columns."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.base.format import duration, percent, thousands, three_digits
from warpsight.report.columns import Column
from warpsight.report.style import PLAIN, WIDTH, Style
from warpsight.report.sweep_head import head, key_columns, spread, table
from warpsight.report.sweep_units import key_text


def answer_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The text of any answer's document, told by its `answer`."""
    return _TEXTS[document["answer"]](document, style)


def best_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The designs with their keys, best first, then what binds each kernel on each of them."""
    rows = document["best"]
    columns = [
        Column("design", [str(row["design"]) for row in rows]),
        Column("performance", [three_digits(row["performance"]) for row in rows]),
        Column("time", [duration(row["seconds"]) for row in rows]),
    ]
    single = len(document["kernels"]) == 1
    if single:
        columns.append(Column("bound by", [row["kernels"][0]["bound_by"] for row in rows], left=True))
    lines = [*head(document, "best designs", style), "", *table([*columns, *key_columns(rows)], style)]
    if document["ties"]:
        lines.append(style.faint(f" {thousands(document['ties'])} more as good as the last"))
    if not single:
        kernels = [each["kernel"] for each in rows[0]["kernels"]]
        bound = [
            Column(str(row["design"]), [f"{three_digits(k['speedup'])} {k['bound_by']}" for k in row["kernels"]], left=True)
            for row in rows
        ]
        below = table([Column("kernel", kernels, left=True), *bound], style)
        lines += ["", " speed of each kernel, and what binds it, by design", *below]
    return "\n".join(lines)


def pareto_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The front, by ascending cost."""
    rows = spread(document["front"])
    columns = [Column("design", [str(row["design"]) for row in rows])]
    for place, objective in enumerate(document["objectives"]):
        columns.append(Column(objective["name"], [three_digits(row["values"][place]) for row in rows]))
    if any(row["equal"] for row in rows):
        columns.append(Column("equal", [f"+{row['equal']}" if row["equal"] else "" for row in rows]))
    lines = [*head(document, "Pareto front", style), "", *table([*columns, *key_columns(rows)], style)]
    if len(rows) < len(document["front"]):
        told = f" {len(rows)} of {thousands(len(document['front']))} points of the front, evenly along it; --json has all"
        lines.append(style.faint(told))
    lines.append(style.faint(f" {thousands(document['bettered'])} designs are bettered by one of these: no worse in anything, "
                             "better in something"))  # fmt: skip
    return "\n".join(lines)


def sensitivity_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Each axis's share of the variance over all kernels, most first, then by kernel."""
    grid = document["estimator"] == "grid"
    quantity = "the logarithm of the performance" if document["scale"] == "log" else "the performance"
    lines = head(document, "sensitivity", style)
    lines += textwrap.wrap(f" share of the variance of {quantity} over {thousands(document['chosen'])} designs, by "
                           f"{document['about']}", WIDTH, subsequent_indent="   ", break_on_hyphens=False)  # fmt: skip
    if document["why"]:
        lines += textwrap.wrap(f" taken as a sample: {document['why']}", WIDTH, subsequent_indent="   ")
    whole, *kernels = document["of"]
    lines += ["", *_shares(whole, grid, style)]
    if kernels:
        which = "total" if grid else "first"
        keys = [row["key"] for row in whole["keys"]]
        columns = [Column("kernel", [each["kernel"] for each in kernels], left=True)]
        columns += [Column(key, [_share(each["keys"][n][which]) for each in kernels]) for n, key in enumerate(keys)]
        lines += ["", f" {'total' if grid else 'first-order'} index by kernel", *table(columns, style)]
    return "\n".join(lines)


def _shares(entry: dict[str, Any], grid: bool, style: Style) -> list[str]:
    if not entry["variance"]:
        return [" no axis changes the performance"]
    which = "total" if grid else "first"
    rows = sorted(entry["keys"], key=lambda row: -(row[which] if row[which] is not None else -1))
    columns = [Column("axis", [row["key"] for row in rows], left=True), Column("alone", [_share(row["first"]) for row in rows])]
    if grid:
        columns.append(Column("with others", [_share(row["total"]) for row in rows]))
    else:
        columns.append(Column("chance", [f"+-{_share(row['noise'])}" if row["noise"] is not None else "-" for row in rows]))
    columns.append(Column("rank correlation", [_signed(row["rank_correlation"]) for row in rows]))
    if any(row["elasticity"] for row in rows):
        columns.append(Column("elasticity", [_signed(row["elasticity"]["median"]) if row["elasticity"] else "-" for row in rows]))
        spread = [f"{_signed(e['low'])} to {_signed(e['high'])}" if (e := row["elasticity"]) else "-" for row in rows]
        columns.append(Column("8 of 10 within", spread))
    lines = table(columns, style)
    if entry["interactions"]:
        told = f" no axis alone explains {percent(entry['interactions']['share'])}"
        pairs = [f"{' with '.join(each['keys'])} {percent(each['share'])}" for each in entry["interactions"]["pairs"]
                 if each["share"] >= 5e-4]  # fmt: skip
        lines += textwrap.wrap(f"{told}: {', '.join(pairs)}" if pairs else told, WIDTH, subsequent_indent="   ")
    return lines


def map_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """A row for each y value, the greatest first, a column for each x value."""
    x, y = document["x"], document["y"]
    of = f" of {document['kernel']}" if document["kernel"] else ""
    fixed = "".join(f", {key}={key_text(key, value)}" for key, value in document["fixed"].items())
    others = {"mean": ", mean of the designs in a cell", "best": ", best design in a cell", None: ""}[document["others"]]
    order = list(range(len(y["values"])))[::-1]
    columns = [Column(y["key"], [key_text(y["key"], y["values"][n]) for n in order])]
    for place, value in enumerate(x["values"]):
        cells = [document["values"][n][place] for n in order]
        columns.append(Column(key_text(x["key"], value), [_cell(cell) for cell in cells]))
    lines = [*head(document, "map", style), ""]
    told = f" {document['value']}{of} over {x['key']} (across) and {y['key']} (down){fixed}{others}"
    lines += textwrap.wrap(told, WIDTH, subsequent_indent="   ")
    return "\n".join([*lines, *table(columns, style)])


def speedups_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """A row for each kernel, a column for each design or value of the axis."""
    axis, many = document["axis"], len(document["kernels"]) > 1
    columns = [Column("kernel", [*document["kernels"], *(["geometric mean"] if many else [])], left=True)]
    for place, design in enumerate(document["columns"]):
        title = key_text(axis, design["keys"][axis]) if axis else str(design["design"])
        cells = [row[place] for row in document["values"]] + ([document["geomean"][place]] if many else [])
        columns.append(Column(title, [_cell(cell) for cell in cells]))
    lines = [*head(document, "speed-ups", style), "", f" times the baseline's speed, by {axis or 'design'}", *table(columns, style)]
    if axis is None:
        rows = spread(document["columns"])
        lines += ["", *table([Column("design", [str(row["design"]) for row in rows]), *key_columns(rows)], style)]
        if len(rows) < len(document["columns"]):
            lines.append(style.faint(f" {len(rows)} of {len(document['columns'])} designs; --json has all"))
    return "\n".join(lines)


def _share(value: float | None) -> str:
    # rounding error alone keeps a whole from being one
    return "-" if value is None else percent(round(value, 12) + 0.0)


def _signed(value: float | None) -> str:
    # +0.00 says more than -0.00 of a number that is none of either
    return "-" if value is None else f"{value if abs(value) >= 5e-3 else 0.0:+.2f}"


def _cell(value: float | str | None) -> str:
    if value is None or value == "":
        return "-"
    return value if isinstance(value, str) else three_digits(value)


_TEXTS = {"best": best_text, "pareto": pareto_text, "sensitivity": sensitivity_text, "map": map_text, "speedups": speedups_text}
