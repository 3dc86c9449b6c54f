"""Traces of other tools where a kernel is expected: one launch as a trace, several as an application's predictions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import UsageError
from warpsight.explore.pipeline import known_models, predict_trace
from warpsight.explore.request import DEFAULT_METHOD, KernelRequest, Method
from warpsight.explore.watch import Watch, stage

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec
    from warpsight.result.prediction import Prediction
    from warpsight.trace.importers.launch import Launch
    from warpsight.trace.schema import KernelTrace

_MOST_NAMED = 8


def launches_of(request: KernelRequest) -> list[Launch]:
    """The launches that the request chooses. Raises UsageError for options of a kernel, and what reading the folder raises."""
    from warpsight.isa.sass.isa_file import read_isa_file
    from warpsight.trace.importers.formats import launches_in
    from warpsight.trace.importers.launch import LaunchFacts, select

    request.refuse_launch_options()
    facts = LaunchFacts(request.grid, request.block, request.shared, request.registers)  # type: ignore[arg-type]
    return select(launches_in(request.path, read_isa_file(request.isa_file), facts), request.kernels, request.launches)


def import_one(request: KernelRequest, *, watch: Watch | None = None) -> KernelTrace:
    """The trace of the one launch that the request chooses. Raises UsageError where there are several."""
    found = launches_of(request)
    if len(found) > 1:
        named = ", ".join(f"{launch.number} {launch.kernel}" for launch in found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        what = f"has {len(found)} launches ({named}{more}), and one is needed here"
        raise UsageError(what, place=str(request.path), remedy="choose with --launches N, or name the kernel's file")
    return found[0].trace(progress=stage(watch, "reading the trace"))


def predict_launches(
    request: KernelRequest, gpu: GpuSpec, models: Sequence[str], method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> list[Prediction]:
    """A prediction for each launch and model, then for each model the application's total.

    The provenance says `varied: {"launch": N, "kernel": NAME}`, of totals `{"launch": "total", ...}`.
    """
    known_models(models)
    answers: list[Prediction] = []
    for launch in launches_of(request):
        trace = launch.trace(progress=stage(watch, f"reading launch {launch.number}"))
        for answer in predict_trace(trace, gpu, models, method, watch=watch):
            answers.append(_varied(answer, {"launch": launch.number, "kernel": answer.kernel}))
    return [*answers, *(total([a for a in answers if a.model == model]) for model in models)]


def total(answers: Sequence[Prediction]) -> Prediction:
    """The application: launches one after the other by one model. IPC is all instructions over the sum of the cycles (MDM section
    V).

    CPI and its stack are means over instructions; what has no sum (what bounds it, class, limiter) is of the longest launch.
    """
    count = sum(a.warp_instructions for a in answers)
    cycles = sum(a.cycles for a in answers)

    def weighed(values: Sequence[float], weights: Sequence[float]) -> float:
        return sum(v * w for v, w in zip(values, weights, strict=True)) / max(sum(weights), 1e-300)

    instructions = [float(a.warp_instructions) for a in answers]
    longest = max(answers, key=lambda a: a.cycles)
    known = [(a.dpki, float(a.warp_instructions)) for a in answers if a.dpki is not None]
    names = dict.fromkeys(name for a in answers for name in a.cpi_stack)
    stack = {name: weighed([a.cpi_stack.get(name, 0.0) for a in answers], instructions) for name in names}
    merged = replace(
        longest,
        kernel=f"{len(answers)} launches",
        cycles=cycles,
        seconds=sum(a.seconds for a in answers),
        warp_instructions=count,
        ipc_sm_warp=weighed([a.ipc_sm_warp for a in answers], [a.cycles for a in answers]),
        ipc_gpu_warp=weighed([a.ipc_gpu_warp for a in answers], [a.cycles for a in answers]),
        ipc_gpu_thread=weighed([a.ipc_gpu_thread for a in answers], [a.cycles for a in answers]),
        cpi=sum(stack.values()),
        cpi_stack=stack,
        dpki=weighed([d for d, _ in known], [w for _, w in known]) if known else None,
        occupancy=weighed([a.occupancy for a in answers], [a.cycles for a in answers]),
    )
    return _varied(merged, {"launch": "total", "kernel": merged.kernel})


def _varied(answer: Prediction, varied: dict[str, Any]) -> Prediction:
    return replace(answer, provenance={**answer.provenance, "varied": varied})


def convert(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> list[KernelTrace]:
    """Write the chosen launches as traces of our own: into `folder`, or where there are several into ``0001-name`` and so on in it.

    Raises UsageError where a folder is in the way, and what reading raises.
    """
    from warpsight.trace.store import FolderSink

    found = launches_of(request)
    traces = []
    for launch in found:
        name = re.sub(r"\W+", "-", launch.kernel).strip("-")[:60]
        place = Path(folder) / f"{launch.number:04d}-{name}" if len(found) > 1 else Path(folder)
        with FolderSink(place, overwrite=overwrite) as sink:
            traces.append(launch.trace(sink, stage(watch, f"reading launch {launch.number}")))
    return traces
