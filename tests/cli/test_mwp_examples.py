"""Do the examples of MWP-CWP say what the documentation says of them?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run

pytestmark = pytest.mark.unit


def test_tiled_multiplication_is_the_same_executed_and_from_its_text(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = root / "examples" / "mwp-cwp" / "tiled_matmul.yaml"
    model = ("--gpu", "gtx280", "--model", "mwp-cwp", "--json")
    executed = json.loads(run(capsys, "predict", launch, *model).out)
    static = json.loads(run(capsys, "predict", launch, *model, "--static").out)
    assert static["cycles"] == executed["cycles"]
    documented = (root / "docs" / "explanation" / "mwp-cwp.md").read_text("utf-8")
    assert f"{static['cycles']:,.0f} cycles" in documented


def test_microbenchmarks_give_back_the_parameters_that_made_them(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timings = root / "examples" / "mwp-cwp" / "microbenchmarks.csv"
    document = json.loads(run(capsys, "calibrate", timings, "--gpu", "gtx280", "--json").out)
    found = {row["name"]: row for row in document["parameters"]}
    assert found["Mem_LD"]["value"] == pytest.approx(450, rel=0.01)
    assert found["Departure_del_uncoal"]["value"] == pytest.approx(40, rel=0.01)
    assert not found["Departure_del_coal"]["fitted"]
