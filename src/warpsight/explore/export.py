"""Traces for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsight.explore.pipeline import obtain_trace
from warpsight.explore.provenance import TOOL
from warpsight.explore.request import KernelRequest
from warpsight.explore.watch import Watch, stage


def export_trace(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> dict[str, Any]:
    """Write the trace of `request` to `folder` as Accel-Sim reads it: a document with counts and notes.

    Raises UsageError where the folder is in the way, and what obtaining the trace raises.
    """
    from warpsight.trace.exporters.accelsim.writer import KERNEL, LIST, export_accelsim

    trace = obtain_trace(request, watch=watch)
    done = export_accelsim(trace, folder, overwrite=overwrite, progress=stage(watch, "writing the trace"))
    return {
        "tool": TOOL,
        "kernel": trace.header.kernel,
        "source": trace.header.source,
        "grid": list(trace.header.grid),
        "block": list(trace.header.block),
        "folder": str(done.folder),
        "files": [LIST, KERNEL],
        "blocks": done.blocks,
        "warps": done.warps,
        "lines": done.instructions,
        "bytes": done.bytes,
        "notes": [*trace.notes, *done.notes],
    }
