"""`@triton.autotune` without a GPU: of the configurations that a launch leaves open, the one that is predicted to be fastest."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from warpsight.base.diskcache import content_key
from warpsight.base.errors import WarpsightError
from warpsight.base.progress import Watch, note, stage
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.triton_kernel import OpenChoice
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.kernel_input import ReadyLaunch, constants_of, prepare
from warpsight.pipeline.request import DEFAULT_MODEL, KernelRequest
from warpsight.traces.schema import KernelTrace

Run = Callable[[ReadyLaunch], KernelTrace]
Configuration = dict[str, Any]

# The fastest configurations found so far, by tuner and by what they were chosen for.
_FASTEST: WeakKeyDictionary[Any, dict[tuple[Any, ...], Configuration]] = WeakKeyDictionary()


def prepare_tuned(request: KernelRequest, gpu: GpuSpec | None, run: Run, watch: Watch | None = None) -> ReadyLaunch:
    """`prepare`; of an autotuned kernel with several configurations left, each is run and predicted, and the fastest is launched.

    The default model predicts, for `gpu`, or without one for the default GPU. A configuration that cannot be compiled, launched or
    predicted is passed over. As Triton does, the fastest one is kept by the tuner's key, for later launches of this process.
    Raises what `prepare` raises; where no configuration can be used, what the first one raised.
    """
    try:
        return prepare(request, gpu)
    except OpenChoice as choice:
        open_choice = choice
    kept = {} if open_choice.tuner is None else _FASTEST.setdefault(open_choice.tuner, {})
    machine = content_key(repr(load_gpu(gpu)), repr((request.level, request.arch)))
    key = (open_choice.key, repr(open_choice.configurations), machine)
    if key not in kept:
        kept[key] = _fastest(request, open_choice.configurations, gpu, run, watch)
    return prepare(_with(request, kept[key]), gpu)


def _fastest(
    request: KernelRequest, listed: Sequence[Configuration], gpu: GpuSpec | None, run: Run, watch: Watch | None
) -> Configuration:
    """The one of `listed` whose predicted time is the smallest."""
    refusals: list[WarpsightError] = []
    times: dict[int, float] = {}
    progress = stage(watch, "trying configurations")
    for number, configuration in enumerate(listed):
        if progress is not None:
            progress(number, len(listed))
        try:
            times[number] = _seconds(_with(request, configuration), gpu, run)
        except WarpsightError as error:
            refusals.append(error)
    if not times:
        raise refusals[0]
    fastest = listed[min(times, key=times.__getitem__)]
    chosen = ", ".join(f"{name}={value}" for name, value in fastest.items())
    note(f"autotune: {chosen} is predicted to be the fastest of {len(listed)} configurations (`warpsight tune` shows all)")
    return fastest


def _with(request: KernelRequest, configuration: Configuration) -> KernelRequest:
    return replace(request, constants={**constants_of(request), **configuration})


def _seconds(request: KernelRequest, gpu: GpuSpec | None, run: Run) -> float:
    """The predicted time of a trial, which leaves the caller's arrays as they are."""
    spec = load_gpu(gpu)
    ready = prepare(replace(request, args=copied(request.args)), gpu)
    ready.check_fit(spec)
    return float(predict_trace(run(ready), spec, [DEFAULT_MODEL])[0].seconds)


def copied(args: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Arguments that a launch may change; those that share memory still do."""
    return copy.deepcopy(args)
