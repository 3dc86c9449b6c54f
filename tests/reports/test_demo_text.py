"""Does the demonstration say what its figures say?"""

from __future__ import annotations

import re

import pytest
from documents import document

from warpsight.reports.prediction import demo_explanation, demo_text

pytestmark = pytest.mark.unit

COALESCED = document(
    {"base": 1.0, "com_data": 0.3, "mem_data": 0.2}, cycles=4000.0, bound_by="issue", dpki=0.0, **{"class": "not memory-divergent"}
)
DIVERGENT = document({"base": 1.0, "mem_data": 1.0, "mshr": 20.0, "noc": 12.0, "dram": 6.0}, cycles=71905.0)


def test_demo_of_two_predictions_puts_them_side_by_side() -> None:
    text = demo_text([COALESCED, DIVERGENT], [1, 32])
    assert re.search(r"predicted +4,000 cycles +71,905 cycles", text)
    assert re.search(r"class +not memory-divergent +memory-divergent", text)
    assert re.search(r"^ total +1\.50 +100 % +40\.0 +100 %$", text, re.MULTILINE)
    assert re.search(r"^ mshr +0\.00 +0\.0 % +20\.0 +50\.0 % +#+ +no free MSHR in the L1$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 120


def test_explanation_of_a_queueing_kernel_sums_mshr_noc_and_dram() -> None:
    assert "32 requests per load" in demo_explanation(DIVERGENT, 32)
    assert "95.0 % of the cycles are spent on MSHRs" in demo_explanation(DIVERGENT, 32)


def test_explanation_follows_the_prediction_and_not_the_stride() -> None:
    assert "MSHR" not in demo_explanation(COALESCED, 32)
    assert "66.7 % of the cycles, is base" in demo_explanation(COALESCED, 1)
