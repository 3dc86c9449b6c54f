"""Progress of a run: a hook that costs nothing when nobody watches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

Watch = Callable[[str, int, int], None]
"""`watch(stage, done, total)`."""

Progress = Callable[[int, int], None]


def stage(watch: Watch | None, name: str) -> Progress | None:
    """`watch` for one named stage, as the lower floors take it; None stays None."""
    return None if watch is None else partial(watch, name)
