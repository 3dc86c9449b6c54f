"""Tasks one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpsight.base.progress import Progress
from warpsight.jobs.executor import EXECUTORS, Executor, ExecutorKind, Task, attempt, record_outcome


class InlineExecutor(Executor):
    """No other process. What a task does to this one, memory and threads included, stays; a crash of it is a crash of all."""

    name = "inline"

    def run(self, work: Callable[[Task], str], tasks: Sequence[Task], progress: Progress | None = None) -> dict[Task, str]:
        """As `Executor.run`, in the order of the tasks."""
        reasons: dict[Task, str] = {}
        distinct = list(dict.fromkeys(tasks))
        if progress is not None:
            progress(0, len(distinct))
        for done, task in enumerate(distinct, 1):
            record_outcome(reasons, task, attempt(work, task))
            if progress is not None:
                progress(done, len(distinct))
        return reasons


EXECUTORS.add("inline", ExecutorKind("one after the other, in this process", frozenset(), lambda settings, tell: InlineExecutor()))
