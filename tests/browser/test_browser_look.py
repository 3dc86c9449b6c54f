"""Does a report fit every window, and can everybody read it? Checked at four widths, and with axe-core in both themes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from visits import Visit

pytestmark = pytest.mark.browser
_RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
@pytest.mark.parametrize("name", ["divergent", "results", "hostile", "long"])
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
@pytest.mark.parametrize("name", ["divergent", "coalesced", "results"])
def test_axe_finds_nothing_serious_in_any_section(visit: Callable[..., Visit], axe: str, name: str, theme: str) -> None:
    opened = visit(name, theme=theme)
    # evaluated past the page's own policy, which lets no other script run
    opened.page.evaluate(axe)
    for section in opened.sections:
        opened.page.click(f"#tab-{section}")
        assert serious(opened) == [], section


def test_axe_finds_nothing_serious_in_the_help_on_a_narrow_screen(visit: Callable[..., Visit], axe: str) -> None:
    opened = visit("results", width=360)
    opened.page.evaluate(axe)
    opened.page.click("#help-button")
    assert serious(opened) == []
