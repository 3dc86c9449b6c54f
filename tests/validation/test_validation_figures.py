"""Is every figure complete on two kernels: its data, the paper's numbers beside ours, its page and its picture?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from warpsight.papers.results import Cast, Variant, cast_of
from warpsight.papers.validate import chosen_figures, figure_names, validate
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.suites import load_suite
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.paper_figures import document_text, figure_page, figure_svg, index_page
from warpsight.result.prediction import relative_error

pytestmark = pytest.mark.unit

MDM_FIGURES = {f"mdm-{n}" for n in (3, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15)} | {"mdm-table-1", "mdm-table-2"}
GPUMECH_FIGURES = {f"gpumech-{n}" for n in (7, 11, 12, 13, 14, 15, 16)}
# What the papers' texts say, and the figures' documents must give as theirs: MDM sections I, II, V and VII; GPUMech section VI.
PAPERS = {
    "mdm-5": {13.9, 162.0, 18.0, 298.0, 50.0, 750.0, 9.0, 131.0, 63.0, 60.3},
    "mdm-8": {98.0, 317.0, 124.0, 133.0, 18.0},
    "mdm-9": {124.0, 450.0, 26.0},
    "mdm-13": {3.7, 4.6, 28.0},
    "mdm-15": {8.66},
    "mdm-table-1": {38.0, 64.0, 3.0},
    "mdm-table-2": {65.0, 6371.0, 7056.0},
    "gpumech-11": {13.2, 62.9, 75.0, 50.0},
    "gpumech-12": {14.0, 65.3},
    "gpumech-13": {13.2, 62.9},
    "gpumech-15": {26.1, 17.8},
}


def test_figures_of_both_papers_are_all_there() -> None:
    assert set(figure_names()) == MDM_FIGURES | GPUMECH_FIGURES


@pytest.mark.parametrize("name", sorted(MDM_FIGURES | GPUMECH_FIGURES))
def test_figure_on_two_kernels_has_data_page_and_picture(name: str, documents: dict[str, dict[str, Any]]) -> None:
    document = documents[name]
    assert json.loads(document_text(document)) == document
    assert document["failed"] == []
    assert document["rows"]
    assert document["panels"]
    assert document["numbers"] or document["claims"]
    assert document["gpu"]["name"] == ("mdm-pascal" if name.startswith("mdm-") else "gpumech")
    ElementTree.fromstring(figure_svg(document))
    page = figure_page(document)
    assert f"({name}.svg)" in page
    assert document["paper"]["place"] in page
    for claim in document["claims"]:
        assert claim["holds"] in (True, False)
        assert claim["says"] in page
    for number in document["numbers"]:
        assert number["ours"] is not None, number["what"]
        assert number["what"] in page


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_papers_numbers_stand_beside_ours(name: str, documents: dict[str, dict[str, Any]]) -> None:
    numbers = documents[name]["numbers"]
    assert {number["paper"] for number in numbers if number["paper"] is not None} == PAPERS[name]
    page = figure_page(documents[name])
    for number in numbers:
        if number["paper"] is not None:
            row = next(line for line in page.splitlines() if line.startswith(f"| {number['what']} |"))
            cells = [cell.strip() for cell in row.split("|")]
            assert re.sub(r"[^\d.]", "", cells[3]).startswith(f"{number['paper']:g}"[:2])
            assert cells[2]
            assert number["difference"] == pytest.approx(number["ours"] - number["paper"], rel=1e-4, abs=1e-4)


def test_error_of_a_figure_is_that_of_a_prediction_against_a_simulation(tiny_cast: Cast, documents: dict[str, Any]) -> None:
    gpu = Variant("mdm-pascal", ("l1.mshrs=32",)).spec()
    member = tiny_cast.divergent[0]
    trace = obtain_trace(KernelRequest(path=member.path))
    reference = simulate_trace(trace, gpu).prediction
    answer = predict_trace(trace, gpu, ["mdm"])[0]
    row = next(r for r in documents["mdm-8"]["rows"] if r["kernel"] == member.name and r["design"] == "32")
    assert row["simulator"]["cycles"] == reference.cycles
    assert row["models"]["mdm"]["error"] == pytest.approx(relative_error(answer.ipc_gpu_warp, reference.ipc_gpu_warp), rel=1e-4)
    assert documents["mdm-8"]["kernels"] == ["scattered"]


def test_halves_of_the_suite_stand_side_by_side(documents: dict[str, Any]) -> None:
    table = next(t for t in documents["mdm-5"]["tables"] if "half" in t["columns"])
    rows = {row[0]: row for row in table["rows"]}
    errors = {row["kernel"]: 100 * abs(row["models"]["mdm"]["error"]) for row in documents["mdm-5"]["rows"]}
    place = table["columns"].index("mdm")
    assert rows["development"][place] == pytest.approx(errors["streamed"], rel=1e-4)
    assert rows["set aside (holdout)"][place] == pytest.approx(errors["scattered"], rel=1e-4)
    assert rows["all"][place] == pytest.approx(sum(errors.values()) / 2, rel=1e-4)


def test_difference_names_kernel_and_component(documents: dict[str, Any]) -> None:
    text = " ".join(documents["mdm-5"]["differences"])
    rows = {row["kernel"]: row for row in documents["mdm-5"]["rows"]}
    models, simulator = rows["scattered"]["models"]["mdm"], rows["scattered"]["simulator"]
    parts = set(models["cpi_stack"]) | set(simulator["cpi_stack"])
    component = max(parts, key=lambda part: abs(models["cpi_stack"].get(part, 0) - simulator["cpi_stack"].get(part, 0)))
    assert f"`mdm` on the divergent kernels is farthest off on `scattered`: {100 * models['error']:+.0f} % in IPC." in text
    assert f"differ most in `{component}`" in text
    start = "`mdm` on the divergent kernels by the component"
    cause = next(line for line in documents["mdm-5"]["differences"] if line.startswith(start))
    assert f"simulator: `{component}` 1 (mean error" in cause


def test_dvfs_ratio_of_a_kernel_bound_by_issue_is_the_clocks(documents: dict[str, Any]) -> None:
    for row in documents["mdm-13"]["rows"]:
        assert 1 <= row["simulator_ratio"] <= 2 / 1.4 + 1e-6
        assert set(row["ratios"]) == {"gpumech", "crisp", "mdm", "warpsight"}
        assert row["ratios"]["crisp"] >= 0.999


def test_design_space_is_one_at_the_base_for_the_simulator(documents: dict[str, Any]) -> None:
    panel = documents["mdm-12"]["panels"][0]
    row, column = panel["rows"].index("480"), panel["columns"].index("28")
    assert panel["title"].startswith("simulator")
    assert panel["values"][row][column] == 1
    assert documents["mdm-12"]["kernels"] == ["scattered"]
    assert documents["mdm-11"]["kernels"] == ["streamed"]


def test_representative_figure_shows_only_kernels_that_diverge_in_control(documents: dict[str, Any]) -> None:
    assert [row["kernel"] for row in documents["gpumech-7"]["rows"]] == ["scattered"]


def test_table_of_times_adds_up(documents: dict[str, Any]) -> None:
    document = documents["mdm-table-2"]
    simulated = sum(row["simulation_seconds"] for row in document["rows"])
    table = document["tables"][0]
    assert [row[0] for row in table["rows"]] == [1, 10, 100, 1000]
    assert table["rows"][2][1] == pytest.approx(100 * simulated, rel=1e-3)


def test_cast_of_some_kernels_is_told_in_the_command(tiny: Path, kept: Path) -> None:
    cast = cast_of(load_suite(tiny), ["scattered"])
    document = validate(cast, chosen_figures(["mdm-6"]), results=kept, jobs=1)[0]
    assert document["command"] == "warpsight validate --suite tiny --figure mdm-6 --kernels scattered"


def test_index_leads_to_every_page(documents: dict[str, Any]) -> None:
    page = index_page([documents[name] for name in figure_names()])
    for name in figure_names():
        assert f"({name}.md)" in page
    assert "--figure all --out docs/validation" in page
