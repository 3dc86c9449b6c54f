"""Many tasks on several processes on this machine: an interruption loses only the tasks that are running."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from warpsight.base.progress import Progress
from warpsight.jobs.executor import EXECUTORS, Executor, ExecutorKind, Task, TaskOutcome, attempt, default_jobs, record_outcome
from warpsight.jobs.interrupts import ignore_interrupts, starting_workers

_DIED = "its process terminated without an error message; it may have run out of memory"


class ProcessesExecutor(Executor):
    """`jobs` processes, new ones for each run. One that dies takes only its own task with it. On KeyboardInterrupt all end.

    They begin anew: a script that uses it needs `if __name__ == "__main__":`.
    """

    name = "processes"

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def run(self, work: Callable[[Task], str], tasks: Sequence[Task], progress: Progress | None = None) -> dict[Task, str]:
        """As `Executor.run`."""
        reasons: dict[Task, str] = {}
        distinct = list(dict.fromkeys(tasks))
        if progress is not None:
            progress(0, len(distinct))
        if not distinct:
            return reasons
        left = _in_parallel(work, distinct, min(self.jobs, len(distinct)), reasons, progress)
        for number, task in enumerate(left, 1):  # a process died: one by one, to know which task it was
            if _in_parallel(work, [task], 1, reasons, None):
                reasons[task] = _DIED
            if progress is not None:
                progress(len(distinct) - len(left) + number, len(distinct))
        return reasons


def _in_parallel(
    work: Callable[[Task], str], tasks: Sequence[Task], jobs: int, reasons: dict[Task, str], progress: Progress | None
) -> list[Task]:
    """Run the tasks; those that are left when a process died, in order."""
    before = set(multiprocessing.active_children())
    # a fresh interpreter: the threads of this one (progress, compilers) must not be forked
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
    done: set[Task] = set()
    try:
        with starting_workers():
            futures: dict[Future[TaskOutcome], Task] = {pool.submit(attempt, work, task): task for task in tasks}
        for future in as_completed(futures):
            record_outcome(reasons, futures[future], future.result())
            done.add(futures[future])
            if progress is not None:
                progress(len(done), len(tasks))
        pool.shutdown()
    except BrokenProcessPool:
        pool.shutdown(wait=False, cancel_futures=True)
    except BaseException:  # above all KeyboardInterrupt: no task continues without the user
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    return [task for task in tasks if task not in done]


def _begin() -> None:
    """In a new process: ignore Ctrl-C, which the parent handles, and exit when the parent exits."""
    ignore_interrupts()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


EXECUTORS.add("processes", ExecutorKind("several processes on this machine", frozenset({"jobs"}),
                                        lambda settings, tell: ProcessesExecutor(settings.jobs or default_jobs())))
