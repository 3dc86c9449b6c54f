"""What a profiler measured of a launch beside what a model was given: the text below a comparison's table."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.base.format import significant, thousands
from warpsight.report.columns import Column, aligned
from warpsight.report.style import WIDTH, Style


def measured_lines(launch: dict[str, Any], style: Style) -> list[str]:
    """The inputs with their errors, the stall reasons by component, the clock where it differs; nothing without a profiler."""
    reference = launch["reference"]
    if not reference or not reference.get("measured"):
        return []
    return [*_inputs(launch["inputs"], style), *_stalls(reference), *_clock(reference["clock"])]


def _inputs(rows: list[dict[str, Any]], style: Style) -> list[str]:
    if not rows:
        return []
    merged = [_merged(row) for row in rows]
    table = aligned([
        Column("input", [row["name"] for row in rows], left=True),
        Column("ours", [_value(row["kind"], row["predicted"]) for row in rows]),
        Column("measured", [_value(row["kind"], row["measured"]) for row in rows]),
        Column("error", [_error(row) for row in rows]),
        *([Column("", merged, left=True)] if any(merged) else []),
        Column("metric", [row["metric"] for row in rows], left=True),
    ])  # fmt: skip
    return [style.strong(table[0]), *table[1:]]


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
    told = [f"{name} {100 * share:.0f} % ({', '.join(reasons[name][:2])})" for name, share in shares.items() if share >= 0.005]
    return textwrap.wrap(f" measured stalls: {'; '.join(told)}", WIDTH, subsequent_indent="   ", break_on_hyphens=False)


def _clock(clock: dict[str, Any] | None) -> list[str]:
    if not clock or not clock["differs"]:
        return []
    measured, described = (significant(clock[side] / 1e9, 4) for side in ("measured", "described"))
    text = (
        f" clock: measured at {measured} GHz, described as {described} GHz: the errors of cycles and of time differ "
        "(--set core_clock=... predicts for the measured one)"
    )
    return textwrap.wrap(text, WIDTH, subsequent_indent="   ", break_on_hyphens=False)
