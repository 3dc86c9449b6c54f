"""Can one search, walk and choose in the code, and does a link open the same line?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

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


@pytest.mark.parametrize("links", [".hottest a", ".why a", "table.components a"])
def test_link_of_a_line_opens_it_in_the_code(visit: Callable[..., Visit], links: str) -> None:
    opened = visit("divergent")
    opened.page.click("#components > summary")
    link = opened.page.locator(f"#overview {links}").first
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


def test_text_of_long_code_is_shown_and_its_other_columns_when_they_are_wanted(visit: Callable[..., Visit]) -> None:
    opened = visit("long", "#code")
    text = opened.page.locator("#pc-60 > :last-child")
    assert text.is_visible() and "%f" in text.inner_text()
    opened.page.evaluate("() => { location.hash = '#code&columns=lanes,interval'; }")
    opened.until("document.querySelector('#pc-60').cells.length === 12")
    assert text.is_visible()
    assert opened.page.locator("#pc-60 > :visible").count() == 5  # line, share, lanes, interval, text


# -- Machine code: three panes.

_IN_PANE = """([ident]) => {
  const row = document.getElementById(ident);
  const pane = row.closest(".pane").getBoundingClientRect(), box = row.getBoundingClientRect();
  return box.top >= pane.top && box.bottom <= pane.bottom;
}"""


def _load(opened: Visit) -> str:
    """The id of the first load of machine code."""
    return str(opened.ask("Array.from(document.querySelectorAll('#sass tr.mem')).find((r) => /LDG/.test(r.textContent)).id"))


def _linked(opened: Visit, kind: str = "linked") -> dict[str, list[str]]:
    """The marked rows of each pane."""
    script = f"""Array.from(document.querySelectorAll("tr.{kind}"), (row) => [row.closest(".pane").id, row.id])"""
    found: dict[str, list[str]] = {}
    for pane, row in opened.ask(script):
        found.setdefault(pane, []).append(row)
    return found


def test_instruction_chosen_by_key_marks_its_ptx_and_its_source_and_back(visit: Callable[..., Visit]) -> None:
    opened = visit("native", "#code")
    load = _load(opened)
    opened.page.focus("#pc-0")
    for _ in range(int(load.removeprefix("pc-"))):
        opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("Enter")
    opened.until(f"location.hash.includes('line={load}')")
    linked = _linked(opened)
    assert {pane: len(rows) for pane, rows in linked.items()} == {"pane-source": 1, "pane-ptx": 1}
    ptx, source = linked["pane-ptx"][0], linked["pane-source"][0]
    assert "ld.global" in opened.page.locator(f"#{ptx}").inner_text()
    assert "[" in opened.page.locator(f"#{source}").inner_text()
    for row in (ptx, source, load):
        assert opened.page.evaluate(_IN_PANE, [row])
    # its counterparts are where one comes with the tab key
    assert [opened.ask(f"document.getElementById('{row}').tabIndex") for row in (ptx, source)] == [0, 0]
    opened.page.click(f"#{source} > :last-child")
    back = _linked(opened)
    assert load in back["pane-sass"] and ptx in back["pane-ptx"] and "pane-source" not in back
    assert opened.page.locator(f"#{load.replace('pc', 'load')}").is_visible()


def test_pointer_marks_counterparts_and_brings_them_into_view_when_it_rests(visit: Callable[..., Visit]) -> None:
    opened = visit("native", "#code")
    last = opened.ask("Array.from(document.querySelectorAll('#sass tr[id]')).findLast((r) => /STG/.test(r.textContent)).id")
    opened.page.evaluate("([ident]) => { document.getElementById(ident).closest('.pane').style.maxHeight = '8rem'; }", [last])
    (source,) = opened.ask(f"""Array.from(document.querySelectorAll("#pane-source tr[data-pcs]"))
        .filter((row) => row.dataset.pcs.split(" ").includes("{last.removeprefix('pc-')}")).map((row) => row.id)""")
    opened.page.hover(f"#{source} > :last-child", position={"x": 4, "y": 4})
    near = _linked(opened, "near")
    assert last in near["pane-sass"] and near["pane-source"] == [source]
    opened.until(f"""(() => {{
      const first = document.getElementById('{near['pane-sass'][0]}'), pane = first.closest('.pane');
      return first.offsetTop >= pane.scrollTop && first.offsetTop < pane.scrollTop + pane.clientHeight;
    }})()""")
    opened.page.mouse.move(5, 5)
    assert _linked(opened, "near") == {}


def test_code_opens_at_the_hottest_line_with_its_counterparts_in_view(visit: Callable[..., Visit]) -> None:
    opened = visit("native", "#code")
    rows = opened.ask("""Array.from(document.querySelectorAll("#pane-source tr[data-pcs]:not(#src-none)"),
        (row) => [row.id, parseFloat(row.cells[1].textContent) || 0])""")
    hottest = max(rows, key=lambda row: row[1])[0]
    chosen, linked = _linked(opened, "chosen"), _linked(opened)
    assert chosen == {"pane-source": [hottest]}
    assert set(linked) == {"pane-ptx", "pane-sass"}
    for pane in linked.values():
        shares = {row: float(opened.page.locator(f"#{row} > :nth-child(2)").inner_text().rstrip(" %") or 0) for row in pane}
        assert opened.page.evaluate(_IN_PANE, [max(shares, key=lambda row: shares[row])])
    assert "line=" not in opened.hash and opened.ask("scrollY") == 0
    # it does not go back there when something else changes
    opened.page.evaluate("() => { document.getElementById('pane-sass').scrollTop = 0; }")
    opened.page.click("#show-ptx")
    assert opened.ask("document.getElementById('pane-sass').scrollTop") == 0


def test_lines_that_belong_together_have_one_colour_and_neighbours_another(visit: Callable[..., Visit]) -> None:
    opened = visit("native", "#code")
    colours = opened.ask("""Object.fromEntries(Array.from(document.querySelectorAll("table.lines tr[id]"),
        (row) => [row.id, getComputedStyle(row).backgroundColor]))""")
    plain = opened.ask("getComputedStyle(document.querySelector('table.lines caption')).backgroundColor")
    lines = opened.ask("""Array.from(document.querySelectorAll("#src-0 tr[data-pcs]"),
        (row) => [row.id, row.dataset.pcs.split(" ")])""")
    assert len(lines) >= 4
    for line, pcs in lines:
        assert {colours[f"pc-{pc}"] for pc in pcs} == {colours[line]} != {plain}
    assert all(colours[one] != colours[two] for (one, _), (two, _) in pairwise(lines))
    assert colours["src-0-10"] == plain  # a brace has no instruction


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_parts_of_a_line_are_told_apart_by_colour(visit: Callable[..., Visit], theme: str) -> None:
    opened = visit("native", "#code", theme=theme)
    load = _load(opened)
    parts = opened.ask(f"""Array.from(document.querySelectorAll("#{load} > :last-child *"),
        (part) => [part.textContent, getComputedStyle(part).color, getComputedStyle(part).fontWeight])""")
    assert parts[0][0].startswith("LDG") and parts[1][0].startswith("R")
    assert parts[0][1] != parts[1][1] and parts[0][2] == parts[1][2]
    names = opened.ask("Array.from(document.querySelectorAll('#pane-ptx td:last-child'), (cell) => cell.textContent).join('\\n')")
    assert "[strided_squares_param_0]" in names and "_Z" not in names


def test_control_words_stand_in_columns_and_panes_can_be_hidden(visit: Callable[..., Visit]) -> None:
    opened = visit("native", "#code")
    headings = [text.strip() for text in opened.page.locator("#sass thead th:visible").all_inner_texts()]
    assert headings == ["address", "share", "waits", "stall", "sets", "live", "SASS"]
    load = opened.page.locator(f"#{_load(opened)} > :visible").all_inner_texts()
    assert load[0].startswith("0x") and load[4].startswith("W") and int(load[5]) > 0
    opened.page.click("#show-ptx")
    assert not opened.page.locator("#pane-ptx").is_visible()
    assert "hide=ptx" in opened.hash
    again = visit("native", "#code&hide=ptx,source&columns=stall,cause,lanes")
    assert [again.page.locator(f"#pane-{name}").is_visible() for name in ("source", "ptx", "sass")] == [False, False, True]
    shown = [text.strip() for text in again.page.locator("#sass thead th:visible").all_inner_texts()]
    assert shown == ["address", "share", "stall", "cause", "active lanes", "SASS"]


@pytest.mark.parametrize("width", [400, 1280])
def test_no_texts_of_a_row_lie_over_each_other(visit: Callable[..., Visit], width: int) -> None:
    opened = visit("native", "#code", width=width)
    over = opened.ask("""Array.from(document.querySelectorAll("table.lines tr")).flatMap((row) => {
      const boxes = Array.from(row.cells).filter((cell) => cell.checkVisibility() && cell.textContent).map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getBoundingClientRect();
      });
      return boxes.slice(1).filter((box, at) => box.left < boxes[at].right - 1).map(() => row.textContent);
    })""")
    assert over == []
