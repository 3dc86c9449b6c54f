"""Is a CPI-stack component that only one model has shown everywhere, and is one that no model declares refused?"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import run

from warpsight.base.errors import UsageError
from warpsight.gpu.design import Design
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Floats, Model, answer_of, evaluate, get_model
from warpsight.result.prediction import COMPONENTS, Component

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]
AN_INTERVAL = 1e6  # cycles
TENSOR = Component("tensor", "waiting for a tensor core", "math pipe throttle", "tensor cores", charged_to="fp32")
REST = Component("clusters", "waiting for the cluster", "", "clusters")


class Plugin(Model):
    """Issue, a tensor core that takes 1e6 cycles in each interval, and half of that again for no instruction."""

    title, source, needs = "A model with components of its own", "a test", frozenset[str]()

    def __init__(self, name: str, *declared: Component, factor: float = 1.0) -> None:
        self.name, self.factor = name, factor
        self.about = About(("none",), ("none",), ("always",), "none", components=declared)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        tensor = np.full(len(design), AN_INTERVAL * len(profile.instructions) / profile.instructions.sum())
        answer = answer_of(profile, design, {"base": np.ones(len(design)), "tensor": tensor, "clusters": tensor / 2})
        return answer | {"cpi": answer["cpi"] * self.factor}


@pytest.fixture(autouse=True)
def plugins() -> Iterator[None]:
    """A model that declares what it returns; `silent` does not, the sum of `wrong` is not its CPI, `shared` declares `noc`."""
    found = (Plugin("declares", TENSOR, REST), Plugin("silent", TENSOR), Plugin("wrong", TENSOR, REST, factor=1.001),
             Plugin("shared", TENSOR, REST, Component("noc", "", "", "")),
             Plugin("nowhere", Component("tensor", "", "", "", charged_to="fp23"), REST))  # fmt: skip
    for model in found:
        MODELS.add(model.name, model)
    yield
    for model in found:
        del MODELS._objects[model.name]


def _document(capsys: Capture, *words: object) -> Any:
    outcome = run(capsys, *words, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def _summed(document: dict[str, Any]) -> None:
    assert list(document["cpi_stack"]) == [*COMPONENTS, "tensor", "clusters"]
    assert document["cpi_stack"]["clusters"] == pytest.approx(document["cpi_stack"]["tensor"] / 2) != 0
    assert abs(sum(document["cpi_stack"].values()) - document["cpi"]) <= 1e-9 * document["cpi"]
    assert document["bound_by"] == "tensor cores and clusters"


def test_predict_shows_it_as_json_csv_and_text(launch_file: Path, capsys: Capture) -> None:
    document = _document(capsys, "predict", launch_file, "--model", "declares")
    _summed(document)
    assert document["cycles"] > AN_INTERVAL
    assert document["provenance"]["model"]["components"]["tensor"] == {
        "meaning": "waiting for a tensor core", "nsight": "math pipe throttle", "bound_by": "tensor cores",
    }  # fmt: skip
    outcome = run(capsys, "predict", launch_file, "--model", "declares,mdm", "--csv")
    first, second = csv.DictReader(outcome.out.splitlines())
    assert float(first["cpi_stack.tensor"]) == pytest.approx(document["cpi_stack"]["tensor"])
    assert second["cpi_stack.tensor"] == ""
    text = run(capsys, "predict", launch_file, "--model", "declares").out
    (line,) = [line for line in text.splitlines() if line.startswith(" tensor")]
    assert "waiting for a tensor core" in line
    assert "math pipe throttle" in line
    assert "#" in line


def test_explain_charges_it_as_declared_and_shows_the_rest(launch_file: Path, capsys: Capture) -> None:
    document = _document(capsys, "explain", launch_file, "--model", "declares", "--by", "line")
    stack, rows = document["cpi_stack"], [row for row in document["rows"] if row["cpi_stack"]["tensor"]]
    assert [row["text"].partition(".")[0] for row in rows] == ["fma"]
    assert sum(row["cpi_stack"]["tensor"] for row in rows) == pytest.approx(stack["tensor"])
    assert {part["component"]: part["cpi"] for part in document["rest"]} == pytest.approx({"clusters": stack["clusters"]})
    text = run(capsys, "explain", launch_file, "--model", "declares").out
    assert "no line: waiting for the cluster" in text


def test_report_and_comparison_of_reports_draw_and_name_it(launch_file: Path, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    assert run(capsys, "report", launch_file, "--model", "declares", "-o", page).code == 0
    text = page.read_text()
    assert ".paint-tensor {" in text
    assert ".paint-clusters {" in text
    assert "waiting for a tensor core" in text
    assert 'id="component-tensor"' in text
    documents = []
    for number, settings in enumerate(("sm_count=4", "sm_count=8")):
        documents.append(tmp_path / f"{number}.json")
        outcome = run(capsys, "report", launch_file, "--model", "declares", "--set", settings, "--json", "-o", page)
        documents[-1].write_text(outcome.out)
    difference = tmp_path / "difference.html"
    outcome = run(capsys, "report", *documents, "-o", difference)
    assert outcome.code == 0, outcome.err
    assert "waiting for a tensor core" in difference.read_text()


def test_compare_has_a_column_for_it_and_takes_references_with_it(launch_file: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "saxpy.trace"
    assert run(capsys, "trace", launch_file, "-o", folder).code == 0
    reference = tmp_path / "measured.csv"
    reference.write_text("gpu,kernel,cycles,cpi_stack.tensor\nmdm-pascal,saxpy,1000,2.5\n")
    words = ("compare", folder, "--against", reference, "--model", "declares,mdm")
    document = _document(capsys, *words)
    ours, mdm = document["launches"][0]["answers"]
    assert ours["most_off"]["component"] == mdm["most_off"]["component"] == "tensor"
    assert mdm["most_off"]["predicted"] == 0
    rows = list(csv.DictReader(run(capsys, *words, "-o", "-").out.splitlines()))
    assert float(rows[0]["cpi_stack.tensor"]) == pytest.approx(ours["prediction"]["cpi_stack"]["tensor"])
    assert "tensor" in run(capsys, *words).out
    reference.write_text("gpu,kernel,cycles,cpi_stack.tonsor\nmdm-pascal,saxpy,1000,2.5\n")
    outcome = run(capsys, *words)
    assert outcome.code == 2
    assert "did you mean tensor" in outcome.err.replace('"', "")


def test_sweep_has_its_column_and_answers_may_use_it(launch_file: Path, tmp_path: Path, capsys: Capture) -> None:
    study = tmp_path / "study"
    outcome = run(capsys, "sweep", launch_file, "--set", "sm_count=4,8", "--set", "l1.mshrs=32,64", "--model", "mdm,declares",
                  "-o", study, "--executor", "inline")  # fmt: skip
    assert outcome.code == 0, outcome.err
    by_model = {row["model"]: row for row in pq.read_table(study / "results.parquet").to_pylist()}
    assert by_model["mdm"]["cpi_stack.tensor"] == 0
    assert by_model["declares"]["cpi_stack.tensor"] > 1
    assert by_model["declares"]["bound_by"] == "tensor cores and clusters"
    chosen = ("--model", "declares")
    cells = _document(capsys, "sweep", "map", study, "sm_count", "l1.mshrs", "--value", "cpi_stack.tensor", *chosen)
    assert np.array(cells["values"]).min() > 0
    best = _document(capsys, "sweep", "best", study, "--where", "cpi_stack.tensor > 1", *chosen)
    assert best["chosen"] == 4


def test_component_that_a_model_does_not_declare_is_refused(launch_file: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", launch_file, "--model", "silent")
    assert outcome.code == 2
    assert 'the model "silent" returns the component "clusters" of the CPI stack, which it does not declare' in outcome.err


@pytest.mark.parametrize(("name", "words"), [
    ("wrong", 'that the model "wrong" returns do not sum to its CPI'),
    ("shared", 'the model "shared" declares the component "noc" of the CPI stack, which all models share'),
    ("nowhere", 'the component "tensor" of the model "nowhere" is charged to "fp23"'),
])  # fmt: skip
def test_declarations_and_sums_that_cannot_be_right_are_refused(name: str, words: str) -> None:
    profile = IntervalProfile(
        "made-up", 8, 100, 0.0, *(np.ones(1) for _ in range(2)), np.zeros(1, np.int8), np.zeros(1, np.int32),
        *(np.zeros(1) for _ in range(5)),
    )  # fmt: skip
    gpu = load_gpu("mdm-pascal")
    for ask in (lambda: get_model(name).predict(profile, gpu), lambda: evaluate(get_model(name), profile, Design.of(gpu))):
        with pytest.raises(UsageError) as caught:
            ask()
        assert words in str(caught.value)
