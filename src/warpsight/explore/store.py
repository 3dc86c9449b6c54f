"""Traces kept in folders, with the figures that say what was kept and how fast it was made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import UsageError
from warpsight.explore.kernel_input import prepare
from warpsight.explore.pipeline import run_ready
from warpsight.explore.provenance import TOOL
from warpsight.explore.request import KernelRequest
from warpsight.explore.watch import Watch

if TYPE_CHECKING:
    from warpsight.trace.schema import KernelTrace


def trace_into(request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None) -> KernelTrace:
    """Run the kernel and stream its trace into `folder`; nothing is left there if the run fails.

    Raises UsageError when `request` is a trace already or the folder must not be overwritten, and what `trace_kernel` raises.
    """
    from warpsight.explore.ptx_lines import WithPtx
    from warpsight.trace.store import FolderSink

    request.refuse_import_options()
    if request.is_trace:
        remedy = "copy the folder, or give the kernel it was made from"
        raise UsageError("is a trace already", place=str(request.path), remedy=remedy)
    ready = prepare(request)
    with FolderSink(folder, overwrite=overwrite, notes=ready.notes) as sink:
        return run_ready(ready, sink=WithPtx(sink, ready.source.ptx), watch=watch)


def store_trace(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> dict[str, Any]:
    """`trace_into`, and the summary document: counts, `emulation_seconds` (s), `trace_bytes` on disk."""
    return summary_of(trace_into(request, folder, overwrite=overwrite, watch=watch), folder)


def convert_traces(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> list[dict[str, Any]]:
    """Store the launches of another tool's trace as our own: a summary each, as of `store_trace`."""
    from warpsight.explore.imported import convert

    return [summary_of(trace, trace.origin) for trace in convert(request, folder, overwrite=overwrite, watch=watch)]


def summary_of(trace: KernelTrace, folder: str | Path) -> dict[str, Any]:
    """The summary document of the trace that was stored in `folder`."""
    from warpsight.trace.store import trace_bytes

    header = trace.header
    return {
        "tool": TOOL,
        "kernel": header.kernel,
        "source": header.source,
        "grid": list(header.grid),
        "block": list(header.block),
        "target": header.target,
        "warp_instructions": header.warp_instructions,
        "thread_instructions": header.thread_instructions,
        "warps": header.warps,
        "recorded_blocks": header.recorded_blocks,
        "paths": len(trace.paths),
        "registers_per_thread": header.registers_per_thread,
        "registers_from": header.registers_from,
        "emulation_seconds": header.emulation_seconds,
        "trace_bytes": trace_bytes(folder),
        "folder": str(folder),
        "kernel_hash": header.kernel_hash,
        "input_hash": header.input_hash,
        "notes": list(trace.notes),
    }
