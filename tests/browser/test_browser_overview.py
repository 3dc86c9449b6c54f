"""Does the first screen fit the window, on a desk and on a telephone, and say what `predict --json` says?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from visits import Visit, data_of

from warpsight.base.units import duration, percent, thousands, three_digits

pytestmark = pytest.mark.browser
NAMES = ("divergent", "coalesced", "native")


def texts(opened: Visit, selector: str) -> list[str]:
    """The texts of the elements within the overview, with single spaces."""
    return [" ".join(text.split()) for text in opened.page.locator(f"#overview {selector}").all_inner_texts()]


@pytest.mark.parametrize("name", NAMES)
def test_overview_fits_a_screen_of_1440_by_900_and_three_of_a_telephone(visit: Callable[..., Visit], name: str) -> None:
    for width, most in ((1440, 900), (390, 3 * 844)):
        opened = visit(name, width=width)
        assert opened.overflow() <= 0
        assert opened.ask("document.querySelector('.overview').getBoundingClientRect().bottom + scrollY") <= most
        shown = [box for each in opened.page.locator(".overview svg").all() if (box := each.bounding_box())]
        assert len(shown) == 4  # the memory chart once, and three curves
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in shown)
        text = opened.page.locator(".overview svg text:visible").first.bounding_box()
        assert text["height"] >= 9, "text of the chart can be read"


@pytest.mark.parametrize("name", NAMES)
def test_first_screen_says_what_the_summary_of_the_data_says(visit: Callable[..., Visit], name: str) -> None:
    opened = visit(name, width=1440)
    document = data_of(opened.path)
    first = document["predictions"][0]
    summary = first["summary"]
    assert texts(opened, ".time") == [f"{duration(first['seconds'])} {thousands(first['cycles'])} cycles"]
    for row, cause in zip(texts(opened, ".why li"), summary["why"][:3], strict=True):
        assert row.startswith(f"{100 * cause['share']:.0f} % {cause['text']}")
        assert all(str(line["line"]) in row for line in cause["lines"])
    changes = [each for each in document["advice"]["advice"] if each["owner"] == "programmer" and each["gain"] >= 0.05]
    rows = [f"{three_digits(first['cycles'] / each['cycles'])}x {each['title']}" for each in changes[:3]]
    assert texts(opened, ".do li") == (rows or ["No change of the program that was evaluated saves 5 % of the cycles."])
    found = dict(row.split(" ", 1)[::-1] for row in rows)
    for change in summary["advice"]:  # those of the terminal are among the report's, with the same speed-up
        assert found.get(change["title"], f"{three_digits(change['speedup'])}x") == f"{three_digits(change['speedup'])}x"
    violated = [check for check in document["assumptions"]["checks"] if check["violated"]]
    assert {check["key"] for check in summary["violated"]} <= {check["key"] for check in violated}
    sure = " ".join(texts(opened, ".sure"))
    assert f"{len(violated) or 'none'} of {len(document['assumptions']['checks'])} checked assumptions violated" in sure
    assert all(check["detail"] in sure for check in violated[:2])
    assert all(f"{each['model']} {thousands(each['cycles'])}" in sure for each in summary["others"])
    assert (f"simulator {thousands((summary['simulator'] or first)['cycles'])} cycles" in sure) == bool(summary["simulator"])


@pytest.mark.parametrize("name", NAMES)
def test_charts_and_tables_say_what_the_data_say(visit: Callable[..., Visit], name: str) -> None:
    opened = visit(name, width=1440)
    document = data_of(opened.path)
    speed = [row for row in document["speed_of_light"] if row["name"] != "occupancy"]
    shown = [(row["label"], percent(row["percent"] / 100)) for row in speed]
    assert list(zip(texts(opened, ".meters th"), texts(opened, ".meters .number"), strict=True)) == shown
    tops = [max(row["percent"] for row in speed if row["group"] == group) for group in ("compute", "memory")]
    assert texts(opened, ".tops b") == [percent(top / 100) for top in tops]
    chart = " ".join(opened.page.locator(".lying-chart text").all_text_contents())
    memory: dict[str, Any] = document["memory"]
    for each in [*memory["boxes"], *memory["links"]]:
        assert "percent" not in each or percent(each["percent"] / 100) in chart
        assert each.get("hit_rate") is None or f"hit rate {percent(each['hit_rate'])}" in chart
    occupancy = document["occupancy"]
    panel = texts(opened, ".occupancy")[0]
    assert f"{occupancy['warps_per_sm']} of {occupancy['max_warps']} warps per SM" in panel
    assert all(f"{limit} {blocks}" in panel for limit, blocks in occupancy["limits"].items())
    rows = texts(opened, ".hottest tbody tr")
    table = document["code"]["source"]["rows"]
    at, cpi = table["columns"].index("cpi_stack"), document["code"]["source"]["cpi"]
    lines = sorted((sum(row[at]) / cpi for row in table["values"] if row[table["columns"].index("file")]), reverse=True)
    assert rows
    for row, share in zip(rows, lines, strict=False):
        assert float(row.split(" %")[0]) == pytest.approx(100 * share, abs=0.06)
    stack = [float(text.split()[-2]) for text in texts(opened, ".stack-key > span")]
    assert sum(stack) == pytest.approx(100, abs=0.06 * len(stack))


def test_keyboard_opens_the_details_and_a_dark_page_keeps_the_charts_readable(visit: Callable[..., Visit]) -> None:
    opened = visit("coalesced", theme="dark")
    opened.page.focus("#components > summary")
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("table.components").is_visible()
    box, text = (opened.ask(f"getComputedStyle(document.querySelector('.lying-chart {each}')).fill") for each in ("rect", "svg"))
    levels = [sum(map(int, colour[4:-1].split(", "))) / 3 for colour in (box, text)]
    assert levels[1] - levels[0] > 120
