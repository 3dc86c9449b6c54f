"""The code section: source lines and instructions with their costs, and each load, store and atomic in detail."""

from __future__ import annotations

from typing import Any

from warpsight.analysis import explanation as places
from warpsight.analysis.explanation import place_of
from warpsight.base.units import percent, three_digits
from warpsight.reports.drawing.charts import LOG, Axis, Lanes, Lines, Series
from warpsight.reports.html.parts import drawn

_SECTOR, _WARP = 32, 32
# Characters for the panels with drawings, in a page of 1 MB with a grid of designs and a timeline.
_ROOM, _LEAST_ROOM = 340_000, 40_000
_LEVELS = {"L1": "L1 requests", "L2 reads": "L2 reads", "L2 writes": "L2 writes", "DRAM": "DRAM lines"}
# The parts of a bar, by the class that styles them.
_PARTS = {"hit": "hit", "merged": "merged", "miss": "miss", "written through": "through", "read": "miss", "written": "through"}


def load_panels(document: dict[str, Any], language: str) -> dict[str, Any] | None:
    """A panel for each memory instruction, in order of pc, and notes about all; None if the document has none.

    `language` is that of the instructions, PTX or SASS.
    """
    entries = document.get("loads")
    if not entries:
        return None
    about, room, panels = document["loads_about"], _room(document), {}
    for entry in sorted(entries, key=lambda entry: (-sum(count * times for count, times in entry["sectors"]), entry["pc"])):
        panel = _panel(entry, about, language, drawn="patterns" in entry and room > 0)
        room -= len(str(panel))
        panels[entry["pc"]] = panel
    drawn = sum(bool(panel["patterns"]) for panel in panels.values())
    return {"panels": [panels[entry["pc"]] for entry in entries], "about": about, "drawn": drawn,
            "left_out": sum(bool(entry["sectors"]) for entry in entries) - drawn}  # fmt: skip


def _room(document: dict[str, Any]) -> int:
    """The number of characters available for panels."""
    grid, timeline = document.get("what_if") or {}, document.get("timeline") or {}
    taken = sum(len(column["data"]) for column in grid.get("columns", ())) + len(str(timeline.get("rows", "")))
    return max(_LEAST_ROOM, _ROOM - taken)


def _panel(entry: dict[str, Any], about: dict[str, Any], language: str, *, drawn: bool) -> dict[str, Any]:
    line = f"{language} line {entry['ptx_line']}"
    place = f"{place_of(entry['file'], entry['line'], entry['ptx_line'], '')}, {line}" if entry["file"] else line
    return {
        "pc": entry["pc"],
        "opcode": entry["opcode"],
        "place": place,
        "what": f"{entry['space']} {entry['access']} of {entry['access_bytes']} B per lane, {entry['executions']:,} executions "
        "with an active lane",
        "patterns": [_pattern(entry, pattern, about["line_bytes"]) for pattern in (entry["patterns"] if drawn else ())],
        "histograms": [_histogram(name, entry[name]) for name in ("sectors", "passes") if entry[name]],
        "reuse": _reuse(entry, about) if drawn and "reuse" in entry else None,
        "levels": [_level(name, counts) for name, counts in entry["levels"].items()],
        "brief": "" if drawn else _brief(entry),
    }


def _brief(entry: dict[str, Any]) -> str:
    """The text of a panel without drawings: requests by level, and sectors or passes per execution."""
    words = [f"{_LEVELS[name]}: {', '.join(f'{kind} {count:,}' for kind, count in counts.items())}"
             for name, counts in entry["levels"].items()]  # fmt: skip
    for name, what in (("sectors", "sectors"), ("passes", "shared-memory passes")):
        if entry[name]:
            total = sum(times for _, times in entry[name])
            mean = sum(count * times for count, times in entry[name]) / total
            words.append(f"{three_digits(mean)} {what} per execution on average, at most {max(count for count, _ in entry[name])}")
    return "; ".join(words)


def _pattern(entry: dict[str, Any], pattern: dict[str, Any], line_bytes: int) -> dict[str, Any]:
    """The drawing of one access, and its description."""
    count, lines = len(pattern["sectors"]), pattern["lines"]
    total = sum(times for _, times in entry["sectors"])
    title = f"{pattern['kind'].capitalize()}: {_many(count, 'sector')} in {_many(lines, 'line')}"
    lanes = pattern["lanes"] or []
    words = [f"{pattern['executions']:,} of {total:,} executions ({percent(pattern['executions'] / total)}) have this many sectors"]
    if lanes:
        active = sum(lane is not None for lane in lanes)
        fetched = _SECTOR * count
        words.append(f"here {_many(active, 'active lane')} request {pattern['bytes_asked']:,} B of {fetched:,} B in these sectors "
                     f"({percent(pattern['bytes_asked'] / fetched)})")  # fmt: skip
    elif count == 1:
        words.append("all active lanes access it")
    else:
        words.append("the sectors of individual lanes are not known")
    words.append(f"drawn: warp {pattern['warp']:,}, its access number {pattern['before'] + 1:,} at this instruction")
    chart = Lanes(title, lanes, pattern["sectors"], entry["access_bytes"], line_bytes, _SECTOR)
    return {"drawing": drawn(chart), "words": "; ".join(words) + "."}


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _histogram(name: str, pairs: list[list[int]]) -> dict[str, Any]:
    """Executions by sectors, or by shared-memory passes: as rows, and as bars for each number starting at 1."""
    by_count = {pair[0]: pair[1] for pair in pairs}
    total, most, last = sum(by_count.values()), max(by_count.values()), max(by_count)
    rows = [{"count": count, "times": times, "share": percent(times / total)} for count, times in pairs]
    what = "sectors" if name == "sectors" else "shared-memory passes"
    mean = sum(count * times for count, times in pairs) / total
    places = []
    for count in range(1, max(_WARP, last) + 1) if len(pairs) > 1 else ():
        times = by_count.get(count, 0)
        places.append({"height": f"{100 * times / most:.1f}", "tip": f"{count} {what}: {times:,} executions"})
    return {"what": what, "rows": rows, "mean": three_digits(mean), "places": places}


def _reuse(entry: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The curve of hits over the L1's lines, with a mark at the GPU's own; no curve without reuse."""
    reuse, lines = entry["reuse"], about["l1_lines"]
    at_own = reuse["hit_shares"][reuse["capacities"].index(lines)]
    l1 = entry["levels"].get("L1", {})
    reads = sum(l1.get(name, 0) for name in ("hit", "merged", "miss"))
    first = percent(reuse["first_uses"] / reuse["requests"])
    words = [
        f"{_many(reuse['requests'], 'request')}, {first} of them first uses of their line by an SM",
        f"in an LRU cache of the same size ({lines:,} lines) {percent(at_own)} hit",
    ]
    if reads:
        hits = percent((l1.get("hit", 0) + l1.get("merged", 0)) / reads)
        words.append(f"in the simulated L1, with sets, sectors and latencies, {hits} hit or merge")
    if about["reuse_note"]:
        words.append(about["reuse_note"])
    chart = None
    if reuse["hit_shares"][-1] > 0.0:
        mark = f"this L1: {lines:,} lines"
        series = Series("hits", [100.0 * share for share in reuse["hit_shares"]])
        chart = drawn(Lines("Hits over L1 size", Axis("L1 size", "lines", LOG), Axis("hits", "% of requests"),
                            reuse["capacities"], [series], steps=True, marks=[(float(lines), mark)]))  # fmt: skip
    return {"drawing": chart, "words": "; ".join(words) + "."}


def _level(name: str, counts: dict[str, int]) -> dict[str, Any]:
    total = sum(counts.values())
    parts = [{"kind": kind, "style": _PARTS[kind], "percent": f"{100.0 * count / total:.2f}", "words": f"{kind} {count:,} "
              f"({percent(count / total)})"} for kind, count in counts.items()]  # fmt: skip
    return {"name": _LEVELS[name], "total": total, "parts": parts}


# -- The code of a kernel: source lines and instructions side by side, each with its cost.

# Columns between share and text, in order: name in the URL's hash, heading, meaning, and whether the page has it for long
# code too; the script adds the columns that are left out.
COLUMNS = (
    ("wait", "wait cycles", "predicted cycles charged to this line, without issue cycles", True),
    ("cause", "cause", "the line's largest component of the CPI stack", True),
    ("executions", "executions", "warp instructions executed", True),
    ("requests", "requests per execution", "cache lines requested by one execution", False),
    ("sectors", "sectors per request", "32 B sectors in each of these lines", False),
    ("l1", "L1 hits", "share of the requests to the L1", False),
    ("l2", "L2 hits", "share of the requests to the L2", False),
    ("lanes", "active lanes", "mean number of active lanes", False),
    ("interval", "interval", "intervals of the representative warp with this line, from 0", False),
)
ALWAYS = sum(always for _, _, _, always in COLUMNS)
WHOLE_ROWS = 600
HOT, LEAST_HEAT, LEAST_SHARE = 20, 0.05, 0.0005  # how many at most, of the hottest one's share, and what is shown as a share
# Of the other columns the key of a row, and how its number is shown.
_PLAIN = {"requests": ("requests_per_execution", three_digits), "sectors": ("sectors_per_request", three_digits),
          "l1": ("l1_hit_rate", percent), "l2": ("l2_hit_rate", percent), "lanes": ("lanes", three_digits)}  # fmt: skip


def code(document: dict[str, Any]) -> dict[str, Any] | None:
    """The template's values, or None if the document has no code."""
    views = document.get("code")
    if not views:
        return None
    line, source = views["line"], views.get("source")
    rows = line["rows"]
    written = language(rows)
    columns = COLUMNS if len(rows) + (len(source["rows"]) if source else 0) <= WHOLE_ROWS else COLUMNS[:ALWAYS]
    drawn = {entry["pc"] for entry in document.get("loads") or ()}
    ranks = _ranks(rows)
    most = _most(rows)
    instructions = [_instruction(row, rows[number - 1] if number else None, columns, ranks, drawn, most)
                    for number, row in enumerate(rows)]  # fmt: skip
    rest = [each for each in line["rest"] if each["share"] > 0.0]
    return {
        "model": line["model"],
        "columns": columns,
        "language": written,
        "instructions": instructions,
        "files": _files(source, columns) if source else [],
        "without_source": _without_source(source, columns) if source else None,
        "rest": rest,
        "loads": load_panels(document, written),
    }  # fmt: skip


def language(rows: list[dict[str, Any]]) -> str:
    """The language of the instructions of a kernel: PTX or SASS."""
    return places.language(next((row["text"] for row in rows if row["text"]), ""))


def _most(rows: list[dict[str, Any]]) -> float:
    """The largest share, which a full bar represents."""
    return max((row["share"] for row in rows), default=0.0)


def _ranks(rows: list[dict[str, Any]]) -> dict[int, int]:
    """The ranks of the hottest instructions, from 1, by pc."""
    hot = sorted((row for row in rows if row["share"] > LEAST_HEAT * _most(rows)), key=lambda row: (-row["share"], row["pcs"][0]))
    return {row["pcs"][0]: rank for rank, row in enumerate(hot[:HOT], 1)}


def _instruction(
    row: dict[str, Any], before: dict[str, Any] | None, columns: Any, ranks: dict[int, int], drawn: set[int], most: float
) -> dict[str, Any]:
    """A row of the right-hand table."""
    pc = row["pcs"][0]
    kinds = [name for name, holds in (("hot", pc in ranks), ("mem", pc in drawn),
                                      ("entry", before is None or before["block"] != row["block"])) if holds]  # fmt: skip
    return {"id": f"pc-{pc}", "kinds": " ".join(kinds), "rank": ranks.get(pc), "line": row["ptx_lines"][0],
            "text": row.get("text", ""), **_costs(row, columns, most)}  # fmt: skip


def _costs(row: dict[str, Any], columns: Any, most: float) -> dict[str, Any]:
    share = row["share"]
    heat = 100.0 * share / most if most else 0.0
    return {"share": percent(share) if share >= LEAST_SHARE else "", "heat": f"{min(heat, 100.0):.0f}",
            "cells": [cell(row, name) for name, _, _, _ in columns]}  # fmt: skip


def cell(row: dict[str, Any], name: str) -> str:
    """The text of a row in a column; "" for none."""
    if name == "wait":
        return f"{row['wait_cycles']:,.0f}" if row["wait_cycles"] >= 0.5 else ""
    if name == "cause":
        return str(row["cause"])
    if name == "executions":
        return f"{row['executions']:,}"
    if name == "interval":
        span = row.get("intervals")
        return "" if span is None else f"{span[0]}" if span[0] == span[1] else f"{span[0]}-{span[1]}"
    key, shown = _PLAIN[name]
    value = row.get(key)
    return "" if value is None else shown(value)


def _without_source(source: dict[str, Any], columns: Any) -> dict[str, Any] | None:
    """The row of the instructions without a source line."""
    row = next((row for row in source["rows"] if not row["file"]), None)
    return None if row is None else _source(row, "", columns, _most(source["rows"]))


def _files(source: dict[str, Any], columns: Any) -> list[dict[str, Any]]:
    """A table for each source file: the available lines, with costs for those with instructions."""
    by_file: dict[str, dict[int, dict[str, Any]]] = {}
    for row in source["rows"]:
        if row["file"]:
            by_file.setdefault(row["file"], {})[row["line"]] = row
    most = _most(source["rows"])
    found = []
    for number, (file, rows) in enumerate(sorted(by_file.items())):
        texts = source["sources"].get(file, {})
        lines = sorted({*rows, *map(int, texts)})
        made = [_line(number, line, texts.get(str(line), ""), rows.get(line), columns, most) for line in lines]
        found.append({"path": file, "missing": file in source["missing_sources"], "lines": made})
    return found


def _line(number: int, line: int, text: str, row: dict[str, Any] | None, columns: Any, most: float) -> dict[str, Any]:
    """A row of the left-hand table."""
    made = {"id": f"src-{number}-{line}", "line": line}
    if row is None:
        blank = [""] * len(columns)  # a line without an instruction
        return made | {"text": text, "pcs": "", "share": "", "heat": "0", "cells": blank}
    return made | _source(row, text, columns, most)


def _source(row: dict[str, Any], text: str, columns: Any, most: float) -> dict[str, Any]:
    return {"text": text, "pcs": " ".join(map(str, row["pcs"])), **_costs(row, columns, most)}
