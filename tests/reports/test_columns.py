"""Are tables aligned, and never too wide?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.reports.terminal import Column, aligned, shortened

pytestmark = pytest.mark.unit


def test_columns_are_as_wide_as_what_they_hold() -> None:
    lines = aligned([Column("name", ["a", "long name"], left=True), Column("n", ["1", "22"]), Column("why", ["", "so"], left=True)])
    assert lines == [" name        n  why", " a           1", " long name  22  so"]


def test_last_column_is_cut_and_says_so() -> None:
    lines = aligned([Column("n", ["1"]), Column("text", ["word " * 20], left=True)], width=30)
    assert lines == [" n  text", " 1  word word word word word.."]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.text("ab c", max_size=200)), min_size=1, max_size=5))
def test_lines_are_never_wider_than_asked(rows: list[tuple[int, str]]) -> None:
    lines = aligned([Column("n", [str(n) for n, _ in rows]), Column("text", [text for _, text in rows], left=True)], width=60)
    assert len(lines) == len(rows) + 1
    assert max(map(len, lines)) <= 60
    assert all(line == line.rstrip() for line in lines)


def test_text_that_fits_is_not_shortened() -> None:
    assert shortened("exactly", 7) == "exactly"
    assert shortened("a bit longer", 7) == "a bit.."
