"""Are two results set beside each other as they are?"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from warpsight.analysis.report_data.comparison import comparison_report_data
from warpsight.base.errors import UsageError
from warpsight.base.units import duration
from warpsight.reports.html.comparison import differences
from warpsight.reports.html.page import page

pytestmark = pytest.mark.unit


def changed(report_data: dict[str, Any]) -> dict[str, Any]:
    """The same with twice the instructions: every line takes twice the cycles, and one line is new."""
    after = deepcopy(report_data)
    first = after["predictions"][0]
    first["cycles"] *= 2
    first["seconds"] *= 2
    first["warp_instructions"] *= 2
    first["provenance"]["gpu"]["sm_count"] = 14
    view = after["code"]["source"]
    view["cycles"] *= 2
    return after


def test_result_beside_itself_differs_in_nothing(report_data: dict[str, Any]) -> None:
    found = comparison_report_data(report_data, report_data, ["a", "b"])
    assert all(row["difference"] == 0 for row in (*found["components"], *found["lines"]))
    assert (found["gpu"], found["launch"]) == ([], [])
    assert {row["ratio"] for row in found["figures"] if row["before"]} == {1.0}


def test_components_are_in_cycles_and_sum_to_them(report_data: dict[str, Any]) -> None:
    found = comparison_report_data(report_data, changed(report_data), ["a", "b"])
    cycles = report_data["predictions"][0]["cycles"]
    assert sum(row["before"] for row in found["components"]) == pytest.approx(cycles)
    assert sum(row["after"] for row in found["components"]) == pytest.approx(2 * cycles)
    assert found["components"][0]["difference"] == max(row["difference"] for row in found["components"])


def test_lines_and_keys_that_differ_are_told(report_data: dict[str, Any]) -> None:
    found = comparison_report_data(report_data, changed(report_data), ["a", "b"])
    assert found["gpu"] == [{"name": "sm_count", "before": 28, "after": 14}]
    for row in found["lines"]:
        assert row["after"]["value"] == pytest.approx(2 * row["before"]["value"])


def test_gpus_of_different_clocks_are_compared_by_time(report_data: dict[str, Any]) -> None:
    faster = deepcopy(report_data)
    own = report_data["predictions"][0]
    faster["predictions"][0] |= {"cycles": 1.5 * own["cycles"], "seconds": 0.75 * own["seconds"], "gpu": "twice-the-clock"}
    faster["code"]["source"]["cycles"] *= 1.5
    found = comparison_report_data(report_data, faster, ["slow", "fast"])
    assert found["unit"] == "us"
    for side, of in (("before", own), ("after", faster["predictions"][0])):
        assert sum(row[side] for row in found["components"]) == pytest.approx(1e6 * of["seconds"])
    assert all(row["after"]["value"] == pytest.approx(0.75 * row["before"]["value"]) for row in found["lines"])
    shown = differences(found)
    assert shown["change"] == "1.33x faster"
    other = faster["predictions"][0]
    assert shown["outcome"][1] == f"{duration(other['seconds'])} ({other['cycles']:,.0f} cycles)"
    html = page(found)
    assert ">fast</a>" in html
    assert "After" not in html


def test_line_that_is_only_on_one_side_is_told(report_data: dict[str, Any]) -> None:
    after = deepcopy(report_data)
    view = after["code"]["source"]
    (file,) = view["sources"]
    heaviest = max(view["rows"], key=lambda row: row["cpi"])
    view["sources"][file][str(heaviest["line"])] = "something else"
    found = comparison_report_data(report_data, after, ["a", "b"])
    gone, new = found["lines"][:2]
    assert {gone["after"]["text"], gone["before"]["text"], new["after"]["text"], new["before"]["text"]} >= {"", "something else"}
    assert gone["difference"] == pytest.approx(-new["difference"])


def test_results_without_a_common_model_are_refused(report_data: dict[str, Any]) -> None:
    after = deepcopy(report_data)
    after["predictions"] = [{**after["predictions"][0], "model": "mine"}]
    with pytest.raises(UsageError, match="no model in common"):
        comparison_report_data({**report_data, "predictions": report_data["predictions"][:1]}, after, ["a", "b"])
