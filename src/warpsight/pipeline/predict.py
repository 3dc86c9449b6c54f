"""Predictions of one input that has several rows: launches of an application, residencies, representative warps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch, stage
from warpsight.gpu.occupancy import Occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.evaluate import Designs, evaluate, known_models, predict_trace, trace_occupancy
from warpsight.pipeline.request import DEFAULT_METHOD, REPRESENTATIVES, KernelRequest, Method
from warpsight.pipeline.tracing import launches_of, obtain_trace
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace


def predict_kernel(
    request: KernelRequest, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> list[Prediction]:
    """From a kernel, or a trace folder, to one prediction per model."""
    known_models(models)
    return predict_trace(obtain_trace(request, gpu=gpu, watch=watch), gpu, models, method, watch=watch)


def predict_launches(
    request: KernelRequest, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> list[Prediction]:
    """A prediction for each launch and model, then for each model the application's total.

    The provenance says `varied: {"launch": N, "kernel": NAME}`, of totals `{"launch": "total", ...}`.
    """
    known_models(models)
    predictions: list[Prediction] = []
    for launch in launches_of(request):
        trace = launch.trace(progress=stage(watch, f"reading launch {launch.number}"))
        for each in predict_trace(trace, gpu, models, method, watch=watch):
            predictions.append(_with_varied(each, {"launch": launch.number, "kernel": each.kernel}))
    return [*predictions, *(application_total([p for p in predictions if p.model == model]) for model in models)]


def application_total(launches: Sequence[Prediction]) -> Prediction:
    """The application: launches one after the other by one model. IPC is all instructions over the sum of the cycles (MDM section
    V).

    CPI and its stack are means over instructions; what has no sum (what bounds it, class, limiter) is of the longest launch.
    """
    cycles, instructions = [p.cycles for p in launches], [float(p.warp_instructions) for p in launches]

    def mean(values: Sequence[float], weights: Sequence[float]) -> float:
        return sum(v * w for v, w in zip(values, weights, strict=True)) / max(sum(weights), 1e-300)

    known = [(p.dpki, float(p.warp_instructions)) for p in launches if p.dpki is not None]
    names = dict.fromkeys(name for p in launches for name in p.cpi_stack)
    stack = {name: mean([p.cpi_stack.get(name, 0.0) for p in launches], instructions) for name in names}
    merged = replace(
        max(launches, key=lambda p: p.cycles), kernel=f"{len(launches)} launches",
        cycles=sum(cycles), seconds=sum(p.seconds for p in launches), warp_instructions=sum(p.warp_instructions for p in launches),
        ipc_sm_warp=mean([p.ipc_sm_warp for p in launches], cycles),
        ipc_gpu_warp=mean([p.ipc_gpu_warp for p in launches], cycles),
        ipc_gpu_thread=mean([p.ipc_gpu_thread for p in launches], cycles),
        cpi=sum(stack.values()), cpi_stack=stack,
        dpki=mean([d for d, _ in known], [w for _, w in known]) if known else None,
        occupancy=mean([p.occupancy for p in launches], cycles),
    )
    return _with_varied(merged, {"launch": "total", "kernel": merged.kernel})


def _with_varied(prediction: Prediction, varied: dict[str, Any]) -> Prediction:
    return replace(prediction, provenance={**prediction.provenance, "varied": varied})


# -- One kernel at several residencies (GPUMech, MICRO 2014, Fig. 16), or by several representative warps (Fig. 7).

def over_warps(
    trace: KernelTrace, gpu: GpuSpec, models: Sequence[str], warps: tuple[int, int], method: Method = DEFAULT_METHOD, *,
    watch: Watch | None = None,
) -> list[Prediction]:
    """Predictions for each number of whole blocks with from the first to the second of `warps` on an SM, one per model.

    Caches and profile are evaluated again for each, since more warps may evict each other's lines. The provenance has
    `varied: {"warps_per_sm": W}`. Raises UsageError when no number of blocks that fits an SM has so many warps.
    """
    residencies = _residencies(trace, gpu, *warps)
    designs = [Designs(gpu, method, resident=resident) for resident in residencies]
    return [
        _with_varied(prediction, {"warps_per_sm": resident.warps_per_sm})
        for resident, evaluation in zip(residencies, evaluate(trace, designs, models, watch=watch), strict=True)
        for prediction in evaluation.predictions()
    ]


def over_representatives(
    trace: KernelTrace, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> list[Prediction]:
    """Predictions by every choice of the representative warp, one per model each; the caches are simulated once.

    The provenance has `varied: {"representative": NAME}`.
    """
    designs = [Designs(gpu, replace(method, representative=name)) for name in REPRESENTATIVES]
    return [
        _with_varied(prediction, {"representative": evaluation.designs.method.representative})
        for evaluation in evaluate(trace, designs, models, watch=watch)
        for prediction in evaluation.predictions()
    ]


def _residencies(trace: KernelTrace, gpu: GpuSpec, least: int, most: int) -> list[Occupancy]:
    """Every residency of whole blocks with `least` to `most` warps, as far as blocks fit an SM and the launch has them."""
    full = trace_occupancy(trace, gpu)
    header = trace.header
    blocks = min(full.blocks_per_sm, -(-header.blocks // gpu.sm_count))
    counts = [count for count in range(1, blocks + 1) if least <= count * header.warps_per_block <= most]
    if not counts:
        limit = f"{full.limiter} of {gpu.name} allow" if blocks == full.blocks_per_sm else "the launch has, per SM,"
        message = f"no whole number of blocks has {least} to {most} warps: a block has {header.warps_per_block}"
        raise UsageError(message, place="warps", remedy=f"{limit} up to {blocks * header.warps_per_block} warps")
    sizes = [(count, count * header.warps_per_block) for count in counts]
    return [
        full if count == full.blocks_per_sm else replace(
            full, blocks_per_sm=count, warps_per_sm=resident, fraction=resident / gpu.sm.max_warps, limiter="warps"
        )
        for count, resident in sizes
    ]
