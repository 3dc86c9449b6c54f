"""Do the listings show what there is, and the demonstration what it claims?"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import assert_one_error, run

from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.installation import own_models
from warpsight.reports.catalogue import models_page

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def test_gpus_list_names_the_papers_machines(capsys: Capture) -> None:
    names = {gpu["name"] for gpu in json.loads(run(capsys, "gpus", "list", "--json").out)}
    assert {"mdm-pascal", "mdm-letter", "gpumech"} <= names
    text = run(capsys, "gpus", "list").out
    assert all(re.search(rf"^ {name} ", text, re.MULTILINE) for name in names)


def test_gpus_show_is_a_description_that_loads_equal(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(run(capsys, "gpus", "show", "gpumech", "--set", "sm_count=8").out)
    assert load_gpu(path) == load_gpu("gpumech", overrides=["sm_count=8"])


def test_gpus_check_of_a_good_file_says_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("like: mdm-pascal\nname: mine\nsm_count: 30\nsources: {sm_count: data sheet}\n")
    outcome = run(capsys, "gpus", "check", path)
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, f"{path}: no problems")


def test_gpus_check_of_a_bad_file_lists_every_problem(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("like: mdm-pascal\nsm_counts: 30\nl1: {ways: -6}\n")
    outcome = run(capsys, "gpus", "check", path)
    assert outcome.code == 2
    assert "mine.yaml:2" in outcome.err
    assert "mine.yaml:3" in outcome.err


def test_models_list_and_show_name_the_equations(capsys: Capture) -> None:
    names = {model["name"] for model in json.loads(run(capsys, "models", "list", "--json").out)}
    assert {"naive-interval", "markov-chain", "mt", "mt-mshr", "gpumech", "gpumech-plus"} <= names
    assert {"mdm-queue", "mdm-mshr", "mdm", "mdm-letter"} <= names
    shown = run(capsys, "models", "show", "mdm")
    assert "MICRO 2020" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 120
    assert_one_error(run(capsys, "models", "show", "mdn"), 2, 'did you mean "mdm"?')


def test_models_show_tells_everything_that_the_model_says_of_itself(capsys: Capture) -> None:
    document = json.loads(run(capsys, "models", "show", "mdm-letter", "--json").out)
    text = " ".join(run(capsys, "models", "show", "mdm-letter").out.split())
    for part in ("equations", "assumptions", "fails", "stack"):
        assert document[part]
        assert all(line in text for line in document[part]), part
    assert document["citation"] in text
    assert "com_struct" not in text


def test_page_of_the_models_is_what_they_say_of_themselves(root: Path) -> None:
    page = (root / "docs" / "reference" / "models.md").read_text("utf-8")
    assert page == models_page(own_models(), "python tools/model_page.py")


def test_demo_shows_stride_32_bound_by_mshrs_and_queues(capsys: Capture) -> None:
    first, second = json.loads(run(capsys, "demo", "--json").out)
    assert first["warp_instructions"] == second["warp_instructions"]
    assert second["cycles"] > 5 * first["cycles"]
    assert (first["class"], second["class"]) == ("not memory-divergent", "memory-divergent")
    shares = [sum(doc["cpi_stack"][name] for name in ("mshr", "noc", "dram")) / doc["cpi"] for doc in (first, second)]
    assert shares[1] > 0.5 > shares[0]


def test_demo_text_fits_and_its_next_command_saves_launches_that_predict_the_same(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = run(capsys, "demo").out
    assert max(map(len, text.splitlines())) <= 120
    saving = shlex.split(text.splitlines()[-1].removeprefix("next: "), comments=True)
    saved = run(capsys, *saving[1:])
    predicting = shlex.split(saved.out.splitlines()[-1].removeprefix("next: "), comments=True)
    answer = json.loads(run(capsys, *predicting[1:], "--json").out)
    assert f"{answer['cycles']:,.0f} cycles" in text


def test_demo_saved_over_another_file_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "stride1.yaml").write_text("mine\n")
    assert_one_error(run(capsys, "demo", "--save", tmp_path), 2, "stride1.yaml", "exists")
    assert not (tmp_path / "strided_squares.cu").exists()
