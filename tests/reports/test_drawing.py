"""Is every picture well-formed, readable without its colours, and free of texts that run out of it or over each other?"""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.reports.drawing.canvas import FONT, heat, luminance, shade, style_of, text_width
from warpsight.reports.drawing.charts import (
    LOG,
    LOG_FROM_0,
    Axis,
    Bars,
    Chart,
    Dot,
    Flow,
    HeatMap,
    Lanes,
    Lines,
    Memory,
    MemoryChart,
    Scatter,
    Series,
    StepCurve,
)
from warpsight.reports.drawing.frame import number_text, scale_for
from warpsight.reports.drawing.svg import svg
from warpsight.reports.paper_figures import chart_of

pytestmark = pytest.mark.unit

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<b>&\"'\x00\x1b]]>\ud800 kernel"
LONG = "a_kernel_with_a_name_that_nobody_would_want_to_type_twice_in_a_row"


def _bars(groups: int = 12, series: int = 6, name: str = "kernel", most: float | None = None) -> Bars:
    values = [[10.0 * (k + 1) * (g + 1) % 170 for g in range(groups)] for k in range(series)]
    return Bars(
        f"errors of {name}", Axis("absolute error", "%", most=most), [f"{name}_{g}" for g in range(groups)],
        [Series(f"model {k} {name}", row) for k, row in enumerate(values)],
        spans=[("first", groups // 2), (name, groups - groups // 2)],
    )  # fmt: skip


def _stack(name: str = "kernel") -> Bars:
    series = [Series(f"part {k}", [1.0 + k, 2.0, None]) for k in range(9)]
    line = Series("reference", [5.0, 6.0, None])
    return Bars(f"stack of {name}", Axis("CPI"), ["a", name, "none"], series, stacked=True, line=line)


def _lines(name: str = "kernel", scale: str = "linear", *, even: bool = False) -> Lines:
    series = [Series(f"{name} {k}", [1.0 * k, 2.5, None, 300.0]) for k in range(6)]
    return Lines(f"over {name}", Axis("bandwidth", "GB/s", scale), Axis("error", "%"), [525, 1050, 2100, 4200], series, even=even,
                 marks=[] if even else [(1050, name)])  # fmt: skip


def _heat(name: str = "kernel") -> HeatMap:
    values = [[1.0, 2.5], [None, 123456.0]]
    return HeatMap(f"space of {name}", Axis("SMs"), Axis("DRAM", "GB/s"), ["15", name], ["240", name], values)


def _scatter(name: str = "kernel", unit: float = 1.0, scale: str = "linear") -> Scatter:
    dots = [Dot(0.5 * unit, 0.6 * unit, name), Dot(1.5 * unit, 0.2 * unit, name)]
    axes = Axis("reference", "", scale), Axis("model", "", scale)
    return Scatter(f"{name}", *axes, [(name, dots), ("other", dots)], diagonal=True)


def _lanes(name: str = "kernel", *, known: bool = True) -> Lanes:
    lanes = [None if lane % 5 == 0 else 4096 * (lane % 12) + 4 * lane for lane in range(32)]
    sectors = list(dict.fromkeys(byte // 32 for byte in lanes if byte is not None))
    return Lanes(f"Typical of {name}", lanes if known else [], sectors, 4, 128, 32)


def _memory(name: str = "kernel", *, upright: bool = False, share: float = 0.25) -> MemoryChart:
    """Three flows at shared memory, none at DRAM."""
    boxes = {each: Memory(each if each != "l2" else name, ["128 KiB", "hit rate 88.2 %"], None if each == "kernel" else share)
             for each in ("kernel", "l1", "shared", "l2", "dram")}  # fmt: skip
    flows = {
        ("kernel", "l1"): [Flow("loads", "1.05 M req.", "33.6 MB", share, True),
                           Flow("stores", "262 k req.", "8.4 MB", 0.1, False)],
        ("kernel", "shared"): [Flow(each, "1.05 M inst.", "33.6 M passes", 0.5, False)
                               for each in ("stores", "atomics", name)],
        ("l1", "l2"): [Flow("reads", "", "33.6 MB", 1.234, True)],
    }  # fmt: skip
    return MemoryChart(f"memory of {name}", boxes, flows, "together 74.0 % of peak", upright)


def _curve(name: str = "kernel") -> StepCurve:
    return StepCurve(f"{name} a thread", Axis("registers"), Axis("warps"), [(1, 64), (33, 48), (129, 8)], 255, 64, (40, 48))


def _all(name: str) -> list[Chart]:
    return [_bars(name=name), _bars(name=name, most=50.0), _stack(name), _lines(name), _lines(name, LOG), _lines(name, LOG_FROM_0),
            _lines(name, even=True), _heat(name), _scatter(name), _scatter(name, 1e5, LOG), _lanes(name),
            _lanes(name, known=False), _memory(name), _memory(name, upright=True), _curve(name)]  # fmt: skip


def _texts(picture: str) -> list[tuple[float, float, float, float, str]]:
    """The box (left, top, right, bottom) of every text, by the width that its letters take."""
    boxes = []
    for node in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        size, text = float(node.get("font-size", FONT)), node.text or ""
        x, y, width = float(node.get("x", "0")), float(node.get("y", "0")), text_width(text, size)
        before = {"start": 0.0, "middle": width / 2, "end": width}[node.get("text-anchor", "start")]
        if node.get("transform"):
            boxes.append((x - 0.8 * size, y - (width - before), x + 0.2 * size, y + before, text))
        else:
            boxes.append((x - before, y - 0.8 * size, x + width - before, y + 0.2 * size, text))
    return boxes


@pytest.mark.parametrize("chart", _all(NASTY), ids=lambda chart: type(chart).__name__)
def test_text_with_marks_of_xml_is_escaped_and_the_picture_well_formed(chart: Chart) -> None:
    picture = svg(chart)
    root = ElementTree.fromstring(picture)
    assert root.tag == f"{SVG}svg"
    assert f"{SVG}b" not in {node.tag for node in root.iter()}
    shown = " ".join(node.text or "" for node in root.iter(f"{SVG}text"))
    assert "<b>&\"'" in shown
    assert "\x00" not in picture
    assert "kernel" in root.attrib["aria-label"]


@pytest.mark.parametrize("name", ["k", "kernel", LONG])
@pytest.mark.parametrize("place", range(15))
def test_texts_of_a_chart_stay_within_it_and_clear_of_each_other(name: str, place: int) -> None:
    picture = svg(_all(name)[place])
    width, height = (float(part) for part in ElementTree.fromstring(picture).attrib["viewBox"].split()[2:])
    boxes = _texts(picture)
    for left, top, right, bottom, text in boxes:
        assert left >= -0.5, text
        assert top >= -0.5, text
        assert right <= width + 0.5, text
        assert bottom <= height + 0.5, text
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] + 1 or other[2] <= one[0] + 1 or one[3] <= other[1] + 1 or other[3] <= one[1] + 1
        assert apart, (one, other)


def test_charts_of_a_sheet_stand_below_each_other_and_the_sheet_holds_them() -> None:
    charts = [_bars(), _lines(), _heat()]
    heights = [float(ElementTree.fromstring(svg(chart)).attrib["height"]) for chart in charts]
    whole = ElementTree.fromstring(svg(charts, "three"))
    assert float(whole.attrib["height"]) == pytest.approx(sum(heights), abs=20)
    assert whole.attrib["aria-label"] == "three"


def test_height_of_a_bar_is_proportional_to_its_value() -> None:
    chart = Bars("t", Axis("v", "cycles"), ["a", "b"], [Series("m", [10.0, 40.0])])
    rects = [node for node in ElementTree.fromstring(svg(chart)).iter(f"{SVG}rect") if node.find(f"{SVG}title") is not None]
    tips = [node.findtext(f"{SVG}title") for node in rects]
    assert tips == ["a, m: 10.0 cycles", "b, m: 40.0 cycles"]
    assert float(rects[1].attrib["height"]) == pytest.approx(4 * float(rects[0].attrib["height"]), rel=0.01)


def test_parts_of_a_stack_stand_on_each_other_and_the_reference_crosses_them() -> None:
    chart = Bars("t", Axis("v"), ["a"], [Series("x", [1.0]), Series("y", [3.0])], stacked=True, line=Series("r", [4.0]))
    picture = svg(chart)
    rects = [node for node in ElementTree.fromstring(picture).iter(f"{SVG}rect") if node.find(f"{SVG}title") is not None]
    low, high = sorted(rects, key=lambda node: -float(node.attrib["y"]))
    assert float(high.attrib["y"]) + float(high.attrib["height"]) == pytest.approx(float(low.attrib["y"]), abs=0.2)
    mark = re.search(r'd="M[\d.]+ ([\d.]+)h[\d.]+" fill="none" stroke="#000000" stroke-width="2"', picture)
    assert mark is not None
    assert float(mark[1]) == pytest.approx(float(high.attrib["y"]), abs=0.2)


def test_value_that_is_missing_is_told_and_one_above_the_axis_is_cut_with_its_number() -> None:
    chart = Bars("t", Axis("error", "%", most=100.0), ["a", "b"], [Series("m", [None, 483.2])])
    texts = [text for *_, text in _texts(svg(chart))]
    assert "none" in texts
    assert "483" in texts
    assert max(float(text) for text in texts if text.isdigit() and text != "483") == 100


def test_each_active_lane_is_joined_to_the_bytes_that_it_accesses() -> None:
    lanes = [0, 124, None, 256, *[None] * 28]
    picture = svg(Lanes("t", lanes, [0, 3, 8], 4, 128, 32))
    joins = re.findall(r"M([\d.]+) [\d.]+L([\d.]+) [\d.]+", picture)
    starts, ends = ([float(pair[k]) for pair in joins] for k in (0, 1))
    assert np.diff(starts).tolist() == [20.0, 40.0]  # lanes 0, 1 and 3
    # two lines side by side: 160 px for 128 B each, in halves of the width of 32 lanes
    assert ends[1] - ends[0] == pytest.approx(160 * 124 / 128, abs=0.2)
    assert ends[2] - ends[0] == pytest.approx(320, abs=0.2)


def test_lines_beyond_those_drawn_are_told() -> None:
    texts = [text for *_, text in _texts(svg(Lanes("t", [], [4 * k for k in range(70)], 4, 128, 32)))]
    assert any("6 more are not drawn" in text for text in texts)


def test_series_differ_in_more_than_colour() -> None:
    styles = [style_of(k) for k in range(18)]
    assert len({(style.hatch, style.marker, style.dash) for style in styles[:9]}) == 9
    assert len(set(styles)) == 18
    assert {"#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000"} <= {s.colour for s in styles}
    picture = svg(_bars(series=6))
    assert len(re.findall("<pattern ", picture)) == 5
    assert set(re.findall(r"url\(#([^)]+)\)", picture)) == set(re.findall(r'<pattern id="([^"]+)"', picture))


def test_numbers_in_a_heat_map_stand_out_from_every_shade() -> None:
    for step in range(101):
        light = luminance(shade(step / 100))
        ink = 1.0 if light < 0.179 else 0.0
        assert (max(light, ink) + 0.05) / (min(light, ink) + 0.05) > 4.4, step
    cells = [text for *_, text in _texts(svg(_heat()))]
    assert {"1.00", "2.50", "123,456", "none"} <= set(cells)


def test_colour_of_an_arrow_gets_darker_with_its_share_and_the_bar_of_a_box_longer() -> None:
    shades = [luminance(heat(step / 50)) for step in range(51)]
    assert all(later < earlier for earlier, later in pairwise(shades))
    assert heat(0.25) in svg(_memory())
    for upright in (False, True):
        bars = []
        for share in (0.25, 0.5):
            nodes = ElementTree.fromstring(svg(_memory(upright=upright, share=share))).iter(f"{SVG}rect")
            bars.append([float(node.attrib["width"]) for node in nodes if node.findtext(f"{SVG}title") == f"dram: {share:.1%}"[:-1]
                         + " % of peak"])  # fmt: skip
        assert bars[1][0] == pytest.approx(2 * bars[0][0], abs=0.2)


def test_loads_point_to_the_kernel_and_stores_away_from_it() -> None:
    tips = {}
    for node in ElementTree.fromstring(svg(_memory())).iter(f"{SVG}path"):
        begin, end = re.match(r"M([\d.]+) .*L([\d.]+) ", node.attrib["d"]).groups()  # type: ignore[union-attr]
        tips[(node.findtext(f"{SVG}title") or "").partition(",")[0]] = float(end) - float(begin)
    assert tips["loads"] < 0 < tips["stores"]
    assert tips["reads"] < 0


def test_step_curve_keeps_a_value_until_the_next_and_marks_the_present_point() -> None:
    picture = svg(_curve())
    path = re.search(r'd="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H([\d.]+)V([\d.]+)H([\d.]+)"', picture)
    assert path is not None
    first, high, second, middle, third, low, end = map(float, path.groups())
    assert (second - first) / (end - first) == pytest.approx(32 / 254, abs=0.002)
    assert (third - first) / (end - first) == pytest.approx(128 / 254, abs=0.002)
    assert (low - high) / (middle - high) == pytest.approx(56 / 16, abs=0.05)
    assert "<title>40 registers: 48 warps</title>" in picture


def test_same_charts_give_the_same_text_and_others_other_identifiers() -> None:
    assert svg(_bars()) == svg(_bars())
    one, other = (set(re.findall(r' id="([^"]+)"', svg(_bars(name=name)))) for name in ("x", "y"))
    assert one
    assert not one & other


def test_panel_of_a_document_is_the_chart_that_it_describes() -> None:
    panel = {"chart": "bars", "title": "t", "axis": {"label": "a", "unit": "%"}, "groups": ["g"],
             "series": [{"name": "s", "values": [1.0]}], "spans": [["x", 1]], "stacked": True,
             "line": {"name": "r", "values": [2.0]}}  # fmt: skip
    made = Bars("t", Axis("a", "%"), ["g"], (Series("s", [1.0]),), True, (("x", 1),), Series("r", [2.0]))
    assert svg(chart_of(panel)) == svg(made)
    lines = {"chart": "lines", "title": "t", "x": {"label": "x"}, "y": {"label": "y"}, "xs": [1, 2],
             "series": [{"name": "s", "values": [1.0, None]}], "even": True}  # fmt: skip
    assert isinstance(chart_of(lines), Lines)
    heat = {"chart": "heat map", "title": "t", "x": {"label": "x"}, "y": {"label": "y"}, "columns": ["a"], "rows": ["b"],
            "values": [[1]]}  # fmt: skip
    assert isinstance(chart_of(heat), HeatMap)
    dots = {"chart": "scatter", "title": "t", "x": {"label": "x"}, "y": {"label": "y"},
            "series": [{"name": "s", "dots": [{"x": 1, "y": 2, "name": "k"}]}]}  # fmt: skip
    assert chart_of(dots) == Scatter("t", Axis("x"), Axis("y"), (("s", (Dot(1, 2, "k"),)),))


def test_chart_without_values_is_drawn_empty() -> None:
    for chart in (Bars("t", Axis("a"), [], []), Lines("t", Axis("x"), Axis("y"), [], []), Scatter("t", Axis("x"), Axis("y"), []),
                  HeatMap("t", Axis("x"), Axis("y"), [], [], [])):  # fmt: skip
        assert ElementTree.fromstring(svg(chart)).tag == f"{SVG}svg"


@given(st.lists(st.floats(-1e12, 1e12, allow_nan=False), max_size=8), st.sampled_from(["linear", LOG, LOG_FROM_0]))
def test_ticks_of_any_values_rise_and_lie_on_the_axis(values: list[float], kind: str) -> None:
    scale = scale_for(Axis("a", scale=kind), values)
    places = [scale.at(tick) for tick in scale.ticks()]
    assert all(0 <= place <= 1 for place in places)
    assert all(a < b for a, b in pairwise(places))
    assert len(places) <= 14
    for value in values:
        assert 0 <= scale.at(value) <= 1


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.1234, "0.123"), (12.345, "12.3"), (1234.5, "1,234"), (1e-5, "1e-05"), (-5.678, "-5.68")]
)
def test_number_as_text_has_three_digits(value: float, text: str) -> None:
    assert number_text(value) == text
