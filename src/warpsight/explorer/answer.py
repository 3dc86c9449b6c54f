"""From a question to its answer, as events: the launch form, progress, the report's data, or an error with its lines."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warpsight.analysis.report_data.kernel import Parts, advice_data, first_report_data, profiled_report_data
from warpsight.analysis.what_if import NONE
from warpsight.base import diskcache
from warpsight.base.diskcache import content_key
from warpsight.base.errors import LimitError, UsageError, WarpsightError
from warpsight.base.outputs import write_whole
from warpsight.base.progress import listening
from warpsight.explorer.designs import Bench, gpu_of
from warpsight.explorer.faults import error_document
from warpsight.explorer.launch_form import launch_form
from warpsight.explorer.question import Question
from warpsight.explorer.shown import shown
from warpsight.pipeline.evaluate import profile_trace
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.formats import json_line

Tell = Callable[[str, Any], None]
"""`tell(kind, data)`: one event, of plain values."""

_BETWEEN_S = 0.1  # two reports of progress
_MOST_PRINTED = 1 << 16
_KIND = "explorer"  # of what is in the cache
_NO_OTHERS: tuple[str, ...] = ()


def answer(question: Question, listener: Tell) -> Bench | None:
    """Answer `question`, and keep what is needed to predict the kernel on other GPUs; None after an error.

    The process changes into the folder of the question's text, whose files are told by their names alone. Every WarpsightError is
    told to `listener`; others are defects.

    Events: `form`, the launch form, as soon as the text compiles; `note`; `progress`, with `stage`, `done` and `total`; `first`,
    the `document` of `first_report_data` as it is `shown` and the text that the kernel has `printed`; `advice`, that of the
    report's data; then `result`, as `first` with the whole report's data, or `error`. What is looked at first is computed first.
    """

    def tell(kind: str, data: Any) -> None:
        listener(kind, _from_here(data, os.path.join(os.getcwd(), "")))

    try:
        os.chdir(_folder_of(question))
        with listening(lambda text: tell("note", text)):
            return _answer(question, tell)
    except WarpsightError as error:
        tell("error", error_document(error))
    except MemoryError:
        remedy = "make the launch or the arrays smaller, or use `warpsight report`, which has no such limit"
        tell("error", error_document(LimitError("needs more memory than an answer may take", remedy=remedy)))
    return None


def _folder_of(question: Question) -> Path:
    """The folder of the cache with the question's text. Each text has its own, always the same: compilers write its absolute name
    into what they make, which is kept by the text.
    """
    try:
        folder = diskcache.own_folder() / _KIND / content_key(question.source)
        folder.mkdir(0o700, parents=True, exist_ok=True)
        write_whole(folder / question.file, question.source)
    except OSError as error:
        remedy = "set WARPSIGHT_CACHE to a folder that can be written"
        raise UsageError(f"the kernel cannot be written: {error.strerror}", place=str(diskcache.folder()), remedy=remedy) from None
    return folder


def _from_here(data: Any, here: str) -> Any:
    """`plain` values with the files below the folder `here` named from it: whoever reads an answer has another cache."""
    return json.loads(json_line(data).replace(json.dumps(here)[1:-1], ""))


def _answer(question: Question, tell: Tell) -> Bench:
    gpu = gpu_of(question.gpu, question.overrides)
    form = launch_form(question, gpu)
    tell("form", asdict(form))
    printed, watch = _Printed(), _watch(tell)
    request = form.request(question.file, output=printed)
    trace = obtain_trace(request, gpu=gpu, watch=watch)
    profiled = profile_trace(trace, gpu, watch=watch)
    first = shown(first_report_data(profiled, gpu, question.model), os.path.abspath(question.file))
    tell("first", {"document": first, "printed": printed.getvalue()})
    advice = advice_data(profiled, gpu, question.model, watch)
    tell("advice", advice)
    parts = Parts(what_if=NONE, simulator=question.simulator)
    document = profiled_report_data(
        profiled, gpu, question.model, beside=_NO_OTHERS, parts=parts, request=request, watch=watch
    )
    tell("result", {"document": document | {"advice": advice}, "printed": printed.getvalue()})
    bench = Bench(request, question.model)
    bench.keep(gpu, trace, profiled.store)
    return bench


def _watch(tell: Tell) -> Callable[[str, int, int], None]:
    """Progress as events, ten a second at most."""
    last = [0.0]

    def watch(stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] >= _BETWEEN_S:
            last[0] = now
            tell("progress", {"stage": stage, "done": done, "total": total})

    return watch


class _Printed(io.StringIO):
    """What a kernel prints, up to a limit."""

    def write(self, text: str) -> int:
        left = _MOST_PRINTED - self.tell()
        if left > 0:
            super().write(text[:left])
        return len(text)
