"""One run, end to end: kernel to trace to miss profile to interval profile to predictions (MDM, MICRO 2020, Fig. 1).

Each step can be entered where its input already exists, and what several models need is made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warpsight.base.errors import UsageError
from warpsight.explore.request import CACHES, DEFAULT_METHOD, KernelRequest, Method
from warpsight.explore.watch import Watch, stage

if TYPE_CHECKING:
    from warpsight.caches.miss_profile import MissProfile
    from warpsight.caches.simulate import Progress
    from warpsight.explore.kernel_input import ReadyLaunch
    from warpsight.gpu.occupancy import Occupancy
    from warpsight.gpu.spec import GpuSpec
    from warpsight.profile.interval_profile import IntervalProfile
    from warpsight.result.prediction import Prediction
    from warpsight.trace.schema import KernelTrace
    from warpsight.trace.sink import TraceSink


@dataclass(frozen=True)
class ProfiledTrace:
    """A trace with what one GPU makes of it: residency, cache misses, interval profile. What every model starts from."""

    trace: KernelTrace
    occupancy: Occupancy
    misses: MissProfile
    profile: IntervalProfile
    method: Method


def trace_kernel(request: KernelRequest, *, gpu: GpuSpec | None = None, watch: Watch | None = None) -> KernelTrace:
    """Run the kernel functionally and record it in memory. NumPy arrays among the arguments are written back.

    A `gpu`, if given, only says beforehand whether a block fits an SM; the trace does not depend on it.
    Raises UsageError, FormatError, CompileError, UnsupportedError, LaunchFault, and LimitError past `max_instructions`.
    """
    from warpsight.explore.kernel_input import prepare
    from warpsight.explore.ptx_lines import ptx_lines

    ready = prepare(request)
    if gpu is not None:
        ready.check_fit(gpu)
    trace = run_ready(ready, watch=watch)
    return replace(trace, notes=ready.notes, extra={"ptx": ptx_lines(ready.source.ptx, trace.instructions)})


def run_ready(ready: ReadyLaunch, *, sink: TraceSink | None = None, watch: Watch | None = None) -> KernelTrace:
    """Run a prepared launch, its trace into `sink`, or kept in memory without one."""
    from warpsight.emulator.launch import emulate

    return emulate(
        ready.source,
        ready.launch,
        sink=sink,
        registers=ready.registers,
        max_instructions=ready.max_instructions,
        threads=ready.threads,
        sample=ready.sample,
        seed=ready.seed,
        progress=stage(watch, "running the kernel"),
        options=ready.options,
    )


def obtain_trace(request: KernelRequest, *, gpu: GpuSpec | None = None, watch: Watch | None = None) -> KernelTrace:
    """The trace of `request`: read if it is a trace folder or the trace of another tool, else made in memory. `gpu` as for
    `trace_kernel`. Raises UsageError too where a trace of another tool has several launches.
    """
    if request.is_foreign:
        from warpsight.explore.imported import import_one

        return import_one(request, watch=watch)
    request.refuse_import_options()
    if not request.is_trace:
        return trace_kernel(request, gpu=gpu, watch=watch)
    from warpsight.trace.store import open_trace

    request.refuse_launch_options()
    return open_trace(request.path)


def trace_occupancy(trace: KernelTrace, gpu: GpuSpec) -> Occupancy:
    """The residency of the launch on `gpu`. Raises UsageError if a block does not fit an SM."""
    from warpsight.gpu.occupancy import occupancy

    header = trace.header
    shared = header.static_shared_bytes + header.dynamic_shared_bytes
    return occupancy(gpu, header.threads_per_block, header.registers_per_thread, shared)


def profile_trace(
    trace: KernelTrace,
    gpu: GpuSpec,
    method: Method = DEFAULT_METHOD,
    *,
    resident: Occupancy | None = None,
    watch: Watch | None = None,
) -> ProfiledTrace:
    """Residency, exact caches and the interval profile of `trace` on `gpu`. Raises UsageError if a block does not fit an SM.

    `resident` replaces the residency that the launch would have.
    """
    from warpsight.profile.build import build_profile

    resident = resident or trace_occupancy(trace, gpu)
    progress = stage(watch, "simulating the caches")
    misses = miss_profile(trace, gpu, resident.blocks_per_sm, method, progress)
    profile = build_profile(trace, misses, gpu, resident, representative=method.representative)
    return ProfiledTrace(trace, resident, misses, profile, method)


def miss_profile(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, method: Method, progress: Progress | None
) -> MissProfile:
    """What the caches of `gpu` make of `trace`, as `method` says. Raises UsageError for a way that is not known."""
    from warpsight.caches.simulate import simulate_caches
    from warpsight.gpu.order import ordered

    gpu = ordered(gpu)
    if method.caches == "reuse-distance":
        from warpsight.caches.reuse.miss_source import reuse_miss_profile

        return reuse_miss_profile(trace, gpu, blocks_per_sm, progress=progress)
    if method.caches != "exact":
        raise UsageError(f'unknown caches "{method.caches}"', place="caches", remedy=f"use one of {', '.join(CACHES)}")
    return simulate_caches(trace, gpu, blocks_per_sm, progress=progress, interleaving=method.interleaving)


def predict_profiled(profiled: ProfiledTrace, gpu: GpuSpec, models: Sequence[str]) -> list[Prediction]:
    """One prediction per model, in order, each with where it comes from. Raises UsageError for a model that is not known."""
    from warpsight.explore.provenance import of_trace

    provenance = of_trace(profiled.trace, gpu, profiled.method, profiled.profile.notes)
    return _predict(profiled.profile, gpu, models, provenance)


def predict_profile(profile: IntervalProfile, gpu: GpuSpec, models: Sequence[str], origin: str = "") -> list[Prediction]:
    """Predictions from an interval profile alone, wherever it was made; `origin` is where it was read from."""
    from warpsight.explore.provenance import of_profile

    return _predict(profile, gpu, models, of_profile(profile, gpu, origin))


def predict_trace(
    trace: KernelTrace,
    gpu: GpuSpec,
    models: Sequence[str],
    method: Method = DEFAULT_METHOD,
    *,
    watch: Watch | None = None,
) -> list[Prediction]:
    """Profile `trace` on `gpu` once, then one prediction per model."""
    known_models(models)
    return predict_profiled(profile_trace(trace, gpu, method, watch=watch), gpu, models)


def predict_kernel(
    request: KernelRequest,
    gpu: GpuSpec,
    models: Sequence[str],
    method: Method = DEFAULT_METHOD,
    *,
    watch: Watch | None = None,
) -> list[Prediction]:
    """From a kernel, or a trace folder, to one prediction per model."""
    known_models(models)
    return predict_trace(obtain_trace(request, gpu=gpu, watch=watch), gpu, models, method, watch=watch)


def known_models(models: Sequence[str]) -> None:
    """Refuse an unknown model before minutes are spent on the trace."""
    from warpsight.models.registry import get_model

    for name in models:
        get_model(name)


def _predict(profile: IntervalProfile, gpu: GpuSpec, models: Sequence[str], provenance: dict[str, object]) -> list[Prediction]:
    from warpsight.explore.provenance import merged
    from warpsight.models.registry import get_model

    answers = [get_model(name).predict(profile, gpu) for name in models]
    return [replace(answer, provenance=merged(answer.provenance, provenance)) for answer in answers]
