"""Many tasks on several processes: each result is kept as it comes, and an end in the middle loses only what runs just then."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from warpsight.explore.watch import Progress

Task = TypeVar("Task")

_DIED = "the process that computed it ended without a word, as when memory runs out"


def run_all(
    work: Callable[[Task], str], tasks: Sequence[Task], jobs: int, progress: Progress | None = None
) -> dict[Task, str]:
    """`work` on every task, by `jobs` processes (1: in this one); the reasons of those that failed.

    `work` is a function of a module, its tasks are plain data, and it keeps its result itself. A process that dies takes only its
    own task with it. On KeyboardInterrupt all processes end.
    """
    reasons: dict[Task, str] = {}
    if progress is not None:
        progress(0, len(tasks))
    if jobs <= 1 or len(tasks) <= 1:
        for done, task in enumerate(tasks, 1):
            _note(reasons, task, work(task))
            if progress is not None:
                progress(done, len(tasks))
        return reasons
    left = _in_parallel(work, tasks, min(jobs, len(tasks)), reasons, progress)
    for task in left:  # a process died: one by one, to know which task it was
        if _in_parallel(work, [task], 1, reasons, None):
            reasons[task] = _DIED
        if progress is not None:
            progress(len(tasks) - len(left) + left.index(task) + 1, len(tasks))
    return reasons


def _note(reasons: dict[Task, str], task: Task, reason: str) -> None:
    if reason:
        reasons[task] = reason


def _in_parallel(
    work: Callable[[Task], str], tasks: Sequence[Task], jobs: int, reasons: dict[Task, str], progress: Progress | None
) -> list[Task]:
    """Run the tasks; those that are left when a process died, in order."""
    before = set(multiprocessing.active_children())
    # a fresh interpreter: the threads of this one (progress, compilers) must not be forked
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
    done: set[Task] = set()
    try:
        futures: dict[Future[str], Task] = {pool.submit(work, task): task for task in tasks}
        for future in as_completed(futures):
            _note(reasons, futures[future], future.result())
            done.add(futures[future])
            if progress is not None:
                progress(len(done), len(tasks))
        pool.shutdown()
    except BrokenProcessPool:
        pool.shutdown(wait=False, cancel_futures=True)
    except BaseException:  # above all KeyboardInterrupt: nothing goes on behind the user's back
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    return [task for task in tasks if task not in done]


def _begin() -> None:
    """In a new process: Ctrl-C is the parent's affair, and its end is ours."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
