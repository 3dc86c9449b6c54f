"""Do comparisons give signed errors, their mean and the part that is most off, and do gates decide the exit code?"""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_one_error, run

from warpsight.models.base import model_names
from warpsight.result.prediction import COMPONENTS

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def _document(capsys: Capture, *words: object, code: int = 0) -> dict[str, Any]:
    outcome = run(capsys, "compare", *words, "--json")
    assert outcome.code == code, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


@pytest.fixture
def cycles(launch_file: Path, capsys: Capture) -> float:
    """What mdm predicts for the launch."""
    return float(json.loads(run(capsys, "predict", launch_file, "--model", "mdm", "--json").out)["cycles"])


def _against(folder: Path, text: str) -> Path:
    path = folder / "measured.csv"
    path.write_text(text)
    return path


def test_all_models_are_compared_each_as_predict_gives_it(launch_file: Path, capsys: Capture) -> None:
    document = _document(capsys, launch_file, "--model", "all")
    (launch,) = document["launches"]
    assert [answer["model"] for answer in launch["answers"]] == model_names() == document["models"]
    answered = [answer for answer in launch["answers"] if answer["prediction"]]
    assert {"gpumech", "mdm"} <= {answer["model"] for answer in answered}
    for answer in answered:
        assert answer["error"] is None
        alone = json.loads(run(capsys, "predict", launch_file, "--model", answer["model"], "--json").out)
        del alone["summary"]
        assert answer["prediction"] == alone
    assert (document["summary"], document["gates"], launch["reference"]) == ([], [], None)


def test_errors_are_signed_and_mape_is_their_mean_size(launch_file: Path, cycles: float, capsys: Capture) -> None:
    folder = launch_file.parent
    other = folder / "other.yaml"
    other.write_text(launch_file.read_text().replace("grid: 8", "grid: 4"))
    path = _against(folder, f"gpu,kernel,size,cycles,grid\nmdm-pascal,saxpy,,{cycles / 1.25},8\nmdm-pascal,saxpy,half,1e9,4x1x1\n")
    document = _document(capsys, launch_file, f"saxpy half={other}", "--model", "mdm", "--against", path)
    first, second = (launch["answers"][0]["error"] for launch in document["launches"])
    assert first == pytest.approx(0.25)
    assert -1 < second < -0.99
    (summary,) = document["summary"]
    assert summary["mape"] == pytest.approx(100 * (first - second) / 2)
    assert summary["mean_error"] == pytest.approx((first + second) / 2)
    assert summary["largest"] == {"label": "saxpy half", "error": second}


def test_component_most_off_is_found_where_the_reference_has_a_stack(launch_file: Path, cycles: float, capsys: Capture) -> None:
    head = "gpu,kernel,cycles,cpi_stack.base,cpi_stack.dram,cpi_stack.sync"
    path = _against(launch_file.parent, f"{head}\nmdm-pascal,saxpy,{cycles},1.5,99,\n")
    answer = _document(capsys, launch_file, "--model", "mdm", "--against", path)["launches"][0]["answers"][0]
    ours = answer["prediction"]["cpi_stack"]["dram"]
    assert answer["most_off"] == {"component": "dram", "predicted": ours, "reference": 99, "difference": ours - 99}


@pytest.mark.parametrize(("limits", "code"), [(["mdm:20.1"], 0), (["mdm:19.9%"], 1), (["mdm:20.1", "gpumech:0"], 1)])
def test_gate_decides_the_exit_code(limits: list[str], code: int, launch_file: Path, cycles: float, capsys: Capture) -> None:
    path = _against(launch_file.parent, f"gpu,kernel,cycles\nmdm-pascal,saxpy,{cycles / 1.2}\n")
    gates = [word for limit in limits for word in ("--gate", limit)]
    document = _document(capsys, launch_file, "--model", "mdm,gpumech", "--against", path, *gates, code=code)
    assert [gate["passed"] for gate in document["gates"]] == [float(limit.split(":")[1].strip("%")) > 20 for limit in limits]
    outcome = run(capsys, "compare", launch_file, "--model", "mdm,gpumech", "--against", path, *gates)
    assert outcome.code == code
    assert ("FAILED" in outcome.out) == (code == 1)


def test_csv_has_a_row_a_model_and_goes_to_a_file_or_stdout(launch_file: Path, cycles: float, capsys: Capture) -> None:
    path = _against(launch_file.parent, f"gpu,kernel,cycles\nmdm-pascal,saxpy,{cycles}\n")
    out = launch_file.parent / "errors.csv"
    words = ("compare", launch_file, "--model", "mdm,gpumech", "--against", path)
    assert run(capsys, *words, "-o", out).code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["model"] for row in rows] == ["mdm", "gpumech"]
    assert float(rows[0]["relative_error"]) == 0
    assert sum(float(rows[0][f"cpi_stack.{name}"]) for name in COMPONENTS) == pytest.approx(float(rows[0]["cpi"]))
    assert run(capsys, *words, "-o", "-").out == out.read_text()


def test_text_has_every_model_and_names_a_next_command_that_parses(launch_file: Path, capsys: Capture) -> None:
    from warpsight.cli.main import parse

    outcome = run(capsys, "compare", launch_file, "--set", "sm_count=14")
    lines = outcome.out.splitlines()
    assert max(map(len, lines[:-1])) <= 120
    assert all(any(line.startswith(f" {name} ") for line in lines) for name in ("mdm", "gpumech"))
    words = shlex.split(lines[-1].removeprefix("next: warpsight "), comments=True)
    assert words[0] == "explain"
    assert parse(words)[1].overrides == ["sm_count=14"]


HEAD = "gpu,kernel,cycles"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gpu,kernel,cycle\n", ["measured.csv:1", "has no column cycles", 'did you mean "cycle"']),
        (f"{HEAD},cpi_stack.drum\n", ['cpi_stack.drum" is not a component', 'did you mean "dram"']),
        (f"{HEAD}\nmdm-pascal,saxpy,many\n", ["measured.csv:2", 'cycles is "many"']),
        (f"{HEAD}\nmdm-pascal,saxpy,0\n", ["measured.csv:2", "0 cycles"]),
        (f"{HEAD}\nmdm-pascal,saxpy,-5\n", ["measured.csv:2"]),
        (f"{HEAD}\nmdm-pascal,saxpy,1e-300\n", ["measured.csv:2", "1e-300 cycles is less than any launch takes"]),
        (f"{HEAD}\nmdm-pascal,saxpy,1e300\n", ["measured.csv:2", "cycles is 1e+300, above the maximum"]),
        (f"{HEAD},cycles\nmdm-pascal,saxpy,5,6\n", ["measured.csv:1", 'two columns "cycles"']),
        (f"{HEAD}\ngpumech,saxpy,5\n", ["no row for the GPU mdm-pascal", "gpumech"]),
        (f"{HEAD}\nmdm-pascal,saxpi,5\n", ['no row for "saxpy"', 'did you mean "saxpi"']),
        (f"{HEAD}\nmdm-pascal,saxpy,5\nmdm-pascal,saxpy,6\n", ["measured.csv:3", "is a duplicate of"]),
        (f"{HEAD},size\nmdm-pascal,saxpy,5,1\nmdm-pascal,saxpy,6,2\n", ["2 rows are for saxpy", "saxpy 1=KERNEL"]),
        (f"{HEAD},grid\nmdm-pascal,saxpy,5,512x1x1\n", ["measured.csv:2", "is of another launch: grid 512x1x1", "8x1x1"]),
        (f"{HEAD},grid\nmdm-pascal,saxpy,5,many\n", ["measured.csv:2", 'grid is "many"']),
    ],
)
def test_reference_that_cannot_be_meant_is_refused_by_place(
    text: str, parts: list[str], launch_file: Path, capsys: Capture
) -> None:
    path = _against(launch_file.parent, text)
    assert_one_error(run(capsys, "compare", launch_file, "--model", "mdm", "--against", path), 2, *parts)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--gate", "mdm:15"], ["--gate", "needs a reference"]),
        (["--against", "x.csv", "--model", "mdm", "--gate", "gpumech:15"], ["gpumech is not among the models"]),
        (["--against", "x.csv", "--gate", "mmd:15"], ['"mmd" is not a known model', 'did you mean "mdm"']),
        (["--gate", "mdm"], ["--gate", '"mdm" is not a model and a limit']),
        (["--gate", "mdm:-1"], ["is not a model and a limit"]),
        (["--against", "nowhere.csv"], ["nowhere.csv", "cannot be read"]),
        (["--model", "mmd"], ['did you mean "mdm"']),
        (["--json", "-o", "-"], ["CSV or JSON"]),
    ],
)
def test_wrong_words_are_refused(words: list[str], parts: list[str], launch_file: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "compare", launch_file, *words), 2, *parts)


# -- Without a reference: GPUs and kernels ranked by time.

def test_gpus_are_ranked_by_the_time_that_predict_gives(launch_file: Path, capsys: Capture) -> None:
    document = _document(capsys, launch_file, "--gpu", "T4,mdm-pascal")
    (launch,) = document["launches"]
    rows = {row["gpu"]: row for row in launch["rows"]}
    assert (document["gpus"], document["overall"]) == (["t4", "mdm-pascal"], [])
    assert [row["seconds"] for row in launch["rows"]] == sorted(row["seconds"] for row in launch["rows"])
    for gpu, row in rows.items():
        alone = json.loads(run(capsys, "predict", launch_file, "--gpu", gpu, "--json").out)
        assert all(row[name] == alone[name] for name in ("cycles", "seconds", "bound_by"))
    assert rows["t4"]["speedup"] == 1
    assert rows["mdm-pascal"]["speedup"] == pytest.approx(rows["t4"]["seconds"] / rows["mdm-pascal"]["seconds"])
    assert {gpu: row["code"] for gpu, row in rows.items()} == {"t4": "sm_75", "mdm-pascal": "PTX"}


def test_kernels_are_ranked_and_named_by_their_files(launch_file: Path, capsys: Capture) -> None:
    half = launch_file.parent / "half.yaml"
    half.write_text(launch_file.read_text().replace("grid: 8", "grid: 1"))
    document = _document(capsys, launch_file, half)
    ranking = document["ranking"]
    assert {row["label"] for row in ranking} == {launch_file.name, half.name}
    assert [row["seconds"] for row in ranking] == sorted(row["seconds"] for row in ranking)
    assert document["models"] == ["warpsight", "mdm", "gpumech-plus", "gpumech"]


def test_speedups_over_several_kernels_have_a_geometric_mean(launch_file: Path, capsys: Capture) -> None:
    half = launch_file.parent / "half.yaml"
    half.write_text(launch_file.read_text().replace("grid: 8", "grid: 1"))
    document = _document(capsys, launch_file, half, "--gpu", "mdm-pascal,gpumech")
    speedups = [row["speedup"] for launch in document["launches"] for row in launch["rows"] if row["gpu"] == "gpumech"]
    overall = {row["gpu"]: row for row in document["overall"]}
    assert overall["gpumech"]["speedup"] == pytest.approx((speedups[0] * speedups[1]) ** 0.5)
    assert overall["gpumech"]["launches"] == 2


def test_a_gpu_that_cannot_run_the_kernel_is_listed_last_with_the_reason(launch_file: Path, capsys: Capture) -> None:
    small = launch_file.parent / "small.yaml"
    small.write_text("like: mdm-pascal\nsm: {max_warps: 4}\nsources: estimated\n")
    outcome = run(capsys, "compare", launch_file, "--gpu", f"mdm-pascal,{small}")
    assert outcome.code == 0
    assert " small: the block does not fit on small: 256 threads per block needed, 128 available" in outcome.out
    assert "next: warpsight gpus compare mdm-pascal" in outcome.out
    alone = run(capsys, "compare", launch_file, "--gpu", f"{small},{small}")
    assert_one_error(alone, 2, "256 threads")


@pytest.mark.parametrize("words", [("--against", "x.csv"), ("--gate", "mdm:3"), ("--plot", "x.svg"), ("--model", "mdm,gpumech")])
def test_what_is_about_one_gpu_is_refused_with_several(words: tuple[str, ...], launch_file: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "compare", launch_file, "--gpu", "t4,a100", *words), 2, words[0])
