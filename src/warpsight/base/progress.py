"""What a run tells while it works: progress, notes, and its steps with their times. Hooks that cost nothing when nobody listens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

Watch = Callable[[str, int, int], None]
"""`watch(stage, done, total)`."""

Progress = Callable[[int, int], None]


def stage(watch: Watch | None, name: str) -> Progress | None:
    """`watch` for one named stage, as the lower floors take it; None stays None."""
    return None if watch is None else partial(watch, name)


# -- Notes and steps. They go to the listeners of this process, from wherever they arise.

_on_note: list[Callable[[str], None]] = []
_on_step: list[Callable[[str, float], None]] = []
_open: list[list[str]] = []  # what was remarked in each step that has not ended


@contextmanager
def listening(on_note: Callable[[str], None], on_step: Callable[[str, float], None] | None = None) -> Iterator[None]:
    """Within it `on_note(text)` gets what a user should know, and `on_step(what, seconds)` each step as it ends."""
    _on_note.append(on_note)
    if on_step is not None:
        _on_step.append(on_step)
    try:
        yield
    finally:
        _on_note.remove(on_note)
        if on_step is not None:
            _on_step.remove(on_step)


def note(text: str) -> None:
    """Tell the listeners something that is no error: how an input was understood."""
    for listener in _on_note:
        listener(text)


@contextmanager
def step(what: str) -> Iterator[None]:
    """A step of the work, as "compile saxpy.cu". It is not told if it fails."""
    if not _on_step:
        yield
        return
    remarks: list[str] = []
    _open.append(remarks)
    begin = time.perf_counter()
    try:
        yield
    finally:
        _open.pop()
    seconds = time.perf_counter() - begin
    for listener in _on_step:
        listener(", ".join(dict.fromkeys([what, *remarks])), seconds)


def remark(text: str) -> None:
    """Say something of the innermost step, as "from the cache"."""
    if _open:
        _open[-1].append(text)
