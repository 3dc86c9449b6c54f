"""Do the commands give the answers that they promise, in text, JSON and CSV, whatever the kernel comes as?"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import LAUNCH, assert_one_error, run

from warpsight.cli.output import terminal_size
from warpsight.kernels.sources import load_source
from warpsight.pipeline.request import PAPERS_MODELS
from warpsight.reports.first_screen import first_screen
from warpsight.result.prediction import COMPONENTS, in_order

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]
KEYS = (
    "kernel", "gpu", "model", "cycles", "seconds", "warp_instructions", "ipc_sm_warp", "ipc_gpu_warp", "ipc_gpu_thread", "cpi",
    "cpi_stack", "bound_by", "dpki", "class", "occupancy", "occupancy_limiter", "provenance",
)  # fmt: skip


def _predict(capsys: Capture, *words: object) -> dict[str, object]:
    return _predict_by(capsys, "predict", *words)


def _predict_by(capsys: Capture, command: str, *words: object) -> dict[str, object]:
    outcome = run(capsys, command, *words, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert isinstance(document, dict)
    return document


def test_predict_json_has_the_stable_keys_and_a_stack_that_sums(saxpy: Path, capsys: Capture) -> None:
    document = _predict(capsys, saxpy, *LAUNCH)
    assert set(document) == {*KEYS, "summary"}
    stack = document["cpi_stack"]
    assert isinstance(stack, dict)
    assert list(stack) == list(in_order({**dict.fromkeys(COMPONENTS), "lsu": None, "drain": None}))  # no unit but it is slow
    assert min(stack.values()) >= 0
    assert sum(stack.values()) == pytest.approx(document["cpi"], abs=1e-9)
    assert document["seconds"] == pytest.approx(document["cycles"] / 1.4e9)
    # 8 blocks of 8 warps, each its 3 memory instructions and what addresses and guards them
    assert document["warp_instructions"] % 64 == 0


def test_predict_of_a_kernel_its_launch_file_its_ptx_and_its_trace_is_the_same(launch_file: Path, capsys: Capture) -> None:
    source = launch_file.parent / "saxpy.cu"
    ptx, folder = launch_file.parent / "saxpy.ptx", launch_file.parent / "saxpy.trace"
    ptx.write_text(load_source(source).ptx)
    assert run(capsys, "trace", launch_file, "-o", folder).code == 0
    inputs = [(source, *LAUNCH), (launch_file,), (ptx, *LAUNCH), (folder,)]
    answers = [_predict(capsys, *words) for words in inputs]
    for answer in answers[1:]:
        assert {key: answer[key] for key in KEYS if key != "provenance"} == {
            key: answers[0][key] for key in KEYS if key != "provenance"
        }


def test_predict_of_source_on_stdin_is_that_of_the_file(saxpy: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(saxpy.read_bytes())))
    assert _predict(capsys, "-", *LAUNCH)["cycles"] == _predict(capsys, saxpy, *LAUNCH)["cycles"]


def test_predict_by_two_models_is_a_list_and_two_csv_rows(launch_file: Path, capsys: Capture) -> None:
    both = json.loads(run(capsys, "predict", launch_file, "--model", "mdm,gpumech", "--json").out)
    assert [document["model"] for document in both] == ["mdm", "gpumech"]
    rows = list(
        csv.DictReader(io.StringIO(run(capsys, "predict", launch_file, "--model", "mdm", "--model", "gpumech", "--csv").out))
    )
    assert [float(row["cycles"]) for row in rows] == [document["cycles"] for document in both]


def test_predict_text_ends_with_a_command_that_works(launch_file: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", launch_file, "--model", "mdm")
    lines = outcome.out.splitlines()
    assert lines[0] == "saxpy.cu:1 saxpy   grid 8 block 256   mdm-pascal 1.4 GHz   ptx, cold L2"
    assert outcome.err == ""
    following = shlex.split(lines[-1].removeprefix("next: "), comments=True)
    assert following[0] == "warpsight"
    assert run(capsys, *following[1:]).code == 0


def test_predict_shows_the_numbers_of_its_json(launch_file: Path, capsys: Capture) -> None:
    document = _predict(capsys, launch_file, "--simulator")
    text = run(capsys, "predict", launch_file, "--simulator").out
    assert re.fullmatch(re.escape(first_screen(document)) + r"\n\n(# .*\n)?next: warpsight .*\n", text)
    summary: Any = document["summary"]
    simulated = _predict_by(capsys, "simulate", launch_file)
    assert summary["simulator"]["cycles"] == simulated["cycles"]
    assert f"simulator {simulated['cycles']:,.0f} cycles" in text
    for cause in summary["why"]:
        assert re.search(rf"^(WHY)? +{100 * cause['share']:.0f} %  {re.escape(cause['text'])}", text, re.MULTILINE)
    for change in summary["advice"][:2]:
        assert re.search(rf"^(DO)? +{change['speedup']:.3g}\d*x  {re.escape(change['title'])}", text, re.MULTILINE)
    assert {row["model"]: row["cycles"] for row in summary["others"]} == {
        model: _predict(capsys, launch_file, "--model", model)["cycles"] for model in PAPERS_MODELS
    }


def test_predict_on_a_small_terminal_keeps_to_it_and_leaves_out_the_stack(
    launch_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsight.cli.predict.terminal_size", lambda: (80, 24))
    small, stack = (run(capsys, "predict", launch_file, *more).out.splitlines() for more in ((), ("--cpi-stack",)))
    assert not any(line.startswith(" CPI stack") for line in small)
    assert any(line.startswith(" CPI stack") for line in stack)
    assert max(map(len, stack[:-1])) <= 80
    monkeypatch.setattr("warpsight.cli.predict.terminal_size", lambda: (80, 50))
    assert run(capsys, "predict", launch_file).out.splitlines() == stack[:-1] + small[-1:]


def test_size_of_no_terminal_is_120_columns_or_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    for columns, width in (("", 120), ("80", 80), ("20", 60), ("wide", 120)):
        monkeypatch.setenv("COLUMNS", columns)
        assert terminal_size() == (width, 0)


@pytest.mark.parametrize("words", [["--csv"], ["--repeat", "2"], ["--warps", "1:8"], ["--representative", "all"]])
def test_simulator_beside_rows_is_refused(words: list[str], launch_file: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "predict", launch_file, "--simulator", *words), 2, "--simulator", "cannot be combined")


def test_set_changes_the_gpu_and_is_recorded(launch_file: Path, capsys: Capture) -> None:
    plain, faster = _predict(capsys, launch_file), _predict(capsys, launch_file, "--set", "core_clock=2.8 GHz")
    assert faster["seconds"] != plain["seconds"]
    assert faster["provenance"]["gpu"]["core_clock"] == "2.8 GHz"  # type: ignore[index]
    assert faster["provenance"]["gpu_hash"] != plain["provenance"]["gpu_hash"]  # type: ignore[index]


def test_registers_given_change_residency_and_are_said(launch_file: Path, capsys: Capture) -> None:
    # 65,536 registers an SM over 128 x 256 a block: 2 blocks, 16 of 64 warps
    document = _predict(capsys, launch_file, "--registers", "128")
    assert document["occupancy"] == 0.25
    assert document["occupancy_limiter"] == "registers"
    assert any("registers as specified" in note for note in document["provenance"]["notes"])  # type: ignore[index]


def test_options_win_over_a_launch_file(launch_file: Path, capsys: Capture) -> None:
    whole, half = _predict(capsys, launch_file), _predict(capsys, launch_file, "--grid", "4")
    assert half["warp_instructions"] * 2 == whole["warp_instructions"]  # type: ignore[operator]


@pytest.mark.parametrize(
    "words", [["--grid", "4"], ["--kernel", "saxpy"], ["--arg", "1"], ["--registers", "9"], ["--define", "N=1"]]
)
def test_launch_option_for_a_trace_folder_is_refused(words: list[str], launch_file: Path, capsys: Capture) -> None:
    folder = launch_file.parent / "saxpy.trace"
    run(capsys, "trace", launch_file, "-o", folder)
    assert_one_error(run(capsys, "predict", folder, *words), 2, words[0], "trace folder")


def test_trace_json_reports_counts_time_and_bytes(launch_file: Path, capsys: Capture) -> None:
    folder = launch_file.parent / "saxpy.trace"
    summary = json.loads(run(capsys, "trace", launch_file, "-o", folder, "--json").out)
    assert summary["trace_bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert summary["warps"] == 64
    assert summary["emulation_seconds"] > 0
    assert summary["warp_instructions"] == _predict(capsys, folder)["warp_instructions"]


def test_trace_over_a_trace_needs_force(launch_file: Path, capsys: Capture) -> None:
    folder = launch_file.parent / "saxpy.trace"
    assert run(capsys, "trace", launch_file, "-o", folder).code == 0
    assert_one_error(run(capsys, "trace", launch_file, "-o", folder), 2, str(folder))
    assert run(capsys, "trace", launch_file, "-o", folder, "--force").code == 0
    assert_one_error(run(capsys, "trace", folder, "-o", launch_file.parent / "again"), 2, "is already a trace")


def test_profile_piped_into_model_predicts_as_predict_does(
    launch_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    interchange = run(capsys, "profile", launch_file, "-o", "-").out
    assert json.loads(interchange)["schema"] == 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(interchange.encode())))
    answer = json.loads(run(capsys, "model", "--profile", "-", "--model", "mdm", "--json").out)
    assert answer["cycles"] == pytest.approx(_predict(capsys, launch_file, "--model", "mdm")["cycles"])


def test_profile_into_a_file_names_the_command_that_reads_it(launch_file: Path, capsys: Capture) -> None:
    path = launch_file.parent / "p.json"
    outcome = run(capsys, "profile", launch_file, "--set", "sm_count=14", "-o", path)
    following = shlex.split(outcome.out.splitlines()[-1].removeprefix("next: "), comments=True)
    assert following == ["warpsight", "model", "--profile", str(path), "--gpu", "mdm-pascal", "--set", "sm_count=14"]
    assert run(capsys, *following[1:]).code == 0
    assert json.loads(path.read_text()) == json.loads(run(capsys, "profile", launch_file, "--set", "sm_count=14", "--json").out)


def test_representative_is_recorded_and_can_be_chosen(launch_file: Path, capsys: Capture) -> None:
    assert _predict(capsys, launch_file)["provenance"]["method"]["representative"] == "kmeans"  # type: ignore[index]
    longest = _predict(capsys, launch_file, "--representative", "max")
    assert longest["provenance"]["method"]["representative"] == "max"  # type: ignore[index]


def test_interleaving_is_recorded_with_the_answer(launch_file: Path, capsys: Capture) -> None:
    document = _predict(capsys, launch_file, "--interleaving", "round-robin")
    assert document["provenance"]["method"]["interleaving"] == "round-robin"  # type: ignore[index]
