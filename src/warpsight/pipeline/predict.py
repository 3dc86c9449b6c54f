"""Predictions of one input that has several rows: launches of an application, residencies, representative warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch, stage
from warpsight.caches.exact.between import L2Lines
from warpsight.gpu.occupancy import Occupancy, resident_blocks
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.caches_before import CarriedL2, resolved, trace_key
from warpsight.pipeline.evaluate import Designs, MemoryStore, evaluate, known_models, predict_trace, trace_occupancy
from warpsight.pipeline.request import AUTO, CARRIED, COLD, DEFAULT_METHOD, REPRESENTATIVES, WARM, KernelRequest, Method
from warpsight.pipeline.tracing import launches_of, obtain_trace
from warpsight.result.prediction import Prediction
from warpsight.traces.importers.program import ProgramAddresses
from warpsight.traces.schema import KernelTrace

_MOST_KNOWN = 32
_MOST_REPEATS = 1_000_000


def predict_kernel(
    request: KernelRequest, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> list[Prediction]:
    """From a kernel, or a trace folder, to one prediction per model."""
    known_models(models)
    return predict_trace(obtain_trace(request, gpu=gpu, watch=watch), gpu, models, method, watch=watch)


@dataclass
class _Known:
    """A launch that has been predicted: intermediate results, predictions by model, and the L2 that it leaves, with its key."""

    store: MemoryStore = field(default_factory=MemoryStore)
    predictions: dict[str, Prediction] = field(default_factory=dict)
    left: tuple[L2Lines, str] | None = None


class LaunchesInOrder:
    """Predicts the launches of a program one after the other. In state `auto` the L2 carries over from launch to launch on GPUs
    that have a warm L2 otherwise (`caches_before.resolved`); in any other state each launch begins in it.

    A launch that has been predicted is not predicted again where it finds the same L2: the prediction is the one of then, but for
    the hash of its arguments.
    """

    def __init__(self, gpu: GpuSpec, method: Method, watch: Watch | None = None) -> None:
        self._gpu, self._watch = gpu, watch
        state = resolved(method.caches_before, gpu)
        carries = method.caches_before == AUTO and state == WARM
        self.state = CARRIED if carries else state
        self.carried = CarriedL2(gpu) if carries else None
        self.method = replace(method, caches_before=self.state)
        self._known: dict[str, _Known] = {}

    def launch(self, trace: KernelTrace) -> Callable[[str], Prediction]:
        """The next launch: gives its prediction by a model."""
        carried = self.carried
        key = trace_key(trace) + (carried.key if carried else "")
        known = self._known.pop(key, None) or _Known()
        if carried is not None and known.left is not None:
            carried.becomes(*known.left)

        def predict(model: str) -> Prediction:
            if model not in known.predictions:
                (known.predictions[model],) = predict_trace(
                    trace, self._gpu, [model], self.method, store=known.store, carried=carried, watch=self._watch
                )
                known.left = (carried.lines, carried.key) if carried is not None else None
            self._known.pop(key, None)
            self._known[key] = known  # the last used one is at the end
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            prediction = known.predictions[model]
            return replace(prediction, provenance={**prediction.provenance, "input_hash": trace.header.input_hash})

        return predict


def predict_launches(
    request: KernelRequest, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> list[Prediction]:
    """A prediction for each launch and model, in order (`LaunchesInOrder`), then for each model the application's total.

    Copies to the device that the trace names pass through the L2 too.

    The provenance says `varied: {"launch": N, "kernel": NAME}`, of totals `{"launch": "total", ...}`.
    """
    known_models(models)
    predictions: list[Prediction] = []
    in_order, addresses = LaunchesInOrder(gpu, method, watch), ProgramAddresses()
    for launch in launches_of(request):
        trace = launch.trace(progress=stage(watch, f"reading launch {launch.number}"))
        if in_order.carried is not None:
            in_order.carried.touch(addresses.written(launch.copies))
            trace = addresses.renumbered(trace)
        predict = in_order.launch(trace)
        for each in map(predict, models):
            predictions.append(_with_varied(each, {"launch": launch.number, "kernel": each.kernel}))
    return [*predictions, *(application_total([p for p in predictions if p.model == model]) for model in models)]


def check_repeats(times: int) -> None:
    """Raise UsageError for a number of launches that is out of range."""
    if not 1 <= times <= _MOST_REPEATS:
        raise UsageError(f"{times:,} launches are out of range", place="repeat", remedy=f"give 1 to {_MOST_REPEATS:,}")


def repeated(first: Sequence[Prediction], following: Sequence[Prediction], times: int) -> list[Prediction]:
    """`times` launches back to back: for each model the first one, those that follow, which are all alike, and the total.

    The provenance says `varied: {"launch": ..., "caches_before": STATE}`.
    """
    rows = []
    for one, other in zip(first, following, strict=True):
        for number, row in (("1", one), ("2" if times == 2 else f"2 to {times}", other))[: min(times, 2)]:
            rows.append(_with_varied(row, {"launch": number, "caches_before": row.provenance["method"]["caches_before"]}))
        total = application_total([one, *[other] * (times - 1)])
        rows.append(_with_varied(total, {"launch": "total", "caches_before": ""}))
    return rows


def over_repeats(
    trace: KernelTrace, gpu: GpuSpec, models: Sequence[str], times: int, method: Method = DEFAULT_METHOD, *,
    watch: Watch | None = None,
) -> list[Prediction]:
    """Predictions of `times` launches back to back, as `repeated` gives them. The first begins in the state of `method`, which is
    cold for `auto`; those that follow begin with the L2 as the launch itself leaves it.
    """
    check_repeats(times)
    state = COLD if method.caches_before == AUTO else method.caches_before
    designs = [Designs(gpu, replace(method, caches_before=each)) for each in (state, WARM)]
    first, following = (each.predictions() for each in evaluate(trace, designs, models, watch=watch))
    return repeated(first, following, times)


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
    blocks = resident_blocks(gpu, header.blocks, full.blocks_per_sm, header.cluster_blocks)
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
