"""Does `warpsight model --params` answer from a file of parameters, and tell what is wrong with one?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import assert_one_error, run

from warpsight.hardware.mwp_calibration import OPTIONAL, REQUIRED
from warpsight.pipeline.mwp_parameters import ENTRIES

pytestmark = pytest.mark.unit

FILE = Path(__file__).parents[2] / "examples" / "mwp-cwp" / "hong-kim-table2.yaml"


def test_parameters_answer_shows_every_intermediate(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(capsys, "model", "--model", "mwp-cwp", "--params", FILE)
    assert outcome.code == 0
    for row in ("Mem_L ", "MWP_Without_BW_full", "MWP_peak_BW", "CWP_full", "Synch_cost", "12,288", "50,737.2", "next: warpsight"):
        assert row in outcome.out


def test_parameters_answer_as_json_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "model", "--model", "mwp-cwp", "--params", FILE, "--json").out)
    assert document["results"]["Mem_L"] == 730
    assert document["cycles"] == document["results"]["Final_cycles"] == pytest.approx(50738, abs=1)
    assert document["seconds"] == pytest.approx(document["cycles"] / 1e9)


def test_parameters_may_be_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = json.loads(run(capsys, "model", "--model", "mwp-cwp", "--params", FILE, "--json").out)
    given = {name: str(value) for name, value in document["parameters"].items()}
    given |= {"Freq": "1 GHz", "Mem_Bandwidth": "80 GB/s", "Load_bytes_per_warp": "128 B"}
    given = {name: value.removesuffix(".0") for name, value in given.items()}
    (tmp_path / "p.json").write_text(json.dumps(given))
    again = json.loads(run(capsys, "model", "--model", "mwp-cwp", "--params", tmp_path / "p.json", "--json").out)
    assert again["results"] == document["results"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Mem_LD: 420", "Mem_LDD: 420", ("p.yaml:4", 'did you mean "Mem_LD"')),
        ("Mem_LD: 420", "", ("p.yaml", "Mem_LD is missing (DRAM latency, cycles)")),
        ("Freq: 1 GHz", "Freq: 1", ("p.yaml:2", "Freq has no unit")),
        ("Comp_insts: 27", "Comp_insts: many", ("p.yaml:10", "Comp_insts is not a number")),
        ("Blocks: 80", "Blocks: 0", ("p.yaml:7", "Blocks is 0")),
        ("Uncoal_per_mw: 32", "", ("p.yaml", "Uncoal_per_mw is missing")),
        ("Synch_insts: 6", "Synch_insts: [6]", ("p.yaml:13", "not a single value")),
        ("Blocks: 80", "Blocks: 80\nBlocks: 81", ("p.yaml:8", "given twice")),
    ],
)
def test_wrong_parameters_are_told_with_file_and_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, old: str, new: str, told: tuple[str, ...]
) -> None:
    (tmp_path / "p.yaml").write_text(FILE.read_text().replace(f"\n{old}\n", f"\n{new}\n", 1))
    assert_one_error(run(capsys, "model", "--model", "mwp-cwp", "--params", tmp_path / "p.yaml"), 2, *told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--model", "mdm", "--params", FILE), "is for the model mwp-cwp only"),
        (("--model", "mwp-cwp", "--params", FILE, "--set", "sm_count=3"), "--set"),
        (("--model", "mwp-cwp", "--params", FILE, "--gpu", "gtx280"), "--gpu"),
        (("--model", "mwp-cwp", "--params", "none.yaml"), "no such file"),
        (("--model", "mwp-cwp"), "--profile"),
    ],
)
def test_options_that_do_not_go_together_are_told(capsys: pytest.CaptureFixture[str], words: tuple[object, ...], told: str) -> None:
    assert_one_error(run(capsys, "model", *words), 2, told)


def test_reference_page_has_every_parameter_and_column(root: Path) -> None:
    page = (root / "docs" / "reference" / "mwp-parameters.md").read_text("utf-8")
    for entry in ENTRIES:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{entry.name}` |"))
        assert entry.meaning in row
    assert all(f"`{column}`" in page for column in (*REQUIRED, *OPTIONAL, "name"))
