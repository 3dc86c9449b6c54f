"""Ctrl-C and the processes of a run: a terminal sends it to all of them, but it is meant for the one that started the others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def starting_workers() -> Iterator[None]:
    """Ctrl-C does not reach processes that this thread, or a thread that it starts, starts within this context: they inherit that
    it is blocked. Without that, a process that is importing modules when it arrives prints a traceback. A worker calls
    `ignore_interrupts` when it has begun. To this thread Ctrl-C comes at the end of the context.
    """
    resource_tracker.ensure_running()  # `multiprocessing` would start it with the first worker, and would unblock Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """In a worker's main thread: from now on Ctrl-C is ignored, also by the programs that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
