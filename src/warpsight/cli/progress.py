"""A progress bar on stderr for work of more than two seconds; nothing at all when stderr is not a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from warpsight.explore.watch import Watch

PATIENCE_SECONDS = 2.0


class ProgressBar:
    """A context whose `watch` is None when nobody would see it, else a hook that draws once the work has taken its time."""

    def __init__(self) -> None:
        self.watch: Watch | None = self._observe if sys.stderr.isatty() else None
        self._started = time.monotonic()
        self._display: Progress | None = None
        self._task: TaskID | None = None
        self._stage = ""

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._display is not None:
            self._display.stop()

    def _observe(self, stage: str, done: int, total: int) -> None:
        if self._display is None and time.monotonic() - self._started < PATIENCE_SECONDS:
            return
        display = self._display or self._open()
        if self._task is None or stage != self._stage:
            if self._task is not None:
                display.remove_task(self._task)
            self._task, self._stage = display.add_task(stage, total=total), stage
        display.update(self._task, completed=done, total=total)

    def _open(self) -> Progress:
        from rich.console import Console
        from rich.progress import Progress

        # transient: the bar leaves no trace between the command line and its answer
        self._display = Progress(console=Console(stderr=True), transient=True)
        self._display.start()
        return self._display
