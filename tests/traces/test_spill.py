"""Is a trace that outgrows memory the same trace, and does it leave nothing behind?"""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_trace import BLOCK_START, PATHS, PROGRAM, small_trace, whole

from warpsight.traces.schema import InMemory, KernelTrace
from warpsight.traces.store import SpillingSink

pytestmark = pytest.mark.unit


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _through(sink: SpillingSink, trace: KernelTrace) -> KernelTrace:
    for chunk in trace.chunks:
        sink.add(chunk)
    return sink.finish(trace.header, PROGRAM, BLOCK_START, PATHS)


def test_small_trace_stays_in_memory(scratch: Path) -> None:
    trace = _through(SpillingSink(), small_trace())
    assert isinstance(trace.chunks, InMemory)
    assert whole(trace) == whole(small_trace())
    assert not list(scratch.iterdir())


def test_large_trace_comes_back_from_disk_unchanged_and_is_removed_with_its_last_use(scratch: Path) -> None:
    wanted = small_trace(blocks=60, chunks=30)
    trace = _through(SpillingSink(limit_bytes=200), wanted)
    assert list(scratch.rglob("warps.parquet"))
    assert whole(trace) == whole(wanted)
    assert (trace.header, trace.origin) == (wanted.header, "")
    chunks = trace.chunks
    del trace
    assert sum(len(chunk.path) for chunk in chunks) == wanted.header.warps
    del chunks
    gc.collect()
    assert not list(scratch.iterdir())


def test_restart_after_the_disk_is_used_forgets_what_was_there(scratch: Path) -> None:
    wanted = small_trace(blocks=60, chunks=30)
    sink = SpillingSink(limit_bytes=200)
    for chunk in small_trace(blocks=20, chunks=10).chunks:
        sink.add(chunk)
    sink.restart()
    assert whole(_through(sink, wanted)) == whole(wanted)


def test_launch_that_fails_leaves_nothing_on_disk(scratch: Path) -> None:
    sink = SpillingSink(limit_bytes=0)
    for chunk in small_trace().chunks:
        sink.add(chunk)
    assert list(scratch.iterdir())
    del sink
    gc.collect()
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("limit", [1 << 30, 200])
def test_chunks_alone_hold_the_same_warps_and_store_no_paths(scratch: Path, limit: int) -> None:
    wanted = small_trace(blocks=60, chunks=30)
    sink = SpillingSink(limit_bytes=limit)
    for chunk in wanted.chunks:
        sink.add(chunk)
    chunks = sink.chunks(wanted.header)
    del sink
    gc.collect()
    assert whole(replace(wanted, chunks=chunks)) == whole(wanted)
    assert bool(list(scratch.rglob("warps.parquet"))) == (limit == 200)
    assert not list(scratch.rglob("paths.parquet"))
    del chunks
    gc.collect()
    assert not list(scratch.iterdir())
