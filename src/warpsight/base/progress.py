"""Progress of a run: a hook that costs nothing when nobody watches."""

from __future__ import annotations

from collections.abc import Callable

Watch = Callable[[str, int, int], None]
"""`watch(stage, done, total)`."""

Progress = Callable[[int, int], None]


def stage(watch: Watch | None, name: str) -> Progress | None:
    """`watch` for one named stage, as the lower floors take it; None stays None."""
    if watch is None:
        return None
    observer = watch
    return lambda done, total: observer(name, done, total)
