"""One run, end to end: kernel to trace to miss profile to interval profile to predictions (MDM, MICRO 2020, Fig. 1).

Each step can be entered where its input already exists, and what several models need is made once. A trace of another tool
stands where a kernel is expected: one launch as a trace, several as the predictions of an application.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch, stage
from warpsight.caches.exact.simulate import Progress, simulate_caches
from warpsight.caches.miss_profile import MissProfile
from warpsight.caches.reuse.miss_source import reuse_miss_profile
from warpsight.gpu.occupancy import Occupancy, occupancy
from warpsight.gpu.spec import GpuSpec, ordered
from warpsight.intervals.build import build_profile
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.isa.sass.opcodes import read_isa_file
from warpsight.models.base import get_model, predict
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.provenance import merged_provenance, profile_provenance, trace_provenance
from warpsight.pipeline.request import CACHES, DEFAULT_METHOD, KernelRequest, Method
from warpsight.result.prediction import Prediction
from warpsight.traces.importers.formats import launches_in
from warpsight.traces.importers.launch import Launch, LaunchFacts, select
from warpsight.traces.schema import KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader, TraceSink
from warpsight.traces.store import FolderSink, open_trace

emulator = lazy.load("warpsight.emulator.run.launch", suppress_warning=True)  # compilers take long to load


def ptx_lines(ptx: str, instructions: tuple[StaticInstruction, ...]) -> dict[str, str]:
    """The line of `ptx` that each instruction stands in, by pc written as text (JSON has no other keys).

    Left out where that line does not name the opcode: an instruction of a linked library stands in another text.
    """
    lines = ptx.splitlines()
    found = {}
    for instruction in instructions:
        text = lines[instruction.ptx_line - 1].strip() if 0 < instruction.ptx_line <= len(lines) else ""
        if instruction.opcode.partition(".")[0] in text:
            found[str(instruction.pc)] = " ".join(text.split())
    return found


class WithPtx:
    """A folder's sink that also keeps the PTX lines, which are known once the instructions are."""

    def __init__(self, sink: FolderSink, ptx: str) -> None:
        self._sink, self._ptx = sink, ptx

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk."""
        self._sink.add(chunk)

    def restart(self) -> None:
        """Forget all chunks."""
        self._sink.restart()

    def finish(
        self,
        header: TraceHeader,
        instructions: tuple[StaticInstruction, ...],
        block_start: npt.NDArray[np.int32],
        paths: PathTable,
    ) -> KernelTrace:
        """Close the trace and give it back, ready to be read."""
        self._sink.extra["ptx"] = ptx_lines(self._ptx, instructions)
        return self._sink.finish(header, instructions, block_start, paths)


# -- One run, end to end: kernel to trace to miss profile to interval profile to predictions (MDM, MICRO 2020, Fig. 1).
#
# Each step can be entered where its input already exists, and what several models need is made once.

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
    ready = prepare(request)
    if gpu is not None:
        ready.check_fit(gpu)
    trace = run_ready(ready, watch=watch)
    return replace(trace, notes=ready.notes, extra={"ptx": ptx_lines(ready.source.ptx, trace.instructions)})


def run_ready(ready: ReadyLaunch, *, sink: TraceSink | None = None, watch: Watch | None = None) -> KernelTrace:
    """Run a prepared launch, its trace into `sink`, or kept in memory without one."""
    trace: KernelTrace = emulator.emulate(
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
    return trace


def obtain_trace(request: KernelRequest, *, gpu: GpuSpec | None = None, watch: Watch | None = None) -> KernelTrace:
    """The trace of `request`: read if it is a trace folder or the trace of another tool, else made in memory. `gpu` as for
    `trace_kernel`. Raises UsageError too where a trace of another tool has several launches.
    """
    if request.is_foreign:
        return import_one(request, watch=watch)
    request.refuse_import_options()
    if not request.is_trace:
        return trace_kernel(request, gpu=gpu, watch=watch)
    request.refuse_launch_options()
    return open_trace(request.path)


def trace_occupancy(trace: KernelTrace, gpu: GpuSpec) -> Occupancy:
    """The residency of the launch on `gpu`. Raises UsageError if a block does not fit an SM."""
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
    resident = resident or trace_occupancy(trace, gpu)
    progress = stage(watch, "simulating the caches")
    misses = miss_profile(trace, gpu, resident.blocks_per_sm, method, progress)
    profile = build_profile(trace, misses, gpu, resident, representative=method.representative)
    return ProfiledTrace(trace, resident, misses, profile, method)


def miss_profile(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, method: Method, progress: Progress | None
) -> MissProfile:
    """What the caches of `gpu` make of `trace`, as `method` says. Raises UsageError for a way that is not known."""
    gpu = ordered(gpu)
    if method.caches == "reuse-distance":
        return reuse_miss_profile(trace, gpu, blocks_per_sm, progress=progress)
    if method.caches != "exact":
        raise UsageError(f'unknown caches "{method.caches}"', place="caches", remedy=f"use one of {', '.join(CACHES)}")
    return simulate_caches(trace, gpu, blocks_per_sm, progress=progress, interleaving=method.interleaving)


def predict_profiled(profiled: ProfiledTrace, gpu: GpuSpec, models: Sequence[str]) -> list[Prediction]:
    """One prediction per model, in order, each with where it comes from. Raises UsageError for a model that is not known."""
    provenance = trace_provenance(profiled.trace, gpu, profiled.method, profiled.profile.notes)
    return _predict(profiled.profile, gpu, models, provenance)


def predict_profile(profile: IntervalProfile, gpu: GpuSpec, models: Sequence[str], origin: str = "") -> list[Prediction]:
    """Predictions from an interval profile alone, wherever it was made; `origin` is where it was read from."""
    return _predict(profile, gpu, models, profile_provenance(profile, gpu, origin))


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
    for name in models:
        get_model(name)


def _predict(profile: IntervalProfile, gpu: GpuSpec, models: Sequence[str], provenance: dict[str, object]) -> list[Prediction]:
    answers = [predict(get_model(name), profile, gpu) for name in models]
    return [replace(answer, provenance=merged_provenance(answer.provenance, provenance)) for answer in answers]


# -- Traces of other tools where a kernel is expected: one launch as a trace, several as an application's predictions.

_MOST_NAMED = 8


def launches_of(request: KernelRequest) -> list[Launch]:
    """The launches that the request chooses. Raises UsageError for options of a kernel, and what reading the folder raises."""
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
            answers.append(_with_varied(answer, {"launch": launch.number, "kernel": answer.kernel}))
    return [*answers, *(application_total([a for a in answers if a.model == model]) for model in models)]


def application_total(answers: Sequence[Prediction]) -> Prediction:
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
    return _with_varied(merged, {"launch": "total", "kernel": merged.kernel})


def _with_varied(answer: Prediction, varied: dict[str, Any]) -> Prediction:
    return replace(answer, provenance={**answer.provenance, "varied": varied})


def convert_launches(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> list[KernelTrace]:
    """Write the chosen launches as traces of our own: into `folder`, or where there are several into ``0001-name`` and so on in it.

    Raises UsageError where a folder is in the way, and what reading raises.
    """
    found = launches_of(request)
    traces = []
    for launch in found:
        name = re.sub(r"\W+", "-", launch.kernel).strip("-")[:60]
        place = Path(folder) / f"{launch.number:04d}-{name}" if len(found) > 1 else Path(folder)
        with FolderSink(place, overwrite=overwrite) as sink:
            traces.append(launch.trace(sink, stage(watch, f"reading launch {launch.number}")))
    return traces
