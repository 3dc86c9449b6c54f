"""Does the command leave out, or make in full, what it is asked to; and is the reference page what the registry says?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import assert_one_error, run

import report_page
from warpsight.analysis.assumption_checks import CHECKS

pytestmark = pytest.mark.unit

KERNEL = """
extern "C" __global__ void twice(float *a) { int i = blockIdx.x * blockDim.x + threadIdx.x; a[i] = a[i] * 2.0f; }
"""
LAUNCH = """
source: twice.cu
grid: 28
block: 64
args: ["f32[1792]:uniform"]
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "twice.cu").write_text(KERNEL)
    (tmp_path / "twice.yaml").write_text(LAUNCH)
    monkeypatch.chdir(tmp_path)
    return "twice.yaml"


def test_what_if_none_leaves_the_section_out_and_the_rest_in(launch: str, capsys: Capture, tmp_path: Path) -> None:
    outcome = run(capsys, "report", launch, "-o", "r.html", "--what-if", "none", "--json")
    document = json.loads(outcome.out)
    assert "what_if" not in document
    assert document["provenance"]["command"] == "warpsight report twice.yaml -o r.html --what-if none --json"
    html = (tmp_path / "r.html").read_text("utf-8")
    assert 'id="what-if"' not in html
    assert 'id="advice"' in html
    assert 'id="provenance"' in html


def test_what_if_full_has_every_combination_of_sms_and_caches(launch: str, capsys: Capture) -> None:
    document = json.loads(run(capsys, "report", launch, "-o", "r.html", "--what-if", "full", "--json").out)
    assert len(document["what_if"]["geometries"]) == 4 * 4 * 4


def test_unknown_size_of_the_grid_is_refused_before_anything_runs(launch: str, capsys: Capture, tmp_path: Path) -> None:
    assert_one_error(run(capsys, "report", launch, "-o", "r.html", "--what-if", "large"), 2, "--what-if", "quick")
    assert not (tmp_path / "r.html").exists()


def test_reference_page_has_every_check_as_the_registry_has_it() -> None:
    assert report_page.main(["--check"]) == 0
    assert all(f"`{key}`" in report_page.table() for key in CHECKS)
