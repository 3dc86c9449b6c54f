"""Tasks on workers that come and go, through a scheduler of `dask.distributed`: lost ones run again, elsewhere."""

from __future__ import annotations

import importlib
import logging
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic
from uuid import uuid4

from warpsight.base.errors import UsageError
from warpsight.base.progress import Progress
from warpsight.jobs.executor import Executor, Task, TaskOutcome, Tell, record_outcome
from warpsight.jobs.fingerprint import identity
from warpsight.jobs.remote import entry

if TYPE_CHECKING:
    from distributed import Client, Future

_NOISY = ("distributed", "tornado", "asyncio", "dask_jobqueue")
_QUIET: list[dict[str, int]] = []  # the levels from before, then an entry for each that wants quiet


def cluster_library(name: str) -> ModuleType:
    """The module `distributed` or `dask_jobqueue`. Raises UsageError when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = f"this executor needs a library that is not installed: {error}"
        raise UsageError(what, place="executor", remedy="`python -m pip install distributed dask-jobqueue`") from None


def quiet() -> Callable[[], None]:
    """Keeps the libraries from logging to the terminal: what matters is said by Warpsight. Returns what undoes it, once."""
    if not _QUIET:
        _QUIET.append({})
        for name in {*_NOISY, *(name for name in logging.root.manager.loggerDict if name.split(".")[0] in _NOISY)}:
            logger = logging.getLogger(name)
            if logger.level or name in _NOISY:  # others do as the one above them
                _QUIET[0][name] = logger.level
                logger.setLevel(logging.CRITICAL + 1)
    _QUIET.append({})

    def undo() -> None:
        _QUIET.pop()
        if len(_QUIET) == 1:
            for name, level in _QUIET.pop().items():
                logging.getLogger(name).setLevel(level)

    return undo


# -- The executor.

DEATHS = 3
"""After how many deaths of its workers a task is suspected; suspects then run alone, and after as many are refused."""
_CLIENT_TRIES = 3
_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 3.0  # by then a worker that died has restarted
_ANSWER_SECONDS = 30.0
_GO_ON = "finished results are kept; the same command continues"
_KILLER = "its workers terminated without an error message, even when it ran alone; they may have run out of memory"


@dataclass(frozen=True)
class Connection:
    """A client of a scheduler, how to end it, and what is known to keep workers from coming (nothing: an empty text)."""

    client: Client
    close: Callable[[], None]
    trouble: Callable[[], str] = lambda: ""


def new_client(distributed: ModuleType, to: Any, **settings: Any) -> Any:
    """A Dask client of an address or a cluster, which is not the process's default.

    Its event loop is a thread, of which Dask asserts that it starts within ten seconds; a busy machine now and then misses that.
    Raises RuntimeError when it does so again and again, and what Dask raises.
    """
    for _ in range(_CLIENT_TRIES):
        try:
            return distributed.Client(to, set_as_default=False, **settings)
        except AssertionError:
            continue
    raise RuntimeError("the event loop of the client does not start")


class ClusterExecutor(Executor):
    """Runs tasks on the workers of the scheduler that `connect` connects to, on the first run; the connection is kept.

    If no worker is available, it reports that by `tell` and waits `worker_timeout` seconds. Raises UsageError when none comes, when
    the scheduler is lost, and when a worker has another installation than this process.
    """

    def __init__(self, name: str, connect: Callable[[], Connection], worker_timeout: float, tell: Tell) -> None:
        self.name = name
        self._connect, self._worker_timeout, self._tell = connect, worker_timeout, tell
        self._connection: Connection | None = None
        self._presence: _Presence | None = None

    def run(self, work: Callable[[Task], str], tasks: Sequence[Task], progress: Progress | None = None) -> dict[Task, str]:
        """As `Executor.run`. A task whose workers died, `DEATHS` of them also when it ran alone, has that as its reason."""
        distinct = list(dict.fromkeys(tasks))
        if progress is not None:
            progress(0, len(distinct))
        if not distinct:
            return {}
        try:
            self._connection = self._connection or self._connect()
            self._presence = self._presence or _Presence(self._connection, self._worker_timeout, self._tell)
            run = _Run(self._connection, work, self._presence, progress, len(distinct))
            # a worker's death is blamed on all that it held: alone, a task shows whether it was to blame
            for suspect in run.go(distinct):
                if run.go([suspect]):
                    run.refuse(suspect, _KILLER)
        except BaseException:
            self.close()
            raise
        return run.reasons

    def close(self) -> None:
        """Leave the scheduler; workers that were started for it end."""
        connection, self._connection, self._presence = self._connection, None, None
        if connection is not None:
            connection.close()


class _Presence:
    """Checks from time to time whether a worker is available."""

    def __init__(self, connection: Connection, timeout: float, tell: Tell) -> None:
        self._connection, self._timeout, self._tell = connection, timeout, tell
        self._alone_since: float | None = None
        self._announced = self._announced_threads = False

    def look(self) -> None:
        """Raises UsageError when the scheduler does not answer, or when no worker has been there for the time limit."""
        client = self._connection.client
        try:
            if client.status != "running":
                raise OSError(client.status)
            threads: dict[str, int] = client.sync(client.scheduler.ncores, callback_timeout=_ANSWER_SECONDS)
        except (OSError, RuntimeError, AttributeError, TimeoutError):
            raise lost() from None
        if threads:
            if self._announced:
                self._tell("a worker is available")
            self._alone_since, self._announced = None, False
            most = max(threads.values())
            if most > 1 and not self._announced_threads:
                self._announced_threads = True
                self._tell(f"a worker has {most} threads, of which one is used: start workers with --nworkers {most} --nthreads 1")
            return
        if trouble := self._connection.trouble():
            raise UsageError(f"no worker starts: {trouble}", place="executor", remedy=_GO_ON)
        now = monotonic()
        self._alone_since = self._alone_since or now
        if now - self._alone_since > _PATIENCE_SECONDS and not self._announced:
            self._announced = True
            self._tell(f"no worker is available; waiting up to {self._timeout:g} s for one")
        if now - self._alone_since > self._timeout:
            what = f"no worker was available for {self._timeout:g} s"
            raise UsageError(what, place="worker_timeout", remedy=f"start workers, or read their output; {_GO_ON}")


def lost() -> UsageError:
    """The error of a scheduler that was there and is no more, or has forgotten what it was given."""
    return UsageError("the scheduler was lost, or restarted", place="scheduler", remedy=f"start it again; {_GO_ON}")


class _Run(Generic[Task]):
    """One run: which tasks are out, what came of the others."""

    def __init__(
        self, connection: Connection, work: Callable[[Task], str], presence: _Presence, progress: Progress | None, total: int
    ) -> None:
        self.reasons: dict[Task, str] = {}
        self._client, self._work, self._presence = connection.client, work, presence
        self._progress, self._done, self._total = progress, 0, total

    def go(self, tasks: Sequence[Task]) -> list[Task]:
        """Run the tasks; those whose workers died too often, in order."""
        self._presence.look()
        payloads = [pickle.dumps((self._work, task)) for task in tasks]
        name = f"warpsight-{uuid4().hex}"
        keys = [(name, number) for number in range(len(tasks))]
        out: dict[int, Future] = dict(enumerate(self._client.map(entry(), payloads, key=keys, pure=False, expected=identity())))
        try:
            return [tasks[number] for number in sorted(self._collect(tasks, out))]
        except BaseException:  # above all KeyboardInterrupt: no task continues without the user
            with suppress(Exception):
                self._client.cancel(list(out.values()), force=True)
            raise

    def _collect(self, tasks: Sequence[Task], out: dict[int, Future]) -> list[int]:
        """Take the tasks of `out` out of it as they end; the numbers of those whose workers died too often."""
        from distributed import KilledWorker

        arrived: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        for number, future in out.items():
            self._client.loop.add_callback(_follow, number, future, arrived)
        suspects: list[int] = []
        next_look = monotonic()
        while out:
            if monotonic() >= next_look:
                self._presence.look()
                next_look = monotonic() + _LOOK_SECONDS
            try:
                number, result = arrived.get(timeout=_LOOK_SECONDS)
            except Empty:
                continue
            if isinstance(result, KilledWorker):
                suspects.append(number)
            else:
                self._take(tasks[number], result)
            del out[number]  # the scheduler drops a task whose future is deleted
        return suspects

    def _take(self, task: Task, result: Any) -> None:
        """Enter a worker's result of a task. Raises UsageError when the task was not run."""
        from distributed import CancelledError

        if isinstance(result, (CancelledError, OSError)):  # of its connection: what a task raises does not come as an exception
            raise lost()
        if isinstance(result, BaseException):
            what = f"a worker cannot run tasks: {type(result).__name__}: {result}"
            raise UsageError(what, place="executor", remedy=f"install the same packages everywhere; {_GO_ON}")
        kind, text, end = result
        if kind == "refused":
            what = f"a worker has a different installation: {text}"
            raise UsageError(what, place="executor", remedy=f"install the same versions everywhere, or stop that worker; {_GO_ON}")
        record_outcome(self.reasons, task, TaskOutcome(text, end))
        self._count()

    def refuse(self, task: Task, reason: str) -> None:
        """Enter that `task` failed."""
        self.reasons[task] = reason
        self._count()

    def _count(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


async def _follow(number: int, future: Future, arrived: SimpleQueue[tuple[int, Any]]) -> None:
    """Runs beside the others in the client's loop, so that a result that must be computed again delays no other."""
    try:
        result: Any = await future
    except BaseException as error:
        result = error
    arrived.put((number, result))
