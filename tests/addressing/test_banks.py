from __future__ import annotations

import pytest
from lane_definitions import bank_passes

pytestmark = pytest.mark.unit
ALL = [True] * 32


@pytest.mark.parametrize(("stride", "passes"), [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (16, 16), (32, 32), (33, 1)])
def test_passes_word_stride_is_the_common_divisor_with_32(stride: int, passes: int) -> None:
    assert bank_passes([4 * stride * lane for lane in range(32)], ALL, 4) == passes


def test_passes_no_lane_active_is_none() -> None:
    assert bank_passes([0] * 32, [False] * 32, 4) == 0


def test_passes_only_active_lanes_conflict() -> None:
    addresses = [128 * lane for lane in range(32)]
    assert bank_passes(addresses, [lane < 3 for lane in range(32)], 4) == 3


def test_passes_bytes_of_one_word_are_broadcast() -> None:
    assert bank_passes(list(range(32)), ALL, 1) == 1


def test_passes_eight_bytes_contiguous_takes_one_per_half_warp() -> None:
    assert bank_passes([8 * lane for lane in range(32)], ALL, 8) == 2


def test_passes_sixteen_bytes_contiguous_takes_one_per_quarter_warp() -> None:
    assert bank_passes([16 * lane for lane in range(32)], ALL, 16) == 4


def test_passes_eight_bytes_strided_adds_both_halves() -> None:
    # 64 B apart: within a half-warp lanes k and k + 2 meet, 8 words in a bank; twice.
    assert bank_passes([64 * lane for lane in range(32)], ALL, 8) == 16


def test_passes_only_second_half_active_counts_once() -> None:
    assert bank_passes([8 * lane for lane in range(32)], [lane >= 16 for lane in range(32)], 8) == 1
