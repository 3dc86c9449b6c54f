"""Do the pictures draw every mark of the documents, with labels, and names of any kind escaped?"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from sweep_documents import NASTY, clocks, crowd, documents

from warpsight.reports.drawing.canvas import style_of
from warpsight.reports.sweep_pictures import answer_picture, cost_picture, energy_picture

pytestmark = pytest.mark.unit

SVG = "{http://www.w3.org/2000/svg}"
DOCUMENTS = documents()
DRAWN = [name for name in DOCUMENTS if name != "best"]


def _root(picture: str | None) -> ElementTree.Element:
    assert picture is not None
    return ElementTree.fromstring(picture)


def _texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def _tips(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}title")]


@pytest.mark.parametrize("name", DRAWN)
def test_names_with_marks_of_xml_are_escaped_in_every_picture(name: str) -> None:
    root = _root(answer_picture(documents(NASTY)[name]))
    assert root.tag == f"{SVG}svg"
    assert f"{SVG}b" not in {node.tag for node in root.iter()}


@pytest.mark.parametrize("name", DRAWN)
def test_same_document_gives_the_same_picture(name: str) -> None:
    assert answer_picture(DOCUMENTS[name]) == answer_picture(documents()[name])


def test_list_of_best_designs_has_no_picture() -> None:
    assert answer_picture(DOCUMENTS["best"]) is None


def test_pareto_picture_has_a_mark_for_each_point_and_steps_along_the_front() -> None:
    document = DOCUMENTS["pareto"]
    picture = answer_picture(document)
    root = _root(picture)
    tips = _tips(root)
    front = [tip for tip in tips if "Pareto front" in tip]
    assert len(front) == len(document["front"])
    assert "design 0: sm_count=15, dram.bandwidth=240 GB/s, sm.policy=lrr, Pareto front: 39.0 , 0.526 " in front
    assert len([tip for tip in tips if "dominated" in tip]) == len(document["others"])
    off = {node.attrib["data-hook"] for node in root.iter() if "data-hook" in node.attrib}
    assert off >= {f"design-{number}" for number in document["others_designs"]}
    assert {"sm_count + dram.bandwidth / 10 GB/s", "speedup over design 8", "Pareto front"} <= set(_texts(root))
    steps = [node.attrib["d"] for node in root.iter(f"{SVG}path") if node.get("stroke-width") == "1.5"]
    assert [path.count("V") for path in steps] == [len(document["front"]) - 1]


def test_front_of_three_objectives_has_no_steps() -> None:
    root = _root(answer_picture(DOCUMENTS["pareto of three"]))
    assert [node for node in root.iter(f"{SVG}path") if node.get("stroke-width") == "1.5"] == []


def test_thinned_points_are_told_in_the_legend() -> None:
    assert "dominated, 1 of 5 shown" in _texts(_root(answer_picture(crowd())))


def test_sensitivity_picture_has_a_bar_for_each_axis_and_index_and_a_cell_for_each_kernel() -> None:
    root = _root(answer_picture(documents(failed=False)["sensitivity"]))
    tips = _tips(root)
    bars = [tip for tip in tips if re.match(r"(sm_count|dram\.bandwidth|sm\.policy), (alone|with others): ", tip)]
    assert len(bars) == 6
    cells = [tip for tip in tips if re.match(r"(gemm|softmax), ", tip)]
    assert len(cells) == 6
    assert "gemm, sm_count: 100 %" in cells
    assert "share (%)" in _texts(root)


def test_map_picture_has_a_cell_for_each_pair_of_values_and_says_where_there_is_none() -> None:
    root = _root(answer_picture(DOCUMENTS["map"]))
    tips = _tips(root)
    assert len(tips) == 11
    assert "480 GB/s, 28: 1.00" in tips
    texts = _texts(root)
    assert texts.count("none") == 1  # design 7 failed
    assert {"sm_count", "dram.bandwidth", "1.05 TB/s", "80"} <= set(texts)
    assert texts.index("1.05 TB/s") < texts.index("240 GB/s")


def test_map_of_words_colours_each_word_alike_and_writes_it() -> None:
    root = _root(answer_picture(DOCUMENTS["map of words"]))
    cells = [(node.attrib["fill"], (node.findtext(f"{SVG}title") or "").split(": ")[1]) for node in root.iter(f"{SVG}rect")
             if node.find(f"{SVG}title") is not None]  # fmt: skip
    assert len(cells) == 12
    assert set(cells) == {(style_of(0).colour, "base"), (style_of(1).colour, "dram")}
    assert (_texts(root).count("base"), _texts(root).count("dram")) == (6, 6)


def test_speedups_are_bars_by_design_or_lines_over_an_axis_in_its_unit() -> None:
    bars = _tips(_root(answer_picture(DOCUMENTS["speedups"])))
    assert len(bars) == 3 * 3 - 2  # design 7 has neither gemm nor a mean
    root = _root(answer_picture(DOCUMENTS["speedups over an axis"]))
    assert len(_tips(root)) == 3 * 3
    assert "dram.bandwidth (GB/s)" in _texts(root)
    assert "softmax, 240 GB/s: 0.667" in _tips(root)


def test_clocks_have_a_chart_for_each_measure_and_a_line_for_each_bandwidth() -> None:
    root = _root(energy_picture(clocks()))
    assert len(_tips(root)) == 4 * 2 * 2
    assert {"time (ms)", "energy (mJ)", "energy x time (mJ s)", "core_clock (GHz)"} <= set(_texts(root))
    assert "dram.bandwidth=240 GB/s, 1.4 GHz: 500 mJ" in _tips(root)
    assert len(_tips(_root(answer_picture(clocks(power=False))))) == 4


def test_cost_picture_holds_times_against_proportion() -> None:
    root = _root(cost_picture({"mdm": [(100, 0.5), (1000, 2.0), (10000, 20.0)]}, "cost"))
    tips = _tips(root)
    assert "mdm, 1,000 designs: 2.00 s" in [tip.replace(" :", " designs:") for tip in tips]
    assert sum("proportional to the 20.0 s of 10,000" in tip for tip in tips) == 3
    assert any(tip.startswith("proportional") and tip.endswith("0.200 s") for tip in tips)
