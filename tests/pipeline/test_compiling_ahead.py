"""Does a prediction start one process that compiles what it needs, and only where that saves time?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
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


# What a process has compiled, or read from the cache folder: first for the small launch, then for others.
OTHERS = """
import sys
from warpsight.base import compiled
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline import compiling_ahead
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, PAPERS_MODELS, KernelRequest
from warpsight.pipeline.sampling import trace_to_predict

def functions():
    return {f"{each.py_func.__module__}.{each.py_func.__name__} {kinds}" for each in compiled._used for kinds in each.signatures}

compiling_ahead.compile_engine()
compiling_ahead.predict_small_launch()
ahead = functions()
arrays = *["f32[512*512]:uniform"] * 2, "f32[512*512]:zeros"
for kernel, grid, block, gpu, changed, least in (
    ("sgemm_tiled", (16, 16), (32, 32), "a100", (), None),
    ("sgemm_tiled", (16, 16), (32, 32), "a100", ("sm_count=4",), 0),
    ("sgemm_naive", (16, 64), (32, 8), "mdm-pascal", ("sm_count=2",), 0),
    ("sgemm_regs", (4, 4), (256,), "h100-sxm", (), 0),
):
    machine = load_gpu(gpu, overrides=changed)
    request = KernelRequest(sys.argv[1], kernel=kernel, grid=grid, block=block, args=("512", *arrays), threads=2)
    trace = trace_to_predict(request, machine, DEFAULT_MODEL, DEFAULT_METHOD, 0.1, least_instructions=least)
    predict_profiled(profile_trace(trace, machine), machine, (DEFAULT_MODEL, *PAPERS_MODELS))
print(len(ahead), sorted(functions() - ahead))
"""


def test_the_small_launch_needs_each_function_that_others_need(root: Path) -> None:
    command = [sys.executable, "-c", OTHERS, str(root / "examples" / "sgemm.cu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    number, _, others = done.stdout.partition(" ")
    assert int(number) > 15
    assert others.strip() == "[]"
