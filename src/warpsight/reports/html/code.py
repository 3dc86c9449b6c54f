"""The code section: source lines and instructions with their costs, and each load, store and atomic in detail."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from warpsight.analysis import explanation
from warpsight.analysis.explanation import place_of
from warpsight.base.units import percent, three_digits
from warpsight.reports.drawing.charts import LOG, Axis, Lanes, Lines, Series
from warpsight.reports.html.highlighting import demangled, highlighted, language_of
from warpsight.reports.html.parts import drawn
from warpsight.reports.machine_code import machine_cells
from warpsight.reports.terminal import counted

_SECTOR, _WARP = 32, 32
# Characters for the panels with drawings, in a page of 1 MB with a grid of designs and a timeline.
_ROOM, _LEAST_ROOM = 340_000, 40_000
_WORD_CHARACTERS, _ROW_CHARACTERS = 60, 250  # of the columns of machine code alone, in each row; of a row beyond the first ones
_MARK_CHARACTERS = 35  # of the syntax colours of a row, at most
_COUNTS = {"sectors": "sectors", "passes": "shared-memory passes"}
_LEVELS = {"L1": "L1 requests", "L2 reads": "L2 reads", "L2 writes": "L2 writes", "DRAM": "DRAM lines"}
# The CSS class of each part of a bar.
_PARTS = {"hit": "hit", "merged": "merged", "miss": "miss", "written through": "through", "read": "miss", "written": "through"}


def load_panels(document: dict[str, Any], places: list[str]) -> dict[str, Any] | None:
    """A panel for each memory instruction, in order of pc, and notes about all; None if the document has none.

    `places` names each instruction: `PTX line 63`, `SASS 0x000a0`.
    """
    entries = document.get("loads")
    if not entries:
        return None
    about, room, panels = document["loads_about"], _room(document), {}
    for entry in sorted(entries, key=lambda entry: (-sectors_of(entry), entry["pc"])):
        panel = _panel(entry, about, places[entry["pc"]], with_drawings="patterns" in entry and room > 0)
        room -= len(str(panel))
        panels[entry["pc"]] = panel
    with_drawings = sum(bool(panel["patterns"]) for panel in panels.values())
    return {"panels": [panels[entry["pc"]] for entry in entries], "about": about, "drawn": with_drawings,
            "left_out": sum(bool(entry["sectors"]) for entry in entries) - with_drawings}  # fmt: skip


def sectors_of(entry: dict[str, Any]) -> int:
    """How many sectors all executions of a memory instruction touch."""
    return sum(count * times for count, times in entry["sectors"])


def _room(document: dict[str, Any]) -> int:
    """The number of characters available for panels."""
    grid, timeline = document.get("what_if") or {}, document.get("timeline") or {}
    taken = sum(len(column["data"]) for column in grid.get("columns", ())) + len(str(timeline.get("rows", "")))
    views = document.get("code") or {}
    taken += _MARK_CHARACTERS * _rows(views)
    if "sass" in views:
        taken += _WORD_CHARACTERS * len(views["sass"]["rows"]) + _ROW_CHARACTERS * max(0, _rows(views) - WHOLE_ROWS)
    return max(_LEAST_ROOM, _ROOM - taken)


def _panel(entry: dict[str, Any], about: dict[str, Any], own: str, *, with_drawings: bool) -> dict[str, Any]:
    place = f"{place_of(entry['file'], entry['line'], entry['ptx_line'], '')}, {own}" if entry["file"] else own
    return {
        "pc": entry["pc"],
        "opcode": entry["opcode"],
        "place": place,
        "what": f"{entry['space']} {entry['access']} of {entry['access_bytes']} B per lane, {entry['executions']:,} executions "
        "with an active lane",
        "patterns": [_pattern(entry, pattern, about["line_bytes"]) for pattern in (entry["patterns"] if with_drawings else ())],
        "histograms": [_histogram(name, entry[name]) for name in ("sectors", "passes") if entry[name]],
        "reuse": _reuse(entry, about) if with_drawings and "reuse" in entry else None,
        "levels": [_level(name, counts) for name, counts in entry["levels"].items()],
        "brief": "" if with_drawings else _brief(entry),
    }


def _brief(entry: dict[str, Any]) -> str:
    """The text of a panel without drawings: requests by level, and sectors or passes per execution."""
    texts = [f"{_LEVELS[name]}: {', '.join(f'{kind} {count:,}' for kind, count in counts.items())}"
             for name, counts in entry["levels"].items()]  # fmt: skip
    texts += [f"{three_digits(_mean(pairs))} {unit} per execution on average, at most {max(count for count, _ in pairs)}"
              for name, unit in _COUNTS.items() if (pairs := entry[name])]  # fmt: skip
    return "; ".join(texts)


def _mean(pairs: list[list[int]]) -> float:
    """The mean count of pairs (count, times)."""
    return sum(count * times for count, times in pairs) / sum(times for _, times in pairs)


def _pattern(entry: dict[str, Any], pattern: dict[str, Any], line_bytes: int) -> dict[str, Any]:
    """The drawing of one access, and its description."""
    count, lines = len(pattern["sectors"]), pattern["lines"]
    total = sum(times for _, times in entry["sectors"])
    title = f"{pattern['kind'].capitalize()}: {counted(count, 'sector')} in {counted(lines, 'line')}"
    lanes = pattern["lanes"] or []
    texts = [f"{pattern['executions']:,} of {total:,} executions ({percent(pattern['executions'] / total)}) have this many sectors"]
    if lanes:
        active = sum(lane is not None for lane in lanes)
        fetched = _SECTOR * count
        texts.append(f"here {counted(active, 'active lane')} request {pattern['bytes_asked']:,} B of {fetched:,} B in these "
                     f"sectors ({percent(pattern['bytes_asked'] / fetched)})")  # fmt: skip
    else:
        texts.append("all active lanes access it" if count == 1 else "the sectors of individual lanes are not known")
    texts.append(f"drawn: warp {pattern['warp']:,}, its access number {pattern['before'] + 1:,} at this instruction")
    chart = Lanes(title, lanes, pattern["sectors"], entry["access_bytes"], line_bytes, _SECTOR)
    return {"drawing": drawn(chart), "words": "; ".join(texts) + "."}


def _histogram(name: str, pairs: list[list[int]]) -> dict[str, Any]:
    """Executions by sectors, or by shared-memory passes: as rows, and as bars for each number starting at 1."""
    by_count = {pair[0]: pair[1] for pair in pairs}
    total, most, unit = sum(by_count.values()), max(by_count.values()), _COUNTS[name]
    rows = [{"count": count, "times": times, "share": percent(times / total)} for count, times in pairs]
    bars = [(count, by_count.get(count, 0)) for count in range(1, max(_WARP, *by_count) + 1)] if len(pairs) > 1 else []
    places = [{"height": f"{100 * times / most:.1f}", "tip": f"{count} {unit}: {times:,} executions"} for count, times in bars]
    return {"what": unit, "rows": rows, "mean": three_digits(_mean(pairs)), "places": places}


def _reuse(entry: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The curve of hits over the L1's lines, with a mark at the GPU's own; no curve without reuse."""
    reuse, lines = entry["reuse"], about["l1_lines"]
    at_own = reuse["hit_shares"][reuse["capacities"].index(lines)]
    l1 = entry["levels"].get("L1", {})
    reads = sum(l1.get(name, 0) for name in ("hit", "merged", "miss"))
    first = percent(reuse["first_uses"] / reuse["requests"])
    texts = [
        f"{counted(reuse['requests'], 'request')}, {first} of them first uses of their line by an SM",
        f"in an LRU cache of the same size ({lines:,} lines) {percent(at_own)} hit",
    ]
    if reads:
        hits = percent((l1.get("hit", 0) + l1.get("merged", 0)) / reads)
        texts.append(f"in the simulated L1, with sets, sectors and latencies, {hits} hit or merge")
    if about["reuse_note"]:
        texts.append(about["reuse_note"])
    chart = None
    if reuse["hit_shares"][-1] > 0.0:
        mark = f"this L1: {lines:,} lines"
        series = Series("hits", [100.0 * share for share in reuse["hit_shares"]])
        chart = drawn(Lines("Hits over L1 size", Axis("L1 size", "lines", LOG), Axis("hits", "% of requests"),
                            reuse["capacities"], [series], steps=True, marks=[(float(lines), mark)]))  # fmt: skip
    return {"drawing": chart, "words": "; ".join(texts) + "."}


def _level(name: str, counts: dict[str, int]) -> dict[str, Any]:
    total = sum(counts.values())
    parts = [{"kind": kind, "style": _PARTS[kind], "percent": f"{100.0 * count / total:.2f}", "words": f"{kind} {count:,} "
              f"({percent(count / total)})"} for kind, count in counts.items()]  # fmt: skip
    return {"name": _LEVELS[name], "total": total, "parts": parts}


# -- The code of a kernel: source lines, PTX and machine code side by side, each with its cost.

# Columns of machine code alone, behind the share: name in the URL's hash and heading, and meaning.
WORDS = (
    ("waits", "barriers, 0 to 5, that the instruction waits for"),
    ("stall", "cycles before the warp's next instruction may issue; y: the scheduler may switch to another warp"),
    ("sets", "the barriers that are released when the result is written (W) and when the operands have been read (R)"),
    ("live", "32-bit registers whose values are needed after the instruction"),
)
# Columns between share and text, in order: name in the URL's hash, heading, meaning, and whether the page has it for long
# code too (long machine code has none); the script adds the columns that are left out.
COLUMNS: tuple[tuple[str, str, str, bool], ...] = (
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
WHOLE_ROWS, SOME_ROWS, MOST_ROWS = 600, 1000, 2000  # with all columns; of machine code with any, and with PTX beside it
HOT, LEAST_HEAT, LEAST_SHARE = 20, 0.05, 0.0005  # how many at most, of the hottest one's share, and what is shown as a share
# The other columns: the key of a row, and the format of its number.
_PLAIN = {"requests": ("requests_per_execution", three_digits), "sectors": ("sectors_per_request", three_digits),
          "l1": ("l1_hit_rate", percent), "l2": ("l2_hit_rate", percent), "lanes": ("lanes", three_digits)}  # fmt: skip


def code(document: dict[str, Any]) -> dict[str, Any] | None:
    """The template's values, or None if the document has no code."""
    views = document.get("code")
    if not views:
        return None
    native, line, source = views.get("sass"), views.get("line"), views.get("source")
    finest = native or line
    rows = finest["rows"]
    written = "SASS" if native else language(rows)
    long = _rows(views) > WHOLE_ROWS
    columns = COLUMNS[:ALWAYS] if long else COLUMNS
    if native and _rows(views) > SOME_ROWS:
        columns = ()
    loads, ranks, most = {entry["pc"] for entry in document.get("loads") or ()}, _ranks(rows), _most(rows)
    texts = highlighted([demangled(row["text"] or "") for row in rows], written, few=long)
    instructions = [_instruction(row, before, columns, ranks, loads, most) | {"text": text}
                    for (before, row), text in zip(pairwise([None, *rows]), texts, strict=True)]  # fmt: skip
    return {
        "model": finest["model"],
        "columns": columns,
        "words": WORDS if native else (),
        "long": long,
        "language": written,
        "ptx": _ptx(line, columns, few=long) if native and line and shows_ptx(views) else [],
        "without_ptx": bool(native and line and not shows_ptx(views)),
        "instructions": instructions,
        "files": _files(source, columns) if source else [],
        "without_source": _without_source(source, columns) if source else None,
        "hottest": _hottest(rows, source),
        "rest": [each for each in finest["rest"] if each["share"] > 0.0],
        "loads": load_panels(document, places_of(views)),
    }


def places_of(views: dict[str, Any]) -> list[str]:
    """What each instruction of a document's `code` is called: `PTX line 63`, `SASS 0x000a0`."""
    rows = (views.get("sass") or views["line"])["rows"]
    written = language(rows)
    return [f"SASS {row['machine']['address']:#07x}" if row.get("machine") else f"{written} line {row['ptx_lines'][0]}"
            for row in rows]  # fmt: skip


def accesses_by_line(document: dict[str, Any], file: str) -> dict[int, list[dict[str, Any]]]:
    """The memory instructions (`loads`) of the kernel's own `file` by its lines, of source or of PTX that was written."""
    found: dict[int, list[dict[str, Any]]] = {}
    for entry in document.get("loads") or ():
        own = entry["file"] == file or (file.endswith(".ptx") and not entry["file"])
        if own and (line := entry["line"] if entry["file"] else entry["ptx_line"]):
            found.setdefault(line, []).append(entry)
    return found


def shows_ptx(views: dict[str, Any]) -> bool:
    """Whether PTX is shown: beside long machine code there is no room for it in a page of a megabyte."""
    return "sass" not in views or _rows(views) <= MOST_ROWS


def _rows(views: dict[str, Any]) -> int:
    """How many rows all views have."""
    return sum(len(view["rows"]) for view in views.values())


def language(rows: list[dict[str, Any]]) -> str:
    """The language of the instructions of a kernel: PTX or SASS."""
    return explanation.language(next((row["text"] for row in rows if row["text"]), ""))


def _most(rows: list[dict[str, Any]]) -> float:
    """The largest share, which a full bar represents."""
    return max((row["share"] for row in rows), default=0.0)


def _ranks(rows: list[dict[str, Any]]) -> dict[int, int]:
    """The ranks of the hottest instructions, from 1, by pc."""
    least = LEAST_HEAT * _most(rows)
    hot = sorted((row for row in rows if row["share"] > least), key=lambda row: (-row["share"], row["pcs"][0]))
    return {row["pcs"][0]: rank for rank, row in enumerate(hot[:HOT], 1)}


def _hottest(rows: list[dict[str, Any]], source: dict[str, Any] | None) -> str:
    """The row at which the section opens: the source line with the largest share, else that instruction; "" if none has a share."""
    written = [row for row in (source["rows"] if source else ()) if row["file"]]
    row = max(written or rows, key=lambda row: row["share"], default=None)
    if row is None or not row["share"]:
        return ""
    files = sorted({each["file"] for each in written})
    return f"src-{files.index(row['file'])}-{row['line']}" if written else f"pc-{row['pcs'][0]}"


def _instruction(
    row: dict[str, Any], before: dict[str, Any] | None, columns: Any, ranks: dict[int, int], loads: set[int], most: float
) -> dict[str, Any]:
    """A row of the table of instructions."""
    pc, word = row["pcs"][0], row.get("machine")
    number, *words = machine_cells(word) if word else (row["ptx_lines"][0],)
    words = [text if text.strip("-") else "" for text in words]
    section = demangled(word["section"]) if word and before is not None and before["machine"]["section"] != word["section"] else ""
    kinds = {"hot": pc in ranks, "mem": pc in loads, "entry": before is None or before["block"] != row["block"]}
    return {"id": f"pc-{pc}", "kinds": " ".join(kind for kind in kinds if kinds[kind]), "rank": ranks.get(pc),
            "line": number, "words": words, "section": section, **_costs(row, columns, most)}  # fmt: skip


def _ptx(view: dict[str, Any], columns: Any, *, few: bool) -> list[dict[str, Any]]:
    """The table of PTX beside machine code: lines with instructions, and those between them unless they are many."""
    rows, most = {row["ptx_lines"][0]: row for row in view["rows"]}, _most(view["rows"])
    unused = view.get("unused", {})
    if len(rows) + len(unused) > WHOLE_ROWS:
        unused = {}
    lines = sorted({*rows, *map(int, unused)}, key=lambda line: (not line, line))
    written = [(rows[line]["text"] if line in rows else unused[str(line)]) or "" for line in lines]
    texts = highlighted([demangled(text) for text in written], "PTX", few=few)
    return [{"id": f"ptx-{line}", "line": line or "none", **_source(rows.get(line), text, columns, most)}
            for line, text in zip(lines, texts, strict=True)]  # fmt: skip


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
    files = []
    for number, (file, rows) in enumerate(sorted(by_file.items())):
        texts = source["sources"].get(file, {})
        numbers = sorted({*rows, *map(int, texts)})
        marked = highlighted([texts.get(str(line), "") for line in numbers], language_of(file))
        lines = [{"id": f"src-{number}-{line}", "line": line, **_source(rows.get(line), text, columns, most)}
                 for line, text in zip(numbers, marked, strict=True)]  # fmt: skip
        folder, name = _split(file)
        files.append({"name": name, "folder": folder, "missing": file in source["missing_sources"], "lines": lines})
    return files


def _split(file: str) -> tuple[str, str]:
    """The folder and the name of a path of Linux or Windows."""
    cut = max(file.rfind("/"), file.rfind("\\")) + 1
    return file[:cut], file[cut:]


def _source(row: dict[str, Any] | None, text: str, columns: Any, most: float) -> dict[str, Any]:
    """A row of a table of lines; `row` is None for a line without instructions."""
    if row is None:
        return {"text": text, "pcs": "", "share": "", "heat": "0", "cells": [""] * len(columns)}
    return {"text": text, "pcs": " ".join(map(str, row["pcs"])), **_costs(row, columns, most)}
