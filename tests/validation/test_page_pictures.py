"""Do the pictures of the validation pages show what stands in their tables?"""

from __future__ import annotations

from pathlib import Path

import pytest

import marked_page
import pictures
from warpsight.reports.drawing.charts import Bars, Scatter

pytestmark = pytest.mark.unit


def _page(table: str, *lines: str) -> str:
    return "\n".join((f"<!-- {table}: a command -->", *lines, f"<!-- end {table} -->", ""))


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_that_of_the_page_and_the_page_shows_it(name: str, root: Path) -> None:
    target = pictures.target(name)
    assert target.read_text("utf-8") == pictures.picture(name), "run python validation/pictures.py"
    assert f"{target.relative_to(root)})" in (root / "validation" / f"{name}.md").read_text("utf-8")


def test_a_point_stands_where_its_row_says() -> None:
    page = _page(
        "accuracy", "| GPU | kernel | reference cycles | GPUMech | error | MDM | error |", "|---|---|---:|---:|---:|---:|---:|",
        "| p | a | 46,228 | 16,527 | -64.2 % | 63,922 | +38.3 % |", "| | **MAPE** | | | **34.3 %** | | |",
    )  # fmt: skip
    chart = pictures.PICTURES["accuracy"](page)
    assert isinstance(chart, Scatter)
    assert [(name, [(dot.x, dot.y, dot.name) for dot in dots]) for name, dots in chart.series] == [
        ("GPUMech", [(46228.0, 16527.0, "a, p")]), ("MDM", [(46228.0, 63922.0, "a, p")]),
    ]  # fmt: skip


def test_problems_are_counted_by_what_the_chosen_block_loses() -> None:
    header = "| GPU | kernel | size | blocks | tau | predicted best | measured best | longer |"
    rows = [f"| G | k | s | 3 | +1.00 | 8 | {best} | {longer} % |" for best, longer in ((8, 0), (16, 2), (16, 7))]
    chart = pictures.PICTURES["hardware/configurations"](_page("problems", header, "|---|---|---|---|---|---|---|---|", *rows))
    assert isinstance(chart, Bars)
    assert [series.values for series in chart.series] == [[1.0], [1.0], [1.0]]


def test_a_page_without_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no generated table 'accuracy'"):
        pictures.PICTURES["accuracy"]("# A page\n")


def test_a_script_that_writes_a_table_draws_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "HERE", tmp_path)
    monkeypatch.setattr(pictures, "IMAGES", tmp_path)
    page = tmp_path / "launch_samples.md"
    page.write_text(_page("table", "old"))
    header = "| program | CPU s, none | CPU s, all | CPU s, samples |\n|---|---:|---:|---:|\n"
    marked_page.put(page, "a command", {"table": f"{header}| bfs | 7.1 | 29.2 | 22.7 |"})
    assert "bfs" in (tmp_path / "launch-samples.svg").read_text("utf-8")
