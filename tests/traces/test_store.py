"""Is what comes back from a trace folder what went in, and is nothing else ever harmed?"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from synthetic_trace import BLOCK_START, PATHS, PROGRAM, chunk, header, small_trace, whole

from warpsight.base.errors import FormatError, UsageError
from warpsight.traces.schema import InMemory, KernelTrace, PathTable, TraceChunk
from warpsight.traces.store import FolderSink, open_trace, save_trace, trace_bytes
from warpsight.traces.validate import validate

pytestmark = pytest.mark.unit


def test_stored_trace_read_back_equals_the_original(tmp_path: Path) -> None:
    trace = small_trace()
    stored = save_trace(trace, tmp_path / "t")
    assert whole(stored) == whole(trace)
    assert (stored.header, stored.instructions, stored.notes, stored.extra) == (trace.header, PROGRAM, trace.notes, trace.extra)
    assert stored.block_start.tolist() == BLOCK_START.tolist()
    for name in ("offset", "block", "lanes", "repeat"):
        got, wanted = getattr(stored.paths, name), getattr(PATHS, name)
        assert got.tolist() == wanted.tolist()
        assert got.dtype == wanted.dtype
    validate(stored)


def test_stored_chunks_keep_the_types_that_the_schema_promises(tmp_path: Path) -> None:
    (part,) = save_trace(small_trace(), tmp_path / "t").chunks
    kinds = {name: str(getattr(part, name).dtype) for name in ("path", "event_offset", "events", "sector_offset", "sectors")}
    assert kinds == {"path": "int32", "event_offset": "int64", "events": "uint8", "sector_offset": "int64", "sectors": "uint32"}


def test_chunks_iterated_twice_are_the_same(tmp_path: Path) -> None:
    stored = save_trace(small_trace(), tmp_path / "t")
    assert whole(stored) == whole(stored)


def test_small_chunks_merged_and_large_ones_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsight.traces.store.ROW_GROUP_BYTES", 1500)
    trace = small_trace(blocks=60, chunks=30)
    save_trace(trace, tmp_path / "t")
    file = pq.ParquetFile(tmp_path / "t" / "warps.parquet")
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    assert 1 < len(sizes) < 30
    assert sum(sizes) == 120
    assert all(size % 4 == 0 for size in sizes)  # chunks of four warps are never cut
    assert whole(open_trace(tmp_path / "t")) == whole(trace)


def test_stored_trace_opened_as_plain_tables_has_plain_columns(tmp_path: Path) -> None:
    trace = small_trace()
    save_trace(trace, tmp_path / "t")
    rows = pq.read_table(tmp_path / "t" / "warps.parquet").to_pydict()
    assert rows["warp"] == list(range(24))
    assert rows["path"] == whole(trace)["path"]
    assert [list(e) for e in rows["events"]] == whole(trace)["events"]
    assert rows["sectors"] == whole(trace)["sectors"]
    blocks = pq.read_table(tmp_path / "t" / "blocks.parquet").to_pydict()
    assert blocks == {"block": [0, 1, 2], "first_pc": [0, 3, 5], "instructions": [3, 2, 1]}
    assert json.loads((tmp_path / "t" / "header.json").read_text())["grid"] == [12, 1, 1]


def test_trace_without_memory_instructions_round_trips(tmp_path: Path) -> None:
    nowhere = np.zeros(5, np.int64)
    none = TraceChunk(0, np.zeros(4, np.int32), nowhere, np.zeros(0, np.uint8), nowhere, np.zeros(0, np.uint32))
    paths = PathTable(np.array([0, 1, 1], np.int64), np.array([0], np.int32), np.array([32], np.uint8), np.array([5], np.int32))
    trace = KernelTrace(header(2, 4 * 5), (PROGRAM[0],), np.array([0, 1], np.int32), paths, InMemory([none]))
    stored = save_trace(trace, tmp_path / "t")
    validate(stored)
    assert whole(stored) == whole(trace)
    assert stored.paths.offset.tolist() == [0, 1, 1]  # a path without runs is kept


def test_folder_while_being_written_is_not_there_yet(tmp_path: Path) -> None:
    trace = small_trace()
    sink = FolderSink(tmp_path / "t")
    for part in trace.chunks:
        sink.add(part)
    assert not (tmp_path / "t").exists()
    sink.finish(trace.header, trace.instructions, trace.block_start, trace.paths)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_sink_left_by_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), FolderSink(tmp_path / "t") as sink:
        sink.add(next(iter(small_trace().chunks)))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_sink_forgotten_without_finish_leaves_nothing_behind(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "t")
    assert len(list(tmp_path.iterdir())) == 1
    del sink
    assert list(tmp_path.iterdir()) == []


def test_chunk_after_a_gap_is_refused(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "t")
    with pytest.raises(ValueError, match="begins at warp 2, expected 0"):
        sink.add(chunk(2, 2, np.random.default_rng(0)))


def test_existing_trace_replaced_only_when_asked(tmp_path: Path) -> None:
    first, second = small_trace(seed=1), small_trace(seed=2)
    save_trace(first, tmp_path / "t")
    with pytest.raises(UsageError, match="set `overwrite`"):
        save_trace(second, tmp_path / "t")
    assert whole(open_trace(tmp_path / "t")) == whole(first)
    save_trace(second, tmp_path / "t", overwrite=True)
    assert whole(open_trace(tmp_path / "t")) == whole(second)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_folder_of_something_else_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match=r"other than a trace.*\n.*another folder"):
        save_trace(small_trace(), tmp_path / "home", overwrite=True)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "x"


def test_trace_folder_with_a_users_own_file_never_overwritten(tmp_path: Path) -> None:
    save_trace(small_trace(), tmp_path / "t")
    (tmp_path / "t" / "notes.md").write_text("mine")
    with pytest.raises(UsageError, match="other than a trace"):
        save_trace(small_trace(), tmp_path / "t", overwrite=True)
    assert (tmp_path / "t" / "notes.md").read_text() == "mine"


def test_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        FolderSink(tmp_path / "t", overwrite=True)


def test_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    assert save_trace(small_trace(), tmp_path / "t").header.kernel == "k"


def test_extra_without_json_form_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    trace = dataclasses.replace(small_trace(), extra={"array": np.zeros(2)})
    with pytest.raises(UsageError, match="JSON"):
        save_trace(trace, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_trace_bytes_is_the_sum_of_the_files(tmp_path: Path) -> None:
    save_trace(small_trace(), tmp_path / "t")
    assert trace_bytes(tmp_path / "t") == sum(p.stat().st_size for p in (tmp_path / "t").iterdir())
    with pytest.raises(UsageError, match="no trace here"):
        trace_bytes(tmp_path)


def test_folder_without_a_trace_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"header.json is missing\n.*warpsight trace"):
        open_trace(tmp_path)
    with pytest.raises(FormatError, match=r"header.json is missing"):
        open_trace(tmp_path / "nowhere")


def test_streaming_trace_stored_takes_under_a_fifth_of_a_byte_per_instruction(tmp_path: Path) -> None:
    """A coalesced stream: 512 warps, each 64 times a block with one load of four sectors and one shared store."""
    warps, times = 512, 64
    events = np.tile(np.array([4, 1], np.uint8), warps * times)
    first = np.arange(warps)[:, None, None] * 4 + np.arange(times)[None, :, None] * 4 * warps
    sectors = (first + np.arange(4)).astype(np.uint32).reshape(-1)
    whole_chunk = TraceChunk(
        0, np.zeros(warps, np.int32), np.arange(warps + 1) * 2 * times, events, np.arange(warps + 1) * 4 * times, sectors
    )
    paths = PathTable(
        np.array([0, 2], np.int64), np.array([0, 2], np.int32), np.array([32, 32], np.uint8), np.array([times, 1], np.int32)
    )
    instructions = warps * (3 * times + 1)
    trace = KernelTrace(header(warps // 2, instructions), PROGRAM, BLOCK_START, paths, InMemory([whole_chunk]))
    stored = save_trace(trace, tmp_path / "t")
    validate(stored)
    assert trace_bytes(tmp_path / "t") / instructions < 0.2
