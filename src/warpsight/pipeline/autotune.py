"""`@triton.autotune` without a GPU: of the configurations that a launch leaves open, the one that is predicted to be fastest."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

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


def prepare_tuned(request: KernelRequest, gpu: GpuSpec | None, run: Run, watch: Watch | None = None) -> ReadyLaunch:
    """`prepare`; of an autotuned kernel with several configurations left, each is run and predicted, and the fastest is launched.

    The default model predicts, for `gpu`, or without one for the default GPU. A configuration that cannot be compiled, launched or
    predicted is passed over. Raises what `prepare` raises; where no configuration can be used, what the first one raised.
    """
    try:
        return prepare(request, gpu)
    except OpenChoice as choice:
        listed = choice.configurations
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
    return prepare(_with(request, fastest), gpu)


def _with(request: KernelRequest, configuration: dict[str, Any]) -> KernelRequest:
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
