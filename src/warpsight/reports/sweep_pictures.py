"""Answers of a sweep as SVG pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpsight.base.units import thousands, three_digits
from warpsight.reports.drawing.charts import LOG, Axis, Bars, Chart, Dot, HeatMap, Lines, Scatter, Series
from warpsight.reports.drawing.svg import svg
from warpsight.reports.sweep_answers import MEASURES, axis_over, key_text, keys_text, si_prefix

_MOST_GROUPS = 24


def answer_picture(document: dict[str, Any], *, themed: bool = False) -> str | None:
    """The picture of any answer's document; None for a list of best designs. `themed`: in the colours of the page around it."""
    charts = _CHARTS.get(document["answer"])
    return svg(charts(document), themed=themed) if charts else None


def pareto_charts(document: dict[str, Any]) -> list[Chart]:
    """Performance over the first cost: the front, a step line if there are two objectives, and dominated points."""
    objectives = document["objectives"]
    front = [
        Dot(row["values"][1], row["values"][0], f"design {row['design']}: {keys_text(row['keys'])}", f"design-{row['design']}")
        for row in document["front"]
    ]
    dominated = [Dot(values[1], values[0], f"design {design}", f"design-{design}")
                 for values, design in zip(document["others"], document["others_designs"], strict=True)]  # fmt: skip
    drawn = f", 1 of {document['others_of'] / len(dominated):.0f} shown" if len(dominated) < document["others_of"] else ""
    return [Scatter(
        f"{document['model']}: performance over {objectives[1]['name']}",
        Axis(objectives[1]["name"]), Axis(f"speedup over design {document['baseline']['design']}"),
        [(f"dominated{drawn}", dominated), ("Pareto front", front)],
        front=1 if len(objectives) == 2 else None,
    )]  # fmt: skip


def sensitivity_charts(document: dict[str, Any]) -> list[Chart]:
    """Bars of each axis's share over all kernels, and a heat map by kernel."""
    grid = document["estimator"] == "grid"
    whole, *kernels = document["of"]
    keys = [row["key"] for row in whole["keys"]]
    indices = [("alone", "first"), ("with others", "total")] if grid else [("alone", "first")]
    title = f"{document['model']}: share of the variance of the performance over {thousands(document['chosen'])} designs"
    series = [Series(name, [_percent(row[index]) for row in whole["keys"]]) for name, index in indices]
    charts: list[Chart] = [Bars(title, Axis("share", "%"), keys, series)]
    if kernels:
        index = indices[-1][1]
        values = [[_percent(row[index]) for row in entry["keys"]] for entry in kernels]
        charts.append(HeatMap(f"Share by kernel, {indices[-1][0]}", Axis("axis"), Axis("kernel"), keys,
                              [entry["kernel"] for entry in kernels], values, "%", 100.0))  # fmt: skip
    return charts


def map_charts(document: dict[str, Any]) -> list[Chart]:
    """A cell for each pair of values, the largest y on top; each word has its own colour."""
    x, y = document["x"], document["y"]
    of = f" of {document['kernel']}" if document["kernel"] else ""
    fixed = "".join(f", {key}={key_text(key, value)}" for key, value in document["fixed"].items())
    others = f", {document['others']} of other axes" if document["others"] else ""
    title = f"{document['model']}: {document['value']}{of}{fixed}{others}"
    # an empty word is drawn as a cell without a design
    values = [[None if cell == "" else cell for cell in row] for row in reversed(document["values"])]
    rows = [key_text(y["key"], value) for value in reversed(y["values"])]
    columns = [key_text(x["key"], value) for value in x["values"]]
    hooks = [["" if design is None else f"design-{design}" for design in row] for row in reversed(document["shown"])]
    return [HeatMap(title, Axis(x["key"]), Axis(y["key"]), columns, rows, values, hooks=hooks)]


def speedups_charts(document: dict[str, Any]) -> list[Chart]:
    """Lines over a numeric axis, else bars by design; more than 24 groups show only the geometric mean."""
    axis, columns = document["axis"], document["columns"]
    series = [Series(kernel, row) for kernel, row in zip(document["kernels"], document["values"], strict=True)]
    if len(series) > 1:
        series.append(Series("geometric mean", document["geomean"], 8))
    title = f"{document['model']}: speedup over design {document['baseline']['design']}"
    xs = [design["keys"][axis] for design in columns] if axis else []
    if xs and not any(isinstance(value, str) for value in xs):
        over, scaled = axis_over(str(axis), xs)
        return [Lines(title, over, Axis("speedup"), scaled, series)]
    names = [str(value) for value in xs] or [str(design["design"]) for design in columns]
    if len(columns) > _MOST_GROUPS:
        series, title = series[-1:], f"{title}: {series[-1].name}"
    return [Bars(title, Axis("speedup"), names, series)]


def energy_charts(document: dict[str, Any]) -> list[Chart]:
    """Time and, if the power is known, energy and their products over the core clock, for all kernels together.

    A line for each memory bandwidth.
    """
    entry, memory_key = document["of"][0], document["memory"]
    cores = sorted({row["core"] for row in entry["clocks"]})
    axis, clocks = axis_over(document["core"], cores)
    memories = list(dict.fromkeys(row["memory"] for row in sorted(entry["clocks"], key=lambda row: row["memory"] or 0)))
    charts: list[Chart] = []
    for name, (label, unit) in MEASURES.items():
        if name not in entry["best"]:
            continue
        prefix, scale = si_prefix(max(row[name] for row in entry["clocks"]))
        values = {(row["memory"], row["core"]): row[name] / scale for row in entry["clocks"]}
        series = [
            Series(f"{memory_key}={key_text(memory_key, memory)}" if memory_key else label,
                   [values.get((memory, core)) for core in cores])
            for memory in memories
        ]  # fmt: skip
        charts.append(Lines(f"{document['model']}, {entry['kernel']}: {label}", axis, Axis(label, prefix + unit), clocks, series))
    return charts


def energy_picture(document: dict[str, Any]) -> str:
    """The charts of `energy_charts` as SVG."""
    return svg(energy_charts(document))


def cost_picture(seconds: Mapping[str, Sequence[tuple[int, float]]], title: str) -> str:
    """The time of a sweep over its number of designs: (designs, seconds) by series, both axes logarithmic.

    For each series a second line shows time proportional to designs, through the series' last point.
    """
    counts = sorted({count for each in seconds.values() for count, _ in each})
    series: list[Series] = []
    for style, (name, points) in enumerate(seconds.items()):
        by_count = dict(points)
        last = max(by_count)
        series += [
            Series(name, [by_count.get(count) for count in counts], style),
            Series(f"proportional to the {three_digits(by_count[last])} s of {thousands(last)}",
                   [by_count[last] * count / last for count in counts], 7),
        ]  # fmt: skip
    return svg(Lines(title, Axis("designs", scale=LOG), Axis("time", "s", LOG), [float(count) for count in counts], series))


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


_CHARTS: dict[str, Callable[[dict[str, Any]], list[Chart]]] = {
    "pareto": pareto_charts,
    "sensitivity": sensitivity_charts,
    "map": map_charts,
    "speedups": speedups_charts,
    "dvfs": energy_charts,
}
