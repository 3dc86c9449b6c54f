"""Do the tables over resident warps and over representative warps hold what single predictions say?"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import LAUNCH, Outcome, assert_one_error, run

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]

# Odd warps run a loop twice as long as even ones; every third thread block's warps run it three times as long.
UNEVEN = """\
__global__ void uneven(const float* x, float* y, int n) {
  int warp = threadIdx.x / 32, times = n * (1 + warp % 2) * (blockIdx.x % 3 == 2 ? 3 : 1);
  float sum = 0;
  for (int k = 0; k < times; k++) sum += x[(threadIdx.x * 33 + k * 97) % 4096];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
UNEVEN_LAUNCH = ("--grid", "84", "--block", "128", "--arg", "f32[4096]:uniform", "--arg", "f32[10752]:zeros", "--arg", "9")


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    path = tmp_path / "uneven.cu"
    path.write_text(UNEVEN)
    return path


def _documents(outcome: Outcome) -> list[dict[str, Any]]:
    assert outcome.code == 0, outcome.err
    return list(json.loads(outcome.out))


def test_rows_over_warps_are_whole_blocks_and_the_last_is_the_plain_prediction(uneven: Path, capsys: Capture) -> None:
    # 84 blocks of 4 warps on 28 SMs: up to three blocks on each
    rows = _documents(run(capsys, "predict", uneven, *UNEVEN_LAUNCH, "--warps", "1:64", "--json"))
    assert [row["provenance"]["varied"] for row in rows] == [{"warps_per_sm": warps} for warps in (4, 8, 12)]
    assert [row["provenance"]["model"]["warps_per_sm"] for row in rows] == [4, 8, 12]
    plain = json.loads(run(capsys, "predict", uneven, *UNEVEN_LAUNCH, "--json").out)
    assert rows[-1]["cpi_stack"] == plain["cpi_stack"]
    assert rows[0]["occupancy"] == 4 / 64
    assert rows[0]["cycles"] > rows[-1]["cycles"]


def test_more_warps_hide_more_of_the_latency_of_a_kernel_without_contention(uneven: Path, capsys: Capture) -> None:
    # GPUMech, Fig. 16: stalls on loads shrink with warps as long as nothing is contended for
    rows = _documents(run(capsys, "predict", uneven, *UNEVEN_LAUNCH, "--warps", "4:12", "--model", "mt", "--json"))
    exposed = [row["cpi_stack"]["mem_data"] for row in rows]
    assert exposed == sorted(exposed, reverse=True)
    assert exposed[0] > exposed[-1]


def test_rows_over_representatives_are_the_single_predictions(uneven: Path, capsys: Capture) -> None:
    rows = _documents(run(capsys, "predict", uneven, *UNEVEN_LAUNCH, "--model", "mdm", "--representative", "all", "--json"))
    assert [row["provenance"]["varied"]["representative"] for row in rows] == ["kmeans", "max", "min"]
    for row in rows:
        name = row["provenance"]["varied"]["representative"]
        alone = json.loads(run(capsys, "predict", uneven, *UNEVEN_LAUNCH, "--model", "mdm", "--representative", name, "--json").out)
        assert row["cpi_stack"] == alone["cpi_stack"], name
        assert row["provenance"]["method"] == alone["provenance"]["method"]
    assert len({row["cycles"] for row in rows}) > 1


def test_text_of_two_models_has_a_table_each_and_csv_names_the_row(uneven: Path, capsys: Capture) -> None:
    words = ("predict", uneven, *UNEVEN_LAUNCH, "--warps", "8:12", "--model", "mt,mdm")
    text = run(capsys, *words).out
    heads = [line.split("model ")[1] for line in text.splitlines() if "model " in line and "uneven.cu :" in line]
    assert [head.split()[0] for head in heads] == ["mt", "mdm"]
    assert [line.split()[0] for line in text.splitlines() if line.strip() and line.split()[0].isdigit()] == ["8", "12", "8", "12"]
    assert max(len(line) for line in text.splitlines() if "uneven.cu" not in line) <= 120
    rows = list(csv.DictReader(io.StringIO(run(capsys, *words, "--csv").out)))
    assert [(row["warps_per_sm"], row["model"]) for row in rows] == [("8", "mt"), ("8", "mdm"), ("12", "mt"), ("12", "mdm")]


def test_warps_that_no_whole_block_has_are_refused(saxpy: Path, uneven: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", uneven, *UNEVEN_LAUNCH, "--warps", "1:3")
    assert_one_error(outcome, 2, "--warps", "a block has 4", "the launch has, per SM, up to 12 warps")
    outcome = run(capsys, "predict", uneven, *UNEVEN_LAUNCH, "--set", "sm.max_blocks=2", "--warps", "9:64")
    assert_one_error(outcome, 2, "blocks of mdm-pascal allow up to 8 warps")


@pytest.mark.parametrize("text", ["0:4", "8:4", "few", "4:", ":", "1:2:3"])
def test_warps_that_are_no_range_are_refused(saxpy: Path, capsys: Capture, text: str) -> None:
    outcome = run(capsys, "predict", saxpy, *LAUNCH, "--warps", text)
    assert outcome.code == 2
    assert "--warps" in outcome.err


def test_two_tables_at_once_are_refused(saxpy: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", saxpy, *LAUNCH, "--warps", "1:8", "--representative", "all")
    assert_one_error(outcome, 2, "cannot be combined with")
