"""An explanation: a prediction and the lines that its cycles come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.analysis.explanation_rows import VIEWS, Evidence, ExplanationRow, Table, divided, has_machine_code
from warpsight.base.errors import UsageError, suggestion
from warpsight.base.inputs import read_input
from warpsight.base.progress import Watch
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import waiting_pcs
from warpsight.intervals.usage import occurrences, path_use
from warpsight.models.base import components_of, get_model
from warpsight.pipeline.evaluate import ProfiledTrace, predict_profiled, profile_trace
from warpsight.pipeline.request import DEFAULT_METHOD, KernelRequest, Method
from warpsight.pipeline.tracing import obtain_trace
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace

_LARGEST_SOURCE = 1 << 26
_COMMENT = re.compile(r"/\*.*?\*/")  # SASS text has the instruction's address in a comment


def language(text: str) -> str:
    """`SASS` for text whose opcode is in capitals, else `PTX` (also for empty text)."""
    opcode = next((word for word in _COMMENT.sub("", text).split() if not word.startswith("@")), "")
    return "SASS" if opcode[:1].isupper() else "PTX"


def has_source_lines(trace: KernelTrace) -> bool:
    """Whether an instruction has a source line."""
    return any(instruction.file for instruction in trace.instructions)


def views_of(trace: KernelTrace) -> list[str]:
    """The views by line and instruction that a trace has, of `source`, `line` and `sass`; as the kernel was written first."""
    native = has_machine_code(trace)
    has = {
        "source": has_source_lines(trace), "line": not native or any(each.ptx_line for each in trace.instructions), "sass": native,
    }
    return [view for view in has if has[view]]


def place_of(file: str, line: int, instruction_line: int, text: str, address: int | None = None) -> str:
    """`kernel.cu:27`, or for an instruction without a source line `PTX line 63`; `text` tells PTX from SASS.

    An instruction of machine code that is not of the traces of other tools has an `address`: `SASS 0x000a0`.
    """
    name = file.replace("\\", "/").rpartition("/")[2]
    if file:
        return f"{name}:{line}"
    return f"{language(text)} line {instruction_line}" if address is None else f"SASS {address:#07x}"


def place_of_row(row: dict[str, Any]) -> str:
    """`place_of` a row of a result document."""
    address = row["machine"]["address"] if row.get("machine") else None
    return place_of(row["file"], row["line"], row["ptx_lines"][0], row["text"], address)


@dataclass(frozen=True)
class Explanation:
    """`rows` of one view (`by`: line, source, block, sass) and what is charged to no row (`rest`, CPI by component: mostly `idle`).

    For each component, the rows' `cpi_stack` and `rest` sum to the prediction's within 1e-9. `sources` holds the text of
    source lines by file and line number, for the files found; `missing` names the others.
    """

    prediction: Prediction
    by: str
    rows: tuple[ExplanationRow, ...]
    rest: dict[str, float]
    sources: dict[str, dict[int, str]]
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The result document."""
        prediction = self.prediction
        scale = prediction.cycles / prediction.cpi
        issue = prediction.cpi_stack.get("base", 0.0) * scale
        return {
            "kernel": prediction.kernel,
            "gpu": prediction.gpu,
            "model": prediction.model,
            "by": self.by,
            "cycles": prediction.cycles,
            "cpi": prediction.cpi,
            "cpi_stack": prediction.cpi_stack,
            "rows": [row.to_json() for row in self.rows],
            "rest": [
                {"component": name, "cpi": value, "share": value / prediction.cpi, "wait_cycles": value * scale}
                for name, value in self.rest.items()
            ],
            "totals": {"issue_cycles": issue, "wait_cycles": prediction.cycles - issue},
            "sources": {file: {str(line): text for line, text in lines.items()} for file, lines in self.sources.items()},
            "missing_sources": list(self.missing),
            "prediction": prediction.to_json(),
        }


def explain_profiled(profiled: ProfiledTrace, gpu: GpuSpec, model: str, by: str = "line") -> Explanation:
    """The explanation of `model`'s prediction for a profiled trace. Raises UsageError for an unknown model or view."""
    (explanation,) = explain_views(profiled, gpu, model, (by,))
    return explanation


def explain_views(profiled: ProfiledTrace, gpu: GpuSpec, model: str, views: Sequence[str]) -> list[Explanation]:
    """`explain_profiled` for several views; what they share is computed once."""
    for by in views:
        check_view(profiled.trace, by)
    (prediction,) = predict_profiled(profiled, gpu, [model])
    return explained(prediction, profiled, gpu, views)


def explained(prediction: Prediction, profiled: ProfiledTrace, gpu: GpuSpec, views: Sequence[str]) -> list[Explanation]:
    """The explanations of a `prediction` that was made of the profiled trace, by views that the trace has."""
    trace, profile = profiled.trace, profiled.profile
    assert profile.path is not None, "a profile made from a trace has its path"
    warps, _ = path_use(trace)
    waiting = waiting_pcs(trace, profile.path, profile.instructions)
    evidence = Evidence(trace, profiled.misses, profile, gpu, warps, occurrences(trace, warps), waiting)
    parts, rest = divided(prediction.cpi_stack, evidence, components_of(get_model(prediction.model)))
    table = Table(evidence, parts, prediction.cpi, prediction.cycles)
    sources, missing = _sources(trace)
    return [Explanation(prediction, by, table.rows(by), rest, sources, missing) for by in views]


def check_view(trace: KernelTrace, by: str) -> None:
    """Raise UsageError for a view that is not known, or that the trace has not."""
    if by not in VIEWS:
        what = f'"{by}" is not a view of an explanation{suggestion(by, VIEWS)}'
        raise UsageError(what, place="by", remedy=f"known: {', '.join(VIEWS)}")
    if by == "sass" and not has_machine_code(trace):
        remedy = "trace the kernel with level `sass`; in a trace of another tool, each instruction is a `line`"
        raise UsageError("the trace has no listing of machine code", place="by", remedy=remedy)


def explain_kernel(
    request: KernelRequest, gpu: GpuSpec, model: str, by: str | None = None, method: Method = DEFAULT_METHOD,
    *, watch: Watch | None = None,
) -> Explanation:
    """Explain a kernel or a trace folder; without `by`, by source line if the kernel has any (see `views_of`)."""
    get_model(model)
    trace = obtain_trace(request, gpu=gpu, watch=watch)
    view = by or views_of(trace)[0]
    check_view(trace, view)
    return explain_profiled(profile_trace(trace, gpu, method, watch=watch), gpu, model, view)


def _sources(trace: KernelTrace) -> tuple[dict[str, dict[int, str]], tuple[str, ...]]:
    """For each file, the lines from the first to the last with an instruction; and the files that were not found."""
    lines_of: dict[str, list[int]] = {}
    for instruction in trace.instructions:
        if instruction.file:
            lines_of.setdefault(instruction.file, []).append(instruction.line)
    sources: dict[str, dict[int, str]] = {}
    missing = []
    for file, lines in sorted(lines_of.items()):
        try:
            text = read_input(file, _LARGEST_SOURCE).decode("utf-8", "replace").splitlines()
        except (OSError, ValueError):
            missing.append(file)
            continue
        sources[file] = {line: text[line - 1] for line in range(max(1, min(lines)), min(len(text), max(lines)) + 1)}
    return sources, tuple(missing)
