"""Intermediate results as terminal text and pictures: a trace, cache misses, an interval profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.base.units import duration, thousands, three_digits
from warpsight.reports.drawing.charts import LOG_FROM_0, Axis, Bars, Lines, Series
from warpsight.reports.drawing.svg import svg
from warpsight.reports.prediction import launch_shape
from warpsight.reports.terminal import Column, Style, aligned


def trace_text(document: dict[str, Any]) -> str:
    """The summary of `warpsight trace`: kernel, instruction counts, speed and size."""
    seconds, count = document["emulation_seconds"], document["warp_instructions"]
    rate = f" ({thousands(count / seconds)} warp instructions per second)" if seconds else ""
    return "\n".join([
        f"{_launch(document)}   {document['target']}",
        "",
        f"  warp instructions    {thousands(count)}",
        f"  thread instructions  {thousands(document['thread_instructions'])}",
        f"  warps                {thousands(document['warps'])}, {thousands(document['paths'])} distinct paths",
        f"  registers            {document['registers_per_thread']} per thread, from {document['registers_from']}",
        f"  {'reading' if document['registers_from'] == 'trace' else 'emulation':<20} {duration(seconds)}{rate}",
        f"  trace                {document['folder']}, {thousands(document['trace_bytes'])} bytes",
        *_notes(document),
    ])  # fmt: skip


def export_text(document: dict[str, Any]) -> str:
    """The summary of `warpsight trace export`."""
    return "\n".join([
        _launch(document),
        "",
        f"  folder               {document['folder']}: {', '.join(document['files'])}",
        f"  instruction lines    {thousands(document['lines'])}",
        f"  warps                {thousands(document['warps'])} in {thousands(document['blocks'])} blocks",
        f"  bytes                {thousands(document['bytes'])}",
        *_notes(document),
    ])  # fmt: skip


def _launch(document: dict[str, Any]) -> str:
    return f"{document['tool']}   {document['source']} : {document['kernel']}   {launch_shape(document)}"


def _notes(document: dict[str, Any]) -> list[str]:
    return ["", *(f" note: {note}" for note in document["notes"])] if document["notes"] else []


# -- The result of the reuse-distance cache model as terminal text.

_MEANING = {
    "hits": "",
    "compulsory": "first use of a line",
    "capacity": "also misses in a fully associative cache of this size",
    "associativity": "conflict: too few ways, or an uneven set index",
    "latency": "the line is in flight; causes no further request",
    "mshr": "would not miss with unlimited MSHRs",
}
_MISSES = ("compulsory", "capacity", "associativity", "latency", "mshr")
_BAR, _LISTED_INSTRUCTIONS = 30, 12


def cache_text(document: dict[str, Any], style: Style) -> str:
    """`document` is `CacheResult.to_json()`."""
    settings = document["settings"]
    off = f", without {', '.join(settings['without'])}" if settings["without"] else ""
    lines = [
        f"{document['tool']}   {document['kernel']}   {document['gpu']}   reuse-distance cache model",
        "",
        f"  L1             {thousands(settings['size_bytes'])} B, {settings['ways']} ways, {settings['line_bytes']} B lines, "
        f"{settings['sets']} sets ({settings['index']}), {settings['mshrs']} MSHRs",
        f"  latencies      hit {settings['hit_latency']}, miss {settings['miss_latency']} + |N(0, {settings['sigma']:g})| "
        f"time stamps, seed {settings['seed']}, issue by {settings['issue']}{off}",
        f"  modelled       {thousands(document['blocks'])} blocks, {thousands(document['threads'])} threads on "
        f"{thousands(document['cores'])} cores, at most {document['blocks_per_core']} blocks on each",
        f"  accesses       {thousands(document['accesses'])} of threads, {thousands(document['transactions'])} transactions, "
        f"{thousands(document['cancelled'])} accesses reissued because no MSHR was free",
        f"  miss rate      {style.strong(_percent(document['miss_rate']))}; "
        f"{_percent(document['miss_rate_without_latency'])} without latency misses, as in hardware counters",
        "",
        *_miss_classes(document),
    ]
    if document["l2"]:
        l2 = document["l2"]
        lines += ["", f"  L2             {thousands(l2['transactions'])} requests, {_percent(l2['miss_rate'])} miss"]
    if document["instructions"]:
        lines += ["", *_instructions(document["instructions"])]
    return "\n".join([*lines, *(f"  note: {note}" for note in document["notes"])])


def _miss_classes(document: dict[str, Any]) -> list[str]:
    total, names = max(1, document["transactions"]), list(_MEANING)
    return aligned([
        Column("", names, left=True),
        Column("transactions", [thousands(document[name]) for name in names]),
        Column("share", [_percent(document[name] / total) for name in names]),
        Column("", ["#" * round(_BAR * document[name] / total) for name in names], left=True),
        Column("meaning", [_MEANING[name] for name in names], left=True),
    ])


def _instructions(rows: Sequence[dict[str, Any]]) -> list[str]:
    shown = rows[:_LISTED_INSTRUCTIONS]
    counts = ("transactions", "misses", *_MISSES)
    lines = aligned([
        Column("PTX line", [thousands(row["ptx_line"]) for row in shown]),
        *(Column(name, [thousands(row[name]) for row in shown]) for name in counts),
        Column("source", [f"{row['file'].rpartition('/')[2]}:{row['line']}" if row["line"] else "" for row in shown], left=True),
        Column("opcode", [row["opcode"] for row in shown], left=True),
    ])
    more = len(rows) - len(shown)
    return [*lines, f" and {thousands(more)} more; --json prints all"] if more else lines


def cache_sweep_text(rows: Sequence[dict[str, Any]], kernel: str, gpu: str) -> str:
    """The rows of a sweep as a table."""
    counts = ("size", "ways", "line", "mshrs", "misses", *_MISSES)
    columns = [Column(name, [thousands(row[name]) for row in rows]) for name in counts]
    table = aligned([*columns, Column("miss rate", [_percent(row["miss_rate"]) for row in rows])])
    return "\n".join([f"{kernel}   {gpu}   reuse-distance cache model, {thousands(len(rows))} caches", "", *table])


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


# -- Pictures of the reuse-distance cache model: the cumulative curve of distances, and a sweep as bars as in HPCA 2014, Fig. 12.

def curve_svg(curve: Sequence[tuple[int, float]], name: str, settings: dict[str, Any]) -> str:
    """Share of transactions below each distance (`CacheResult.curve`) over lines, on a logarithmic scale."""
    capacity = settings["size_bytes"] // settings["line_bytes"]
    return svg(Lines(
        title=f"{name}: transactions below a reuse distance",
        x=Axis("lines of a fully associative LRU cache", scale=LOG_FROM_0),
        y=Axis("transactions", "%"),
        xs=[lines for lines, _ in curve],
        series=[Series("transactions", [100 * share for _, share in curve])],
        steps=True,
        marks=[(capacity, f"{capacity} lines: this cache")],
    ))  # fmt: skip


def cache_sweep_svg(rows: Sequence[dict[str, Any]], axes: Sequence[str], name: str) -> str:
    """A bar for each row, its misses by class as shares of the transactions; `axes` label it."""
    groups = [", ".join(f"{axis} {_short(row[axis])}" for axis in axes) for row in rows]
    series = [Series(kind, [100 * row[kind] / max(1, row["transactions"]) for row in rows]) for kind in _MISSES]
    return svg(Bars(f"{name}: miss rate by class", Axis("miss rate", "%"), groups, series, stacked=True))


def _short(number: int) -> str:
    return f"{number // 1024}K" if number >= 1024 and number % 1024 == 0 else str(number)


# -- An interval profile as terminal text: its totals and its longest intervals.

_LISTED_INTERVALS = 12


def profile_text(document: dict[str, Any], tool: str, gpu: str) -> str:
    """`document` is the interchange JSON, made on `gpu`. Lists the intervals with the longest stalls, in program order."""
    intervals = document["intervals"]
    stalls, instructions = (sum(interval[key] for interval in intervals) for key in ("stall_cycles", "instructions"))
    lines = [
        f"{tool}   {document['kernel']}   {gpu}   interval profile of the representative warp",
        "",
        f"  warps per SM         {document['warps_per_sm']}",
        f"  warp instructions    {thousands(document['total_warp_instructions'])} in the launch, "
        f"{thousands(instructions)} in this warp",
        f"  intervals            {thousands(len(intervals))}, with {thousands(stalls)} stall cycles",
        f"  LLC miss ratio       {three_digits(document['llc_miss_ratio'])}",
        "",
        f" {'interval':>8}{'instructions':>14}{'stall cycles':>14}  {'cause':<9}{'pc':>6}"
        f"{'mem. instr.':>13}{'read misses':>13}{'write misses':>14}{'DRAM reads':>12}{'DRAM writes':>13}",
    ]
    longest = sorted(range(len(intervals)), key=lambda i: -intervals[i]["stall_cycles"])[:_LISTED_INTERVALS]
    lines += [_interval_row(number, intervals[number]) for number in sorted(longest)]
    if len(intervals) > _LISTED_INTERVALS:
        lines.append(f" the {_LISTED_INTERVALS} longest stalls of {thousands(len(intervals))}; --json or -o FILE writes all")
    return "\n".join(lines)


def _interval_row(number: int, interval: dict[str, Any]) -> str:
    pc = "" if interval.get("pc") is None else str(interval["pc"])
    widths = {"memory_instructions": 13, "read_misses": 13, "write_misses": 14, "dram_reads": 12, "dram_writes": 13}
    figures = "".join(f"{three_digits(interval[name]):>{width}}" for name, width in widths.items())
    head = f" {number:>8}{thousands(interval['instructions']):>14}{three_digits(interval['stall_cycles']):>14}"
    return f"{head}  {interval['cause']:<9}{pc:>6}{figures}"
