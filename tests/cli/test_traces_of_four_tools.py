"""Traces of PPT-GPU, AMALI and MDM on the command line and in Python: does every command that takes a trace take these?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from command_line import run

import warpsight

sys.path.insert(0, str(Path(__file__).parents[1] / "importers"))

from mdm_writer import write_mdm
from pptgpu_writer import Op, Step, Written, write
from rowsum_example import make
from test_mdm_traces import WARP

pytestmark = pytest.mark.unit

LOAD, ADD, EXIT = Op(0, "LDG.E", ("R4", "R2"), True), Op(1, "FADD", ("R5", "R4", "R4")), Op(2, "EXIT")
STEPS = [Step(LOAD, tuple(0x7F0000000000 + 4 * k for k in range(32))), Step(ADD), Step(EXIT)]


@pytest.fixture(params=["pptgpu", "amali", "mdm"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "mdm":
        return write_mdm(tmp_path / "mdm", [WARP] * 8, (4, 1, 1), (64, 1, 1))
    return write(tmp_path / request.param, Written(64, [[STEPS, STEPS]] * 4, [[0, 1]] * 4), amali=request.param == "amali")


def test_every_command_that_takes_a_trace_takes_these(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = 8 * len(WARP if folder.name == "mdm" else STEPS)
    row = json.loads(run(capsys, "predict", str(folder), "--json").out)
    row = row[0] if isinstance(row, list) else row
    assert row["warp_instructions"] == count
    for command in ("simulate", "explain", "cache"):
        assert run(capsys, command, str(folder)).err == ""
    assert run(capsys, "profile", str(folder), "-o", str(tmp_path / "profile.json")).err == ""
    assert run(capsys, "compare", str(folder)).err == ""
    assert run(capsys, "trace", str(folder), "-o", str(tmp_path / "own.trace")).err == ""
    assert warpsight.load_trace(tmp_path / "own.trace").header.warp_instructions == count
    assert run(capsys, "trace", "export", str(folder), "-o", str(tmp_path / "accelsim")).err == ""
    again = warpsight.load_trace(tmp_path / "accelsim")
    assert again.header.warp_instructions == count
    assert [i.opcode for i in again.instructions] == [i.opcode for i in warpsight.load_trace(folder).instructions]


def test_grid_of_a_trace_is_only_taken_where_the_trace_does_not_say_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ppt = write(tmp_path / "ppt", Written(64, [[STEPS, STEPS]], [[0, 1]]), amali=False)
    assert "applies to a kernel" in run(capsys, "predict", str(ppt), "--grid", "2").err
    mdm = write_mdm(tmp_path / "mdm", [WARP] * 4, (2, 1, 1), (64, 1, 1), log=False)
    (tmp_path / "isa.yaml").write_text("0: S2R\n1: LDG.E\n2: FADD\n3: STG.E\n4: EXIT\n")
    said = ["--grid", "2", "--block", "64", "--registers", "20", "--shared", "0", "--isa-file", str(tmp_path / "isa.yaml")]
    assert run(capsys, "predict", str(mdm), *said[2:]).err.startswith("error: --grid: is missing")
    row = json.loads(run(capsys, "predict", str(mdm), *said, "--json").out)
    assert (row["warp_instructions"], row["provenance"]["launch"]["grid"]) == (20, [2, 1, 1])


def test_trace_of_one_kernel_is_named_by_its_file(tmp_path: Path) -> None:
    ppt = write(tmp_path / "ppt", Written(64, [[STEPS, STEPS]], [[0, 1]]), amali=False)
    assert warpsight.load_trace(ppt / "sass_traces" / "kernel_1.sass").header.warp_instructions == 6
    mdm = write_mdm(tmp_path / "mdm", [WARP] * 4, (2, 1, 1), (64, 1, 1))
    assert warpsight.load_trace(mdm / "instruction_trace_1.txt").header.warp_instructions == 20


@pytest.mark.parametrize("name", ["rowsum.ppt", "rowsum.mdm"])
def test_documented_example_prints_what_the_document_shows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    document = (Path(__file__).parents[2] / "docs" / "reference" / "importing-traces.md").read_text("utf-8")
    shown = document.split(f"$ warpsight predict {name} --gpu mdm-pascal\n")[1].split("```")[0]
    assert run(capsys, "predict", name, "--gpu", "mdm-pascal").out == shown
