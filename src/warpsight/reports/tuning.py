"""The configurations of a kernel, ranked by predicted time: terminal text and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.base.units import thousands, three_digits
from warpsight.reports.formats import csv_text
from warpsight.reports.terminal import PLAIN, Column, Style, aligned, counted, wrapped

_CSV = ("number", "seconds", "cycles", "speedup", "bound_by", "occupancy", "occupancy_limiter", "registers", "shared_bytes",
        "results", "failed")  # fmt: skip


def tuning_text(document: dict[str, Any], style: Style = PLAIN, *, most: int = 20) -> str:
    """The ranking (the `most` fastest and the default), configurations with other results, and those that failed, by reason."""
    rows = document["rows"]
    predicted = [row for row in rows if not row["failed"]]
    ranked = [row for row in predicted if row["results"] != "differs"]
    head = f"{document['tool']}   {document['kernel'] or document['source']}   {document['gpu']}   model {document['model']}"
    lines = [f"{head}   {document['code']}".rstrip(), *_tried(document)]
    if ranked:
        numbered = list(enumerate(ranked, 1))
        shown = [(place, row) for place, row in numbered if place <= most or row["default"]]
        lines += ["", *aligned(_columns(document, shown, style), style)]
        if len(shown) < len(ranked):
            lines.append(f" ... and {counted(len(ranked) - len(shown), 'slower configuration')}: -o FILE.csv or --json has all")
        lines += ["", *_closeness(document, ranked)]
        if any(row["results"] == "not compared" for row in ranked):
            lines.append(style.warning(" the results are not compared, because the default configuration gave none"))
    differing = [row for row in predicted if row["results"] == "differs"]
    if differing:
        lines += ["", style.warning(" not ranked, because their results differ from the default's:")]
        lines += [f"   {_named(row)}: {_differences(row)}; predicted {style.time(row['seconds'])}" for row in differing]
    lines += _failures([row for row in rows if row["failed"]], style)
    lines += [line for note in document["notes"] for line in wrapped(f" note: {note}", hyphens=True)]
    return "\n".join(lines)


def _tried(document: dict[str, Any]) -> list[str]:
    """How many configurations there are, and why some were not tried."""
    parts = [f" {counted(document['tried'], 'configuration')} tried, the default included"]
    if document["excluded"]:
        parts.append(f"{document['excluded']:,} of {document['combinations']:,} combinations excluded by --where")
    if document["left_out"]:
        budget = document["budget"]
        drawn = f"the budget of {budget['configurations']:,} was drawn at random with seed {budget['seed']}"
        parts.append(f"{document['left_out']:,} not tried: {drawn}")
    return wrapped("; ".join(parts))


def _columns(document: dict[str, Any], shown: Sequence[tuple[int, dict[str, Any]]], style: Style) -> list[Column]:
    rows = [row for _, row in shown]
    differing = [name for name in document["varied"] if len({row["configuration"].get(name) for row in document["rows"]}) > 1]
    varied = [Column(name, [_value(row, name) for row in rows]) for name in differing]
    numbers = [Column("config", [str(row["number"]) for row in rows])] if any(row["number"] for row in rows) else []
    return [
        Column("rank", [f"{place} default" if row["default"] else str(place) for place, row in shown], left=True),
        *numbers,
        *varied,
        *(Column(name, [_size(row[name]) for row in rows]) for name in ("grid", "block") if name not in differing),
        Column("time", [style.time(row["seconds"]) for row in rows]),
        Column("speedup", ["-" if row["speedup"] is None else f"{row['speedup']:.2f}x" for row in rows]),
        Column("occupancy", [f"{row['occupancy']:.2f}" for row in rows]),
        Column("limited by", [row["occupancy_limiter"] for row in rows], left=True),
        Column("registers", [str(row["registers"]) for row in rows]),
        Column("shared", [f"{thousands(row['shared_bytes'])} B" for row in rows]),
        Column("bound by", [row["bound_by"] for row in rows], left=True),
    ]


def _value(row: dict[str, Any], name: str) -> str:
    """What is varied, of a configuration; of the default what its launch computes, or `-` where the assembler chooses."""
    return str(row["configuration"].get(name) or (_size(row[name]) if name in ("grid", "block") else "-"))


def _size(dims: Sequence[int]) -> str:
    """`256`, `32x8`."""
    last = max((axis for axis in range(3) if dims[axis] > 1), default=0)
    return "x".join(map(str, dims[: last + 1]))


def _closeness(document: dict[str, Any], ranked: Sequence[dict[str, Any]]) -> list[str]:
    """How far the best configuration is ahead."""
    close, within = document["close"], f"{100 * document['close_within']:.0f} %"
    if len(ranked) < 2:
        return []
    if close > 1:
        return wrapped(f" the best {close:,} are within {within} of each other, too close for a prediction to rank: measure these")
    ahead = ranked[1]["seconds"] / ranked[0]["seconds"] - 1
    return [f" the second best takes {100 * ahead:.0f} % longer than the best"]


def _named(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={text}" for name, text in row["configuration"].items()) + (" (default)" if row["default"] else "")


def _differences(row: dict[str, Any]) -> str:
    shares = ((each["argument"], three_digits(100 * each["difference"])) for each in row["differences"])
    return ", ".join(f"argument {number} by up to {share} % of its largest value" for number, share in shares)


def _failures(rows: Sequence[dict[str, Any]], style: Style) -> list[str]:
    """Configurations without a prediction, those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(row["failed"], []).append(_named(row))
    if not reasons:
        return []
    lines = ["", style.warning(f" not predicted: {counted(len(rows), 'configuration')}")]
    for reason, names in reasons.items():
        lines += wrapped(f"   {'; '.join(names)}", "     ")
        lines += [part for line in reason.splitlines() for part in wrapped(f"     {line.strip()}", "       ")]
    return lines


def tuning_csv(document: dict[str, Any]) -> str:
    """One row per configuration, the fastest first: its rank (of those that are ranked), what is varied, and what was predicted."""
    place, rows = 0, []
    for row in document["rows"]:
        ranks = not row["failed"] and row["results"] != "differs"
        place += ranks
        values = [row["configuration"].get(name) for name in document["varied"]]
        rows.append([place if ranks else None, *values, row["default"], *(row.get(name) for name in _CSV)])
    return csv_text(["rank", *document["varied"], "default", *_CSV], rows)
