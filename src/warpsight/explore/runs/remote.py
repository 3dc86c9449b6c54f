"""What a worker of a cluster does with a task. Imports little: this is what a wrong installation must still be able to say."""

from __future__ import annotations

import pickle
import signal
import socket
import threading

from warpsight.explore.runs.fingerprint import identity

# Models, compilers and the store keep things per process, and are not meant for two tasks at once.
_ONE_AT_A_TIME = threading.Lock()


def run_here(payload: bytes, expected: tuple[tuple[str, str], ...]) -> tuple[str, str, tuple[str, str, str] | None]:
    """Run the pickled work and task, if this installation is the one `expected`.

    Returns "done", the reason and the end of an `Outcome`; or "refused" and in what this worker differs: then nothing was run, nor
    even unpickled.
    """
    if differences := _differences(expected):
        return "refused", f"{socket.gethostname()}: {differences}", None
    from warpsight.explore.runs.attempt import attempt

    work, task = pickle.loads(payload)
    with _ONE_AT_A_TIME:
        reason, end = attempt(work, task)
    return "done", reason, end


def _differences(expected: tuple[tuple[str, str], ...]) -> str:
    there, here = dict(expected), dict(identity())
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return "; ".join(f"{name} {here.get(name, 'unknown')} there, {there.get(name, 'unknown')} here" for name in names)


def dask_setup(worker: object) -> None:
    """Called by Dask in a local worker's process when it begins: Ctrl-C is the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
