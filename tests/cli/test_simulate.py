"""Does `warpsight simulate` answer, write its timeline, and say what is wrong?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import assert_one_error, run

import warpsight

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def test_simulate_prints_cycles_and_a_stack(launch_file: Path, capsys: Capture) -> None:
    outcome = run(capsys, "simulate", launch_file)
    assert outcome.code == 0
    assert "simulated" in outcome.out
    assert "model simulator" in outcome.out
    assert "L1 miss latency" in outcome.out
    assert outcome.out.rstrip().splitlines()[-1].startswith("next: warpsight compare")


def test_json_is_what_python_gives(launch_file: Path, capsys: Capture) -> None:
    printed = json.loads(run(capsys, "simulate", launch_file, "--set", "sm_count=4", "--json").out)
    found = warpsight.simulate(warpsight.trace(launch_file), overrides=["sm_count=4"])
    assert (printed["cycles"], printed["cpi_stack"]) == (found.cycles, found.cpi_stack)


def test_csv_has_one_row(launch_file: Path, capsys: Capture) -> None:
    header, row = run(capsys, "simulate", launch_file, "--csv").out.splitlines()
    assert header.split(",").index("model") == row.split(",").index("simulator")


def test_timeline_is_written_for_the_sm_asked_for(launch_file: Path, capsys: Capture, tmp_path: Path) -> None:
    target = tmp_path / "timeline.json"
    assert run(capsys, "simulate", launch_file, "--timeline", target, "--timeline-sm", "3").code == 0
    events = json.loads(target.read_text())["traceEvents"]
    assert events[0]["args"]["name"].startswith("SM 3: saxpy")
    assert any(event["name"].startswith("ld.global") for event in events)


def test_wrong_use_is_one_clear_error(launch_file: Path, capsys: Capture, tmp_path: Path) -> None:
    simulate = ("simulate", launch_file)
    assert_one_error(run(capsys, *simulate, "--max-cycles", "10"), 4, "--max-cycles", "after 10 cycles")
    assert_one_error(run(capsys, *simulate, "--timeline-sm", "3"), 2, "--timeline-sm", "add --timeline FILE.json")
    missing = tmp_path / "none" / "t.json"
    assert_one_error(run(capsys, *simulate, "--timeline", missing), 2, str(missing), "cannot be written")
    beyond = ("--timeline", tmp_path / "t.json", "--timeline-sm", "28")
    assert_one_error(run(capsys, *simulate, *beyond), 2, "has no SM 28", "give 0 to 27")
    assert_one_error(run(capsys, *simulate, "--set", "dram.channels=7"), 2, "dram.channels")
