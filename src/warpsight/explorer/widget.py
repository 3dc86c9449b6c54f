"""The explorer in a notebook: its page's parts as a widget, whose messages are answered here, without a server."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from warpsight.analysis.report_data.kernel import Parts, advice_data, profiled_report_data
from warpsight.analysis.what_if import NONE
from warpsight.base.errors import WarpsightError
from warpsight.explorer.designs import Bench, choices, key_rows, key_settings
from warpsight.explorer.faults import error_document
from warpsight.explorer.shown import shown_lines, shown_parts
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.sources import TEXT
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.simulation import simulate_trace
from warpsight.reports.formats import plain
from warpsight.reports.html.page import accesses


class ExplorerWidget(anywidget.AnyWidget):
    """A kernel's time, CPI stack, advice and lines on a GPU, the accesses of a line, sliders over the GPU's keys, and other GPUs.

    `request` made the trace that is profiled on `gpu`, and that `model` predicts. `shown` is what the front end draws (`Shown` in
    explorer/src/widget.tsx).
    """

    _esm = Path(str(files("warpsight.explorer"))) / "built" / "widget.js"
    shown = traitlets.Dict().tag(sync=True)

    def __init__(self, request: KernelRequest, profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> None:
        document = profiled_report_data(
            profiled, gpu, model, beside=(), parts=Parts(what_if=NONE), request=request,
            advice=lambda: advice_data(profiled, gpu, model),
        )  # fmt: skip
        self._document, self._profiled, self._gpu = plain(document), profiled, gpu
        self._bench = Bench(request, model, gpu)
        self._bench.keep(gpu, profiled.trace, profiled.store)
        answer = {"document": shown_parts(self._document), "printed": ""}
        lines = shown_lines(self._document, _texts(self._document, request))
        super().__init__(shown={"answer": answer, "lines": lines, "gpu": gpu.name, "choices": choices()})
        self.on_msg(lambda _, message, buffers: self.send(self.reply(message)))

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a message of the front end: {"id", "kind": keys, settings, designs, accesses or simulation, "data"}
        gives {"id", "answer"}, or {"id", "error"}.
        """
        try:
            return {"id": message["id"], "answer": self._answer(message["kind"], message["data"])}
        except WarpsightError as error:
            return {"id": message["id"], "error": error_document(error)}

    def _answer(self, kind: str, data: dict[str, Any]) -> list[dict[str, Any]] | str | float:
        if kind == "designs":
            return self._bench.answers(data["designs"])
        if kind == "accesses":
            return accesses(self._document, data["file"], data["line"])
        if kind == "simulation":
            return self._simulated()
        gpu = self._bench.gpu(data["gpu"], data["overrides"])
        return key_rows(gpu) if kind == "keys" else [key_settings(gpu, key) for key in data["keys"]]

    def _simulated(self) -> float:
        """The seconds that the simulator takes the kernel to need. Raises as `simulate_launch`."""
        profiled, before = self._profiled, self._profiled.method.caches_before
        simulated = simulate_trace(profiled.trace, self._gpu, resident=profiled.occupancy, caches_before=before)
        return simulated.prediction.seconds


def _texts(document: dict[str, Any], request: KernelRequest) -> dict[str, str]:
    """The kernel's text by the name that it has in the document, where it is in no file."""
    text, view = request.path, document["code"].get("source")
    if view is None or not isinstance(text, str):
        return {}
    return {file: text for file in view["missing_sources"] if Path(file).name == TEXT}
