"""The code of a kernel with what each line costs: the documents of `explore/explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.explore.explain.explanation import explain_views

if TYPE_CHECKING:
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.gpu.spec import GpuSpec


def code_views(profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> dict[str, Any]:
    """Explanation documents by PTX (or SASS) instruction, `line`, and where the kernel has any, by source line, `source`.

    They are those of `explain --json` without the prediction; `sources` and `missing_sources` are in the first of the two alone.
    """
    views = ["source"] if any(instruction.file for instruction in profiled.trace.instructions) else []
    found: dict[str, Any] = {}
    for explanation in explain_views(profiled, gpu, model, (*views, "line")):
        document = explanation.to_json()
        del document["prediction"]
        if found:
            del document["sources"], document["missing_sources"]
        found[explanation.by] = document
    return found
