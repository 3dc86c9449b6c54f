"""Is progress shown to those who wait and can see it, and to nobody else?"""

from __future__ import annotations

import io
import time

import pytest

from warpsight.cli import output as progress

pytestmark = pytest.mark.unit


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _work(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, patience: float, seconds: float) -> str:
    """What work that takes so many seconds, or until it shows something, has shown in the end."""
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", patience)
    monkeypatch.setenv("TERM", "xterm")
    end = time.monotonic() + seconds
    with progress.ProgressBar() as bar:
        while time.monotonic() < end and not stderr.getvalue():
            if bar.watch is not None:
                bar.watch("counting sheep", 3, 5)
            time.sleep(0.01)
    return stderr.getvalue()


def test_long_work_on_a_terminal_shows_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "counting sheep" in _work(monkeypatch, _Terminal(), patience=0.05, seconds=60.0)


def test_short_work_on_a_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _work(monkeypatch, _Terminal(), patience=30.0, seconds=0.05) == ""


def test_long_work_without_a_terminal_shows_nothing_and_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _work(monkeypatch, io.StringIO(), patience=0.01, seconds=0.1) == ""
    assert progress.ProgressBar().watch is None
