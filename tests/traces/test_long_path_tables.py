"""Are tables of paths in files, which are read in pieces, the same as those in memory; and do steps take memory of one piece?"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from warpsight.base import room
from warpsight.base.room import drop_pages, room_for
from warpsight.traces import path_store
from warpsight.traces.path_store import executions_of_blocks, pieces, selected, sums_of_paths
from warpsight.traces.schema import PathTable

pytestmark = pytest.mark.unit

# Three paths: blocks 0 0 0 1; 2 1 1; none.
TABLE = PathTable(
    np.array([0, 2, 4, 4]), np.array([0, 1, 2, 1], np.int32), np.array([32, 32, 5, 7], np.uint8), np.array([3, 1, 1, 2], np.int32)
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_store, "_PIECE", 3)
    monkeypatch.setattr(room, "IN_MEMORY", 3)


def columns(table: PathTable) -> list[list[int]]:
    return [column.tolist() for column in (table.offset, table.block, table.lanes, table.repeat)]


def test_pieces_hold_whole_paths_and_all_of_them(small: None) -> None:
    found = [(part.start, part.stop, columns(piece)) for part, piece in pieces(TABLE)]
    assert found == [
        (0, 1, [[0, 2], [0, 1], [32, 32], [3, 1]]), (1, 3, [[0, 2, 2], [2, 1], [5, 7], [1, 2]]),
    ]  # fmt: skip


def test_sums_and_executions_do_not_depend_on_the_pieces(small: None) -> None:
    assert sums_of_paths(TABLE, np.array([10, 200, 3000])).tolist() == [230, 3400, 0]
    assert sums_of_paths(TABLE, np.array([0.5, 0.25, 2.0])).tolist() == [1.75, 2.5, 0.0]
    warps = np.array([2, 10, 1])
    assert executions_of_blocks(TABLE, warps, 4).tolist() == [6, 2 + 20, 10, 0]
    assert executions_of_blocks(TABLE, warps, 4, of_lanes=True).tolist() == [6 * 32, 2 * 32 + 20 * 7, 10 * 5, 0]


def test_selected_paths_come_in_the_order_asked_for_with_their_blocks_moved(small: None) -> None:
    chosen = selected(TABLE, np.array([1, 2, 0, 1]), np.array([0, 4, 8, 100]))
    assert columns(chosen) == [
        [0, 2, 2, 4, 6], [2, 1, 8, 9, 102, 101], [5, 7, 32, 32, 5, 7], [1, 2, 3, 1, 1, 2],
    ]  # fmt: skip


def test_long_arrays_keep_their_values_when_their_pages_are_dropped(small: None) -> None:
    array = room_for(5000, np.int32)
    assert not array.any()
    array[:] = np.arange(5000)
    drop_pages(array[100:200], np.zeros(3))
    assert array.tolist() == list(range(5000))


def test_no_step_takes_memory_in_proportion_to_a_long_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 runs, of which a piece has 2,000: one copy as 64-bit numbers would be 1.6 MB."""
    monkeypatch.setattr(path_store, "_PIECE", 2000)
    monkeypatch.setattr(room, "IN_MEMORY", 1 << 16)
    long = selected(TABLE, np.tile([0, 1], 50_000))
    for step in (
        lambda: sums_of_paths(long, np.array([10, 200, 3000])), lambda: executions_of_blocks(long, np.ones(len(long), np.int64), 3),
    ):  # fmt: skip
        tracemalloc.start()
        result: Any = step()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert int(result.sum()) in (50_000 * (230 + 3400), 50_000 * 7)
        assert peak < 8 * len(long) + (400 << 10), "the result, or the warps, and some pieces"
