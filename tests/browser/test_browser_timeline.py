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
    """The cycles that the timeline says it shows, once it is drawn."""
    opened.until("document.getElementById('timeline-range').innerText.startsWith('cycles')")
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


def test_timeline_opens_where_the_slots_are_full_and_a_narrow_window_shows_fewer_cycles(visit: Callable[..., Visit]) -> None:
    opened, narrow = visit("divergent", "#timeline"), visit("divergent", "#timeline", width=390)
    steady = data_of(opened.path)["timeline"]["map"]["steady"]
    first, last = shown_cycles(opened)
    assert first < steady < last
    assert (first + last) // 2 == pytest.approx(steady, abs=2)
    low, high = shown_cycles(narrow)
    assert (low + high) // 2 == pytest.approx(steady, abs=2)
    assert high - low < (last - first) / 2


def drag(opened: Visit, start: float, stop: float) -> None:
    """Drag on the map from one cycle to another."""
    box = opened.page.locator("#timeline-map").bounding_box()
    whole = data_of(opened.path)["timeline"]["simulated_cycles"]
    x, y = (lambda cycle: box["x"] + 1 + cycle * (box["width"] - 2) / whole), box["y"] + 20
    opened.page.mouse.move(x(start), y)
    opened.page.mouse.down()
    opened.page.mouse.move(x(stop), y, steps=4)
    opened.page.mouse.up()


def test_frame_on_the_map_is_moved_resized_and_brought_elsewhere(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent", "#timeline&from=20000&cycles=20000")
    drag(opened, 30_000, 40_000)
    first, last = shown_cycles(opened)
    assert (first, last - first) == (pytest.approx(30_000, abs=200), 20_000)
    drag(opened, first, 20_000)  # its left edge
    first, stop = shown_cycles(opened)
    assert (first, stop) == (pytest.approx(20_000, abs=200), last)
    drag(opened, last, 10_000)  # its right edge, past the left one
    assert shown_cycles(opened) == (pytest.approx(10_000, abs=200), first)
    drag(opened, 60_000, 60_000)  # a click outside of it
    low, high = shown_cycles(opened)
    assert (low + high) / 2 == pytest.approx(60_000, abs=200)
    opened.until(f"location.hash.includes('from={low}&')")
    assert shown_cycles(visit("divergent", opened.hash)) == (low, high)
    frame, box = (opened.page.locator(name).bounding_box() for name in ("#timeline-window", "#timeline-map"))
    whole = data_of(opened.path)["timeline"]["simulated_cycles"]
    assert frame["x"] - box["x"] == pytest.approx(low / whole * box["width"], abs=3)


def test_frame_on_the_map_is_moved_and_resized_by_keys_and_says_where_it_is(visit: Callable[..., Visit]) -> None:
    opened = visit("divergent", "#timeline&from=1000&cycles=1000")
    end = data_of(opened.path)["timeline"]["cycles"][1]
    opened.page.focus("#timeline-map")
    steps = {"ArrowRight": (1100, 2100), "Shift+ArrowRight": (1100, 2200), "Shift+ArrowLeft": (1100, 2090),
             "PageDown": (2090, 3080), "Home": (0, 990), "End": (end - 990, end)}  # fmt: skip
    for key, shown in steps.items():
        opened.page.keyboard.press(key)
        assert shown_cycles(opened) == shown, key
        values = [opened.page.get_attribute("#timeline-map", f"aria-{name}") for name in ("valuenow", "valuetext")]
        assert values == [str(shown[0]), f"cycles {shown[0]:,} to {shown[1]:,}"]
