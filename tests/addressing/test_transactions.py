"""How many transactions does a warp make by each coalescing rule, from its lanes and from a trace's sectors?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lane_definitions import sectors_of_lanes

from warpsight.addressing.coalescing import (
    TRANSACTION_RULES,
    segment_bytes,
    transaction_rule_number,
    transactions_of_lanes,
    transactions_of_sectors,
)

LANES = np.arange(32)


def _exact(addresses: np.ndarray, size: int, rule: str, active: np.ndarray | None = None, sector: int = 32) -> tuple[int, bool]:
    on = np.ones(32, dtype=bool) if active is None else active
    number = transaction_rule_number(rule)
    count, good = transactions_of_lanes(addresses[None, :].astype(np.int64), on[None, :], size, number, sector)
    return int(count[0]), bool(good[0])


def _from_sectors(
    addresses: np.ndarray, size: int, rule: str, active: np.ndarray | None = None, sector: int = 32
) -> tuple[int, bool]:
    on = np.ones(32, dtype=bool) if active is None else active
    touched = np.array(sectors_of_lanes(addresses[on].tolist(), size), dtype=np.uint32)
    number = transaction_rule_number(rule)
    segment = segment_bytes(number, size, sector)
    made = transactions_of_sectors.py_func(touched, 0, len(touched), size, int(on.sum()), number, segment)
    return abs(made), made < 0


@pytest.mark.unit
@pytest.mark.parametrize(
    ("what", "addresses", "size", "expected"),
    [
        # rule: transactions, coalesced; expectations from the CUDA Programming Guide 2.1, section 5.1.2.1, by hand
        ("adjacent words", 4 * LANES, 4, {"cc1.0": (1, True), "cc1.3": (1, True), "sectors": (4, True)}),
        ("adjacent, shifted by a word", 4 * LANES + 4, 4, {"cc1.0": (32, False), "cc1.3": (2, False), "sectors": (5, False)}),
        ("every second word", 8 * LANES, 4, {"cc1.0": (32, False), "cc1.3": (2, False), "sectors": (8, False)}),
        ("one word for all", 0 * LANES, 4, {"cc1.0": (32, False), "cc1.3": (1, True), "sectors": (1, True)}),
        ("a line each", 128 * LANES, 4, {"cc1.0": (32, False), "cc1.3": (32, False), "sectors": (32, False)}),
        ("rows of 16 in a matrix", 4 * (LANES % 16) + 4096 * (LANES // 16), 4,
         {"cc1.0": (1, True), "cc1.3": (2, False), "sectors": (4, True)}),
        ("adjacent words of 8 bytes", 8 * LANES, 8, {"cc1.0": (1, True), "cc1.3": (2, True), "sectors": (8, True)}),
        ("adjacent words of 16 bytes", 16 * LANES, 16, {"cc1.0": (1, True), "cc1.3": (4, True), "sectors": (16, True)}),
        ("adjacent bytes", LANES, 1, {"cc1.0": (32, False), "cc1.3": (1, True), "sectors": (1, True)}),
        ("adjacent words of 2 bytes", 2 * LANES, 2, {"cc1.0": (32, False), "cc1.3": (1, True), "sectors": (2, True)}),
    ],
)
def test_access_pattern_makes_the_transactions_of_the_guide(
    what: str, addresses: np.ndarray, size: int, expected: dict[str, tuple[int, bool]]
) -> None:
    for rule, answer in expected.items():
        assert _exact(addresses, size, rule) == answer, (what, rule)
        found = _from_sectors(addresses, size, rule)
        assert found[1] == answer[1], (what, rule)
        if not answer[1] or rule != "cc1.0":
            assert found == answer, (what, rule)


@pytest.mark.property
@given(st.integers(-64, 64), st.integers(0, 63), st.sampled_from([4, 8, 16]), st.sampled_from(TRANSACTION_RULES),
       st.integers(1, 32), st.sampled_from([32, 64, 128]))
def test_affine_addresses_are_the_same_from_lanes_and_from_sectors(
    stride: int, offset: int, size: int, rule: str, active: int, sector: int
) -> None:
    addresses = (1 << 20) + size * (stride * LANES + offset)
    on = active > LANES
    if rule == "cc1.0" and (active < 32 or stride == 0):
        return  # the documented exceptions: lanes that are off, and one word for so few lanes that a sector may be all they need
    exact, found = _exact(addresses, size, rule, on, sector), _from_sectors(addresses, size, rule, on, sector)
    assert exact == found


@pytest.mark.unit
def test_lanes_that_are_off_make_no_transactions() -> None:
    on = LANES < 3
    assert _exact(128 * LANES, 4, "cc1.0", on) == (3, False)
    assert _exact(128 * LANES, 4, "cc1.3", on) == (3, False)
    assert _exact(128 * LANES, 4, "sectors", on & False)[0] == 0


@pytest.mark.unit
def test_order_of_lanes_within_a_sector_is_what_sectors_cannot_show_of_capability_1_0() -> None:
    swapped = 4 * (LANES ^ 1)
    assert _exact(swapped, 4, "cc1.0") == (32, False)
    assert _from_sectors(swapped, 4, "cc1.0")[1]
