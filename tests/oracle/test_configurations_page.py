"""Does the page on block sizes keep what is claimed of it, and does the second tau leave out what is too close to order?"""

from __future__ import annotations

import re

import pytest

from configurations import COMMAND, PAGE, clear_tau
from marked_page import get

pytestmark = pytest.mark.oracle


def test_pairs_within_two_percent_have_no_order() -> None:
    """Of three blocks two differ by 1 %, in the wrong order; the pairs with the third are in the right one."""
    assert clear_tau([100.0, 101.0, 150.0], [2.0, 1.0, 3.0]) == 1
    assert clear_tau([100.0, 103.0, 150.0], [2.0, 1.0, 3.0]) == pytest.approx(1 / 3)
    assert clear_tau([100.0, 101.0], [2.0, 1.0]) is None


def test_blocks_are_ranked_as_measured_with_tau_above_four_fifths() -> None:
    summary = get(PAGE, COMMAND, "summary")
    tau, clear = (float(value) for value in re.findall(r"tau is\s+([+-][\d.]+) on average", summary))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in get(PAGE, COMMAND, "problems").splitlines()[2:]]
    assert tau == pytest.approx(sum(float(row[4]) for row in rows) / len(rows), abs=0.01) and tau >= 0.8
    marked = [float(row[5]) for row in rows if row[5]]
    assert clear == pytest.approx(sum(marked) / len(marked), abs=0.01) and clear >= 0.9
