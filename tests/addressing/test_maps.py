from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.addressing.integers import quotient
from warpsight.addressing.mapping import (
    HASH,
    MODULO,
    XOR,
    channel_of_slice,
    first_wave,
    line_in_slice,
    set_index,
    slice_of_line,
)

pytestmark = pytest.mark.unit
LINES = st.integers(0, 2**32 - 1)


@given(LINES, st.integers(1, 5000))
def test_quotient_any_numbers_equals_floor_division(number: int, divisor: int) -> None:
    assert quotient(number, divisor) == number // divisor


@given(LINES, st.integers(1, 5000))
def test_set_modulo_any_line_is_the_remainder(line: int, sets: int) -> None:
    assert set_index(line, sets, MODULO) == line % sets


@given(LINES, st.integers(0, 12))
def test_set_xor_any_line_folds_the_next_bits(line: int, bits: int) -> None:
    text = f"{line:064b}"
    low, next_bits = text[64 - bits :], text[64 - 2 * bits : 64 - bits]
    expected = int("".join("01"[a != b] for a, b in zip(low, next_bits, strict=True)) or "0", 2)
    assert set_index(line, 2**bits, XOR) == expected


def test_set_xor_power_of_two_stride_uses_all_sets() -> None:
    assert {set_index(64 * k, 64, XOR) for k in range(64)} == set(range(64))
    assert {set_index(64 * k, 64, MODULO) for k in range(64)} == {0}


@given(st.integers(0, 2**31), st.sampled_from([128, 256, 512, 4096]), st.integers(1, 96))
def test_slice_any_address_follows_the_byte_definition(address: int, interleave: int, slices: int) -> None:
    line, per_piece = address // 128, interleave // 128
    assert slice_of_line(line, per_piece, slices, MODULO) == address // interleave % slices
    inner = address // (interleave * slices) * (interleave // 128) + address % interleave // 128
    assert line_in_slice(line, per_piece, slices) == inner


@pytest.mark.parametrize("rule", [MODULO, HASH])
def test_slice_lines_are_numbered_without_gaps_in_every_slice(rule: int) -> None:
    seen: dict[int, list[int]] = {}
    for line in range(24 * 2 * 5):
        seen.setdefault(slice_of_line(line, 2, 24, rule), []).append(line_in_slice(line, 2, 24))
    assert seen == {part: list(range(10)) for part in range(24)}


@pytest.mark.parametrize("slices", [24, 32, 40, 80, 96])
def test_slice_hash_spreads_every_stride_and_keeps_neighbours_apart(slices: int) -> None:
    for stride in (1, 2, slices, 2 * slices, 64, 1024, 3 * slices):
        parts = [slice_of_line(stride * k, 1, slices, HASH) for k in range(64 * slices)]
        most = max(parts.count(part) for part in set(parts))
        assert len(set(parts)) == slices and most <= 64 * 1.6, stride
    # a stream comes to each slice once in a round
    for first in range(0, 50 * slices, slices):
        assert sorted(slice_of_line(first + k, 1, slices, HASH) for k in range(slices)) == list(range(slices))


@pytest.mark.parametrize(("slices", "channels", "expected"), [(4, 4, [0, 1, 2, 3]), (4, 2, [0, 0, 1, 1]), (2, 4, [0, 2])])
def test_channel_slices_share_channels_evenly(slices: int, channels: int, expected: list[int]) -> None:
    assert [channel_of_slice(k, slices, channels) for k in range(slices)] == expected


def test_placement_first_wave_deals_blocks_to_sms_in_turn() -> None:
    assert first_wave(7, 3, 2).tolist() == [0, 1, 2, 0, 1, 2]
    assert first_wave(4, 3, 2).tolist() == [0, 1, 2, 0]
