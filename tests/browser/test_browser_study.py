"""Does every point of a study's report lead to its stacks, and does its table sort?"""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pytest
from visits import Visit, data_of

pytestmark = pytest.mark.browser


def bars(opened: Visit) -> list[list[str]]:
    """The parts of the stacks that are shown, in the order of the kernels, as what they say."""
    found: list[list[str]] = opened.ask("""Array.from(document.querySelectorAll("#design-stacks .lying-bar"),
        (bar) => Array.from(bar.children, (part) => part.title))""")
    return found


@pytest.mark.parametrize("section", ["fronts", "maps"])
def test_point_and_cell_lead_to_the_stacks_of_their_design(visit: Callable[..., Visit], section: str) -> None:
    opened = visit("study", f"#{section}")
    point = opened.page.locator(f"#{section} [data-hook]").last
    design = int((point.get_attribute("data-hook") or "").removeprefix("design-"))
    point.dispatch_event("click")
    assert opened.shown == ["designs"]
    assert opened.page.locator("#design-stacks h3").inner_text() == f"Design {design}"
    assert "chosen" in (opened.page.get_attribute(f"#design-{design}", "class") or "")
    data = data_of(opened.path)["designs"]
    shape = (len(data["design"]), len(data["kernels"]), len(data["components"]))
    stacks = np.frombuffer(base64.b64decode(data["stacks"]), "<f4").reshape(shape)[data["design"].index(design)]
    shown = bars(opened)
    assert len(shown) == len(data["kernels"])
    for stack, parts in zip(stacks, shown, strict=True):
        there = [name for name, cpi in zip(data["components"], stack, strict=True) if cpi > 0]
        assert [part.split(":")[0] for part in parts] == there
        told = [float(part.split(", ")[-1].removesuffix(" %")) for part in parts]
        assert told == pytest.approx([100 * cpi / stack.sum() for cpi in stack if cpi > 0], abs=0.0501)


def test_column_sorts_both_ways(visit: Callable[..., Visit]) -> None:
    opened = visit("study", "#designs")
    data = data_of(opened.path)["designs"]

    def order() -> list[int]:
        rows = """Array.from(document.querySelectorAll("#design-table tbody tr"), (row) => Number(row.id.slice(7)))"""
        found: list[int] = opened.ask(rows)
        return found

    by_speed = sorted(zip(data["performance"], data["design"], strict=True), key=lambda pair: (-pair[0], pair[1]))
    assert order() == [design for _, design in by_speed]
    head = opened.page.locator("#design-table thead th").first
    head.locator("button").click()
    assert (order(), head.get_attribute("aria-sort")) == (sorted(data["design"]), "ascending")
    head.locator("button").click()
    assert (order(), head.get_attribute("aria-sort")) == (sorted(data["design"], reverse=True), "descending")


def test_design_that_is_not_there_is_told(visit: Callable[..., Visit]) -> None:
    opened = visit("study", "#designs&design=99999")
    assert "Design 99999 is not in this table" in opened.page.locator("#design-stacks").inner_text()
