"""Does a prediction start one process that compiles, and only where that saves time?"""

from __future__ import annotations

from typing import Any

import pytest

from warpsight.base import diskcache
from warpsight.pipeline import compiling_ahead

pytestmark = pytest.mark.unit


@pytest.fixture
def started(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that are started, of which none runs, with an empty cache folder."""
    commands: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **options: object) -> None:
            commands.append(command)

    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling_ahead.subprocess, "Popen", Process)
    monkeypatch.setattr(compiling_ahead.atexit, "register", lambda *_: None)
    compiling_ahead._start.cache_clear()
    return commands


def test_one_process_is_started_where_there_is_a_core_for_it(started: list[list[str]]) -> None:
    compiling_ahead.compile_ahead(1)
    assert started == []
    for _ in range(2):
        compiling_ahead.compile_ahead(2)
    assert [command[1:] for command in started] == [["-m", "warpsight.pipeline.compiling_ahead"]]


def test_nothing_is_started_once_all_is_compiled(started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(compiling_ahead, "compile_engine", lambda: done.append("engine"))
    monkeypatch.setattr(compiling_ahead, "predict_small_launch", lambda: done.append("launch"))
    compiling_ahead.main()
    compiling_ahead.compile_ahead(2)
    assert done == ["engine", "launch"] and started == []


def test_nothing_is_compiled_that_cannot_be_kept(started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diskcache, "put", lambda *_: False)
    monkeypatch.setattr(compiling_ahead, "compile_engine", lambda: pytest.fail("was compiled"))
    compiling_ahead.main()
