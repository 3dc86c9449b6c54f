"""The explorer in a notebook: its page's parts as a widget, whose messages are answered here, without a server."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from warpsight.analysis.report_data.kernel import advice_data, first_report_data
from warpsight.base.errors import WarpsightError
from warpsight.explorer.designs import Bench, choices, key_rows, key_settings
from warpsight.explorer.faults import error_document
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.sources import TEXT
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.pipeline.request import KernelRequest
from warpsight.reports.formats import plain

_SHOWN = ("title", "predictions", "speed_of_light", "advice")  # of the report's data


class ExplorerWidget(anywidget.AnyWidget):
    """A kernel's time, CPI stack, advice and lines on a GPU, with sliders over its keys and other GPUs side by side.

    `request` made the trace that is profiled on `gpu`, and that `model` predicts. `shown` is what the front end draws (`Shown` in
    explorer/src/widget.tsx).
    """

    _esm = Path(str(files("warpsight.explorer"))) / "built" / "widget.js"
    shown = traitlets.Dict().tag(sync=True)

    def __init__(self, request: KernelRequest, profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> None:
        document = plain(first_report_data(profiled, gpu, model) | {"advice": advice_data(profiled, gpu, model)})
        self._bench = Bench(request, model, gpu)
        self._bench.keep(gpu, profiled.trace, profiled.store)
        answer = {"document": {name: document[name] for name in _SHOWN}, "printed": ""}
        lines = source_lines(document["code"].get("source"), request.path)
        super().__init__(shown={"answer": answer, "lines": lines, "gpu": gpu.name, "choices": choices()})
        self.on_msg(lambda _, message, buffers: self.send(self.reply(message)))

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a message of the front end: {"id", "kind": keys, settings or designs, "data"} gives {"id", "answer"}, or
        {"id", "error"}.
        """
        try:
            return {"id": message["id"], "answer": self._answer(message["kind"], message["data"])}
        except WarpsightError as error:
            return {"id": message["id"], "error": error_document(error)}

    def _answer(self, kind: str, data: dict[str, Any]) -> list[dict[str, Any]]:
        if kind == "designs":
            return self._bench.answers(data["designs"])
        gpu = self._bench.gpu(data["gpu"], data["overrides"])
        return key_rows(gpu) if kind == "keys" else [key_settings(gpu, key) for key in data["keys"]]


def source_lines(view: dict[str, Any] | None, kernel: Any) -> list[dict[str, Any]]:
    """The lines of source of a kernel with their share of the cycles, from the first that has one to the last, file by file.

    `view` is the explanation by source line; None, of a kernel without line information, has no lines. `kernel` may be its text,
    which is in no file.
    """
    if view is None:
        return []
    rows = {(row["file"], row["line"]): row for row in view["rows"] if row["line"]}
    texts = {file: {int(line): text for line, text in lines.items()} for file, lines in view["sources"].items()}
    if isinstance(kernel, str):
        own = dict(enumerate(kernel.splitlines(), 1))
        texts |= {file: own for file in view["missing_sources"] if Path(file).name == TEXT}
    lines = {(file, line): text for file, own in texts.items() for line, text in own.items()}
    nothing = {"share": 0.0, "cause": ""}
    return [
        {"file": file, "line": line, "text": lines.get((file, line), ""),
         **{name: rows.get((file, line), nothing)[name] for name in nothing}}
        for file, line in sorted(lines.keys() | rows.keys())
    ]  # fmt: skip
