"""No test of runs may hang: what waits for another process waits for a limited time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from warpsight.jobs.store import ResultStore

SECONDS = 300


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """An empty results folder."""
    return ResultStore(tmp_path / "results")


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Where chores leave the ids of their processes."""
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder
