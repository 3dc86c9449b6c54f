"""Are rows of the page of sampled waves made once, and does the page say what was not run?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))

import sampling  # noqa: E402  found by the line above

pytestmark = pytest.mark.unit


def row(name: str, times: int, error: float = 0.01, half_width: float = 0.02) -> sampling.Row:
    return sampling.Row(name, times, 50.0, 0.25, 1000.0, 1000.0 * (1 + error), half_width, 8.0, 2.0)


def test_row_is_kept_and_left_to_the_process_that_is_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []
    monkeypatch.setattr(sampling, "row", lambda name, times, _: made.append((name, times)) or row(name, times))
    with sampling.claimed(tmp_path / "im2col-16.json") as ours:
        assert ours
        sampling.make(tmp_path, "im2col", 16, {})  # somebody is at it
    assert made == [] and sampling.kept(tmp_path, "im2col", 16) is None
    for _ in range(2):
        sampling.make(tmp_path, "im2col", 16, {})
    assert made == [("im2col", 16)] and sampling.kept(tmp_path, "im2col", 16) == row("im2col", 16)


def test_summary_has_errors_coverage_and_what_was_not_run() -> None:
    text = sampling.summary([row("im2col", 16), row("haar_rows", 16, error=-0.03), row("haar_rows", 1)])
    assert "At 16 times the work 2 of 2 launches were sampled. Error of the cycles: mean 2.00 %, worst 3.00 %." in text
    assert "in 1 of 2" in text and "take 4.0 times" in text
    assert "Not run" in text and "im2col at 1," in text and "haar_rows" not in text.partition("Not run")[2]


@pytest.mark.parametrize(
    ("which", "option", "name", "gpu", "others"),
    [
        ("few waves", "--few", "knn_tile", "rtx3060", "sgemm_naive, matmul_naive,"),
        ("long rows", "--rows", "conv2d_shared", "gtx1650", "attention_scores,"),
    ],
)
def test_chosen_launches_have_a_table_of_their_own(
    which: str, option: str, name: str, gpu: str, others: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sampling, "PAGE", tmp_path / "page.md")
    marks = [f"<!-- {which}: python validation/sampling.py {option} --write -->", f"<!-- end {which} -->"]
    sampling.PAGE.write_text("\n".join(["before", *marks, "after"]))
    monkeypatch.setattr(sampling, "row", lambda name, times, _: row(name, times))
    monkeypatch.setattr("sys.argv", ["sampling.py", name, option, "--keep", str(tmp_path)])
    sampling.main()
    monkeypatch.setattr("sys.argv", ["sampling.py", option, "--write", "--keep", str(tmp_path)])
    sampling.main()
    text = sampling.PAGE.read_text()
    assert f"| {name} | {gpu} | 1,000 | 25 % of 50 waves | +1.00 % | 2.00 % | yes | 4.0 |" in text
    assert f"Of {which} 1 of 1 launches were sampled. Error of the cycles: mean 1.00 %, worst 1.00 %." in text
    assert f"Not run: {others}" in text and name not in text.partition("Not run")[2]


def test_work_grows_with_the_grid_and_the_sizes_of_arguments() -> None:
    spec = sampling.load_suite("warpsight").kernel("im2col").launch_spec()
    grown = sampling.grown(spec, *sampling.GROWS["im2col"])
    assert str(grown.grid).split("x")[2] == str(16 * int(str(spec.grid).replace(",", "x").split("x")[2]))
    assert any("128" in str(each) for each in grown.args)
