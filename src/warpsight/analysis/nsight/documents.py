"""Launches with their metrics as documents, for the text and the CSV of `ncu`: of a kernel, and of each launch of a program.

`ncu` flushes the caches before each kernel unless it is told otherwise, so launches begin in the state of the method: with cold
caches if that is not said to be another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from warpsight.analysis.nsight.metrics import METRICS, measured_metrics
from warpsight.analysis.nsight.quantities import Quantities
from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.base.progress import Watch, note
from warpsight.base.temporary import TemporaryFolder
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.evaluate import known_models, predict_profiled, profile_trace
from warpsight.pipeline.program_run import Selection, predict_program
from warpsight.pipeline.provenance import TOOL, running
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.pipeline.sampling import trace_to_predict
from warpsight.pipeline.tracing import launches_of
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import open_trace

Document = dict[str, Any]


@dataclass(frozen=True)
class LaunchFilter:
    """The launches of a program that are wanted: of kernels of a `name` (or `regex:EXPRESSION`), `count` of them after `skip`."""

    name: str = ""
    skip: int = 0
    count: int | None = None

    @property
    def expression(self) -> str:
        """A regular expression for the names of the kernels. Raises UsageError."""
        if not self.name.startswith("regex:"):
            return rf"^{re.escape(self.name)}(?:[<(].*)?$" if self.name else ""
        expression = self.name.removeprefix("regex:")
        try:
            re.compile(expression)
        except re.error as error:
            what = f'"{expression}" is not a regular expression: {error}'
            raise UsageError(what, place="kernel_name", remedy="write -k regex:'gemm|reduce'") from None
        return expression

    def chosen(self, launches: Sequence[Any]) -> Sequence[Any]:
        """Those that are wanted, of the launches of these kernels."""
        return launches[self.skip : None if self.count is None else self.skip + self.count]

    def chosen_documents(self, documents: Sequence[Document], origin: str) -> list[Document]:
        """The documents that are wanted, of all launches of `origin`. Raises UsageError for none."""
        found = self.chosen([each for each in documents if re.search(self.expression, each["kernel"])])
        if not found:
            raise _none_chosen(origin, [each["kernel"] for each in documents])
        return list(found)


def _none_chosen(origin: str, kernels: Iterable[str]) -> UsageError:
    remedy = f"kernels that were launched: {', '.join(dict.fromkeys(kernels)) or 'none'}"
    return UsageError(f"no launch of {origin} is chosen", place="kernel_name", remedy=remedy)


def kernel_documents(
    request: KernelRequest, gpu: GpuSpec, model: str, method: Method, *, watch: Watch | None = None
) -> list[Document]:
    """The launch of a kernel, or the launches in a trace of another tool. Raises as `warpsight predict`."""
    known_models([model])
    if request.is_foreign:
        return [_document(launch.trace(), gpu, model, method, watch) for launch in launches_of(request)]
    return [_document(trace_to_predict(request, gpu, model, method, watch=watch), gpu, model, method, watch)]


def program_documents(
    command: Sequence[str], gpu: GpuSpec, model: str, method: Method, wanted: LaunchFilter, *, level: str | None = None,
    stdout: IO[Any] | None = None, watch: Watch | None = None,
) -> tuple[list[Document], int]:
    """The launches of a program that are `wanted`, and its exit code, or 3 if it succeeded but a launch was refused.

    Raises as `warpsight run`, and UsageError for no launch.
    """
    last = None if wanted.count is None else wanted.skip + wanted.count
    selection = Selection(wanted.expression, 1, last)
    with TemporaryFolder() as folder:
        traces = Path(folder) / "traces"
        ran = predict_program(
            command, gpu, models=[model], method=method, selection=selection, folder=traces, level=level, stdout=stdout
        )
        rows = wanted.chosen([row for row in ran["launches"] if row.get("trace")])
        documents = [_document(open_trace(row["trace"]), gpu, model, method, watch) for row in rows]
    if not documents:
        raise _none_chosen(" ".join(command), (row["kernel"] for row in ran["launches"]))
    for row in ran["launches"]:
        if "error" in row:
            note(f"launch {row['number']}, {row['kernel']}, is left out: {row['error']}")
    code = int(ran["exit_code"])
    return documents, UnsupportedError.exit_code if code == 0 and ran["refused"] else code


def _document(trace: KernelTrace, gpu: GpuSpec, model: str, method: Method, watch: Watch | None) -> Document:
    """A launch: what and where it was, and its metrics by name, each with its unit."""
    profiled = profile_trace(trace, gpu, method, watch=watch)
    (prediction,) = predict_profiled(profiled, gpu, [model])
    values, header = measured_metrics(Quantities(profiled, running(gpu, prediction), prediction)), trace.header
    return {
        "tool": TOOL, "process": Path(header.source).name,
        "kernel": header.kernel, "grid": list(header.grid), "block": list(header.block),
        "device": gpu.name, "compute_capability": gpu.compute_capability, "model": model, "level": header.level,
        "caches_before": prediction.provenance["method"]["caches_before"],
        "metrics": {name: {"value": value, "unit": METRICS[name].unit} for name, value in values.items()},
    }
