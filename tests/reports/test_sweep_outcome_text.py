"""Does the text of a run of a sweep say what failed, in words that help?"""

from __future__ import annotations

from typing import Any

import pytest

from warpsight.reports.sweep_plan import collected_text

pytestmark = pytest.mark.unit


def collected(reasons: dict[str, int]) -> dict[str, Any]:
    return {
        "study": "s", "rows": 8, "designs": 4, "gpu": "a100", "kernels": ["a"], "models": ["mdm", "gpumech"],
        "table": "s.sweep/results.parquet",
        "failed_rows": sum(reasons.values()), "reasons": reasons, "sampled_rows": 0,
    }  # fmt: skip


def test_rows_without_numbers_are_counted_in_grammar_and_absent_when_there_are_none() -> None:
    assert "1 row without a result:" in collected_text(collected({"no block fits": 1}))
    assert "3 rows without a result:" in collected_text(collected({"no block fits": 3}))
    assert "without a result" not in collected_text(collected({}))


def test_reason_that_announces_the_next_line_is_shown_with_it_and_a_remedy_is_not() -> None:
    text = collected_text(collected({"k.cu: NVRTC refuses it:\n  k.cu(1): no W\n  1 error": 1, "too small\n  -> more": 2}))
    assert "k.cu: NVRTC refuses it: k.cu(1): no W\n" in text
    assert text.endswith("2  too small")


def test_sampled_rows_are_counted_with_the_widest_interval() -> None:
    text = collected_text(collected({}) | {"sampled_rows": 3, "largest_half_width": 0.0123})
    assert "  3 rows from sampled waves; 95 % confidence interval of the cycles: +-1.2 % or less; --exact runs every block" in text
