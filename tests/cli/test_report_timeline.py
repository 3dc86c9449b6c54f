"""Does `warpsight report --simulator` show the simulator, its timeline, and what it was asked to show of it?"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from command_line import assert_one_error, run

import warpsight

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def test_report_with_the_simulator_has_its_prediction_errors_and_timeline(
    launch_file: Path, capsys: Capture, tmp_path: Path
) -> None:
    target, file = tmp_path / "r.html", tmp_path / "all.json"
    options = ("--simulator", "--model", "mdm,mt", "--set", "sm_count=4", "--perfetto", file, "--timeline-sm", "1", "--json")
    document = json.loads(run(capsys, "report", launch_file, "-o", target, *options).out)
    simulated = warpsight.simulate(warpsight.trace(launch_file), overrides=["sm_count=4"])
    assert [each["model"] for each in document["predictions"]] == ["mdm", "simulator", "mt"]
    assert document["predictions"][1]["cycles"] == simulated.cycles
    mdm = document["predictions"][0]["cycles"]
    assert document["references"][0]["errors"]["mdm"] == pytest.approx((mdm - simulated.cycles) / simulated.cycles)
    assert document["timeline"]["sm"] == 1
    issued = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("args", {}).get("pc") is not None]
    assert document["timeline"]["issued_of"] == len(issued)
    assert 'id="timeline"' in target.read_text("utf-8")


def test_command_in_the_report_writes_the_same_timeline(launch_file: Path, capsys: Capture, tmp_path: Path) -> None:
    file, again = tmp_path / "all.json", tmp_path / "again.json"
    options = ("--simulator", "--model", "mt", "--set", "sm_count=4", "--timeline-cycles", "0:100", "--json")
    document = json.loads(run(capsys, "report", launch_file, "-o", tmp_path / "r.html", *options, "--perfetto", file).out)
    words = shlex.split(document["timeline"]["command"])
    assert (words[0], words[-1]) == ("warpsight", str(file))
    assert run(capsys, *words[1:-1], again).code == 0
    assert json.loads(again.read_text()) == json.loads(file.read_text())


def test_report_is_the_same_in_every_run(launch_file: Path, capsys: Capture, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    command = ("report", launch_file, "-o", target, "--simulator", "--model", "mdm,mt")
    assert run(capsys, *command).code == 0
    first = target.read_bytes()
    assert run(capsys, *command).code == 0
    assert target.read_bytes() == first


def test_measured_cycles_are_shown_with_each_model_s_error(launch_file: Path, capsys: Capture, tmp_path: Path) -> None:
    csv, target = tmp_path / "cycles.csv", tmp_path / "r.html"
    csv.write_text("gpu,kernel,cycles\nmdm-pascal,saxpy,4000\n")
    options = ("--model", "mdm,mt", "--against", csv, "--json")
    document = json.loads(run(capsys, "report", launch_file, "-o", target, *options).out)
    (reference,) = document["references"]
    assert (reference["cycles"], reference["place"]) == (4000, f"{csv}:2")
    for prediction in document["predictions"]:
        assert reference["errors"][prediction["model"]] == pytest.approx(prediction["cycles"] / 4000 - 1)
    assert "given (reference)" in target.read_text("utf-8")
    csv.write_text("gpu,kernel,cycles\nmdm-pascal,other,4000\n")
    assert_one_error(run(capsys, "report", launch_file, "-o", target, *options), 2, "has no row for")


def test_wrong_use_of_the_timeline_is_one_clear_error(launch_file: Path, capsys: Capture, tmp_path: Path) -> None:
    report = ("report", launch_file, "-o", tmp_path / "r.html", "--model", "mt")
    for option, value in (("--timeline-cycles", "0:5"), ("--timeline-sm", "0"), ("--perfetto", "x.json")):
        assert_one_error(run(capsys, *report, option, value), 2, option, "add --simulator")
    simulated = (*report, "--simulator")
    assert_one_error(run(capsys, *simulated, "--timeline-cycles", "9:3"), 2, "--timeline-cycles", "not a range of cycles", "0:2000")
    assert_one_error(run(capsys, *simulated, "--timeline-cycles", "999999:"), 2, "--timeline-cycles", "start earlier")
    assert_one_error(run(capsys, *simulated, "--timeline-sm", "28"), 2, "has no SM 28", "give 0 to 27")
    two = ("report", launch_file, launch_file, "-o", tmp_path / "r.html", "--simulator", "--perfetto", "x.json")
    assert_one_error(run(capsys, *two), 2, "--perfetto", "one side of two", "warpsight simulate --timeline")
    missing = tmp_path / "none" / "t.json"
    assert_one_error(run(capsys, *simulated, "--perfetto", missing), 2, str(missing), "cannot be written")
    results = tmp_path / "results.json"
    results.write_text(run(capsys, "predict", launch_file, "--json").out)
    done = run(capsys, "report", results, "--simulator", "-o", tmp_path / "r.html")
    assert_one_error(done, 2, "--simulator", "which has no kernel")
