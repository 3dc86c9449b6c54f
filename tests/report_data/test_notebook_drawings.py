"""Do results show themselves in a notebook, and their names as text?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import warpsight
from warpsight.base.display import DISPLAY
from warpsight.base.errors import UsageError

pytestmark = pytest.mark.unit


def test_prediction_shows_its_cycles_and_stack(strided: Any) -> None:
    prediction = warpsight.predict(strided)
    shown = prediction._repr_html_() or ""
    assert f"{prediction.cycles:,.0f} cycles" in shown
    assert shown.count("data-hook=") == sum(part > 0 for part in prediction.cpi_stack.values())


def test_names_are_text(strided: Any) -> None:
    nasty = replace(warpsight.predict(strided), kernel="<script>alert(1)</script>", gpu="<img src=x>")
    shown = nasty._repr_html_() or ""
    assert "<script" not in shown
    assert "<img" not in shown
    header = replace(strided.header, kernel="<script>alert(1)</script>")
    assert "<script" not in (replace(strided, header=header)._repr_html_() or "")


def test_trace_shows_what_was_run(strided: Any) -> None:
    shown = strided._repr_html_() or ""
    assert f"{strided.header.warp_instructions:,}" in shown
    assert "(64,1,1), (128,1,1)" in shown


def test_what_has_no_drawing_is_told() -> None:
    with pytest.raises(TypeError, match="has no drawing"):
        DISPLAY.html(17)


def test_report_of_a_trace_and_of_predictions_is_written(strided: Any, tmp_path: Path) -> None:
    whole = warpsight.report(strided, tmp_path / "whole.html", model="warpsight")
    assert "<h1>stride on mdm-pascal</h1>" in whole.read_text()
    told = warpsight.report([warpsight.predict(strided), warpsight.predict(strided, model="gpumech")], tmp_path / "told.html")
    assert told.stat().st_size < whole.stat().st_size
    with pytest.raises(UsageError, match="cannot be written"):
        warpsight.report(warpsight.predict(strided), tmp_path / "nowhere" / "x.html")
