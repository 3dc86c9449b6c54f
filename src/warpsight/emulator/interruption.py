"""Ctrl-C while native code runs. An exception raised inside a callback from native code is lost, so the signal is noted instead."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interruption:
    """A context in which SIGINT only sets `pending`; on leaving it, the handler that was there before is called.

    Python delivers signals to the main thread alone: in other threads, and where nothing handles SIGINT, it does nothing.
    """

    def __init__(self) -> None:
        self.pending = False
        self._previous: signal._HANDLER = None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.pending = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not callable(self._previous):
            return
        signal.signal(signal.SIGINT, self._previous)
        if self.pending and not (isinstance(error, KeyboardInterrupt) and self._previous is signal.default_int_handler):
            self._previous(signal.SIGINT, None)
