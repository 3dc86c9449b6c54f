"""Do accesses of threads, in any order among threads, become the transactions that their definition says?"""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.base.errors import FormatError
from warpsight.caches.reuse.access_list import AccessList, of_list, read_access_list
from warpsight.caches.reuse.access_stream import numbered

pytestmark = pytest.mark.unit

Row = tuple[int, int, int, int]


def list_of(block: int, rows: list[Row]) -> AccessList:
    columns = np.array(rows, np.int64).reshape(-1, 4)
    return AccessList((block, 1, 1), *(np.ascontiguousarray(columns[:, k]) for k in range(4)))


def naive(block: int, rows: list[Row], line_bytes: int, stores: bool) -> list[list[tuple[list[int], list[int]]]]:
    """Of each warp, of each turn of its lanes: the lines, once for those coalesced, and which begin a group of lanes."""
    turns: dict[int, list[Row]] = {}
    for row in rows:
        if stores or row[1] == 0:
            turns.setdefault(row[0], []).append(row)
    blocks = max((row[0] for row in rows), default=-1) // block + 1
    found = []
    for number in range(blocks):
        for first in range(0, block, 32):
            lanes = [number * block + lane for lane in range(first, min(first + 32, block))]
            warp = []
            for turn in range(max(len(turns.get(thread, [])) for thread in lanes)):
                seen: list[tuple[int, int]] = []
                access: list[int] = []
                kept: list[int] = []
                together = 0
                for lane, thread in enumerate(lanes):
                    if turn < len(turns.get(thread, [])):
                        _, _, address, size = turns[thread][turn]
                        line, own = address // line_bytes, {8: 16, 16: 8}.get(size, 32)
                        together = together or own
                        if not any(line == other and lane // own == earlier // own for other, earlier in seen):
                            access.append(line)
                            kept.append(lane // together)
                        seen.append((line, lane))
                warp.append((access, [int(k == 0 or kept[k] != kept[k - 1]) for k in range(len(kept))]))
            found.append(warp)
    return found


ROW = st.tuples(st.integers(0, 90), st.integers(0, 1), st.integers(0, 3000), st.sampled_from([1, 2, 4, 8, 16]))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(ROW, max_size=200), st.sampled_from([20, 32, 45]), st.sampled_from([32, 96, 128]), st.booleans(), st.integers(0, 2**40)
)
def test_any_order_of_threads_gives_the_lines_of_each_turn(rows, block, line_bytes, stores, far):
    rows = [(thread, store, address + far * (address % 3 == 0), size) for thread, store, address, size in rows]
    made = of_list(list_of(block, rows), line_bytes, stores=stores)
    s = made.stream
    got = [
        [
            (made.line_number[s.line[s.access[a] : s.access[a + 1]]].tolist(), s.group[s.access[a] : s.access[a + 1]].tolist())
            for a in range(s.warp[w], s.warp[w + 1])
        ]
        for w in range(len(s.warp) - 1)
    ]
    assert got == naive(block, rows, line_bytes, stores)
    assert made.loads == sum(stores or row[1] == 0 for row in rows)
    assert len(s.pc) == len(s.access) - 1 == s.warp[-1]


@given(st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2**57)), max_size=300))
def test_numbers_of_lines_are_their_places_among_the_distinct_ones(lines):
    known, dense = numbered(np.array(lines, np.int64))
    expected, places = np.unique(np.array(lines, np.int64), return_inverse=True)
    assert known.tolist() == expected.tolist()
    assert dense.tolist() == places.tolist()


def test_few_threads_of_very_large_numbers_take_little_memory():
    rows = [(3_000_000 + 32 * k, 0, 128 * k, 4) for k in range(4)]
    made = of_list(list_of(32, rows), 128)
    assert made.loads == made.transactions == 4
    assert made.stream.warp[3_000_000 // 32 + 1] == 1


@pytest.mark.parametrize("row", [(-1, 0, 0, 4), (0, 0, -4, 4), (0, 0, 0, 3), (0, 0, 0, 32)])
def test_what_no_thread_can_access_is_refused_in_memory_too(row):
    with pytest.raises(FormatError):
        of_list(list_of(32, [(0, 0, 0, 4), row]), 128)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("0 0 128 4\n1 1 256 8", [(0, 0, 128, 4), (1, 1, 256, 8)]),
        ("0 0 128 4\n1 1 256 8\n\n \n", [(0, 0, 128, 4), (1, 1, 256, 8)]),
        ("0 0 128 4\r\n1 1 256 8\r\n", [(0, 0, 128, 4), (1, 1, 256, 8)]),
    ],
)
def test_a_list_reads_the_same_with_and_without_the_end_of_the_last_line(tmp_path, text, rows):
    path = tmp_path / "list.trc.gz"
    path.write_bytes(gzip.compress(b"blocksize: 32 1 1\n" + text.encode()))
    found = read_access_list(path)
    assert list(zip(found.thread, found.store, found.address, found.size, strict=True)) == rows


@pytest.mark.parametrize(
    "line",
    [
        "", "0 0 128", "0 0  128 4", "0 0 x 4", "0 0 nan 4", '0 0 "128" 4', "0 0 128 4 5", "0 0 99999999999999999999 4",
        "0 2 128 4", "0 0 128 5",
    ],
)
def test_a_line_that_does_not_follow_the_format_is_named(tmp_path, line):
    path = tmp_path / "list.trc"
    path.write_text(f"blocksize: 32 1 1\n0 0 128 4\n{line}\n0 0 128 4\n")
    with pytest.raises(FormatError) as caught:
        read_access_list(path)
    assert str(caught.value).startswith(f"{path}:3:")
