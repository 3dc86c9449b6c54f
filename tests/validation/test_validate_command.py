"""Does `warpsight validate` write what it says, and refuse what it cannot do in one clear line?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_one_error, run

from warpsight.papers.validate import figure_names
from warpsight.reports.paper_figures import INDEX, document_text, figure_page, figure_svg, index_page, read_figures

pytestmark = pytest.mark.unit


def test_figures_on_the_command_line_write_data_picture_page_and_index(
    tiny: Path, kept: Path, tmp_path: Path, documents: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made"
    figures = ("--figure", "mdm-5,gpumech-11", "--figure", "mdm-5")
    done = run(capsys, "validate", "--suite", tiny, *figures, "--results", kept, "--out", out)
    assert done.code == 0, done.err
    assert done.err == ""
    names = [f"{name}.{end}" for name in ("gpumech-11", "mdm-5") for end in ("json", "md", "svg")]
    assert sorted(path.name for path in out.iterdir()) == sorted([INDEX, *names])
    document = json.loads((out / "mdm-5.json").read_text("utf-8"))
    assert document == documents["mdm-5"]
    assert (out / "mdm-5.md").read_text("utf-8") == figure_page(document)
    assert "MDM, Fig. 5" in done.out
    assert "paper       13.9 %" in done.out
    assert done.out.splitlines()[-1].startswith("next: warpsight ")


def test_json_of_a_figure_is_the_document_and_writes_nothing(
    tiny: Path, kept: Path, tmp_path: Path, documents: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = run(capsys, "validate", "--suite", tiny, "--figure", "mdm-14", "--results", kept, "--json")
    assert json.loads(done.out) == documents["mdm-14"]
    assert list(tmp_path.iterdir()) == []


def test_figure_by_a_cluster_is_the_same(
    tiny: Path, tmp_path: Path, documents: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--figure", "mdm-3", "--results", tmp_path / "results", "--executor", "dask", "--jobs", "2", "--json")
    done = run(capsys, "validate", "--suite", tiny, *words)
    assert done.err == ""
    assert json.loads(done.out) == documents["mdm-3"]


def test_list_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "validate", "--list")
    assert done.code == 0
    for name in figure_names():
        assert f"  {name} " in done.out
    found = json.loads(run(capsys, "validate", "--list", "--json").out)
    assert [row["figure"] for row in found] == figure_names()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--figure", "mdm-51"], ['--figure: "mdm-51" is not a figure', 'did you mean "mdm-5"', "--list"]),
        (["--figure", "al"], ['did you mean "all"']),
        ([], ["--figure: no figure is named", "--list"]),
        (["--figure", "mdm-5", "--kernels", "scatered"], ['"scatered" is not a kernel', 'did you mean "scattered"']),
        (["--figure", "mdm-5", "--jobs", "0"], ["--jobs: 0 processes"]),
        (["--figure", "mdm-5", "--executor", "dusk"], ['--executor: "dusk" is not a known executor', 'did you mean "dask"']),
        (["--figure", "mdm-5", "--scheduler", "tcp://host:8786"], ["--scheduler: ", "--executor dask"]),
        (["--figure", "mdm-5", "--executor", "slurm", "--slurm", "cors=2"], ["--slurm KEY=VALUE: ", 'did you mean "cores"']),
        (["--figure", "mdm-5", "--jobs", "x"], ['--jobs: "x" is not a whole number']),
        (["--figure", "mdm-5", "--suite", "warpsite"], ['--suite: "warpsite" is neither', 'did you mean "warpsight"']),
        (["--figure", "mdm-12", "--kernels", "streamed"], ["--kernels: no kernel is memory-divergent"]),
        (["--figures", "mdm-5"], ['did you mean "--figure"?']),
    ],
)
def test_wrong_use_is_one_line_with_the_place_and_the_remedy(
    words: list[str], parts: list[str], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    suite = [] if "--suite" in words else ["--suite", str(tiny)]
    assert_one_error(run(capsys, "validate", *suite, *words), 2, *parts)


@pytest.mark.parametrize("option", ["--out", "--results"])
def test_folder_that_cannot_be_written_is_refused_before_anything_runs(
    option: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    done = run(capsys, "validate", "--suite", tiny, "--figure", "mdm-5", option, "file/below")
    assert_one_error(done, 2, "file/below: ", option)


def test_committed_pages_and_pictures_are_made_from_the_committed_data(root: Path) -> None:
    folder = root / "docs" / "validation"
    documents = read_figures(folder)
    assert [document["figure"] for document in documents] == figure_names()
    for document in documents:
        name = document["figure"]
        assert document["suite"] == "warpsight"
        assert (folder / f"{name}.json").read_text("utf-8") == document_text(document)
        assert (folder / f"{name}.md").read_text("utf-8") == figure_page(document), f"{name}.md: make it again"
        assert (folder / f"{name}.svg").read_text("utf-8") == figure_svg(document), f"{name}.svg: make it again"
    assert (folder / INDEX).read_text("utf-8") == index_page(documents)
    assert len(os.listdir(folder)) == 3 * len(documents) + 1
