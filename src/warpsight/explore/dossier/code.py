"""The code of a kernel with what each line costs: the documents of `explore/explain`, as short as a page needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.explore.explain.explanation import explain_profiled

if TYPE_CHECKING:
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.gpu.spec import GpuSpec

DIGITS = 5  # significant ones of a row's numbers: what a page shows has three
# What others tell: the sum of the stack, and `base` over all in cycles.
_TOLD = ("cpi", "issue_cycles")
_ALWAYS = ("file", "cause")


def code_views(profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> dict[str, Any]:
    """Explanation documents by PTX (or SASS) instruction, `line`, and where the kernel has any, by source line, `source`.

    They are those of `explain --json` but for this: there is no `prediction`, numbers of rows have five digits, components of a
    row that are 0 and columns that are None, `cpi` and `issue_cycles` are left out, `waits_for` has `pc` and `stall_cycles` (what
    that instruction is says its row in `line`), and `sources` are in one of the two alone.
    """
    views = ["source"] if any(instruction.file for instruction in profiled.trace.instructions) else []
    found: dict[str, Any] = {}
    for view in (*views, "line"):
        document = explain_profiled(profiled, gpu, model, view).to_json()
        document["rows"] = [_short(row) for row in document["rows"]]
        del document["prediction"]
        if found:
            del document["sources"], document["missing_sources"]
        found[view] = document
    return found


def _short(row: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in row.items() if key in _ALWAYS or (key not in _TOLD and value not in (None, ""))}
    shown["cpi_stack"] = {name: _rounded(value) for name, value in row["cpi_stack"].items() if value}
    shown["waits_for"] = [{"pc": each["pc"], "stall_cycles": _rounded(each["stall_cycles"])} for each in row["waits_for"]]
    return {key: _rounded(value) for key, value in shown.items()}


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short
