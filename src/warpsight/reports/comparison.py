"""Comparisons as terminal text, CSV and a picture: of models, with a profiler's measurements also of their inputs, and of GPUs."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.units import significant, thousands
from warpsight.reports.drawing.charts import LOG, Axis, Dot, Scatter
from warpsight.reports.drawing.svg import svg
from warpsight.reports.formats import csv_text
from warpsight.reports.prediction import dimensions
from warpsight.reports.stack import decimals
from warpsight.reports.terminal import PLAIN, Column, Style, aligned, fits, wrapped
from warpsight.result.prediction import COMPONENTS, in_order


def measured_lines(launch: dict[str, Any], style: Style) -> list[str]:
    """The inputs with their errors, the stall reasons by component, the clock if it differs; nothing without a profiler."""
    reference = launch["reference"]
    if not reference or not reference.get("measured"):
        return []
    return [*_inputs(launch["inputs"], style), *_stalls(reference), *_clock(reference["clock"])]


def _inputs(rows: list[dict[str, Any]], style: Style) -> list[str]:
    if not rows:
        return []
    merged = [_merged(row) for row in rows]
    columns = [
        Column("input", [row["name"] for row in rows], left=True),
        Column("Warpsight", [_value(row["kind"], row["predicted"]) for row in rows]),
        Column("measured", [_value(row["kind"], row["measured"]) for row in rows]),
        Column("error", [_error(row) for row in rows]),
        *([Column("", merged, left=True)] if any(merged) else []),
        Column("metric", [row["metric"] for row in rows], left=True),
    ]
    return aligned(columns, style)


def _value(kind: str, value: float | None) -> str:
    if value is None:
        return "none"
    return f"{100 * value:.1f} %" if kind == "share" else f"{thousands(value)} B" if kind == "bytes" else thousands(value)


def _error(row: dict[str, Any]) -> str:
    if row["kind"] == "share":
        return "" if row["difference"] is None else f"{100 * row['difference']:+.1f} points"
    return "" if row["error"] is None else f"{100 * row['error']:+,.1f} %"


def _merged(row: dict[str, Any]) -> str:
    merged = row["with_merges"]
    return f"{100 * merged:.1f} % with merges" if merged is not None and merged != row["predicted"] else ""


def _stalls(reference: dict[str, Any]) -> list[str]:
    shares = reference["stall_shares"]
    if not shares:
        return []
    reasons: dict[str, list[str]] = {}
    for stall in reference["measured"]["stalls"]:
        reasons.setdefault(stall["component"] or "none near", []).append(stall["reason"])
    parts = [f"{name} {100 * share:.0f} % ({', '.join(reasons[name][:2])})" for name, share in shares.items() if share >= 0.005]
    return wrapped(f" measured stalls: {'; '.join(parts)}")


def _clock(clock: dict[str, Any] | None) -> list[str]:
    if not clock or not clock["differs"]:
        return []
    measured, described = (significant(clock[side] / 1e9, 4) for side in ("measured", "described"))
    return wrapped(f" clock: measured at {measured} GHz, but {described} GHz in the GPU description: errors of cycles and of time "
                   "differ (set core_clock to predict for the measured one)")  # fmt: skip


# -- A comparison of models as terminal text, and as CSV.


def comparison_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """One table per launch, one row per model; with a reference also errors, a summary and the gates."""
    against = f"   against {PurePath(document['against']).name}" if document["against"] else ""
    lines = wrapped(f"{document['tool']}   {document['gpu']}   models {', '.join(document['models'])}{against}", "  ")
    for launch in document["launches"]:
        lines += ["", *_launch(launch, style)]
    if document["summary"]:
        lines += ["", *_summary(document["summary"], style)]
    if document["gates"]:
        lines += ["", *(_gate(gate, style) for gate in document["gates"])]
    if document.get("ranking"):
        lines += ["", *_ranking(document["ranking"], "label", f"kernel, by {document['models'][0]}", style)]
    notes = [line for note in document.get("notes", []) for line in wrapped(f" note: {note}", hyphens=True)]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _ranking(rows: list[dict[str, Any]], key: str, heading: str, style: Style) -> list[str]:
    """A row for each GPU or kernel, the fastest first; then the reasons for those without a prediction."""
    shown = [row for row in rows if row.get("seconds")]
    columns = [
        Column(heading, [row[key] for row in shown], left=True),
        Column("time", [style.time(row["seconds"]) for row in shown]),
        Column("speedup", ["-" if row["speedup"] is None else f"{row['speedup']:.2f}x" for row in shown]),
        Column("cycles", [thousands(row["cycles"]) for row in shown]),
        *([Column("code", [row["code"] for row in shown], left=True)] if shown and "code" in shown[0] else []),
        Column("bound by", [row["bound_by"] for row in shown], left=True),
    ]
    refused = [line for row in rows if row.get("refused") for line in wrapped(f" {row[key]}: {row['refused']}", hyphens=True)]
    return [*aligned(columns, style), *refused]


def ranking_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """A table of GPUs for each launch, and one over all launches."""
    lines = [f"{document['tool']}   {len(document['gpus'])} GPUs   model {document['model']}   speedup over {document['gpus'][0]}"]
    for launch in document["launches"]:
        title = launch["label"] if launch["label"] == launch["kernel"] else f"{launch['label']} ({launch['kernel']})"
        head = f" {title}   grid {dimensions(launch['grid'])} block {dimensions(launch['block'])}"
        lines += ["", style.strong(head), *_ranking(launch["rows"], "gpu", "GPU", style)]
    if document["overall"]:
        rows = document["overall"]
        columns = [
            Column("all kernels", [row["gpu"] for row in rows], left=True),
            Column("speedup (geometric mean)", ["-" if row["speedup"] is None else f"{row['speedup']:.2f}x" for row in rows]),
            Column("kernels", [str(row["launches"]) for row in rows]),
        ]
        lines += ["", *aligned(columns, style)]
    return "\n".join(lines)


def ranking_csv(document: dict[str, Any]) -> str:
    """One row per launch and GPU; unknown values are empty."""
    names = ("gpu", "code", "cycles", "seconds", "speedup", "occupancy", "bound_by", "refused")
    rows = [[launch["kernel"], launch["label"], document["model"], *(row.get(name) for name in names)]
            for launch in document["launches"] for row in launch["rows"]]  # fmt: skip
    return csv_text(["kernel", "label", "model", *names], rows)


def comparison_csv(document: dict[str, Any]) -> str:
    """One row per launch and model; unknown values are empty."""
    names = _components(document["launches"])
    stack = [f"cpi_stack.{name}" for name in names]
    head = ["gpu", "kernel", "label", "model", "cycles", "reference_cycles", "relative_error", "cpi", *stack, "bound_by"]
    inputs = list(dict.fromkeys(row["name"] for launch in document["launches"] for row in launch["inputs"]))
    timed = ["seconds", "reference_seconds", "time_error"] if document["measured_by"] else []
    pairs = [f"{side}.{name.replace(' ', '_')}" for name in inputs for side in ("input", "measured")]
    rows = []
    for launch in document["launches"]:
        reference = launch["reference"] or {}
        values = {each["name"]: (each["predicted"], each["measured"]) for each in launch["inputs"]}
        for answer in launch["answers"]:
            prediction, off = answer["prediction"] or {}, answer["most_off"] or {}
            row = [document["gpu"], launch["kernel"], launch["label"], answer["model"], prediction.get("cycles")]
            row += [reference.get("cycles"), answer["error"], prediction.get("cpi")]
            row += [prediction.get("cpi_stack", {}).get(name) for name in names]
            row += [prediction.get("bound_by"), off.get("component"), off.get("difference"), answer["refused"]]
            if timed:
                row += [prediction.get("seconds"), reference.get("seconds"), answer["time_error"]]
            rows.append([*row, *(value for name in inputs for value in values.get(name, (None, None)))])
    return csv_text([*head, "most_off", "most_off_difference", "refused", *timed, *pairs], rows)


def _components(launches: list[dict[str, Any]]) -> list[str]:
    """The components of all predictions, in order; the shared ones always."""
    stacks = [answer["prediction"]["cpi_stack"] for launch in launches for answer in launch["answers"] if answer["prediction"]]
    return list(in_order(dict.fromkeys([*COMPONENTS, *(name for stack in stacks for name in stack)])))


def _launch(launch: dict[str, Any], style: Style) -> list[str]:
    title = launch["label"] if launch["label"] == launch["kernel"] else f"{launch['label']} ({launch['kernel']})"
    count = thousands(launch["warp_instructions"])
    head = f" {title}   grid {dimensions(launch['grid'])} block {dimensions(launch['block'])}   {count} warp instructions"
    rows = [answer for answer in launch["answers"] if answer["prediction"]]
    lines = [style.strong(head), *(_table(launch, rows, style) if rows else [])]
    for answer in launch["answers"]:
        if answer["refused"]:
            lines += wrapped(f" {answer['model']}: {answer['refused']}", hyphens=True)
    return [*lines, *measured_lines(launch, style)]


def _table(launch: dict[str, Any], rows: list[dict[str, Any]], style: Style) -> list[str]:
    reference = launch["reference"]
    predictions = [answer["prediction"] for answer in rows]
    # models may be far apart, so each has the decimals that give its own CPI three digits
    digits = [decimals(prediction["cpi"]) for prediction in predictions]
    stacks = list(zip((prediction["cpi_stack"] for prediction in predictions), digits, strict=True))
    blank = []
    if reference is not None:
        blank = [""]
        stacks.insert(0, (reference["cpi_stack"], decimals(max([*reference["cpi_stack"].values(), 0.0]))))
    names = in_order({name: 0 for stack, _ in stacks for name in stack})
    columns = _outcomes(reference, rows, style)
    cpi = [f"{prediction['cpi']:,.{count}f}" for prediction, count in zip(predictions, digits, strict=True)]
    columns.append(Column("CPI", [*blank, *cpi]))
    columns += [Column(name, [f"{stack[name]:,.{count}f}" if name in stack else "" for stack, count in stacks])
                for name in names if any(stack.get(name) for stack, _ in stacks)]  # fmt: skip
    below: list[str] = []
    if reference is not None and reference["cpi_stack"]:
        off = [f"{answer['most_off']['component']} {answer['most_off']['difference']:+,.{count}f}"
               for answer, count in zip(rows, digits, strict=True)]  # fmt: skip
        column = Column("most off", ["", *off], left=True)
        if fits([*columns, column], cut=False):
            columns.append(column)
        else:
            listed = ", ".join(f"{answer['model']} {part}" for answer, part in zip(rows, off, strict=True))
            below = wrapped(f" most off: {listed}")
    bound = Column("bound by", [*blank, *(prediction["bound_by"] for prediction in predictions)], left=True)
    return [*aligned([*columns, bound] if fits([*columns, bound]) else columns, style), *below]


def _outcomes(reference: dict[str, Any] | None, rows: list[dict[str, Any]], style: Style) -> list[Column]:
    """Model, cycles and error; if a time was measured and says something else than the cycles, time and its error too."""
    predictions = [answer["prediction"] for answer in rows]
    models, cycles = [answer["model"] for answer in rows], [thousands(prediction["cycles"]) for prediction in predictions]
    if reference is None:
        return [Column("model", models, left=True), Column("cycles", cycles)]
    measured = "" if reference["cycles"] is None else thousands(reference["cycles"])
    first = "measured" if reference.get("measured") else "reference"
    columns = [Column("model", [first, *models], left=True), Column("cycles", [measured, *cycles])]
    if reference["cycles"] is not None or not reference.get("seconds"):
        columns.append(Column("error", ["", *(_signed(answer["error"]) for answer in rows)]))
    clock = reference.get("clock")
    if reference.get("seconds") and (reference["cycles"] is None or not clock or clock["differs"]):
        times = [style.time(seconds) for seconds in (reference["seconds"], *(each["seconds"] for each in predictions))]
        columns += [Column("time", times), Column("error", ["", *(_signed(answer["time_error"]) for answer in rows)])]
    return columns


def _signed(error: float | None) -> str:
    return "-" if error is None else signed_percent(error)


def _summary(rows: list[dict[str, Any]], style: Style) -> list[str]:
    timed = [] if rows[0]["of"] == "cycles" else [Column("errors of", [row["of"] for row in rows], left=True)]
    columns = [
        Column("model", [row["model"] for row in rows], left=True),
        *timed,
        Column("launches", [str(row["launches"]) for row in rows]),
        Column("MAPE", ["-" if row["mape"] is None else f"{row['mape']:.1f} %" for row in rows]),
        Column("mean error", [_signed(row["mean_error"]) for row in rows]),
        Column("largest", [f"{signed_percent(most['error'])}, {most['label']}" if (most := row["largest"]) else "-"
                           for row in rows], left=True),
    ]  # fmt: skip
    return aligned(columns, style)


def _gate(gate: dict[str, Any], style: Style) -> str:
    result = "no error" if gate["mape"] is None else f"MAPE {gate['mape']:.1f} %"
    verdict = style.good("passed") if gate["passed"] else style.hot("FAILED")
    return f" gate {gate['model']}:{gate['limit']:g}   {verdict}   {result}, limit {gate['limit']:g} %"


def signed_percent(fraction: float) -> str:
    """`+12.3 %`."""
    return f"{100 * fraction:+,.1f} %"


# -- Predicted over measured, as a picture: a point for each launch and model, and the diagonal where both are equal.

def comparison_svg(document: dict[str, Any]) -> str:
    """A scatter chart of cycles and one of times, if any were measured. Raises UsageError if there is no point."""
    file = PurePath(document["against"] or "").name
    side = "measured" if document["measured_by"] else "reference"
    charts = []
    for name, unit, key, scale in (("cycles", "", "cycles", 1.0), ("time", "us", "seconds", 1e6)):
        series = _series(document, key, scale)
        if series:
            x, y = Axis(f"{side} {name}", unit, LOG), Axis(f"predicted {name}", unit, LOG)
            charts.append(Scatter(f"{document['gpu']}: predicted over {file}", x, y, series, diagonal=True))
    if not charts:
        what = "there is no launch with both a prediction and measured cycles or time"
        raise UsageError(what, place="plot", remedy="compare `against` a file with cycles or times")
    return svg(charts)


def _series(document: dict[str, Any], key: str, scale: float) -> list[tuple[str, list[Dot]]]:
    series: list[tuple[str, list[Dot]]] = []
    for number, model in enumerate(document["models"]):
        dots = []
        for launch in document["launches"]:
            answer = launch["answers"][number]["prediction"]
            measured = (launch["reference"] or {}).get(key)
            if answer and measured:
                dots.append(Dot(scale * measured, scale * answer[key], launch["label"]))
        series.append((model, dots))
    return [each for each in series if each[1]]
