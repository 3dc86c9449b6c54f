from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.base.errors import UsageError
from warpsight.kernels.values import parse_integer, parse_size

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1048576", 1048576),
        ("1_000", 1000),
        ("0x1F", 31),
        ("1<<20", 1 << 20),
        ("2**20", 1 << 20),
        ("1Mi", 1 << 20),
        ("3Ki+1", 3073),
        ("256*17", 4352),
        (" ( 1 + 2 ) * 3 ", 9),
        ("-5", -5),
        ("2**3**2", 512),
        ("-2**2", -4),
        ("100/4", 25),
        ("1<<2+1", 8),
        ("010", 10),
    ],
)
def test_parse_integer_of_an_expression_is_its_value(text: str, value: int) -> None:
    assert parse_integer(text, "here") == value


_TREES = st.recursive(
    st.integers(0, 50).map(str),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
)


@given(_TREES)
def test_parse_integer_of_any_sum_and_product_equals_python(text: str) -> None:
    expected = eval(text)
    if abs(expected) < 1 << 63:
        assert parse_integer(text, "here") == expected


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "1<<200", "2**2**100", "9**64", "5/2", "1/0", "(1", "1)", "1 2", "__import__('os')", "4Kx", "7a"]
)
def test_parse_integer_of_what_is_none_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(UsageError, match=r"here: .*not a whole number") as caught:
        parse_integer(text, "here")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["0", "-1", "3-5"])
def test_parse_size_not_above_zero_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"not above zero"):
        parse_size(text, "here")
