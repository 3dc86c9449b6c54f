from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lane_definitions import sectors_of_lanes

from warpsight.addressing.coalescing import merge_lines, packed_lines

pytestmark = pytest.mark.unit


def merged(sectors: list[int], per_line: int) -> list[tuple[int, int]]:
    out = np.zeros(2 * len(sectors) + 2, np.int64)
    n = merge_lines(np.array(sectors, np.uint32), 0, len(sectors), per_line, out, 0, len(sectors))
    return [(int(out[k]), int(out[len(sectors) + k])) for k in range(n)]


def test_sectors_contiguous_words_are_four_in_order() -> None:
    assert sectors_of_lanes([4096 + 4 * lane for lane in range(32)], 4) == [128, 129, 130, 131]


def test_sectors_reversed_lanes_keep_the_order_of_the_lanes() -> None:
    assert sectors_of_lanes([4096 + 4 * lane for lane in reversed(range(32))], 4) == [131, 130, 129, 128]


def test_sectors_same_word_is_one() -> None:
    assert sectors_of_lanes([77 * 4] * 32, 4) == [9]


def test_sectors_access_over_a_boundary_touches_both() -> None:
    assert sectors_of_lanes([28], 8) == [0, 1]


@pytest.mark.parametrize(("width", "lines"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_packed_lines_of_a_full_warp(width: int, lines: int) -> None:
    assert packed_lines(width) == lines


def test_merge_scattered_sectors_gives_lines_in_first_touch_order_with_masks() -> None:
    assert merged([9, 2, 11, 0, 400], 4) == [(2, 0b1010), (0, 0b0101), (100, 0b0001)]


def test_merge_highest_sector_number_stays_exact() -> None:
    assert merged([2**32 - 1], 4) == [((2**32 - 1) // 4, 0b1000)]


@given(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 40), max_size=64, unique=True), st.sampled_from([1, 2, 3, 4, 8]))
def test_merge_any_sectors_equals_grouping_by_line(sectors: list[int], per_line: int) -> None:
    groups: dict[int, int] = {}
    for sector in sectors:
        groups[sector // per_line] = groups.get(sector // per_line, 0) + 2 ** (sector % per_line)
    assert merged(sectors, per_line) == list(groups.items())
