"""Who runs many tasks: executors by name behind one protocol, ours and those of installed plug-ins.

Every executor runs a task by `attempt`, whose outcome is plain data, so that it passes between processes and machines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import NamedTuple, Protocol, TypeVar

from warpsight.base.errors import NotKept, UsageError, WarpsightError
from warpsight.base.progress import Progress
from warpsight.base.registry import Registry

Task = TypeVar("Task", bound=Hashable)
Tell = Callable[[str], None]
"""Takes a message for people, such as `no worker is available`, during a run."""


class Executor(Protocol):
    """Runs tasks. It may hold processes or a cluster between its runs: `close` it, or use it as a context."""

    name: str

    def run(self, work: Callable[[Task], str], tasks: Sequence[Task], progress: Progress | None = None) -> dict[Task, str]:
        """`work` on every task; the reasons of those that failed.

        `work` is a function of a module, which workers can import; tasks are frozen plain data. It keeps its result itself, in a
        folder that all workers reach, and returns nothing or the reason why it has none; an exception is a reason too. A task may
        run more than once, where a worker was lost, so that running it again must change nothing. Equal tasks run once.

        Raises NotKept when `work` does, and UsageError if no task can continue; finished results are kept.
        """

    def close(self) -> None:
        """Releases processes and connections. Nothing continues afterwards."""
        return

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class Settings:
    """What an executor is made from; None and empty: not given.

    `jobs` is a number of processes, `scheduler` an address, `slurm` are `key=value` texts, `worker_timeout` is in seconds.
    """

    jobs: int | None = None
    scheduler: str | None = None
    slurm: tuple[str, ...] = ()
    worker_timeout: float | None = None


@dataclass(frozen=True)
class ExecutorKind:
    """An executor: a line about it, the settings that it `takes`, and how it is made."""

    about: str
    takes: frozenset[str]
    make: Callable[[Settings, Tell], Executor]


EXECUTORS: Registry[ExecutorKind] = Registry("executor", "warpsight.executors", "warpsight.jobs.executors")


def make_executor(
    name: str | None, *, jobs: int | None = None, scheduler: str | None = None, slurm: Sequence[str] = (),
    worker_timeout: float | None = None, tell: Tell | None = None,
) -> Executor:
    """The executor called `name`; None: `inline` for one job, else `processes`. `jobs` None: one for each core.

    `tell` takes messages during the run (None: to stderr). Raises UsageError for an unknown name, a setting that this
    executor does not take or that is wrong, and a library that is not installed.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} processes is not a valid number", place="jobs", remedy="give 1 or more")
    if worker_timeout is not None and not 0 < worker_timeout < float("inf"):
        raise UsageError(f"{worker_timeout:g} s is not a valid time", place="worker_timeout", remedy="give seconds, more than 0")
    settings = Settings(jobs, scheduler, tuple(slurm), worker_timeout)
    if name is None and (jobs or default_jobs()) == 1:
        name, settings = "inline", Settings(None, scheduler, tuple(slurm), worker_timeout)
    name = name or "processes"
    kind = EXECUTORS.get(name, place="executor")
    for field in fields(Settings):
        if getattr(settings, field.name) not in {None, ()} and field.name not in kind.takes:
            takers = [f"`executor={other}`" for other in EXECUTORS if field.name in EXECUTORS.get(other).takes]
            what = f'the executor "{name}" does not use it'
            raise UsageError(what, place=field.name, remedy=f"it applies to {' or '.join(takers)}")
    return kind.make(settings, tell or _to_stderr)


def default_jobs() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# -- One task, wherever it runs: what comes back is plain data, so that it passes between processes and machines.

class TaskOutcome(NamedTuple):
    """`reason`: why the task failed, else nothing. `end`: what, place and remedy of the error that ends the whole run."""

    reason: str = ""
    end: tuple[str, str, str] | None = None


def attempt(work: Callable[[Task], str], task: Task) -> TaskOutcome:
    """What came of `work` on `task`. An exception is a reason: a run of many tasks outlives one that shows a defect."""
    try:
        return TaskOutcome(work(task))
    except NotKept as error:
        return TaskOutcome(end=(error.what, error.place, error.remedy))
    except WarpsightError as error:
        return TaskOutcome(str(error))
    except (Exception, SystemExit) as error:
        return TaskOutcome(f"{type(error).__name__}: {error}")


def record_outcome(reasons: dict[Task, str], task: Task, outcome: TaskOutcome) -> None:
    """Enter the reason of a task that failed. Raises NotKept for an outcome that ends the run."""
    if outcome.end is not None:
        what, place, remedy = outcome.end
        raise NotKept(what, place=place, remedy=remedy)
    if outcome.reason:
        reasons[task] = outcome.reason
