"""Does the timeline show the states of the document, by mouse, keyboard and link?"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from visits import Visit, data_of

pytestmark = pytest.mark.browser
_RUN = re.compile(r"([-A-Z])(\d*)")
_LEFT, _TOP, _ROW = 60, 22, 16  # of the canvas: where cycles and rows begin, and how high a row is


def letter_at(part: dict[str, Any], row: int, cycle: int) -> str:
    """The state of a row at a cycle, read from the document."""
    at = part["cycles"][0]
    for letter, count in _RUN.findall(part["rows"][row]["runs"]):
        at += int(count or 1)
        if cycle < at:
            return str(letter)
    raise AssertionError("the cycle is not in the window")


def point(opened: Visit, row: int, cycle: int, first: int, cycles: int) -> tuple[float, float]:
    """Where a cell is on the screen."""
    box = opened.page.locator("#timeline-canvas").bounding_box()
    each = (box["width"] - _LEFT - 4) / cycles
    return box["x"] + _LEFT + (cycle - first + 0.5) * each, box["y"] + _TOP + row * _ROW + 8


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pointing_at_a_warp_says_state_and_instruction(visit: Callable[..., Visit], theme: str) -> None:
    opened = visit("divergent", "#timeline&from=0&cycles=140", theme=theme)
    part = data_of(opened.path)["timeline"]
    for row, cycle in ((0, 0), (0, 2), (0, 20), (1, 100), (3, 60), (7, 5)):
        opened.page.mouse.move(*point(opened, row, cycle, 0, 140))
        said, letter = opened.page.locator("#tip").inner_text(), letter_at(part, row, cycle)
        assert f"Slot {part['rows'][row]['slot']}" in said
        assert f"cycle {cycle}" in said
        assert (f"\n{letter}: " in said) if letter != "-" else ("no warp" in said)
        assert letter in "-" or any(each["opcode"] in said for each in part["instructions"].values())


def test_chosen_cell_is_told_kept_in_the_link_and_opened_again(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent", "#timeline&from=0&cycles=140")
    opened.page.mouse.click(*point(opened, 3, 60, 0, 140))
    said = opened.page.inner_text("#timeline-at")
    assert said.startswith("Slot 3, warp 3, cycle 60")
    opened.until("location.hash.includes('at=')")
    assert visit("divergent", opened.hash).page.inner_text("#timeline-at") == said


def test_keyboard_walks_through_cells_and_changes(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent", "#timeline&from=0&cycles=140")
    part = data_of(opened.path)["timeline"]
    opened.page.focus("#timeline-view")
    opened.page.keyboard.press("ArrowRight")  # the first key chooses the first cell
    for key, cell in (("ArrowRight", (0, 1)), ("ArrowDown", (1, 1)), ("Shift+ArrowRight", (1, 11)), ("ArrowUp", (0, 11))):
        opened.page.keyboard.press(key)
        assert opened.page.inner_text("#timeline-at").startswith(f"Slot {cell[0]}, warp {cell[0]}, cycle {cell[1]};") or (
            letter_at(part, *cell) == "-"
        )
        assert opened.page.text_content("#live").startswith(f"Slot {cell[0]}")
    opened.page.keyboard.press("Home")
    opened.page.keyboard.press(".")
    change = next(cycle for cycle in range(200) if letter_at(part, 0, cycle) != letter_at(part, 0, 0))
    assert f"cycle {change};" in opened.page.inner_text("#timeline-at")
    opened.page.keyboard.press("End")
    assert f"cycle {part['cycles'][1] - 1:,}" in opened.page.inner_text("#timeline-at")


def shown_cycles(opened: Visit) -> tuple[int, int]:
    """The cycles that the timeline says it shows."""
    found = re.fullmatch(r"cycles ([\d,]+) to ([\d,]+)", opened.page.inner_text("#timeline-range"))
    assert found
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def test_buttons_keys_wheel_and_dragging_move_and_zoom(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent", "#timeline&from=1000&cycles=400")
    begin, end = data_of(opened.path)["timeline"]["cycles"]
    page = opened.page
    assert shown_cycles(opened) == (1000, 1400)
    page.click("#timeline-in")
    assert shown_cycles(opened) == (1100, 1300)
    page.keyboard.press("-")
    assert shown_cycles(opened) == (1000, 1400)
    page.click("#timeline-later")
    assert shown_cycles(opened) == (1200, 1600)
    page.keyboard.press("[")
    assert shown_cycles(opened) == (1000, 1400)
    at = point(opened, 2, 1200, 1000, 400)
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(at[0] - 100, at[1], steps=3)
    page.mouse.up()
    moved = shown_cycles(opened)
    assert moved[0] > 1000
    assert moved[1] - moved[0] == 400
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 100)
    page.keyboard.up("Shift")
    opened.until(f"!document.getElementById('timeline-range').textContent.includes('cycles {moved[0]:,} ')")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    opened.until(
        "(() => { const [a, b] = document.getElementById('timeline-range').textContent.match(/[0-9,]+/g)"
        ".map((each) => Number(each.replaceAll(',', ''))); return b - a === 320; })()"
    )
    page.keyboard.press("a")
    assert shown_cycles(opened) == (begin, end)
    for _ in range(40):
        page.keyboard.press("+")
    first, last = shown_cycles(opened)
    assert last - first == 8


def test_canvas_is_drawn_in_the_colours_of_its_states(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent", "#timeline&from=0&cycles=140")
    part = data_of(opened.path)["timeline"]
    colours = opened.ask("""Object.fromEntries(Array.from(document.querySelectorAll("#timeline-states tr[data-letter]"),
        (row) => [row.dataset.letter, row.dataset.colour.toLowerCase()]))""")
    box = opened.page.locator("#timeline-canvas").bounding_box()
    cells = [(0, 3), (0, 28), (5, 60), (0, 135)]
    places = [(x - box["x"], y - box["y"] + 2) for x, y in (point(opened, *cell, 0, 140) for cell in cells)]
    # read at once: a browser warns of canvases that are read again and again
    pixels = opened.page.evaluate("""(places) => {
        const canvas = document.getElementById("timeline-canvas"), wide = canvas.width;
        const data = canvas.getContext("2d").getImageData(0, 0, wide, canvas.height).data;
        const part = (place, k) => data[4 * (Math.round(place[1]) * wide + Math.round(place[0])) + k].toString(16).padStart(2, "0");
        return places.map((place) => "#" + [0, 1, 2].map((k) => part(place, k)).join(""));
    }""", places)
    assert pixels == [colours[letter_at(part, *cell)] for cell in cells]


def test_first_cycles_are_drawn_for_print_and_without_scripts(visit: Callable[..., Visit]) -> None:
    for opened in (visit("divergent", scripts=False), visit("divergent", "#timeline")):
        opened.page.emulate_media(media="print")
        assert opened.page.locator("#timeline .static-only svg").is_visible()
        assert not opened.page.locator("#timeline-canvas").is_visible()
    live = visit("divergent", "#timeline")
    assert not live.page.locator("#timeline .static-only svg").is_visible()


def test_report_without_the_simulator_has_no_timeline(visit: Callable[..., Visit]) -> None:
    assert "timeline" not in visit("coalesced").sections
