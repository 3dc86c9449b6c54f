"""Files: profiles read and written, traces stored in folders or written for other tools, sources that come with Warpsight.

The summary of a stored trace says what was kept and how fast it was made.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.inputs import read_input
from warpsight.base.outputs import write_whole
from warpsight.base.progress import Watch, stage
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interchange import read_profile, write_profile
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.pipeline.autotune import prepare_tuned
from warpsight.pipeline.provenance import TOOL, cluster_of
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import ListingSink, convert_launches, obtain_trace, run_ready
from warpsight.traces.exporters.accelsim.writer import KERNEL, LIST, export_accelsim
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import trace_bytes


def read_profile_file(path: str) -> IntervalProfile:
    """The profile in the file `path`, or on stdin for ``-``. Raises `UsageError` if it cannot be read, else `FormatError`."""
    if path == "-":
        return read_profile(sys.stdin.buffer.read(), origin="<stdin>")
    try:
        text = read_input(path)
    except OSError as error:
        remedy = "`warpsight profile KERNEL -o FILE` makes one"
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=remedy) from None
    return read_profile(text, origin=path)


def write_profile_file(profile: IntervalProfile, path: str) -> None:
    """Write the interchange JSON to the file `path`, replacing it. Raises `UsageError` if that cannot be done."""
    try:
        write_whole(path, write_profile(profile))
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=path, remedy="name another file with -o") from None


def save_package_files(package: str, names: Sequence[str], folder: str | Path, conflict: str) -> list[Path]:
    """Write the files `names` of `package` into `folder` and give their paths. Raises `UsageError`, which says `conflict`, rather
    than replace a file with other content, and if a file cannot be written.
    """
    texts = {Path(folder) / name: files(package).joinpath(name).read_text("utf-8") for name in names}
    try:
        for path, text in texts.items():
            if path.exists() and read_input(path).decode("utf-8", "replace") != text:
                raise UsageError(conflict, place=str(path), remedy="name another folder")
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            write_whole(path, text)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=str(folder), remedy="name another folder") from None
    return list(texts)


def trace_into(
    request: KernelRequest, folder: str | Path, *, gpu: GpuSpec | None = None, overwrite: bool = False, watch: Watch | None = None
) -> KernelTrace:
    """Run the kernel and stream its trace into `folder`; nothing is left there if the run fails.

    `gpu` says whose machine code is executed at level `sass`. Raises UsageError when `request` is already a trace or
    the folder must not be overwritten, and what `trace_kernel` raises.
    """
    request.refuse_import_options()
    if request.is_trace:
        remedy = "copy the folder, or give the kernel it was made from"
        raise UsageError("is already a trace", place=str(request.path), remedy=remedy)
    ready = prepare_tuned(request, gpu, run_ready, watch)
    with ListingSink(folder, overwrite=overwrite, notes=ready.notes) as sink:
        return run_ready(ready, sink=sink, watch=watch)


def store_trace(
    request: KernelRequest, folder: str | Path, *, gpu: GpuSpec | None = None, overwrite: bool = False, watch: Watch | None = None
) -> dict[str, Any]:
    """`trace_into`, and the summary document: counts, `emulation_seconds` (s), `trace_bytes` on disk."""
    return summary_of(trace_into(request, folder, gpu=gpu, overwrite=overwrite, watch=watch), folder)


def convert_traces(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> list[dict[str, Any]]:
    """Store the launches of another tool's trace as our own: a summary each, as of `store_trace`."""
    return [summary_of(trace, trace.origin) for trace in convert_launches(request, folder, overwrite=overwrite, watch=watch)]


def summary_of(trace: KernelTrace, folder: str | Path) -> dict[str, Any]:
    """The summary document of the trace that was stored in `folder`."""
    header = trace.header
    return {
        "tool": TOOL, "kernel": header.kernel, "source": header.source, "grid": list(header.grid), "block": list(header.block),
        **cluster_of(header), "level": header.level, "target": header.target, "warp_instructions": header.warp_instructions,
        "thread_instructions": header.thread_instructions, "warps": header.warps,
        "recorded_blocks": header.recorded_blocks, "paths": len(trace.paths),
        "registers_per_thread": header.registers_per_thread, "registers_from": header.registers_from,
        "emulation_seconds": header.emulation_seconds, "trace_bytes": trace_bytes(folder), "folder": str(folder),
        "kernel_hash": header.kernel_hash, "input_hash": header.input_hash, "notes": list(trace.notes),
    }


def export_trace(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> dict[str, Any]:
    """Write the trace of `request` to `folder` as Accel-Sim reads it: a document with counts and notes.

    Raises UsageError where the folder is in the way, and what obtaining the trace raises.
    """
    trace = obtain_trace(request, watch=watch)
    export = export_accelsim(trace, folder, overwrite=overwrite, progress=stage(watch, "writing the trace"))
    return {
        "tool": TOOL, "kernel": trace.header.kernel, "source": trace.header.source, "grid": list(trace.header.grid),
        "block": list(trace.header.block), **cluster_of(trace.header), "folder": str(export.folder), "files": [LIST, KERNEL],
        "blocks": export.blocks, "warps": export.warps, "lines": export.instructions, "bytes": export.bytes,
        "notes": [*trace.notes, *export.notes],
    }
