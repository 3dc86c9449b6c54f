"""A process for each answer: forked from a warm one, within limits, and ended when nobody wants the answer any more."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

from warpsight.base import diskcache
from warpsight.base.errors import LimitError, WarpsightError
from warpsight.base.units import SIZE, format_quantity
from warpsight.explorer.confinement import confine
from warpsight.explorer.faults import error_document
from warpsight.explorer.question import Question
from warpsight.reports.formats import json_line

LAST = frozenset({"result", "error", "cancelled"})
"""The kinds of the last event of an answer."""
_WARM = "warpsight.explorer.warm"
_ANSWER = "warpsight.explorer.answer"
_LOOK_S = 0.05
_MOST_FILE = 1 << 30  # bytes of a file that an answer may write, as for the cache


@dataclass(frozen=True)
class Limits:
    """What an answer may take and do: `seconds` on the clock, `memory_bytes` on top of what a warm process has, and whether a text
    in `python` is run, which can do all that its user can.
    """

    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    python: bool = False


def warm() -> None:
    """Begin to load the process that answers are forked from, and do not wait for it."""
    _context()
    forkserver.ensure_running()


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_WARM])
    return context


class Worker:
    """The process that answers one question. `events` gives what it tells; after a result `designs` asks it about other GPUs;
    `end` ends it at once, with all that it has started.

    Starting it waits for the warm process, which the first one starts.
    """

    def __init__(self, question: Question, limits: Limits) -> None:
        context = _context()
        self._events, told = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=_work, args=(question, limits, told), name="answer", daemon=True
        )
        self._process.start()
        told.close()  # the process has the only one, so that its end is the end of the events

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return self._process.pid

    def events(self) -> Iterator[tuple[str, Any]]:
        """Kind and data of each event, to the last one (`LAST`), or until the process ends."""
        with suppress(EOFError, OSError):
            while True:
                kind, data = self._told()
                yield kind, data
                if kind in LAST:
                    return

    def designs(self, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """`Bench.answers` of the kernel that was answered. Raises EOFError or OSError when the process has ended."""
        self._events.send_bytes(json.dumps(wanted).encode())
        found: list[dict[str, Any]] = self._told()[1]
        return found

    def _told(self) -> tuple[str, Any]:
        # JSON, and not a pickle: what comes from a process that runs a stranger's kernel must not be able to run anything
        kind, data = json.loads(self._events.recv_bytes())
        return kind, data

    def end(self) -> None:
        """End the process."""
        pid = self._process.pid
        if pid is not None and self._process.is_alive():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # with the compilers that it runs
            self._process.kill()  # it may not have had a group of its own yet
        self._process.join()


def _work(question: Question, limits: Limits, told: Connection) -> None:
    """In the new process: answer within the limits, then tell about other GPUs, until it is ended."""
    os.setsid()
    if question.language != "python":  # which may do all that its user can
        _confine()
    telling = threading.Lock()

    def tell(kind: str, text: str) -> None:
        with telling:
            told.send_bytes(f"[{json.dumps(kind)}, {text}]".encode())

    most = _resident() + limits.memory_bytes
    threading.Thread(target=_watch, args=(most, limits, tell), daemon=True).start()
    os.register_at_fork(after_in_child=threading.Thread(target=_watch_fork, args=(most,), daemon=True).start)
    _limit(limits)
    module: Any = importlib.import_module(_ANSWER)  # loaded already in a process that is forked
    bench = module.answer(question, tell)
    with suppress(EOFError, OSError):
        while bench is not None:
            wanted = json.loads(told.recv_bytes())
            _limit(limits)
            tell("designs", json_line(bench.answers(wanted)))
    os._exit(0)  # what lies in memory need not be taken apart


def _confine() -> None:
    """Before there are threads: leave this process the folder of the cache, which holds its temporary files, too."""
    try:
        cache = diskcache.own_folder().resolve()
    except WarpsightError:  # the answer has no folder either, and says why
        return
    temporary = cache / "explorer" / "temporary"
    with suppress(OSError):  # without it, and without a cache, an answer says what is missing
        temporary.mkdir(0o700, parents=True, exist_ok=True)
    os.environ |= {"WARPSIGHT_CACHE": str(cache), "TMPDIR": str(temporary)}  # the setting of the cache lies in another folder
    tempfile.tempdir = str(temporary)
    confine(cache)


def _limit(limits: Limits) -> None:
    """Limits of this process for its next answer, and of those that it starts, which compilers may replace by their own. The clock
    is the server's.
    """
    processor = int(time.process_time() + limits.seconds * (os.cpu_count() or 1)) + 1
    for kind, most in ((resource.RLIMIT_CPU, processor), (resource.RLIMIT_FSIZE, _MOST_FILE), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _watch_fork(most_resident: int) -> None:
    """End a fork of this process past its memory. The process has the same limit, and says so if it does the work itself."""
    while _resident() <= most_resident:
        time.sleep(_LOOK_S)
    os._exit(1)


def _watch(most_resident: int, limits: Limits, tell: Callable[[str, str], None]) -> None:
    """End this process with the server, and past its memory: a limit of addresses would count what is only reserved."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    while parent.is_alive() and _resident() <= most_resident:
        parent.join(_LOOK_S)
    if parent.is_alive():
        what = f"needs more than the {format_quantity(limits.memory_bytes, SIZE)} of memory that an answer may take"
        error = LimitError(what, remedy="make the launch or the arrays smaller, or use `warpsight report`")
        tell("error", json_line(error_document(error)))
    os.killpg(0, signal.SIGKILL)
