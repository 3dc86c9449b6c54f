"""A whole CUDA program on a GPU that is not there: its launches are traced and predicted while it runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UnsupportedError, UsageError, WarpsightError
from warpsight.base.findings import Finding, fold
from warpsight.caches.exact.waves import blocks_of_l2
from warpsight.emulator.run.launch import PreparedKernel
from warpsight.emulator.run.memory import Memory
from warpsight.equations.resources import grid_cycles_of
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch import Launch, RunOptions
from warpsight.kernels.machine_code import native_architecture
from warpsight.pipeline.checking import findings_document
from warpsight.pipeline.evaluate import known_models
from warpsight.pipeline.kernel_input import ReadyLaunch, level_of, threads_of, wanted_architecture
from warpsight.pipeline.launch_samples import LaunchSamples, Pace, kind_of
from warpsight.pipeline.predict import LaunchesInOrder
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import (
    CARRIED,
    COLD,
    DEFAULT_MAX_INSTRUCTIONS,
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    WARM,
    KernelRequest,
    Method,
)
from warpsight.pipeline.sampling import DEFAULT_ACCURACY, LEAST_INSTRUCTIONS, NotSampled, check_accuracy, sampled_waves
from warpsight.pipeline.timeline import spread, timeline_document
from warpsight.pipeline.tracing import ListingSink, launch_folder
from warpsight.programs.host import describe_signal, run_program
from warpsight.programs.modules import Kernel
from warpsight.programs.script import as_program, is_script, run_script
from warpsight.programs.session import ExecutedLaunch, Observer, SampledLaunch, Span
from warpsight.traces.schema import TraceSink
from warpsight.traces.store import SpillingSink

PREDICTED, SCALED, UNKNOWN = "predicted", "scaled", "unknown"
_NO_COLUMNS: dict[str, Any] = {
    "cycles": None, "seconds": None, "time": UNKNOWN, "bound_by": "", "occupancy": None, "prediction": None,
}  # fmt: skip
OUT_OF_BOUNDS = ("error", "warn", "ignore")


@dataclass(frozen=True)
class Selection:
    """Which launches are traced and predicted: those of kernels that `kernels` matches, numbers `first` to `last` of each kernel.

    The rest are executed without recording; their time is scaled by warp instructions from the kernel's predictions. Where all are
    selected, launches that repeat are sampled (`launch_samples`).
    """

    kernels: str = ""
    first: int = 1
    last: int | None = None

    @classmethod
    def parse(cls, kernels: str | None, launches: str | None) -> Selection:
        """From a regular expression and `A:B`, `A:`, `:B` or `N`. Raises UsageError."""
        try:
            re.compile(kernels or "")
        except re.error as error:
            message = f'"{kernels}" is not a regular expression: {error}'
            raise UsageError(message, place="kernels", remedy="write e.g. 'gemm|reduce'") from error
        if launches is None:
            return cls(kernels or "")
        match = re.fullmatch(r"(\d*):(\d*)|(\d+)", launches.strip())
        remedy = "write e.g. 1:10 for the first ten launches of each kernel, or 3 for the third"
        if match is None:
            raise UsageError(f'"{launches}" is not a range of launches', place="launches", remedy=remedy)
        first = int(match[1] or match[3] or 1)
        last = int(match[3] or match[2]) if match[3] or match[2] else None
        if first < 1 or (last is not None and last < first):
            raise UsageError(f"{launches} contains no launch; launches are numbered from 1", place="launches", remedy=remedy)
        return cls(kernels or "", first, last)

    def includes(self, kernel: str, number: int) -> bool:
        """Is launch `number` of this kernel, counted from 1, among them?"""
        return number >= self.first and (self.last is None or number <= self.last) and re.search(self.kernels, kernel) is not None


@dataclass
class _LaunchPredictor(Observer):
    """Predicts each launch as it happens. The times of the first model are those that the program is given."""

    gpu: GpuSpec
    models: tuple[str, ...]
    in_order: LaunchesInOrder
    selection: Selection
    folder: Path | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    lets_through: str = "error"  # one of OUT_OF_BOUNDS
    refused_something: bool = False
    outside: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by kernel and place
    check: frozenset[str] = frozenset()
    findings: list[Finding] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    exact: bool = False
    threads: int = 1
    accuracy: float = DEFAULT_ACCURACY
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS
    _recorded_whole: set[str] = field(default_factory=set)  # kernels of which no sample can be had
    _count: dict[str, int] = field(default_factory=dict)
    _folder_of: dict[int, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.samples = LaunchSamples(every=self.exact or self.folder is not None or self.selection != Selection())

    def sink(
        self, number: int, kernel: str, prepared: PreparedKernel, launch: Launch, arrays: tuple[int, ...]
    ) -> TraceSink | None:
        """Where the trace of this launch goes."""
        self._count[kernel] = self._count.get(kernel, 0) + 1
        if not self.selection.includes(kernel, self._count[kernel]) or not self.samples.wants(kind_of(launch, arrays)):
            return None
        if self.folder is None:
            return SpillingSink()
        self._folder_of[number] = self.folder / launch_folder(number, kernel)
        sink = ListingSink(self._folder_of[number])
        sink.prepared = prepared
        return sink

    def sampled(self, kernel: Kernel, prepared: PreparedKernel, launch: Launch, memory: Memory) -> SampledLaunch | None:
        """Sampled waves of a long launch whose blocks do not depend on each other (docs/adr/0037-sampled-launches.md)."""
        method = self.in_order.method
        asked = self.exact or self.folder is not None or self.check
        unknown = method.caches != "exact" or method.caches_before not in (COLD, WARM, CARRIED)  # to sampled waves
        if asked or unknown or kernel.name in self._recorded_whole or kernel.history.expected(launch) < LEAST_INSTRUCTIONS:
            return None
        ready = ReadyLaunch(
            kernel.source, launch, kernel.registers, self.max_instructions, self.threads, 0, 0, (), RunOptions(output=StringIO())
        )
        try:
            trace = sampled_waves(
                ready, prepared, self.gpu, self.models[0], method, self.accuracy, memory=memory, carried=self.in_order.carried
            )
            assert trace.waves is not None
            return SampledLaunch(trace, launch.blocks - blocks_of_l2(trace.waves, self.gpu.l2))
        except NotSampled as reason:
            if reason.of_kernel:
                self._recorded_whole.add(kernel.name)
        except WarpsightError:
            pass  # the whole launch meets it again, where it is reported
        return None

    def ran(self, launch: ExecutedLaunch) -> float:
        """Predict, or scale from a prediction of such a launch; the time in seconds by the first model."""
        kind = kind_of(launch.launch, launch.arrays)
        columns = self._predicted(kind, launch) if launch.trace is not None else self._foretold(kind, launch)
        if launch.trace is None:
            self.samples.skipped(kind, launch)
        elif launch.touched is not None:
            self.touched(launch.touched)
        first, *others = columns
        row: dict[str, Any] = {
            "number": launch.number, "kernel": launch.kernel, "grid": list(launch.launch.grid), "block": list(launch.launch.block),
            "shared_bytes": launch.launch.shared_bytes, "static_shared_bytes": launch.registers.static_shared_bytes,
            "registers_per_thread": launch.registers.registers,
            "warp_instructions": launch.warp_instructions, "cooperative": launch.cooperative,
            **first,
            "trace": str(self._folder_of.get(launch.number, "")) or None,
            "others": [{"model": model, **other} for model, other in zip(self.models[1:], others, strict=True)],
        }
        self.rows.append(row)
        return float(row["seconds"] or 0.0)

    def spent(self, span: Span) -> None:
        """A launch or copy has been on a stream."""
        self.spans.append(span)

    def touched(self, rows: npt.NDArray[np.int64]) -> None:
        """Copies and fills of the program pass through the L2."""
        if self.in_order.carried is not None:
            self.in_order.carried.touch(rows)

    def _foretold(self, kind: Hashable, launch: ExecutedLaunch) -> list[dict[str, Any]]:
        """For each model the columns of a row of which only the time is known, if that."""
        found = []
        for model in self.models:
            seconds = self.samples.foretold(kind, launch, model)
            found.append(_NO_COLUMNS if seconds is None else _NO_COLUMNS | {
                "seconds": seconds, "cycles": seconds * self.gpu.core_clock_hz, "time": SCALED,
            })  # fmt: skip
        return found

    def _predicted(self, kind: Hashable, launch: ExecutedLaunch) -> list[dict[str, Any]]:
        """For each model the columns of a row that depend on it."""
        assert launch.trace is not None
        predict = self.in_order.launch(launch.trace)
        columns, paces = list[dict[str, Any]](), dict[str, Pace]()
        for model in self.models:
            try:
                prediction = predict(model)
            except WarpsightError as error:
                columns.append(_NO_COLUMNS | {"bound_by": f"not predicted: {error.what}"})
                continue
            once = grid_cycles_of(self.gpu, launch.trace.uses_memory)
            fixed = once / self.gpu.core_clock_hz if prediction.cpi_stack["launch"] else 0.0
            paces[model] = Pace.of(launch, prediction.seconds, fixed)
            known = {name: getattr(prediction, name) for name in ("cycles", "seconds", "bound_by", "occupancy")}
            columns.append({**known, "time": PREDICTED, "prediction": prediction.to_json()})
        if self.samples.only_warms(kind):
            columns = self._foretold(kind, launch)
        self.samples.recorded(kind, launch, paces)
        return columns

    def refused(self, number: int, kernel: str, error: WarpsightError) -> None:
        """A launch, or with number 0 the loading of a module, has failed."""
        self.refused_something |= not number or isinstance(error, UnsupportedError)
        if number:
            self.rows.append({"number": number, "kernel": kernel, "time": UNKNOWN, "error": str(error)})

    def found(self, finding: Finding) -> None:
        """A check has found something."""
        self.findings.append(finding)

    @property
    def out_of_bounds(self) -> Callable[[WarpsightError, int], None] | None:
        """Who counts the accesses out of bounds that are let through; None where they are errors."""
        return None if self.lets_through == "error" else self._note_outside

    def _note_outside(self, error: WarpsightError, accesses: int) -> None:
        assert error.details is not None
        known = self.outside.get((error.details.kernel, error.place))
        if known is not None:
            known["accesses"] += accesses
            return
        self.outside[error.details.kernel, error.place] = {
            "kernel": error.details.kernel, "place": error.place, "accesses": accesses, "first": error.what,
        }  # fmt: skip
        if self.lets_through == "warn":
            print(f"warning: {error.place}: {error.what}; reads gave zeros, writes did nothing", file=sys.stderr, flush=True)


def predict_program(
    command: Sequence[str], gpu: GpuSpec, *, models: Sequence[str] = (DEFAULT_MODEL,), method: Method = DEFAULT_METHOD,
    selection: Selection | None = None, exact: bool = False, folder: Path | None = None,
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS, level: str | None = None, out_of_bounds: str = "error",
    checks: frozenset[str] = frozenset(), threads: int | None = None, accuracy: float = DEFAULT_ACCURACY,
    stdout: IO[Any] | None = None,
) -> dict[str, Any]:
    """Run a program built with `nvcc`, or a Python script or module; the result document, with `exit_code` as the
    program's.

    `level` is what is executed: the machine code that CUDA chooses for `gpu`, or makes of PTX for it; or PTX. Each launch is
    predicted by all `models`; the times that the program itself measures are those of the first. The L2 carries over from launch
    to launch as `LaunchesInOrder` says, and the program's own copies and fills pass through it. Launches that repeat are sampled
    (`launch_samples`) unless `exact`, or some are selected, or traces are kept: they go into folders under `folder` if given.
    Of long launches sampled waves are recorded, so many that the 95 % confidence interval of the cycles is within `accuracy`
    (`sampling`), unless `exact` or traces are kept.
    `out_of_bounds` says what loads, stores and atomics past an array do: end the launch with an `error`, as a GPU does when they
    leave the mapped page, or read zeros and write nothing, reported (`warn`) or only counted (`ignore`). What `checks` find while
    they watch is the document of `pipeline.checking` under `check`; then PTX is executed where there is PTX. The blocks of a
    launch are spread over `threads` of this machine (None: all cores) where that changes nothing.
    The program's output goes where this process's goes, or to `stdout`. Raises UsageError where the program cannot be started.
    """
    in_python = is_script(command)
    _refuse_together(out_of_bounds, checks, in_python)
    known_models(models)
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError("the folder exists and is not empty", place=str(folder), remedy="name another folder")
    executed = level_of(KernelRequest(command[0], level=level, check=bool(checks)), gpu)
    architecture = native_architecture(wanted_architecture(gpu))[0] if executed == "sass" else None
    in_order = LaunchesInOrder(gpu, method)
    predictor = _LaunchPredictor(
        gpu, tuple(models), in_order, selection or Selection(), folder, lets_through=out_of_bounds, check=checks,
        exact=exact, threads=threads_of(threads), accuracy=check_accuracy(accuracy), max_instructions=max_instructions,
    )
    start, started = (run_script, command) if in_python else (run_program, as_program(command))
    run = start(started, gpu, predictor, architecture=architecture, max_instructions=max_instructions, stdout=stdout)
    rows = predictor.rows
    target = "" if architecture is None else architecture.real
    found = None if not checks else findings_document(
        fold(predictor.findings), checks=checks, level=executed, target=target, command=command, launches=run.launches,
        exit_code=run.exit_code,
    )
    return {
        "tool": TOOL, "command": list(command), "gpu": gpu.name, "model": models[0],
        "level": executed, "target": target or None, "caches_before": in_order.state,
        "exit_code": run.exit_code, "ended_by": describe_signal(run.exit_code), "used_cuda": run.connected,
        "refused": predictor.refused_something, "check": found,
        "out_of_bounds": {"choice": out_of_bounds, "places": list(predictor.outside.values())},
        "launches": rows,
        "kernels": by_kernel(rows),
        "timeline": timeline_document(predictor.spans, rows),
        "totals": _totals(rows, models, gpu.dispatch.launch_interval_ns * 1e-9, predictor.samples),
    }


def _refuse_together(out_of_bounds: str, checks: frozenset[str], is_script: bool) -> None:
    if out_of_bounds not in OUT_OF_BOUNDS:
        remedy = f"use one of {', '.join(OUT_OF_BOUNDS)}"
        raise UsageError(f'unknown choice "{out_of_bounds}"', place="out_of_bounds", remedy=remedy)
    if checks and out_of_bounds != "error":
        raise UsageError("checks report such accesses, and let them through", place="out_of_bounds", remedy="leave it out")
    if checks and is_script:
        raise UsageError("checks do not watch scripts", place="check", remedy="check one launch: warpsight.check(kernel, ...)")


def _totals(rows: Sequence[dict[str, Any]], models: Sequence[str], interval: float, samples: LaunchSamples) -> dict[str, Any]:
    """The numbers for the whole program; the host issues a launch every `interval` seconds."""
    known = [row["prediction"]["provenance"] for row in rows if row.get("prediction")]
    intervals = [each["sampling"]["half_width"] for each in known if "sampling" in each]
    return {
        "launches": len(rows),
        "predicted": sum(row["time"] == PREDICTED for row in rows),
        "scaled": sum(row["time"] == SCALED for row in rows),
        "scaled_error": samples.wrong / samples.checked if samples.checked else None,
        "from_waves": len(intervals), "half_width": max(intervals, default=None),
        "failed": sum("error" in row for row in rows),
        "warp_instructions": sum(row.get("warp_instructions", 0) for row in rows),
        **_sums(rows),
        "launch_interval_seconds": interval,
        "back_to_back_seconds": back_to_back(rows, interval),
        "others": [
            {"model": model, **_sums([row["others"][index] for row in rows if "others" in row])}
            for index, model in enumerate(models[1:])
        ],
    }


def _sums(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The cycles and seconds of the launches with a time."""
    timed = [row for row in rows if row.get("seconds") is not None]
    return {name: sum(row[name] for row in timed) for name in ("cycles", "seconds")}


def back_to_back(rows: Sequence[dict[str, Any]], interval: float) -> float:
    """Seconds from the first issue to the last end of the launches with a time, all in one stream.

    The host issues one every `interval` seconds, ahead of the GPU, which begins each when it is issued and the one before it has
    ended.
    """
    end = 0.0
    for number, row in enumerate(row for row in rows if row.get("seconds") is not None):
        end = max(end, number * interval) + row["seconds"]
    return end


def by_kernel(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums per kernel, and the `spread` of its seconds, the one that takes most time first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["kernel"], []).append(row)
    sums = [
        {
            "kernel": kernel,
            "launches": len(group),
            "warp_instructions": sum(row.get("warp_instructions", 0) for row in group),
            "cycles": sum(row.get("cycles") or 0.0 for row in group),
            "seconds": sum(row.get("seconds") or 0.0 for row in group),
            "spread": spread([row["seconds"] for row in group if row.get("seconds") is not None] or [0.0]),
            "scaled": any(row["time"] == SCALED for row in group),
            "bound_by": max(group, key=lambda row: row.get("seconds") or 0.0).get("bound_by", ""),
        }
        for kernel, group in groups.items()
    ]
    return sorted(sums, key=lambda entry: -float(str(entry["seconds"])))
