"""The overview of a kernel: how long it takes, why, what would help, how sure that is; memory chart, occupancy, hottest lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from warpsight.analysis.advice.advise import LEAST_SHOWN
from warpsight.analysis.advice.rule import PROGRAMMER
from warpsight.analysis.explanation import place_of_row
from warpsight.analysis.report_data.resources import COMPUTE, MEMORY, OCCUPANCY
from warpsight.base.units import SIZE, duration, format_quantity, percent, thousands, three_digits
from warpsight.reports.comparison import signed_percent
from warpsight.reports.drawing.canvas import heat, stack_style
from warpsight.reports.drawing.charts import (
    Axis,
    Flow,
    Memory,
    MemoryChart,
    Meter,
    Meters,
    Roof,
    Roofline,
    Series,
    Stacks,
    StepCurve,
    Work,
)
from warpsight.reports.first_screen import clock_of, disagreement, launch_size, level_of, violation
from warpsight.reports.html.parts import drawn, paint_class, stack_bar
from warpsight.reports.next_step import untried_changes
from warpsight.reports.prediction import caches_before, classification, difference, with_changes
from warpsight.reports.stack import shares, shown
from warpsight.result.prediction import components_of

_MOST_LINES, _MOST_HOTTEST = 3, 5
_MOST_CAUSES, _MOST_CHANGES, _MOST_VIOLATED = 3, 3, 2
_MOST_TIMES = 2.5


def overview(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The template's values; parts that the document does not have are None.

    `prefix` precedes the ids on a page with several overviews; such a page has no code section to link to.
    """
    predictions = document["predictions"]
    first, references = predictions[0], document.get("references") or []
    links = {} if prefix else _links(document)
    return {
        "prefix": prefix,
        "first": first,
        "facts": _facts(document),
        "notes": first["provenance"].get("notes", []),
        "causes": _causes(first, links),
        "changes": _changes(document, links),
        "sure": _sure(document, references),
        "memory": _memory(document.get("memory"), document.get("speed_of_light")),
        "speed": _speed(document.get("speed_of_light")),
        "stack": stack_bar(first["model"], first["cpi_stack"], first["cpi"], f"{three_digits(first['cpi'])} cycles/instruction"),
        "hottest": _hottest(document, links),
        "occupancy": _occupancy(document.get("occupancy")),
        "predictions": predictions,
        "refused": document.get("refused", []),
        "stacks": drawn(stacks_of(predictions, references)),
        "references": references,
        "components": [_component(name, document) for name in shown([first])],
        "alone": _alone(document.get("alone"), first),
        "rooflines": [drawn(_roofline(each)) for each in document.get("rooflines") or ()],
        "latencies": _latencies(predictions),
    }


# -- How long, why, what to do, how sure: the summary of `predict`, as `reports/first_screen.py` shows it in a terminal.

def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The launch and how it was predicted, as names and texts."""
    first = document["predictions"][0]
    provenance, summary = first["provenance"], first.get("summary") or {}
    launch, place = provenance.get("launch") or {}, summary.get("place")
    before = provenance.get("method", {}).get("caches_before")
    shared = launch.get("static_shared_bytes", 0) + launch.get("dynamic_shared_bytes", 0)
    facts = [
        ("Kernel", f"{first['kernel']}" + (f", {PurePath(place['file']).name}:{place['line']}" if place else "")),
        ("GPU", f"{first['gpu']} {clock_of(provenance)}".strip() + with_changes(provenance, clock=False)),
        ("Grid, block", f"{launch_size(launch['grid'])}, {launch_size(launch['block'])}" if launch else ""),
        ("Cluster", f"{launch_size(launch['cluster'])} blocks" if "cluster" in launch else ""),
        ("Registers, shared memory", f"{launch['registers_per_thread']}, {format_quantity(shared, SIZE)}" if launch else ""),
        ("Level", level_of(launch) if launch.get("level") else ""),
        ("Caches", caches_before(before) if before else ""),
        ("Model", first["model"]),
        ("Bound by", first["bound_by"]),
        ("IPC per SM", three_digits(first["ipc_sm_warp"])),
        ("Divergence", classification(first)),
    ]
    return [(name, text) for name, text in facts if text]


def _causes(first: dict[str, Any], links: dict[str, str]) -> list[dict[str, Any]]:
    """The largest causes: `share` of the cycles, `text`, and the places of `lines` and `loads` with their links."""
    if not first.get("summary"):
        share, components = shares(first), components_of(first)
        largest = sorted(share, key=lambda name: -share[name])[:_MOST_CAUSES]
        texts = {name: components[name].meaning or name for name in largest if share[name] > 0}
        return [{"paint": paint_class(name), "share": share[name], "text": text, "lines": [], "loads": []}
                for name, text in texts.items()]  # fmt: skip
    place = first["summary"]["place"] or {}
    causes = []
    for cause in first["summary"]["why"][:_MOST_CAUSES]:
        lines, loads = (_lines(cause[key], place.get("file"), links) for key in ("lines", "loads"))
        same = [each["name"] for each in lines] == [each["name"] for each in loads]
        causes.append({**cause, "paint": paint_class(cause["component"]), "lines": lines, "loads": [] if same else loads})
    return causes


def _lines(lines: Sequence[dict[str, Any]], own: str | None, links: dict[str, str]) -> list[dict[str, Any]]:
    """Lines with their links, in order: `line 46` of the kernel's `own` file, `part.cuh:7` of another one."""
    names = {line["place"]: f"line {line['line']}" if line["file"] and line["file"] == own else line["place"] for line in lines}
    ordered = sorted(lines, key=lambda line: (line["file"] != own, line["line"]))
    return [{"name": names[line["place"]], "link": links.get(line["place"])} for line in ordered]


def _links(document: dict[str, Any]) -> dict[str, str]:
    """The address of each line's place in the code section."""
    code = document.get("code") or {}
    rows = [row for view in ("sass", "line", "source") for row in code.get(view, {}).get("rows", [])]
    return {place_of_row(row): f"#code&line={anchor_of(row)}" for row in reversed(rows)}


def _changes(document: dict[str, Any], links: dict[str, str]) -> list[dict[str, Any]] | None:
    """The changes with the largest speed-ups: of the report's advice, else of the summary; None without either.

    `speedup` is None for a change that was not evaluated.
    """
    first, advice = document["predictions"][0], document.get("advice")
    summary = first.get("summary")
    if advice is not None:
        tried = [{**change, "speedup": first["cycles"] / change["cycles"]} for change in advice["advice"]
                 if change["owner"] == PROGRAMMER and change["gain"] >= LEAST_SHOWN]  # fmt: skip
        untried: list[str] = []
    elif summary:
        tried, untried = summary["advice"], untried_changes(summary)[:1]
    else:
        return None
    section = "#advice" if advice is not None and links else None
    rows = [{"title": each["title"], "speedup": each["speedup"], "link": links.get(each.get("place", ""), section)}
            for each in tried[: _MOST_CHANGES - len(untried)]]  # fmt: skip
    return [*rows, *({"title": title, "speedup": None, "link": None} for title in untried)]


def _sure(document: dict[str, Any], references: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a reader may compare the prediction with, and what speaks against it.

    The report's checks of assumptions include those of the summary, and those that need further predictions.
    """
    first = document["predictions"][0]
    summary = first.get("summary") or {}
    checks, simulator = (document.get("assumptions") or {}).get("checks"), summary.get("simulator")
    violated = summary.get("violated", []) if checks is None else [each for each in checks if each["violated"]]
    own = {first["model"], *(["simulator"] if simulator else [])}  # the simulator's row is that of the summary
    rows = [_reference(each, first["model"]) for each in references if each["name"] not in own]
    if simulator:
        rows.append(("simulator", f"{thousands(simulator['cycles'])} cycles ({difference(simulator['cycles'], first['cycles'])})"))
    return {
        "rows": rows,
        "not_simulated": "code" in document and not simulator,
        "warnings": [*(disagreement(first) if summary else []),
                     *(violation(first["model"], each) for each in violated[:_MOST_VIOLATED])],
        "more": max(0, len(violated) - _MOST_VIOLATED),
        "checked": len(checks or ()),
        "violated": len(violated),
        "others": [f"{each['model']} {thousands(each['cycles'])} ({100 * each['difference']:+,.0f} %)"
                   for each in summary.get("others", ())],
    }  # fmt: skip


def _reference(reference: dict[str, Any], model: str) -> tuple[str, str]:
    """The name of a reference, and its cycles or time, the model's error, and where it is from."""
    parts = [f"{thousands(reference['cycles'])} cycles"] if reference["cycles"] else []
    parts += [duration(reference["seconds"])] if reference["seconds"] else []
    parts = parts or ["no cycles or time"]
    if model in reference["errors"]:
        parts.append(f"error of {model} {signed_percent(reference['errors'][model])}")
    return f"{reference['name']} (reference)", ", ".join([*parts, *([reference["place"]] if reference["place"] else [])])


# -- The memory chart, the speed of light, occupancy and the hottest lines.

_FLOWS = {"load": "loads", "store": "stores", "atomic": "atomics", "read": "reads", "write": "writes"}


def _memory(memory: dict[str, Any] | None, speed: list[dict[str, Any]] | None) -> dict[str, Markup] | None:
    """The memory chart, lying for a wide window and upright for a narrow one."""
    if not memory or not speed:
        return None
    ends = {end for link in memory["links"] for end in (link["from"], link["to"])}
    boxes = {box["name"]: _box(box, used=box["name"] in ends) for box in memory["boxes"]}
    flows: dict[tuple[str, str], list[Flow]] = {}
    order = list(boxes)
    for link in memory["links"]:
        inward = order.index(link["from"]) > order.index(link["to"])
        pair = (link["to"], link["from"]) if inward else (link["from"], link["to"])
        flows.setdefault(pair, []).append(_flow(link, inward=inward))
    both = next(row["percent"] for row in speed if row["name"] == "l1") / 100
    charts = {
        name: MemoryChart("Memory chart", boxes, flows, f"L1 + shared: {percent(both)} of peak", upright=name == "upright")
        for name in ("lying", "upright")
    }
    return {name: drawn(chart) for name, chart in charts.items()}


_TITLES = {"kernel": "Kernel", "l1": "L1", "shared": "Shared memory", "l2": "L2", "dram": "DRAM"}


def _box(box: dict[str, Any], *, used: bool) -> Memory:
    lines = [_si(box["warp_instructions"], "inst.")] if "warp_instructions" in box else []
    if "size_bytes" in box:
        lines.append(format_quantity(box["size_bytes"], SIZE))
    if not used and box["name"] != "kernel":
        lines.append("no traffic")
    elif "hit_rate" in box:
        lines.append("nothing read" if box["hit_rate"] is None else f"hit rate {percent(box['hit_rate'])}")
    if box.get("conflict_share"):
        lines.append(f"{percent(box['conflict_share'])} conflicts")
    return Memory(_TITLES[box["name"]], lines, box["percent"] / 100 if "percent" in box else None)


def _flow(link: dict[str, Any], *, inward: bool) -> Flow:
    counts = [_si(link[key], unit) for key, unit in (("requests", "req."), ("instructions", "inst.")) if key in link]
    size = _si(link["passes"], "passes") if "passes" in link else _si(link["bytes"], "B")
    return Flow(_FLOWS[link["access"]], counts[0] if counts else "", size, link["percent"] / 100, inward)


def _si(number: float, unit: str) -> str:
    """With three digits and a prefix: `1.05 M req.`, `32.8 kB`; whole numbers below a thousand as they are: `16 req.`."""
    if number < 1000:
        return f"{thousands(number)} {unit}"
    power = min(4, (len(thousands(float(f"{number:.3g}"))) - 1) // 4)
    return f"{three_digits(number / 1000**power)} {' kMGT'[power]}{'' if unit == 'B' else ' '}{unit}"


def _speed(rows: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    """The largest utilization in computing and in memory, and a row for each resource."""
    if not rows:
        return None
    groups = [[row for row in rows if row.get("group") == group] for group in (COMPUTE, MEMORY)]
    tops = [max(group, key=lambda row: row["percent"]) for group in groups if group]
    meters = [
        {"label": row["label"], "percent": row["percent"], "colour": heat(row["percent"] / 100),
         "text": f"{three_digits(row['value'])} of {three_digits(row['peak'])} {row['unit']}"}
        for row in rows if row["name"] != OCCUPANCY
    ]  # fmt: skip
    return {"tops": tops, "rows": meters, "beyond": [row["label"] for row in rows if row["percent"] > 100.5]}


# The labels of the curves, and what their values are divided by.
_CURVES = {"threads": ("threads per block", 1), "registers": ("registers per thread", 1), "shared_bytes": ("KiB shared", 1024)}


def _occupancy(occupancy: dict[str, Any] | None) -> dict[str, Any] | None:
    if not occupancy:
        return None
    curves = []
    for curve in occupancy["curves"]:
        label, scale = _CURVES[curve["name"]]
        steps = [(value / scale, warps) for value, warps in curve["steps"]]
        own = (curve["own"] / scale, occupancy["warps_per_sm"])
        axes = Axis(label), Axis("warps per SM")
        chart = StepCurve(label, *axes, steps, curve["most"] / scale, occupancy["max_warps"], own)
        curves.append(drawn(chart))
    return {**occupancy, "share": occupancy["warps_per_sm"] / occupancy["max_warps"], "curves": curves}


def _hottest(document: dict[str, Any], links: dict[str, str]) -> list[dict[str, Any]]:
    """The lines with the largest shares of the cycles, with their texts."""
    view = _code_view(document)
    if view is None:
        return []
    rows = [row for row in view["rows"] if (row["file"] or view["by"] != "source") and row["share"] > 0]
    hottest = sorted(rows, key=lambda row: -row["share"])[:_MOST_HOTTEST]
    texts = [view["sources"].get(row["file"], {}).get(str(row["line"]), "") if row["file"] else row["text"] for row in hottest]
    return [{"place": place_of_row(row), "link": links.get(place_of_row(row)), "share": row["share"], "text": text.strip(),
             "cause": row["cause"]} for row, text in zip(hottest, texts, strict=True)]  # fmt: skip


def _code_view(document: dict[str, Any]) -> dict[str, Any] | None:
    """The rows of code by source line, else as the kernel was written."""
    code = document.get("code") or {}
    view: dict[str, Any] | None = code.get("source") or code.get("line") or code.get("sass")
    return view


# -- Details: stacks of all models, components, lower bounds, rooflines, L1 miss latency.

def stacks_of(predictions: list[dict[str, Any]], references: Sequence[dict[str, Any]] = ()) -> Stacks:
    """A bar for each prediction, all on one scale, with parts by component and the error relative to the first reference."""
    names = shown(predictions)
    errors: dict[str, float] = references[0]["errors"] if references else {}
    known = {each["name"] for each in references}
    return Stacks(
        title="CPI stacks: cycles per warp instruction of an SM",
        axis=Axis("cycles per instruction", most=_widest(predictions, known)),
        rows=[each["model"] + (" (reference)" if each["model"] in known else "") for each in predictions],
        series=[Series(name, [each["cpi_stack"].get(name, 0.0) for each in predictions], stack_style(name)) for name in names],
        totals=[f"{three_digits(each['cpi'])} CPI, {each['cycles']:,.0f} cycles"
                + (f", {signed_percent(errors[each['model']])}" if errors.get(each["model"]) is not None else "")
                for each in predictions],
    )  # fmt: skip


def _widest(predictions: list[dict[str, Any]], references: set[str]) -> float | None:
    """The limit at which bars are cut, so that a model far off does not make the first one and the references unreadable."""
    most = max(each["cpi"] for number, each in enumerate(predictions) if number == 0 or each["model"] in references)
    return _MOST_TIMES * most if most > 0 else None


def _component(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """A row of the table: the component's part of the CPI, the model's equation for it, and its main lines."""
    first = document["predictions"][0]
    about = (document.get("models") or {}).get(first["model"]) or {}
    component = components_of(first)[name]
    return {
        "name": name,
        "paint": paint_class(name),
        "meaning": component.meaning,
        "nsight": component.nsight,
        "cpi": first["cpi_stack"][name],
        "share": shares(first)[name],
        "equation": about.get("by_component", {}).get(name, ""),
        "lines": top_lines(document, name),
    }


def top_lines(document: dict[str, Any], component: str) -> list[dict[str, Any]]:
    """The lines with the largest parts of a component: `place`, `share` of the component, and `anchor` in the code section."""
    view = _code_view(document)
    if view is None:
        return []
    whole = view["cpi_stack"].get(component, 0.0)
    rows = [row for row in view["rows"] if row["cpi_stack"].get(component, 0.0) > 0.0]
    rows.sort(key=lambda row: -row["cpi_stack"][component])
    top = rows[:_MOST_LINES]
    return [{"place": place_of_row(row), "share": row["cpi_stack"][component] / whole, "anchor": anchor_of(row)} for row in top]


def anchor_of(row: dict[str, Any]) -> str:
    """The id of a row's first instruction in the code section."""
    return f"pc-{row['pcs'][0]}"


def _alone(rows: list[dict[str, Any]] | None, first: dict[str, Any]) -> dict[str, Any] | None:
    if not rows:
        return None
    cycles = first["cycles"]
    meters = [Meter(row["label"], row["cycles"] / cycles, f"{row['cycles']:,.0f} cycles, {percent(row['cycles'] / cycles)}")
              for row in rows]  # fmt: skip
    title = f"Cycles with this resource as the only limit, of {cycles:,.0f} predicted"
    return {"drawing": drawn(Meters(title, meters)), "rows": rows}


def _roofline(roofline: dict[str, Any]) -> Roofline:
    unit, levels = roofline["unit"], roofline["levels"]
    return Roofline(
        title=f"Roofline by {unit}",
        x=Axis(f"{unit} per byte"),
        y=Axis(f"10^9 {unit}/s"),
        ceilings=[Roof(ceiling["name"], ceiling["per_s"] / 1e9) for ceiling in roofline["ceilings"]],
        slopes=[Roof(level["name"], level["bytes_per_s"] / 1e9) for level in levels],
        works=[Work(level["name"], roofline["work"] / level["bytes"], roofline["per_s"] / 1e9) for level in levels],
    )


def _latencies(predictions: list[dict[str, Any]]) -> Markup | None:
    """The mean latency of an L1 read miss by where the cycles are spent, for each model that gives it (MDM, Fig. 3)."""
    known = [(each["model"], parts) for each in predictions
             if (parts := each["provenance"].get("model", {}).get("l1_miss_latency"))]  # fmt: skip
    if not known:
        return None
    names = dict.fromkeys(name for _, parts in known for name in parts)
    series = [Series(name.replace("_", " "), [parts.get(name, 0.0) for _, parts in known]) for name in names]
    totals = [f"{sum(parts.values()):,.0f} cycles" for _, parts in known]
    return drawn(Stacks("L1 miss latency: a mean read miss", Axis("cycles"), [model for model, _ in known], series, totals))
