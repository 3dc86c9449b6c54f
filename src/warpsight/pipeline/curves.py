"""One kernel at several residencies (GPUMech, MICRO 2014, Fig. 16), or by several representative warps (Fig. 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch
from warpsight.gpu.occupancy import Occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.build import build_profile
from warpsight.pipeline.predict import ProfiledTrace, predict_profiled, profile_trace, trace_occupancy
from warpsight.pipeline.request import DEFAULT_METHOD, REPRESENTATIVES, Method
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace


def over_warps(
    trace: KernelTrace,
    gpu: GpuSpec,
    models: Sequence[str],
    warps: tuple[int, int],
    method: Method = DEFAULT_METHOD,
    *,
    watch: Watch | None = None,
) -> list[Prediction]:
    """Predictions with from the first to the second of `warps` on an SM: for each number of whole blocks within, one per model.

    Caches and profile are made again for each, since more warps may evict each other's lines. The provenance says
    `varied: {"warps_per_sm": W}`. Raises UsageError when no number of blocks that fits an SM lies within.
    """
    answers: list[Prediction] = []
    for resident in _residencies(trace, gpu, *warps):
        profiled = profile_trace(trace, gpu, method, resident=resident, watch=watch)
        answers += _varied(profiled, gpu, models, "warps_per_sm", resident.warps_per_sm)
    return answers


def over_representatives(
    trace: KernelTrace, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> list[Prediction]:
    """Predictions by every way to choose the representative warp, one per model each; the caches are simulated once.

    The provenance says `varied: {"representative": NAME}`.
    """
    first = profile_trace(trace, gpu, replace(method, representative=REPRESENTATIVES[0]), watch=watch)
    answers: list[Prediction] = []
    for name in REPRESENTATIVES:
        profile = build_profile(trace, first.misses, gpu, first.occupancy, representative=name)
        profiled = replace(first, profile=profile, method=replace(method, representative=name))
        answers += _varied(profiled, gpu, models, "representative", name)
    return answers


def _varied(profiled: ProfiledTrace, gpu: GpuSpec, models: Sequence[str], key: str, value: Any) -> list[Prediction]:
    """The predictions, each saying which of the several it is."""
    answers = predict_profiled(profiled, gpu, models)
    return [replace(answer, provenance={**answer.provenance, "varied": {key: value}}) for answer in answers]


def _residencies(trace: KernelTrace, gpu: GpuSpec, least: int, most: int) -> list[Occupancy]:
    """Every residency of whole blocks with `least` to `most` warps, as far as blocks fit an SM and the launch has them."""
    full = trace_occupancy(trace, gpu)
    header = trace.header
    blocks = min(full.blocks_per_sm, -(-header.blocks // gpu.sm_count))
    counts = [count for count in range(1, blocks + 1) if least <= count * header.warps_per_block <= most]
    if not counts:
        limit = f"{full.limiter} of {gpu.name} allow" if blocks == full.blocks_per_sm else "the launch has for each SM"
        what = f"no whole number of blocks has {least} to {most} warps: a block has {header.warps_per_block}"
        remedy = f"up to {blocks * header.warps_per_block} warps are what {limit}"
        raise UsageError(what, place="--warps", remedy=remedy)
    return [
        full
        if count == full.blocks_per_sm
        else replace(
            full,
            blocks_per_sm=count,
            warps_per_sm=count * header.warps_per_block,
            fraction=count * header.warps_per_block / gpu.sm.max_warps,
            limiter="--warps",
        )
        for count in counts
    ]
