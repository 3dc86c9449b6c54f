"""Does the text of a comparison stay within 120 columns, however many components there are, and lose nothing but comfort?"""

from __future__ import annotations

from typing import Any

import pytest
from documents import document

from warpsight.reports.comparison import comparison_text
from warpsight.result.prediction import COMPONENTS

pytestmark = pytest.mark.unit


def _comparison(stack: dict[str, float], scale: float) -> dict[str, Any]:
    answers = []
    for model, factor in (("a-long-model-name", 1.0), ("mdm", scale)):
        told = document({name: value * factor for name, value in stack.items()}, model=model, cycles=1e6 * factor)
        off = {"component": "com_struct", "predicted": 1.0, "reference": 1000.0, "difference": -999.0}
        answers.append({"model": model, "error": factor - 1.5, "most_off": off, "refused": "", "prediction": told})
    answers.append({"model": "crisp", "error": None, "most_off": None, "refused": "it needs a clock", "prediction": None})
    reference = {"name": "k", "cycles": 1.5e6, "cpi_stack": dict(stack), "place": "m.csv:2"}
    launch = {"label": "k", "kernel": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "warp_instructions": 10**9}
    return {
        "tool": "warpsight 0.1.0", "gpu": "mdm-pascal", "models": ["a-long-model-name", "mdm", "crisp"], "against": "x/m.csv",
        "launches": [{**launch, "reference": reference, "answers": answers}], "summary": [], "gates": [],
    }  # fmt: skip


@pytest.mark.parametrize("size", [0.01, 1.0, 999.0])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_text_is_at_most_120_wide_and_names_every_component(size: float, count: int) -> None:
    stack = {name: size * (number < count) for number, name in enumerate(COMPONENTS)}
    lines = comparison_text(_comparison(stack, 100.0)).splitlines()
    assert max(map(len, lines)) <= 120
    text = "\n".join(lines)
    assert all(f" {name}" in text for name in COMPONENTS[:count])
    assert text.count("com_struct -999") == 2  # beside its model or, where there is no room, below
    assert "crisp: it needs a clock" in text


def test_models_that_are_far_apart_keep_their_digits() -> None:
    lines = comparison_text(_comparison({"base": 1.25, "dram": 0.03}, 100.0)).splitlines()
    (small,) = [line for line in lines if line.startswith(" a-long-model-name")]
    assert small.split()[3:7] == ["%", "1.28", "1.25", "0.03"]
