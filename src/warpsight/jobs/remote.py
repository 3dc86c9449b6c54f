"""Running a task on a worker of a cluster. A worker with a wrong installation, or with none, must still be able to report that."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable

from warpsight.jobs.fingerprint import identity
from warpsight.jobs.interrupts import ignore_interrupts

# Models, compilers and the store keep things per process, and are not meant for two tasks at once.
_ONE_AT_A_TIME = threading.Lock()


Expected = tuple[tuple[str, str], ...]
Answer = tuple[str, str, tuple[str, str, str] | None]


def entry() -> Callable[[bytes, Expected], Answer]:
    """The function that is sent to workers. One that is not at the top of a module is sent whole, not as the name of a module: a
    worker that cannot import it would end without a word.
    """

    def run_there(payload: bytes, expected: Expected) -> Answer:
        try:
            from warpsight.jobs.remote import run_here
        except Exception as error:
            from socket import gethostname

            return "refused", f"{gethostname()}: {type(error).__name__}: {error}", None
        return run_here(payload, expected)

    return run_there


def run_here(payload: bytes, expected: Expected) -> Answer:
    """Run the pickled work and task, if this installation is the one `expected`.

    Returns "done", the reason and the end of a `TaskOutcome`; or "refused" and how this worker differs: then nothing was run or
    unpickled.
    """
    if differences := _differences(expected):
        return "refused", f"{socket.gethostname()}: {differences}", None
    from warpsight.jobs.executor import attempt

    work, task = pickle.loads(payload)
    with _ONE_AT_A_TIME:
        reason, end = attempt(work, task)
    return "done", reason, end


def _differences(expected: Expected) -> str:
    there, here = dict(expected), dict(identity())
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return "; ".join(f"{name} {here.get(name, 'unknown')} there, {there.get(name, 'unknown')} here" for name in names)


def dask_setup(worker: object) -> None:
    """Called by Dask in a local worker's process when it begins: Ctrl-C is the parent's affair."""
    ignore_interrupts()
