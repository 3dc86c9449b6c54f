"""Can one move through a report by mouse and by keyboard, and does a link open the same view?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from visits import READY, Visit

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("kind", ["divergent", "study", "comparison"])
def test_mouse_on_a_tab_shows_its_section_alone(visit: Callable[..., Visit], kind: str) -> None:
    opened = visit(kind)
    for name in opened.sections:
        opened.page.click(f"#tab-{name}")
        assert opened.shown == [name]
        assert opened.page.get_attribute(f"#tab-{name}", "aria-selected") == "true"
        assert opened.hash == f"#{name}"


def test_arrows_home_and_end_go_round_the_tabs(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    names = opened.sections
    opened.page.focus(f"#tab-{names[0]}")
    for name in [*names[1:], names[0]]:
        opened.page.keyboard.press("ArrowRight")
        assert (opened.shown, opened.ask("document.activeElement.id")) == ([name], f"tab-{name}")
    opened.page.keyboard.press("ArrowLeft")
    assert opened.shown == names[-1:]
    opened.page.keyboard.press("Home")
    assert opened.shown == names[:1]
    opened.page.keyboard.press("End")
    assert opened.shown == names[-1:]


def test_digit_opens_the_section_of_that_number(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    for number, name in reversed(list(enumerate(opened.sections[:9], 1))):
        opened.page.keyboard.press(str(number))
        assert opened.shown == [name]


def test_back_and_forward_go_through_the_sections_that_were_open(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    names = opened.sections
    for name in names[1:]:
        opened.page.click(f"#tab-{name}")
    for name in reversed(names[:-1]):
        opened.page.go_back()
        opened.until(f"!document.getElementById('{name}').hidden")
        assert opened.shown == [name]
    if len(names) > 1:
        opened.page.go_forward()
        opened.until(f"!document.getElementById('{names[1]}').hidden")


def test_link_with_a_hash_opens_the_same_view(visit: Callable[..., Visit]) -> None:
    for name in visit("divergent").sections:
        opened = visit("divergent", f"#{name}&theme=dark")
        assert opened.shown == [name]
        assert opened.ask("document.documentElement.dataset.theme") == "dark"


def test_hash_of_nothing_opens_the_first_section(visit: Callable[..., Visit]) -> None:
    for place in ("#nowhere", "#%E0%A4%A", "#&&=&a", "#overview&component=%3Cb%3E"):
        assert visit("results", place).shown == ["overview"]


def test_bar_of_a_component_marks_its_row_and_the_link_does_again(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    opened.page.click("#overview [data-component='mshr']")
    assert opened.hash == "#overview&component=mshr"
    assert opened.page.locator("tr.chosen").get_attribute("id") == "component-mshr"
    assert opened.page.locator("tr.chosen").is_visible()
    again = visit("divergent", opened.hash)
    assert again.page.locator("tr.chosen").get_attribute("id") == "component-mshr"


def test_pointing_at_a_bar_says_component_share_and_equation(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    opened.page.hover("#overview [data-component='mshr']")
    tip = opened.page.locator("#tip")
    assert tip.is_visible()
    assert "mshr" in tip.inner_text()
    assert "%" in tip.inner_text()
    opened.page.mouse.move(1, 1)
    assert not tip.is_visible()


def test_help_opens_with_its_key_and_button_and_closes_with_escape(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    opened.page.keyboard.press("?")
    assert opened.page.locator("#help").is_visible()
    assert "sections" in opened.page.inner_text("#keys")
    opened.page.keyboard.press("Escape")
    assert not opened.page.locator("#help").is_visible()
    opened.page.click("#help-button")
    assert opened.page.locator("#help").is_visible()
    opened.page.click("#help form button")
    assert not opened.page.locator("#help").is_visible()


@pytest.mark.parametrize("system", ["light", "dark"])
def test_theme_is_the_system_s_until_the_reader_chooses(visit: Callable[..., Visit], system: str) -> None:
    opened = visit("results", theme=system)
    paper = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    other = {"light": "dark", "dark": "light"}[system]
    colour = "getComputedStyle(document.body).backgroundColor"
    assert opened.ask(colour) == paper[system]
    opened.page.click("#theme")
    assert opened.ask(colour) == paper[other]
    opened.until(f"location.hash === '#overview&theme={other}'")
    opened.page.keyboard.press("d")
    assert opened.ask(colour) == paper[system]
    opened.until(f"location.hash === '#overview&theme={system}'")
    opened.page.reload()
    opened.until(READY)
    assert opened.ask(colour) == paper[system]


def test_keyboard_reaches_everything_that_the_mouse_does(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent")
    page = opened.page
    page.keyboard.press("Tab")
    assert "skip" in page.evaluate("document.activeElement.className")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "tab-overview"
    unnamed = opened.ask("""Array.from(document.querySelectorAll("[tabindex='0'], a[href], button, input, select"))
        .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length)).length""")
    assert unnamed == 0
