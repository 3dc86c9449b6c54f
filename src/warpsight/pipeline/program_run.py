"""A whole CUDA program on a GPU that is not there: its launches are traced and predicted while it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from warpsight.base.errors import UnsupportedError, UsageError, WarpsightError
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import get_model
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import DEFAULT_MAX_INSTRUCTIONS, DEFAULT_METHOD, DEFAULT_MODEL, Method
from warpsight.programs.host import describe_signal, run_program
from warpsight.programs.session import Ran
from warpsight.traces.schema import TraceSink
from warpsight.traces.spill import SpillingSink
from warpsight.traces.store import FolderSink

PREDICTED, SCALED, UNKNOWN = "predicted", "scaled", "unknown"


@dataclass(frozen=True)
class Selection:
    """Which launches are traced and predicted: those of kernels that `kernels` matches, numbers `first` to `last` of each kernel.

    The rest are executed without recording; their time is scaled by warp instructions from the kernel's predictions.
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
            what, remedy = f'"{kernels}" is not a regular expression: {error}', "write e.g. 'gemm|reduce'"
            raise UsageError(what, place="kernels", remedy=remedy) from error
        if launches is None:
            return cls(kernels or "")
        found = re.fullmatch(r"(\d*):(\d*)|(\d+)", launches.strip())
        remedy = "write e.g. 1:10 for the first ten launches of each kernel, or 3 for the third"
        if found is None:
            raise UsageError(f'"{launches}" is not a range of launches', place="launches", remedy=remedy)
        first = int(found[1] or found[3] or 1)
        last = int(found[3] or found[2]) if found[3] or found[2] else None
        if first < 1 or (last is not None and last < first):
            raise UsageError(f"{launches} contains no launch; launches are numbered from 1", place="launches", remedy=remedy)
        return cls(kernels or "", first, last)

    def wants(self, kernel: str, number: int) -> bool:
        """Is launch `number` of this kernel, counted from 1, among them?"""
        return number >= self.first and (self.last is None or number <= self.last) and re.search(self.kernels, kernel) is not None


@dataclass
class _LaunchPredictor:
    """Predicts each launch as it happens."""

    gpu: GpuSpec
    model: str
    method: Method
    selection: Selection
    folder: Path | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[WarpsightError] = field(default_factory=list)
    _count: dict[str, int] = field(default_factory=dict)
    _pace: dict[str, float] = field(default_factory=dict)
    _folder_of: dict[int, Path] = field(default_factory=dict)

    def sink(self, number: int, kernel: str) -> TraceSink | None:
        """Where the trace of this launch goes."""
        self._count[kernel] = self._count.get(kernel, 0) + 1
        if not self.selection.wants(kernel, self._count[kernel]):
            return None
        if self.folder is None:
            return SpillingSink()
        name = re.sub(r"\W+", "-", kernel).strip("-")[:60]
        self._folder_of[number] = self.folder / f"{number:04d}-{name}"
        return FolderSink(self._folder_of[number])

    def ran(self, launch: Ran) -> float:
        """Predict, or scale from the kernel's last prediction; the time in seconds."""
        row: dict[str, Any] = {
            "number": launch.number,
            "kernel": launch.kernel,
            "grid": list(launch.launch.grid),
            "block": list(launch.launch.block),
            "shared_bytes": launch.launch.shared_bytes,
            "registers_per_thread": launch.registers.registers,
            "warp_instructions": launch.warp_instructions,
            "cycles": None,
            "seconds": None,
            "time": UNKNOWN,
            "bound_by": "",
            "occupancy": None,
            "trace": str(self._folder_of.get(launch.number, "")) or None,
            "prediction": None,
        }
        if launch.trace is not None:
            self._predict(row, launch)
        elif launch.kernel in self._pace:
            row["seconds"] = self._pace[launch.kernel] * launch.warp_instructions
            row["cycles"], row["time"] = row["seconds"] * self.gpu.core_clock_hz, SCALED
        self.rows.append(row)
        return float(row["seconds"] or 0.0)

    def _predict(self, row: dict[str, Any], launch: Ran) -> None:
        assert launch.trace is not None
        try:
            (prediction,) = predict_trace(launch.trace, self.gpu, [self.model], self.method)
        except WarpsightError as error:
            row["bound_by"] = f"not predicted: {error.what}"
            return
        row.update(
            cycles=prediction.cycles,
            seconds=prediction.seconds,
            time=PREDICTED,
            bound_by=prediction.bound_by,
            occupancy=prediction.occupancy,
            prediction=prediction.to_json(),
        )
        self._pace[launch.kernel] = prediction.seconds / max(1, launch.warp_instructions)

    def refused(self, number: int, kernel: str, error: WarpsightError) -> None:
        """A launch, or with number 0 the loading of a module, has failed."""
        self.refusals.append(error)
        if number:
            self.rows.append({"number": number, "kernel": kernel, "time": UNKNOWN, "error": str(error)})


def predict_program(
    command: Sequence[str],
    gpu: GpuSpec,
    *,
    model: str = DEFAULT_MODEL,
    method: Method = DEFAULT_METHOD,
    selection: Selection | None = None,
    folder: Path | None = None,
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS,
    stdout: IO[Any] | None = None,
) -> dict[str, Any]:
    """Run a program built with `nvcc -cudart shared`; the result document, with `exit_code` as the program's.

    Traces go into folders under `folder` if given. The program's output goes where this process's goes, or to `stdout`.
    Raises UsageError where the program cannot be started.
    """
    get_model(model)
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError("the folder exists and is not empty", place=str(folder), remedy="name another folder")
    watcher = _LaunchPredictor(gpu, model, method, selection or Selection(), folder)
    outcome = run_program(command, gpu, watcher, max_instructions=max_instructions, stdout=stdout)
    rows = watcher.rows
    timed = [row for row in rows if row.get("seconds") is not None]
    return {
        "tool": TOOL,
        "command": list(command),
        "gpu": gpu.name,
        "model": model,
        "exit_code": outcome.exit_code,
        "ended_by": describe_signal(outcome.exit_code),
        "used_cuda": outcome.connected,
        "refused": any(isinstance(error, UnsupportedError) for error in watcher.refusals),
        "launches": rows,
        "kernels": by_kernel(rows),
        "totals": {
            "launches": len(rows),
            "predicted": sum(row["time"] == PREDICTED for row in rows),
            "scaled": sum(row["time"] == SCALED for row in rows),
            "failed": sum("error" in row for row in rows),
            "warp_instructions": sum(row.get("warp_instructions", 0) for row in rows),
            "cycles": sum(row["cycles"] for row in timed),
            "seconds": sum(row["seconds"] for row in timed),
        },
    }


def by_kernel(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums per kernel, the one that takes most time first."""
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
            "scaled": any(row["time"] == SCALED for row in group),
            "bound_by": max(group, key=lambda row: row.get("seconds") or 0.0).get("bound_by", ""),
        }
        for kernel, group in groups.items()
    ]
    return sorted(sums, key=lambda entry: -float(str(entry["seconds"])))
