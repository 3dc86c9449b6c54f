"""One task, wherever it runs: what comes back is plain data, so that it passes between processes and machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from warpsight.base.errors import WarpsightError
from warpsight.explore.runs.executor import Task
from warpsight.explore.runs.store import NotKept


class Outcome(NamedTuple):
    """`reason`: why the task failed, else nothing. `end`: what, place and remedy of the error that ends the whole run."""

    reason: str = ""
    end: tuple[str, str, str] | None = None


def attempt(work: Callable[[Task], str], task: Task) -> Outcome:
    """What came of `work` on `task`. An exception is a reason: a run of many tasks outlives one that shows a defect."""
    try:
        return Outcome(work(task))
    except NotKept as error:
        return Outcome(end=(error.what, error.place, error.remedy))
    except WarpsightError as error:
        return Outcome(str(error))
    except (Exception, SystemExit) as error:
        return Outcome(f"{type(error).__name__}: {error}")


def note(reasons: dict[Task, str], task: Task, outcome: Outcome) -> None:
    """Enter the reason of a task that failed. Raises NotKept for an outcome that ends the run."""
    if outcome.end is not None:
        what, place, remedy = outcome.end
        raise NotKept(what, place=place, remedy=remedy)
    if outcome.reason:
        reasons[task] = outcome.reason
