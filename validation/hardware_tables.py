"""The page of a measured GPU: what was measured, and what every model and the simulator predict, from the JSON document."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpsight.base.errors import WarpsightError
from warpsight.gpu.spec import GpuSpec
from warpsight.hardware.comparison import SHARE, InputRow, compare_inputs
from warpsight.hardware.device.prepare import case_identity
from warpsight.hardware.device.suite import gpu_of
from warpsight.hardware.measurements.launch import MeasuredLaunch, Measurements
from warpsight.models.base import model_names
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.request import Method
from warpsight.pipeline.simulation import NAME as SIMULATOR
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.suites import Suite, SuiteKernel
from warpsight.pipeline.tracing import trace_kernel
from warpsight.result.prediction import MEMORY_CLASSES, mean_absolute_percentage_error, relative_error

EVENTS, NCU = "events", "ncu"


@dataclass
class KernelRow:
    """A kernel that was measured: `row` of the document, its launch under ncu, cycles by who predicts, and what refused."""

    kernel: SuiteKernel
    row: Mapping[str, Any]
    launch: MeasuredLaunch | None
    cycles: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    inputs: tuple[InputRow, ...] = ()

    @property
    def net_microseconds(self) -> float:
        """Time less that of an empty kernel of the same grid."""
        return float(self.row["measured"]["kernel"]["median"] - self.row["measured"]["empty"]["median"])

    def measured(self, by: str) -> float | None:
        """Cycles by events (net time times the clock that was read) or by ncu; None where there are none."""
        if by == NCU:
            return self.launch.value("cycles") if self.launch else None
        cycles = 1e-6 * self.net_microseconds * float(self.row["measured"]["kernel"]["clock_hz"])
        return cycles if cycles > 0 else None

    def error(self, model: str, by: str) -> float | None:
        """Signed relative error; None where one of both is not there."""
        measured, predicted = self.measured(by), self.cycles.get(model)
        return None if measured is None or predicted is None else relative_error(predicted, measured)


@dataclass(frozen=True)
class Compared:
    """A document with its rows predicted on `gpu`, which is `described` so; `failed` are kernels without a row, and why."""

    document: Mapping[str, Any]
    gpu: GpuSpec
    described: str
    rows: tuple[KernelRow, ...]
    failed: dict[str, str]

    @property
    def models(self) -> list[str]:
        """Every model, and the simulator."""
        return [*model_names(), SIMULATOR]

    @property
    def references(self) -> list[str]:
        """The kinds of measurements that errors are relative to."""
        return [by for by in (NCU, EVENTS) if any(row.measured(by) is not None for row in self.rows)]


def compared(document: Mapping[str, Any], suite: Suite, profiled: Measurements | None) -> Compared:
    """Predict every measured kernel of `document`, at the median of the measured clocks.

    A kernel that has changed since it was measured, or is no longer there, is among `failed`. `profiled` are ncu's launches, in the
    order of `document["profiler"]["kernels"]`.
    """
    clocks = [row["measured"]["kernel"]["clock_hz"] for row in document["kernels"] if "measured" in row]
    gpu, described = gpu_of(document["device"], statistics.median(clocks) if clocks else None)
    names = document["profiler"]["kernels"] if profiled else []
    launches = dict(zip(names, profiled.launches, strict=True)) if profiled else {}
    rows, failed = [], {}
    for entry in document["kernels"]:
        name = entry["name"]
        try:
            kernel = suite.kernel(name)
            if "failed" in entry:
                failed[name] = entry["failed"]
            elif not _same_program(case_identity(kernel.request()), entry["program"]):
                failed[name] = "it has changed since it was measured"
            else:
                rows.append(_predicted(KernelRow(kernel, entry, launches.get(name)), gpu))
        except WarpsightError as error:
            failed[name] = str(error)
    return Compared(document, gpu, described, tuple(rows), failed)


def _same_program(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Whether instructions and inputs are the same, wherever the source lies and whatever its comments say."""
    return all(ours[name] == theirs[name] for name in ("ptx", "inputs"))


def _predicted(row: KernelRow, gpu: GpuSpec) -> KernelRow:
    trace = trace_kernel(row.kernel.request())
    profiled = profile_trace(trace, gpu, Method(caches_before="cold"))
    for model in model_names():
        try:
            (answer,) = predict_profiled(profiled, gpu, [model])
            row.cycles[model] = answer.cycles
        except WarpsightError as error:
            row.refused[model] = error.what
    row.cycles[SIMULATOR] = simulate_trace(trace, gpu, caches_before="cold").prediction.cycles
    if row.launch is not None:
        row.inputs = compare_inputs(profiled, gpu, row.launch)
    return row


def page(found: Compared, command: str) -> str:
    """The whole page."""
    document = found.document
    parts = [f"# {document['device']['name']}: measured against predicted", f"Made by `{command}`.", _about(found)]
    parts += ["## What was measured", _measured(found)]
    parts += ["## Results that are not bit for bit the emulator's", _buffers(found)]
    for by in found.references:
        how = "Nsight Compute" if by == NCU else "events, less an empty kernel"
        parts += [f"## Errors of predicted cycles, measured by {how}", _mape(found, by), _errors(found, by)]
    if any(row.inputs for row in found.rows):
        parts += ["## Errors of the inputs", _inputs(found)]
    if found.failed:
        parts += ["## Not measured", _table(("kernel", "reason"), "--", [(k, _line(v)) for k, v in found.failed.items()])]
    refused = {(model, _line(why)) for row in found.rows for model, why in row.refused.items()}
    if refused:
        parts += ["## Models that do not answer", _table(("model", "reason"), "--", sorted(refused))]
    return "\n\n".join(parts) + "\n"


def _about(found: Compared) -> str:
    document = found.document
    device, settings, profiler = document["device"], document["settings"], document["profiler"]
    idle = device["idle"]
    clocks = [row.row["measured"]["kernel"]["clock_hz"] / 1e6 for row in found.rows]
    memory = [row.row["measured"]["state"].get("memory_clock_hz", 0) / 1e6 for row in found.rows]
    held = sorted({why for row in found.rows for why in row.row["measured"]["state"].get("held_by", [])} - {"idle"})
    nvml = f"driver {idle['driver']}, " if "driver" in idle else ""
    caches = f"cold ({document['swept_l2s']} times the L2 is read before each run)" if settings["cold"] else "warm"
    lines = [
        f"- measured on {document['date']} with {document['tool']}; {nvml}CUDA {device['driver']}",
        f"- SM clock: {min(clocks):,.0f} to {max(clocks):,.0f} MHz, read by a kernel before each run" if clocks else "",
        f"- memory clock by NVML: {max(memory):,.0f} MHz" if any(memory) else "",
        f"- what held the clock down, by NVML: {', '.join(held)}" if held else "",
        f"- {settings['runs']} runs each after {settings['warm_up']}, caches {caches}; the median counts",
        f"- Nsight Compute {profiler['version']}" if profiler["kernels"] else f"- no Nsight Compute: {_line(profiler['why_not'])}",
        f"- predicted on {found.described}",
    ]
    return "\n".join(line for line in lines if line)


def _measured(found: Compared) -> str:
    header = (
        "kernel", "class", "half", "us", "spread", "empty, us", "less empty, us", "MHz", "cycles, events", "cycles, ncu", "bits",
    )  # fmt: skip
    lines = []
    for row in found.rows:
        measured = row.row["measured"]
        cells = [f"{measured['kernel'][name]:.2f}" for name in ("median", "spread")]
        bits = "same" if measured["equal"] else "other"
        half = "holdout" if row.kernel.holdout else "development"
        lines.append((
            row.kernel.name, _class(row), half, *cells, f"{measured['empty']['median']:.2f}",
            f"{row.net_microseconds:.2f}", f"{measured['kernel']['clock_hz'] / 1e6:,.0f}", _count(row.measured(EVENTS)),
            _count(row.measured(NCU)), bits if measured["repeatable"] else f"{bits}, differ from run to run",
        ))  # fmt: skip
    return _table(header, "---rrrrrrr-", lines)


def _buffers(found: Compared) -> str:
    lines = []
    for row in found.rows:
        measured = row.row["measured"]
        verdict = {True: "right", False: "WRONG", None: "not checked"}[measured["right"]["right"]]
        why = "; ".join(f"{reason}: {', '.join(f'`{o}`' for o in texts)}" for reason, texts in row.row["may_differ"].items())
        for buffer in measured["buffers"]:
            if buffer["differing"]:
                ulp = "" if buffer["largest_ulp"] is None else f"{buffer['largest_ulp']:,}"
                first = f"[{buffer['first']['index']}] {buffer['first']['found']} for {buffer['first']['expected']}"
                share = f"{buffer['differing']:,} of {buffer['elements']:,}"
                reason = why or "no instruction; a race would"
                lines.append((row.kernel.name, buffer["parameter"], share, ulp, first, verdict, reason))
    if not found.rows:
        return "No kernel was measured."
    if not lines:
        return "None: every element of every array of every kernel has the bits that the emulator gave it."
    header = (
        "kernel", "parameter", "elements", "largest difference, ulp", "first, found for expected", "by the suite's check",
        "may differ by",
    )  # fmt: skip
    return _table(header, "-rrr---", lines)


def _errors(found: Compared, by: str) -> str:
    lines = []
    for row in found.rows:
        cells = [_percent(row.error(model, by)) for model in found.models]
        lines.append((row.kernel.name, _class(row), _count(row.measured(by)), *cells))
    return _table(("kernel", "class", "measured", *(f"`{m}`" for m in found.models)), "--" + "r" * (1 + len(found.models)), lines)


def _mape(found: Compared, by: str) -> str:
    groups = {**{each: (each,) for each in MEMORY_CLASSES}, "all": MEMORY_CLASSES}
    lines = []
    for model in found.models:
        cells = []
        for classes in groups.values():
            errors = [row.error(model, by) for row in found.rows if row.kernel.expected_class in classes]
            there = [error for error in errors if error is not None]
            cells += [f"{mean_absolute_percentage_error(there):.1f} %", _percent(statistics.mean(there))] if there else ["", ""]
        lines.append((f"`{model}`", *cells))
    header = ["model"] + [f"{group}: {what}" for group in groups for what in ("MAPE", "mean")]
    return _table(header, "-" + "r" * (len(header) - 1), lines)


def _inputs(found: Compared) -> str:
    names = list(dict.fromkeys(each.name for row in found.rows for each in row.inputs))
    lines = []
    for row in found.rows:
        by_name = {each.name: each for each in row.inputs}
        lines.append((row.kernel.name, *(_input(by_name.get(name)) for name in names)))
    return _table(("kernel", *names), "-" + "r" * len(names), lines)


def _input(row: InputRow | None) -> str:
    """Relative error of a count, difference in points of a share."""
    if row is None:
        return ""
    if row.kind == SHARE:
        return "" if row.difference is None else f"{100 * row.difference:+.1f} points"
    return _percent(row.error) or f"{_count(row.predicted)} for 0"


def _class(row: KernelRow) -> str:
    return "MD" if row.kernel.expected_class == MEMORY_CLASSES[0] else "NMD"


def _percent(error: float | None) -> str:
    return "" if error is None else f"{100 * error:+.1f} %"


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _line(text: str) -> str:
    """A reason in one line that a table can hold."""
    return " ".join(text.replace("|", "/").split())


def _table(header: Sequence[str], kinds: str, rows: Sequence[Sequence[object]]) -> str:
    """Markdown; `kinds` has r for a column of numbers."""
    return "\n".join(_lines(header, kinds, rows))


def _lines(header: Sequence[str], kinds: str, rows: Sequence[Sequence[object]]) -> Iterator[str]:
    assert len(header) == len(kinds)
    yield f"| {' | '.join(header)} |"
    yield "|" + "|".join("---:" if kind == "r" else "---" for kind in kinds) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
