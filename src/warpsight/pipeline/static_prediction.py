"""Predictions from a kernel's program text alone: counted, never run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.gpu.describe import resolved, spec_hash
from warpsight.gpu.occupancy import occupancy, resident_blocks
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile, LaunchShape
from warpsight.intervals.static.counts import static_counts
from warpsight.intervals.static.loops import StaticHints
from warpsight.isa.ptx.lexer import lines_of
from warpsight.kernels.mangling import display_name
from warpsight.models.base import get_model
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.provenance import TOOL, cluster_of, merged_provenance
from warpsight.pipeline.request import KernelRequest
from warpsight.result.prediction import Prediction

_ONLY_COUNTS = frozenset({"counts"})


def predict_static(request: KernelRequest, gpu: GpuSpec, models: Sequence[str], hints: StaticHints) -> list[Prediction]:
    """One prediction per model, for models that take nothing but instruction counts.

    Raises UsageError for another model or a trace folder, what `prepare` raises, and what `static_counts` raises.
    """
    chosen = [get_model(name) for name in models]
    for model in chosen:
        if model.needs != _ONLY_COUNTS:
            message = f'the model "{model.name}" needs more than the program text of a kernel'
            raise UsageError(message, place="static", remedy="use `model=mwp-cwp`, or leave `static` out")
    if request.is_trace:
        message = f"{request.path} is a trace folder, which records the whole execution"
        raise UsageError(message, place="static", remedy="leave `static` out")
    ready = prepare(request)
    if ready.source.cubin:
        what = f"counts the instructions of PTX, and {ready.source.path} is machine code"
        raise UsageError(what, place="static", remedy="leave `static` out, or give the source or its PTX")
    ready.check_fit(gpu)
    profile = static_profile(ready, gpu, hints)
    predictions = [model.predict(profile, gpu) for model in chosen]
    provenance = _provenance(ready, gpu, hints)
    return [replace(each, provenance=merged_provenance(each.provenance, provenance)) for each in predictions]


def static_profile(ready: ReadyLaunch, gpu: GpuSpec, hints: StaticHints) -> IntervalProfile:
    """A profile that has counts and a launch, and nothing that models of intervals need."""
    launch, use = ready.launch, ready.registers
    shared = use.static_shared_bytes + launch.shared_bytes
    resident = occupancy(gpu, launch.threads_per_block, use.registers, shared, launch.cluster_blocks)
    with lines_of(ready.source.path):
        counts = static_counts(ready.source, launch, gpu, resident.blocks_per_sm, hints)
    none = np.zeros(0)
    return IntervalProfile(
        kernel=display_name(launch.kernel),
        warps_per_sm=resident_blocks(gpu, launch.blocks, resident.blocks_per_sm, launch.cluster_blocks) * counts.warps_per_block,
        total_warp_instructions=round(counts.instructions * counts.blocks * counts.warps_per_block),
        llc_miss_ratio=1.0,
        instructions=none, stall_cycles=none, cause=np.zeros(0, dtype=np.int8), pc=np.zeros(0, dtype=np.int32),
        memory_instructions=none, read_misses=none, write_misses=none, dram_reads=none, dram_writes=none,
        launch=LaunchShape(
            launch.blocks, counts.warps_per_block, resident.blocks_per_sm, resident.limiter, float(resident.fraction),
            launch.cluster_blocks,
        ),
        counts=counts,
    )


def _provenance(ready: ReadyLaunch, gpu: GpuSpec, hints: StaticHints) -> dict[str, Any]:
    launch, use = ready.launch, ready.registers
    notes = ["counted from the program text; nothing was executed", *ready.notes]
    if hints.both_paths:
        notes.append("both sides of branches that depend on data are counted: an upper bound")
    return {
        "tool": TOOL,
        "gpu": resolved(gpu),
        "gpu_hash": spec_hash(gpu),
        "launch": {
            "source": ready.source.path, "mangled": launch.kernel, "grid": list(launch.grid), "block": list(launch.block),
            **cluster_of(launch),
            "static_shared_bytes": use.static_shared_bytes, "dynamic_shared_bytes": launch.shared_bytes,
            "registers_per_thread": use.registers, "target": ready.source.target,
        },
        "method": {
            "static": True, "trips": dict(hints.trips), "coalesced": sorted(hints.coalesced),
            "uncoalesced": sorted(hints.uncoalesced), "both_paths": hints.both_paths,
        },
        "notes": notes,
    }
