from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.base.units import duration, percent, thousands, three_digits

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("number", "text"), [(393_216, "393,216"), (393_216.4, "393,216"), (0, "0"), (-1234, "-1,234"), (math.inf, "inf")]
)
def test_thousands_of_a_number_are_separated(number: float, text: str) -> None:
    assert thousands(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.6667, "0.667"), (64.23, "64.2"), (0.25, "0.250"), (1.5, "1.50"), (1234.5, "1,230"), (999.6, "1,000"), (9.996, "10.0"),
        (0, "0"), (-0.1234, "-0.123"), (0.00012345, "0.000123"), (1.2345e-7, "1.23e-07"), (1.2345e15, "1.23e+15"),
        (math.nan, "nan"), (-math.inf, "-inf"),
    ],
)
def test_three_digits_of_a_number_are_three_significant_ones(number: float, text: str) -> None:
    assert three_digits(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (280.9e-6, "280.9 us"), (1.2344e-3, "1.234 ms"), (999.96e-6, "1.000 ms"), (12.345, "12.35 s"), (4321.0, "4,321 s"),
        (7.143e-10, "0.7143 ns"), (0.0, "0 s"), (1e-6, "1.000 us"), (math.inf, "inf s"),
    ],
)
def test_duration_of_seconds_is_in_a_fitting_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("fraction", "text"), [(0.167, "16.7 %"), (1.0, "100 %"), (0.0, "0.0 %")])
def test_percent_of_a_fraction_has_one_decimal(fraction: float, text: str) -> None:
    assert percent(fraction) == text


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_three_digits_of_any_number_are_within_half_a_unit_of_the_third_digit(number: float) -> None:
    assert float(three_digits(number).replace(",", "")) == pytest.approx(number, rel=0.0051)
