"""Where a prediction comes from: tool, GPU, kernel, trace and method. Stored with every result, so that it can be made again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from warpsight._version import __version__
from warpsight.gpu.describe import order_document, resolved, spec_hash
from warpsight.gpu.spec import GpuSpec, changed
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.kernels.launch import LaunchShape
from warpsight.pipeline.caches_before import at_start, notes_on
from warpsight.pipeline.request import Method
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace

TOOL = f"warpsight {__version__}"


def trace_provenance(trace: KernelTrace, gpu: GpuSpec, method: Method, profile_notes: tuple[str, ...]) -> dict[str, Any]:
    """The provenance of a prediction made from `trace`: JSON values. `notes` are for every reader."""
    header = trace.header
    notes = [*trace.notes, *notes_on(method.caches_before, gpu, trace)]
    sampling = trace.extra.get("sampling")
    if sampling is not None:
        notes.append(sampling_note(sampling))
    elif header.sampled_blocks and "accelsim" not in trace.extra:
        sample = f"{header.sampled_blocks:,} of {header.blocks:,} blocks ({100 * header.sampled_blocks / header.blocks:.2g} %)"
        notes.append(f"made from {sample}, chosen at random; all were executed")
    return {
        "tool": TOOL,
        "gpu": resolved(gpu),
        "gpu_hash": spec_hash(gpu),
        "launch": {
            "source": header.source, "mangled": header.mangled, "grid": list(header.grid), "block": list(header.block),
            **cluster_of(header),
            "static_shared_bytes": header.static_shared_bytes, "dynamic_shared_bytes": header.dynamic_shared_bytes,
            "registers_per_thread": header.registers_per_thread, "registers_from": header.registers_from, "level": header.level,
            "target": header.target,
        },
        "kernel_hash": header.kernel_hash,
        "input_hash": header.input_hash,
        "trace": {"origin": trace.origin or "emulated", "tool_version": header.tool_version, "schema": header.schema},
        **({"sampling": sampling} if sampling is not None else {}),
        "method": {
            **asdict(method), "caches_before": at_start(method.caches_before, gpu, trace),
            "order_timing": order_document(gpu, method.order),
        },
        "profile_notes": list(profile_notes),
        "notes": notes,
    }


def sampling_note(sampling: dict[str, Any]) -> str:
    """What was sampled, and how far the cycles can be off because of it."""
    share = 100 * sampling["executed_blocks"] / sampling["blocks"]
    accuracy, half_width = 100 * sampling["accuracy"], 100 * sampling["half_width"]
    wide = f", not {accuracy:g} %: the whole launch is longer than --max-instructions" if half_width > accuracy else ""
    return (
        f"sampled: {sampling['waves']} of {sampling['of_waves']:,.0f} waves were measured, and {sampling['executed_blocks']:,} of "
        f"{sampling['blocks']:,} blocks executed ({share:.2g} %); 95 % confidence interval of the cycles: "
        f"+-{half_width:.2g} %{wide}; --exact runs every block"
    )


def cluster_of(launch: LaunchShape) -> dict[str, Any]:
    """The shape of a cluster under the key `cluster`, where the launch has clusters."""
    return {"cluster": list(launch.cluster)} if launch.cluster is not None and launch.cluster_blocks > 1 else {}


def profile_provenance(profile: IntervalProfile, gpu: GpuSpec, origin: str) -> dict[str, Any]:
    """The provenance of a prediction made from an interval profile that was read from `origin`."""
    return {"tool": TOOL, "gpu": resolved(gpu), "gpu_hash": spec_hash(gpu), "profile": origin, "notes": list(profile.notes)}


def merged_provenance(by_model: dict[str, Any], by_run: dict[str, Any]) -> dict[str, Any]:
    """What the model says of its answer and what the run knows, the notes of the model and of the board's power among the notes."""
    parts = (by_model.get(name) for name in ("model", "power"))
    notes = [part["note"] for part in parts if isinstance(part, dict) and part.get("note")]
    return {**by_model, **by_run, "notes": [*by_run["notes"], *notes]}


def running(gpu: GpuSpec, prediction: Prediction) -> GpuSpec:
    """`gpu` at the clock of the prediction, which a power limit may have lowered."""
    power = prediction.provenance.get("power", {})
    return changed(gpu, {"core_clock": power["clock_hz"]}) if "note" in power else gpu
