"""From a question to its answer, as events: the launch form, progress, the report's data, or an error with its lines."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from warpsight.analysis.report_data.kernel import Parts, advice_data, first_findings, first_report_data, profiled_report_data
from warpsight.analysis.report_data.loads import access_patterns
from warpsight.analysis.what_if import NONE
from warpsight.base import diskcache
from warpsight.base.diskcache import content_key
from warpsight.base.errors import LimitError, UsageError, WarpsightError
from warpsight.base.outputs import write_whole
from warpsight.base.progress import listening
from warpsight.base.room import give_back
from warpsight.explorer.designs import Bench, gpu_of
from warpsight.explorer.faults import error_document
from warpsight.explorer.launch_form import launch_form
from warpsight.explorer.question import Question
from warpsight.explorer.shown import shown
from warpsight.pipeline.evaluate import profile_trace
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.formats import json_line
from warpsight.reports.html.page import advice_part

Tell = Callable[[str, Any], None]
"""`tell(kind, data)`: one event, of plain values."""
Listener = Callable[[str, str], None]
"""The same with the data as one line of JSON: a report's has half a megabyte, which is written once on its way."""

_BETWEEN_S = 0.1  # two reports of progress
_MOST_PRINTED = 1 << 16
_KIND = "explorer"  # of what is in the cache
_NO_OTHERS: tuple[str, ...] = ()


def answer(question: Question, listener: Listener, *, forks: bool = True) -> Bench | None:
    """Answer `question`, and keep what is needed to predict the kernel on other GPUs; None after an error.

    The process changes into the folder of the question's text, whose files are told by their names alone. Every WarpsightError is
    told to `listener`; others are defects. Forks of the process make what takes long at the same time, unless `forks` is false.

    Events: `form`, the launch form, as soon as the text compiles; `note`; `progress`, with `stage`, `done` and `total`; `first`,
    the `document` of `first_report_data` as it is `shown` and the text that the kernel has `printed`; `advice`, that section of the
    report as HTML; then `result`, as `first` with the whole report's data, or `error`. What is looked at first is computed first.
    """

    process = os.getpid()

    def tell(kind: str, data: Any) -> None:
        if os.getpid() == process:  # a fork's words would mix with ours
            listener(kind, _from_here(data, os.path.join(os.getcwd(), "")))

    try:
        os.chdir(_folder_of(question))
        with listening(lambda text: tell("note", text)):
            return _answer(question, tell, forks)
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


def _from_here(data: Any, here: str) -> str:
    """JSON with the files below the folder `here` named from it: whoever reads an answer has another cache."""
    return json_line(data).replace(json.dumps(here)[1:-1], "")


def _answer(question: Question, tell: Tell, forks: bool) -> Bench:
    gpu = gpu_of(question.gpu, question.overrides)
    form = launch_form(question, gpu)
    tell("form", asdict(form))
    printed, watch = _Printed(), _watch(tell)
    request = form.request(question.file, output=printed)
    trace = obtain_trace(request, gpu=gpu, watch=watch)
    with ExitStack() as stack:
        # while this process simulates the caches, and then, beside the advice, all that takes long
        seen = stack.enter_context(Beside(lambda: access_patterns(trace, gpu, request), forks=forks))
        profiled = profile_trace(trace, gpu, models=[question.model], watch=watch)
        found = first_findings(profiled, gpu, question.model)
        first = first_report_data(profiled, gpu, found)
        tell("first", {"document": shown(first, os.path.abspath(question.file)), "printed": printed.getvalue()})

        def told(advice: dict[str, Any]) -> None:
            tell("advice", advice_part(first["predictions"][0], advice["advice"]))

        advised = stack.enter_context(Beside(lambda: advice_data(profiled, gpu, question.model, found=found), told, forks=forks))
        document = profiled_report_data(
            profiled, gpu, question.model, beside=_NO_OTHERS, parts=Parts(what_if=NONE, simulator=question.simulator),
            request=request, watch=watch, advice=advised.result, patterns=seen.result, found=found,
            elsewhere=lambda make: stack.enter_context(Beside(make, forks=forks)).result,
        )  # fmt: skip
    tell("result", {"document": document, "printed": printed.getvalue()})
    bench = Bench(request, question.model)
    bench.keep(gpu, trace, profiled.store)
    return bench


class Beside:
    """What `make` gives, plain values, made by a fork of this process while this one does other work, if the machine has several
    cores and `forks` is true; `listener` hears of it at once. What no fork delivers is made here, when it is asked for.
    """

    def __init__(
        self, make: Callable[[], Any], listener: Callable[[Any], None] = lambda found: None, *, forks: bool = True
    ) -> None:
        self._make, self._listener, self._forks = make, listener, forks
        self._found: Any = None
        self._pid, self._thread = 0, threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> Beside:
        if self._forks and len(os.sched_getaffinity(0)) > 1:
            give_back()  # else each of the two would copy what this one has freed, page by page, before it can use it
            self._reading, writing = os.pipe()
            with warnings.catch_warnings():
                # of threads that hold a lock: the others of this process only watch its memory, and hold none that is used here
                warnings.simplefilter("ignore", DeprecationWarning)
                self._pid = os.fork()
            if not self._pid:
                self._deliver(writing)
            os.close(writing)
            self._thread.start()
        return self

    def _deliver(self, writing: int) -> NoReturn:
        """In the fork."""
        try:
            with open(writing, "w", encoding="utf-8") as file:
                file.write(json_line(self._make()))
        finally:
            os._exit(0)

    def _receive(self) -> None:
        with open(self._reading, encoding="utf-8") as file, suppress(ValueError):  # of one that has ended before its time
            self._found = json.loads(file.read())
            self._listener(self._found)

    def result(self) -> Any:
        """What was made. Raises what `make` raises."""
        if self._pid:
            self._thread.join()
        if self._found is None:
            self._found = self._make()
            self._listener(self._found)
        return self._found

    def __exit__(self, *_: object) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._thread.join()


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
