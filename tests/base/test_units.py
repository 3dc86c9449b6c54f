from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.base.errors import SpecError
from warpsight.base.units import BANDWIDTH, COUNT, CYCLES, FREQUENCY, SIZE, format_quantity, parse_quantity

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "dimension", "expected"),
    [
        ("1.4 GHz", FREQUENCY, 1_400_000_000.0), ("1400MHz", FREQUENCY, 1.4e9), ("1367 MHz", FREQUENCY, 1.367e9),
        ("96 KiB", SIZE, 98_304), ("3 MiB", SIZE, 3_145_728), ("128 B", SIZE, 128), ("0.5 KiB", SIZE, 512), ("48 kB", SIZE, 48_000),
        ("1050 GB/s", BANDWIDTH, 1.05e12), ("525GB/s", BANDWIDTH, 5.25e11), ("1 GiB/s", BANDWIDTH, 1_073_741_824.0),
        ("1.05 TB/s", BANDWIDTH, 1.05e12), ("25 cycles", CYCLES, 25), ("1 cycle", CYCLES, 1), ("6cycles", CYCLES, 6),
        ("28", COUNT, 28), ("65_536", COUNT, 65_536), ("  28  ", COUNT, 28),
    ],
)
def test_quantity_with_a_fitting_unit_is_in_base_units(text: str, dimension: str, expected: float) -> None:
    value = parse_quantity(text, dimension, key="k")
    assert value == expected
    assert isinstance(value, float) == (dimension in (FREQUENCY, BANDWIDTH))


@pytest.mark.parametrize(
    ("text", "dimension", "words"),
    [
        ("1.4", FREQUENCY, "core has no unit"), ("48", SIZE, "core has no unit"), ("25", CYCLES, "core has no unit"),
        ("48 KB", SIZE, "write KiB (1,024) or kB (1,000)"), ("3 MB", SIZE, "write MiB"), ("5 KB/s", BANDWIDTH, "write kB/s"),
        ("25 cycles", SIZE, "is a size, but"), ("480 GB/s", SIZE, "is a bandwidth"), ("480 GB", BANDWIDTH, "is a size"),
        ("28 cycles", COUNT, "is a number of cycles"), ("28 SMs", COUNT, "is a plain count"),
        ("-48 KiB", SIZE, "core is negative"), ("-1", COUNT, "core is negative"),
        ("nan GHz", FREQUENCY, "not finite"), (".inf", BANDWIDTH, "not finite"), ("-Infinity GB/s", BANDWIDTH, "not finite"),
        ("1.4 ghz", FREQUENCY, 'did you mean "GHz"'), ("1.4 Gz", FREQUENCY, 'did you mean "GHz"'),
        ("fast", FREQUENCY, 'is not a frequency: "fast"'), ("", SIZE, "has no value"),
        ("1e-300 Hz", FREQUENCY, 'is not a frequency: "1e-300 Hz"'), ("1,400 MHz", FREQUENCY, "unknown unit"),
        ("2.5 cycles", CYCLES, "not a whole number"), ("0.1 B", SIZE, "not a whole number"), ("2.5", COUNT, "not a whole number"),
        ("1e999999999", COUNT, "is not a count"), ("9" * 100, COUNT, "is not a count"), ("0x20", COUNT, "plain count"),
    ],
)
def test_quantity_that_cannot_be_meant_is_refused_naming_key_and_place(text: str, dimension: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_quantity(text, dimension, key="core", place="a.yaml:3")
    assert words in str(caught.value)
    assert str(caught.value).startswith("a.yaml:3: core")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("value", "dimension", "expected"),
    [
        (1.4e9, FREQUENCY, "1.4 GHz"), (1.367e9, FREQUENCY, "1.367 GHz"), (8.5e8, FREQUENCY, "850 MHz"), (0.5, FREQUENCY, "0.5 Hz"),
        (98_304, SIZE, "96 KiB"), (3_145_728, SIZE, "3 MiB"), (48_000, SIZE, "48000 B"), (0, SIZE, "0 B"), (128, SIZE, "128 B"),
        (1.05e12, BANDWIDTH, "1.05 TB/s"), (4.8e11, BANDWIDTH, "480 GB/s"), (25, CYCLES, "25 cycles"), (1, CYCLES, "1 cycle"),
        (28, COUNT, "28"),
    ],
)
def test_quantity_written_is_short_and_exact(value: float, dimension: str, expected: str) -> None:
    assert format_quantity(value, dimension) == expected


@given(st.floats(min_value=1e-3, max_value=1e18), st.sampled_from([FREQUENCY, BANDWIDTH]))
def test_quantity_written_and_read_is_the_same_double(value: float, dimension: str) -> None:
    assert parse_quantity(format_quantity(value, dimension), dimension, key="k") == value


@given(st.integers(min_value=0, max_value=2**50), st.sampled_from([SIZE, CYCLES, COUNT]))
def test_quantity_written_and_read_is_the_same_integer(value: int, dimension: str) -> None:
    assert parse_quantity(format_quantity(value, dimension), dimension, key="k") == value


@given(st.text(max_size=30), st.sampled_from([FREQUENCY, SIZE, BANDWIDTH, CYCLES, COUNT]))
def test_quantity_of_any_text_is_a_number_or_a_spec_error(text: str, dimension: str) -> None:
    try:
        assert parse_quantity(text, dimension, key="k") >= 0
    except SpecError as error:
        assert "k" in str(error)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_quantity_that_is_none_is_not_written(value: float) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        format_quantity(value, BANDWIDTH)
