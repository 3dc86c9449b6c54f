"""Questions on their way to answers: the last one of a browser's tab wins, events can be read from the beginning, again."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from warpsight.base.errors import LimitError, UsageError, WarpsightError
from warpsight.explorer.faults import error_document
from warpsight.explorer.project import Project
from warpsight.explorer.question import Question
from warpsight.explorer.shown import shown
from warpsight.explorer.worker import LAST, Limits, Worker

_AT_ONCE = 2
_KEPT = 16
_ALIVE = 4  # processes that wait for what is asked about other GPUs
_IDLE_S = 1800.0
_REPORT = "make the launch smaller, or use `warpsight report`"


@dataclass(frozen=True)
class Event:
    """One event of a run: its `kind`, and `data` of plain values. The last one is a result, an error, or that it was cancelled."""

    kind: str
    data: Any


@dataclass(frozen=True)
class _Asked:
    """Designs to predict after the answer."""

    designs: list[dict[str, Any]]
    reply: asyncio.Future[list[dict[str, Any]]]


@dataclass
class Run:
    """A question of a `session`, which is one tab of a browser, and its events so far.

    Its `task` has the process: first it answers, then it is `asked` about other GPUs.
    """

    ident: str
    session: str
    question: Question
    events: list[Event] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    asked: asyncio.Queue[_Asked] = field(default_factory=asyncio.Queue)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, or will be one."""
        return self.task is not None and not self.task.done()

    @property
    def has_ended(self) -> bool:
        """Whether its last event has been told."""
        return bool(self.events) and self.events[-1].kind in LAST

    def tell(self, kind: str, data: Any) -> None:
        """Add an event, unless the last one has been told."""
        if not self.has_ended:
            self.events.append(Event(kind, data))
            self._more.set()
            self._more = asyncio.Event()

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[int, Event]]:
        """The events from number `after` on, each with the number of the next one, to the last one."""
        while True:
            more = self._more
            while after < len(self.events):
                after += 1
                yield after, self.events[after - 1]
            if self.has_ended:
                return
            await more.wait()


class Runs:
    """The runs of a server. `start` makes a worker; answers are kept as versions of `project`."""

    def __init__(
        self, project: Project, limits: Limits, start: Callable[[Question, Limits], Worker] = Worker, at_once: int = _AT_ONCE
    ) -> None:
        self._project, self._limits, self._start = project, limits, start
        self._places = asyncio.Semaphore(at_once)
        self._runs: dict[str, Run] = {}

    def ask(self, session: str, question: Question) -> Run:
        """Begin to answer. What the same session asked before is cancelled. Raises UsageError for Python where it is not run."""
        if question.language == "python" and not self._limits.python:
            what = "a kernel in Python is a program that can do all that you can, so that this server does not run it"
            remedy = "start `warpsight serve --python` if you trust all texts of this folder"
            raise UsageError(what, place=question.file, remedy=remedy)
        for other in self._runs.values():
            if other.session == session:
                self._cancel(other)
        run = Run(secrets.token_hex(8), session, question)
        self._runs[run.ident] = run
        run.task = asyncio.create_task(self._answer(run))
        ended = [each for each in self._runs.values() if each.has_ended]
        for each in [each for each in ended if each.is_alive][:-_ALIVE]:
            self._cancel(each)
        for each in ended[:-_KEPT]:
            del self._runs[each.ident]
        return run

    async def designs(self, run: Run, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The predictions of an answered kernel for other designs (`Bench.answers`). Raises UsageError when its process has ended,
        and LimitError when they take too long.
        """
        if not run.is_alive:
            raise _gone()
        asked = _Asked(wanted, asyncio.get_running_loop().create_future())
        run.asked.put_nowait(asked)
        return await asked.reply

    def find(self, ident: str) -> Run | None:
        """The run of that name; None if there is none (any more)."""
        return self._runs.get(ident)

    def cancel(self, ident: str) -> None:
        """End a run, if it has not ended."""
        if run := self.find(ident):
            self._cancel(run)

    async def close(self) -> None:
        """Cancel all runs, and wait until their processes have ended."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for run in self._runs.values():
            self._cancel(run)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cancel(self, run: Run) -> None:
        run.tell("cancelled", {})
        if run.task is not None:
            run.task.cancel()

    async def _answer(self, run: Run) -> None:
        """Run a worker for the question, tell what it tells, and ask it about other GPUs until the run is cancelled.

        The clock runs from when the warm process has forked it.
        """
        worker: Worker | None = None
        try:
            async with self._places:
                run.tell("progress", {"stage": "starting", "done": 0, "total": 0})
                worker = await self._started(run.question)
                async with asyncio.timeout(self._limits.seconds):
                    await asyncio.to_thread(self._pass_on, run, worker, asyncio.get_running_loop())
            while run.events[-1].kind == "result":
                await self._ask(worker, await asyncio.wait_for(run.asked.get(), _IDLE_S))
        except TimeoutError:
            run.tell("error", error_document(self._too_long()))
        except Exception as error:
            what = "its process cannot be started" if worker is None else "its process ended"
            run.tell("error", error_document(LimitError(f"{what}: {error}", remedy=_REPORT)))
        finally:
            if worker is not None:
                await asyncio.shield(asyncio.to_thread(worker.end))
            while not run.asked.empty():  # after the last wait, so that nobody asks a process that will not reply
                run.asked.get_nowait().reply.set_exception(_gone())

    async def _started(self, question: Question) -> Worker:
        starting = asyncio.create_task(asyncio.to_thread(self._start, question, self._limits))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.to_thread((await starting).end)  # a process that has begun must be ended
            raise

    async def _ask(self, worker: Worker, asked: _Asked) -> None:
        """Reply to what is asked about other GPUs. What ends the process is an error of the reply."""
        reply = asked.reply
        try:
            async with self._places, asyncio.timeout(self._limits.seconds):
                found = await asyncio.to_thread(worker.designs, asked.designs)
        except BaseException as error:
            if not reply.done():
                reply.set_exception(self._too_long() if isinstance(error, TimeoutError) else _gone())
            raise
        if not reply.done():  # whoever asked may have gone
            reply.set_result(found)

    def _too_long(self) -> LimitError:
        what = f"takes longer than the {self._limits.seconds:g} s that an answer may take"
        return LimitError(what, remedy="make the launch smaller, or start the server with a larger --seconds")

    def _pass_on(self, run: Run, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: the events of `worker`. A process that ends without a last one is an error, too."""
        form: Any = None
        last = ""
        for kind, data in worker.events():
            if kind == "form":
                form = data
            loop.call_soon_threadsafe(run.tell, kind, self._kept(run.question, form, data) if kind == "result" else data)
            last = kind
        if last not in LAST:
            error = LimitError("its process ended without an answer; it may have run out of memory or time", remedy=_REPORT)
            loop.call_soon_threadsafe(run.tell, "error", error_document(error))

    def _kept(self, question: Question, form: Any, data: dict[str, Any]) -> dict[str, Any]:
        """What is shown of the result, with the number of its version, or why it could not be kept."""
        result = data | {"document": shown(data["document"], question.file)}
        try:
            return result | {"version": self._project.keep(question, form, data["document"])}
        except WarpsightError as error:
            return result | {"not_kept": str(error)}


def _gone() -> UsageError:
    return UsageError("the process of this answer has ended", place="designs", remedy="run the kernel again")
