"""Can one search, walk and choose in the code, and does a link open the same line?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from visits import Visit, needs_section

pytestmark = [pytest.mark.browser, needs_section("code")]


def test_slash_searches_and_enter_goes_to_a_line_found(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    opened.page.keyboard.press("/")
    assert opened.shown == ["code"]
    opened.page.keyboard.type("ld.global")
    opened.page.keyboard.press("Enter")
    opened.until("/line=pc-/.test(location.hash)")
    line = opened.hash.partition("line=")[2].partition("&")[0]
    assert "ld.global" in opened.page.locator(f"#{line}").inner_text()
    opened.page.keyboard.press("Escape")
    assert opened.ask("document.activeElement.tagName") != "INPUT"


def test_n_and_p_walk_the_hot_lines_there_and_back(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent", "#code")
    seen = []
    for key in ("n", "n", "p"):
        before = opened.hash
        opened.page.keyboard.press(key)
        opened.until(f"location.hash !== '{before}'")
        seen.append(opened.hash)
    assert seen[2] == seen[0] != seen[1]
    assert opened.shown == ["code"]


def test_link_of_a_component_opens_its_line_in_the_code(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    link = opened.page.locator("#overview table.components a").first
    target = str(link.get_attribute("href")).partition("line=")[2]
    link.click()
    assert opened.shown == ["code"]
    assert opened.page.locator(f"#{target}").is_visible()
    again = visit("divergent", f"#code&line={target}")
    assert again.page.locator(f"#{target}").is_visible()
    assert again.page.locator(f"#{target}").bounding_box()["y"] < 900


def test_search_for_hostile_text_finds_and_runs_nothing(visit: Callable[..., Visit]) -> None:
    opened = visit("hostile", "#code")
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("<script>document")
    opened.page.keyboard.press("Enter")
    assert opened.ask("document.scripts.length") == 2
    assert opened.ask("document.broken === undefined")
