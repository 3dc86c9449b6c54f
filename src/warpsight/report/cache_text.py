"""The answer of the reuse-distance cache model as terminal text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.base.format import thousands
from warpsight.report.columns import Column, aligned
from warpsight.report.style import Style

_MEANING = {
    "hits": "",
    "compulsory": "first use of a line",
    "capacity": "a fully associative cache of this size would miss too",
    "associativity": "it would not: too few ways, or an uneven set index",
    "latency": "the line is on its way; asks for nothing more",
    "mshr": "would not miss with unlimited miss registers",
}
_BAR, _LISTED = 30, 12


def cache_text(document: dict[str, Any], style: Style) -> str:
    """`document` is `CacheResult.to_json()`."""
    settings = document["settings"]
    cache = (
        f"{thousands(settings['size_bytes'])} B, {settings['ways']} ways, {settings['line_bytes']} B lines, "
        f"{settings['sets']} sets ({settings['index']}), {settings['mshrs']} MSHRs"
    )
    off = f", without {', '.join(settings['without'])}" if settings["without"] else ""
    lines = [
        f"{document['tool']}   {document['kernel']}   {document['gpu']}   reuse-distance cache model",
        "",
        f"  L1             {cache}",
        f"  latencies      hit {settings['hit_latency']}, miss {settings['miss_latency']} + |N(0, {settings['sigma']:g})| "
        f"time stamps, seed {settings['seed']}, issue by {settings['issue']}{off}",
        f"  modelled       {thousands(document['blocks'])} blocks, {thousands(document['threads'])} threads on "
        f"{thousands(document['cores'])} cores, at most {document['blocks_per_core']} blocks on each",
        f"  accesses       {thousands(document['accesses'])} of threads, {thousands(document['transactions'])} transactions, "
        f"{thousands(document['cancelled'])} accesses issued again for want of an MSHR",
        f"  miss rate      {style.strong(_percent(document['miss_rate']))}; "
        f"{_percent(document['miss_rate_without_latency'])} without latency misses, as hardware counters count",
        "",
        *_classes(document),
    ]
    if document["l2"]:
        l2 = document["l2"]
        lines += ["", f"  L2             {thousands(l2['transactions'])} requests, {_percent(l2['miss_rate'])} miss"]
    if document["instructions"]:
        lines += ["", *_instructions(document["instructions"])]
    return "\n".join([*lines, *(f"  note: {note}" for note in document["notes"])])


def _classes(document: dict[str, Any]) -> list[str]:
    total = max(1, document["transactions"])
    names = list(_MEANING)
    return aligned([
        Column("", names, left=True),
        Column("transactions", [thousands(document[name]) for name in names]),
        Column("share", [_percent(document[name] / total) for name in names]),
        Column("", ["#" * round(_BAR * document[name] / total) for name in names], left=True),
        Column("what it means", [_MEANING[name] for name in names], left=True),
    ])


def _instructions(rows: Sequence[dict[str, Any]]) -> list[str]:
    shown = rows[:_LISTED]
    named = ("transactions", "misses", "compulsory", "capacity", "associativity", "latency", "mshr")
    lines = aligned([
        Column("PTX line", [thousands(row["ptx_line"]) for row in shown]),
        *(Column(name, [thousands(row[name]) for row in shown]) for name in named),
        Column("source", [f"{row['file'].rpartition('/')[2]}:{row['line']}" if row["line"] else "" for row in shown], left=True),
        Column("opcode", [row["opcode"] for row in shown], left=True),
    ])
    more = len(rows) - len(shown)
    return [*lines, f" and {thousands(more)} more; --json gives all"] if more else lines


def sweep_text(rows: Sequence[dict[str, Any]], kernel: str, gpu: str) -> str:
    """The rows of a sweep as a table."""
    named = ("size", "ways", "line", "mshrs", "misses", "compulsory", "capacity", "associativity", "latency", "mshr")
    columns = [Column(name, [thousands(row[name]) for row in rows]) for name in named]
    table = aligned([*columns, Column("miss rate", [_percent(row["miss_rate"]) for row in rows])])
    return "\n".join([f"{kernel}   {gpu}   reuse-distance cache model, {thousands(len(rows))} caches", "", *table])


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
