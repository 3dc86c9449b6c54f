"""What a run tells while it works: progress, notes, and its steps with their times. Hooks that cost nothing when nobody listens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

Watch = Callable[[str, int, int], None]
"""`watch(stage, done, total)`."""

Progress = Callable[[int, int], None]


def stage(watch: Watch | None, name: str) -> Progress | None:
    """`watch` for one named stage, as the lower floors take it; None stays None."""
    return None if watch is None else partial(watch, name)


# -- Notes and steps. They go to the listeners of the same run, from wherever they arise: two threads, each with a run of its own,
# have a context each, and a thread that a run starts for its own work has no listeners.

_on_note: ContextVar[tuple[Callable[[str], None], ...]] = ContextVar("on_note", default=())
_on_step: ContextVar[tuple[Callable[[str, float], None], ...]] = ContextVar("on_step", default=())
_open: ContextVar[list[str] | None] = ContextVar("open", default=None)  # what was remarked in the innermost step


@contextmanager
def listening(on_note: Callable[[str], None], on_step: Callable[[str, float], None] | None = None) -> Iterator[None]:
    """Within it `on_note(text)` gets what a user should know, and `on_step(what, seconds)` each step as it ends."""
    noting = _on_note.set((*_on_note.get(), on_note))
    stepping = _on_step.set((*_on_step.get(), *(() if on_step is None else (on_step,))))
    try:
        yield
    finally:
        _on_note.reset(noting)
        _on_step.reset(stepping)


def note(text: str) -> None:
    """Tell the listeners something that is no error: how an input was understood."""
    for listener in _on_note.get():
        listener(text)


@contextmanager
def step(what: str) -> Iterator[None]:
    """A step of the work, as "compile saxpy.cu". It is not told if it fails."""
    listeners = _on_step.get()
    if not listeners:
        yield
        return
    remarks: list[str] = []
    opened = _open.set(remarks)
    begin = time.perf_counter()
    try:
        yield
    finally:
        _open.reset(opened)
    seconds = time.perf_counter() - begin
    for listener in listeners:
        listener(", ".join(dict.fromkeys([what, *remarks])), seconds)


def remark(text: str) -> None:
    """Say something of the innermost step, as "from the cache"."""
    remarks = _open.get()
    if remarks is not None:
        remarks.append(text)
