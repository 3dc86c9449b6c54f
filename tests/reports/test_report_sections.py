"""Do the sections what if, advice and provenance show what their document says, and only where it says something?"""

from __future__ import annotations

import copy
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.analysis.report_data.kernel import Parts, advised_report_data, predictions_report_data
from warpsight.analysis.what_if import unpacked
from warpsight.gpu.loader import load_gpu
from warpsight.reports.html.page import embedded, page
from warpsight.reports.html.parts import paint, stack_bar
from warpsight.reports.html.what_if import times
from warpsight.result.prediction import COMPONENTS

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void strided(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[(i * 32) % n] * 2.0f;
}
"""


class Sections(HTMLParser):
    """The text of each section, its links and its style attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: dict[str, str] = {}
        self.links: list[str] = []
        self.ids: list[str] = []
        self._at = ""
        self.feed(str(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "section":
            self._at = found["id"] or ""
        if found.get("id"):
            self.ids.append(found["id"] or "")
        if tag == "a":
            self.links.append(found.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "section":
            self._at = ""

    def handle_data(self, data: str) -> None:
        self.text[self._at] = self.text.get(self._at, "") + data


@pytest.fixture(scope="module")
def report_data() -> dict[str, Any]:
    trace = warpsight.trace(SOURCE, grid=64, block=128, args=["f32[8192]:uniform", "f32[8192]:zeros", "i32:8192"])
    parts = Parts(command=("warpsight", "report", "strided.cu"))
    return advised_report_data(trace, load_gpu("mdm-pascal"), "mdm", beside=["mt"], parts=parts)


@pytest.fixture(scope="module")
def sections(report_data: dict[str, Any]) -> Sections:
    return Sections(page(report_data))


def test_one_change_at_a_time_is_a_table_of_the_document_s_rows_without_a_script(
    report_data: dict[str, Any], sections: Sections
) -> None:
    text = sections.text["what-if"]
    assert len(report_data["what_if"]["one_at_a_time"]) >= 14
    for row in report_data["what_if"]["one_at_a_time"]:
        assert f"{row['label']} {row['setting']}" in text
        assert f"{row['cycles']:,.0f}" in text


def test_grid_of_the_page_has_repeated_designs_once_and_the_same_columns(report_data: dict[str, Any]) -> None:
    whole, short = report_data["what_if"], embedded(report_data)["what_if"]
    assert len(short["columns"][0]["data"]) < len(whole["columns"][0]["data"]) and short["rows"]["type"] == "uint16"
    for name, values in unpacked(whole).items():
        assert np.array_equal(unpacked(short)[name], values, equal_nan=True)


def test_grid_s_own_point_is_the_prediction_that_the_overview_shows(report_data: dict[str, Any]) -> None:
    grid, first = report_data["what_if"], report_data["predictions"][0]
    columns = unpacked(grid)
    assert columns["cycles"][grid["own"]] == pytest.approx(first["cycles"], rel=1e-12)
    assert grid["bounds"][columns["bound_by"][grid["own"]]] == first["bound_by"]
    shares = [columns[f"share.{name}"][grid["own"]] for name in COMPONENTS if f"share.{name}" in columns]
    assert np.sum(shares) == pytest.approx(1, abs=1e-8)


def test_every_advised_change_is_there_with_its_gain_its_cost_and_a_link_to_its_place(
    report_data: dict[str, Any], sections: Sections
) -> None:
    text = " ".join(sections.text["advice"].split())
    assert report_data["advice"]["advice"]
    for change in report_data["advice"]["advice"]:
        for part in (change["title"], change["reason"], change["cost"], change["owner"], f"{change['gain_cycles']:,.0f}"):
            assert " ".join(part.split()) in text
        if change["setting"]:
            assert change["setting"] in text
    assert any(link.startswith("#code&line=pc-") for link in sections.links)
    assert any(link.startswith("#what-if&noc.bandwidth=") for link in sections.links)


def test_provenance_has_every_key_with_its_source_and_the_checks_with_their_figures(
    report_data: dict[str, Any], sections: Sections
) -> None:
    text = sections.text["provenance"]
    for row in report_data["provenance"]["gpu"]:
        assert row["key"] in text
        assert row["source"] in text
    for name, value in report_data["provenance"]["hashes"].items():
        assert f"hash of {name}" in text
        assert value in text
    for check in report_data["assumptions"]["checks"]:
        assert f"assumption-{check['key']}" in sections.ids
        assert check["detail"] in text
    violated = sum(check["violated"] for check in report_data["assumptions"]["checks"])
    assert text.count("violated") >= violated
    assert "warpsight report strided.cu" in text
    for each in report_data["models"]["mdm"]["assumptions"]:
        assert each in text


def test_component_s_equation_is_in_the_overview_s_table(report_data: dict[str, Any], sections: Sections) -> None:
    for name, equation in report_data["models"]["mdm"]["by_component"].items():
        assert (equation in sections.text["overview"]) == (name == "base" or report_data["predictions"][0]["cpi_stack"][name] > 0)


def test_results_alone_have_no_sliders_and_no_advice_but_their_own_provenance(report_data: dict[str, Any]) -> None:
    shown = Sections(page(predictions_report_data([report_data["predictions"][0]])))
    assert "what-if" not in shown.text
    assert "advice" not in shown.text
    assert "noc.bandwidth" in shown.text["provenance"]
    assert report_data["predictions"][0]["provenance"]["gpu_hash"] in shown.text["provenance"]


def test_names_and_reasons_are_shown_as_they_are_and_never_run(report_data: dict[str, Any]) -> None:
    bad = "<script>alert(1)</script>"
    document = copy.deepcopy(report_data)
    document["predictions"][0]["gpu"] = document["predictions"][0]["kernel"] = bad
    document["advice"]["advice"][0] |= {"title": bad, "reason": bad, "place": bad, "cost": bad}
    document["advice"]["refused"] = [{"title": bad, "why": bad}]
    document["assumptions"]["checks"][0]["detail"] = bad
    document["provenance"]["command"] = document["provenance"]["gpu"][0]["source"] = bad
    document["what_if"]["one_at_a_time"][0]["setting"] = document["what_if"]["not_possible"] = bad
    document["what_if"]["not_possible"] = [{"setting": bad, "why": bad}]
    html = page(document)
    assert html.count("<script") == 2
    assert bad not in html
    shown = Sections(html)
    assert all(bad in shown.text[name] for name in ("what-if", "advice", "provenance"))


def test_same_document_gives_the_same_page(report_data: dict[str, Any]) -> None:
    assert page(copy.deepcopy(report_data)) == page(report_data)


def test_bar_is_as_long_as_its_stack_is_of_the_whole_and_says_its_shares() -> None:
    bar = stack_bar("now", {"base": 1.0, "dram": 3.0, "noc": 0.0}, 8.0, "4 cycles")
    assert [(part["name"], part["width"]) for part in bar["parts"]] == [("base", 12.5), ("dram", 37.5)]
    assert bar["spoken"] == "now: 4 cycles. base: 25.0 %, dram: 75.0 %"


def test_every_component_has_a_paint_of_its_own() -> None:
    assert len({paint(name) for name in COMPONENTS}) == len(COMPONENTS)


@pytest.mark.parametrize(("factor", "text"), [(2.0, "x 2"), (0.5, "x 1/2"), (1.0, "x 1"), (1.25, "x 5/4"), (0.3, "x 0.300")])
def test_factor_is_said_as_a_reader_says_it(factor: float, text: str) -> None:
    assert times(factor) == text
