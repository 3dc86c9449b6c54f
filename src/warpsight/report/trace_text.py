"""What a trace holds, as terminal text."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import duration, thousands
from warpsight.report.prediction_text import dimensions


def trace_text(document: dict[str, Any]) -> str:
    """The summary that `warpsight trace` prints: what ran, how much of it, how fast, how large."""
    seconds, count = document["emulation_seconds"], document["warp_instructions"]
    rate = f" ({thousands(count / seconds)} warp instructions per second)" if seconds else ""
    lines = [
        f"{document['tool']}   {document['source']} : {document['kernel']}   "
        f"grid {dimensions(document['grid'])} block {dimensions(document['block'])}   {document['target']}",
        "",
        f"  warp instructions    {thousands(count)}",
        f"  thread instructions  {thousands(document['thread_instructions'])}",
        f"  warps                {thousands(document['warps'])}, {thousands(document['paths'])} distinct paths",
        f"  registers            {document['registers_per_thread']} per thread, from {document['registers_from']}",
        f"  {'reading' if document['registers_from'] == 'trace' else 'emulation':<20} {duration(seconds)}{rate}",
        f"  trace                {document['folder']}, {thousands(document['trace_bytes'])} bytes",
    ]
    notes = [f" note: {note}" for note in document["notes"]]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def export_text(document: dict[str, Any]) -> str:
    """What `warpsight trace export` has written."""
    lines = [
        f"{document['tool']}   {document['source']} : {document['kernel']}   "
        f"grid {dimensions(document['grid'])} block {dimensions(document['block'])}",
        "",
        f"  folder               {document['folder']}: {', '.join(document['files'])}",
        f"  instruction lines    {thousands(document['lines'])}",
        f"  warps                {thousands(document['warps'])} in {thousands(document['blocks'])} blocks",
        f"  bytes                {thousands(document['bytes'])}",
    ]
    notes = [f" note: {note}" for note in document["notes"]]
    return "\n".join([*lines, *([""] if notes else []), *notes])
