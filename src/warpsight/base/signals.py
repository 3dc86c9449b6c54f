"""How SIGINT, SIGTERM and SIGHUP end work: at a place where nothing is lost, and never unnoticed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class Interruption:
    """A context in which SIGINT, SIGTERM and SIGHUP only set `pending`; on leaving it, the handler that was there before is called.

    In a context within another one, `pending` is set from the start if it is set there. A second signal does not wait: its handler
    is called at once. Python delivers signals to the main thread alone: in other threads, and for signals that nothing handles, it
    does nothing.
    """

    def __init__(self) -> None:
        self.pending = 0  # the number of the last signal
        self._outer: Interruption | None = None
        self._previous: dict[int, Callable[[int, FrameType | None], object]] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                previous = signal.getsignal(number)
                if callable(previous):
                    outer = getattr(previous, "__self__", None)
                    if isinstance(outer, Interruption):
                        self._outer, self.pending = outer, outer.pending
                    self._previous[number] = previous
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        again, self.pending = self.pending != 0, number
        if again or self._outer is not None:
            self._previous[number](number, frame)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        handler = None if self._outer is not None else self._previous.get(self.pending)
        if handler is not None and not (isinstance(error, KeyboardInterrupt) and handler is signal.default_int_handler):
            handler(self.pending, None)


def leave_if_asked() -> None:
    """Between two steps of long work: raise KeyboardInterrupt if an `Interruption` of this thread holds a signal."""
    if threading.current_thread() is threading.main_thread():
        noting = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
        if isinstance(noting, Interruption) and noting.pending:
            raise KeyboardInterrupt


_raised: list[int] = []  # signals by which SystemExit was raised


@contextmanager
def leaving_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP leave by SystemExit, so that programs that were started end and temporary folders are removed.

    Signals that are ignored (`nohup`) or that the caller handles stay as they are; so do all outside of the main thread. Where a
    program is waited for, `leave_again` has to be called from time to time.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
        _raised.append(number)
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    ours = [s for s in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(s) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        _raised.clear()
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def leave_again() -> None:
    """Raise SystemExit if a signal has raised it and nothing came of it: a signal can come while a finalizer or the callback of a
    weak reference runs, whose exceptions Python ignores. For work that goes on, not for what is done in leaving.
    """
    if _raised:
        raise SystemExit(128 + _raised[0])
