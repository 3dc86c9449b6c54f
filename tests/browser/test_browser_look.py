"""Does a report fit every window, and can everybody read it? Checked at four widths, and with axe-core in both themes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from visits import Visit

pytestmark = pytest.mark.browser
_RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


_WIDTHS = {"divergent": (360, 768, 1280, 2560), "study": (360, 768, 2560), "comparison": (360, 1280), "hostile": (360, 2560),
           "results": (360,), "long": (360,), "native": (400, 1280)}  # fmt: skip


@pytest.mark.parametrize(("name", "width"), [(name, width) for name, widths in _WIDTHS.items() for width in widths])
def test_page_is_no_wider_than_its_window_in_any_section(visit: Callable[..., Visit], name: str, width: int) -> None:
    opened = visit(name, width=width)
    for section in opened.sections:
        opened.page.click(f"#tab-{section}")
        assert opened.overflow() <= 0, section


def serious(opened: Visit) -> list[str]:
    """What axe-core finds that is serious or critical, each with the first elements that it is about."""
    found: list[Any] = opened.page.evaluate("(rules) => axe.run(document, rules).then((all) => all.violations)", _RULES)
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["divergent", "results", "study", "comparison"])
def test_axe_finds_nothing_serious_in_any_section(visit: Callable[..., Visit], axe: str, name: str, theme: str) -> None:
    opened = visit(name, theme=theme)
    # evaluated past the page's own policy, which lets no other script run
    opened.page.evaluate(axe)
    for section in opened.sections:
        opened.page.click(f"#tab-{section}")
        assert serious(opened) == [], section


def test_axe_finds_nothing_serious_in_the_panes_of_machine_code(visit: Callable[..., Visit], axe: str) -> None:
    opened = visit("native", "#code&line=src-0-6", theme="dark")
    opened.page.evaluate(axe)
    assert serious(opened) == []


def test_axe_finds_nothing_serious_in_the_help_on_a_narrow_screen(visit: Callable[..., Visit], axe: str) -> None:
    opened = visit("results", width=360)
    opened.page.evaluate(axe)
    opened.page.click("#help-button")
    assert serious(opened) == []
