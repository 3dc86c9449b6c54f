"""Does `warpsight predict --static` answer without running the kernel, and tell what it cannot know?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import LAUNCH, assert_one_error, run

pytestmark = pytest.mark.unit

SAXPY = """__global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
MODEL = ("--gpu", "gtx280", "--model", "mwp-cwp")


@pytest.fixture
def saxpy(tmp_path: Path) -> Path:
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    return tmp_path / "saxpy.cu"


def test_static_prediction_equals_the_one_from_a_trace(saxpy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    executed = json.loads(run(capsys, "predict", saxpy, *LAUNCH, *MODEL, "--json").out)
    static = json.loads(run(capsys, "predict", saxpy, *LAUNCH, *MODEL, "--static", "--json").out)
    same = ("kernel", "gpu", "model", "cycles", "warp_instructions", "cpi", "cpi_stack", "occupancy")
    assert {key: static[key] for key in same} == {key: executed[key] for key in same}
    assert static["provenance"]["method"]["static"] is True
    assert "nothing was executed" in static["provenance"]["notes"][0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--static",), ("--static", 'the model "warpsight" needs more', "--model mwp-cwp")),
        ((*MODEL, "--trips", "a=1"), ("--trips", "add --static")),
        ((*MODEL, "--static", "--warps", "1:4"), ("--warps", "executes nothing")),
        ((*MODEL, "--static", "--representative", "all"), ("--representative", "executes nothing")),
        ((*MODEL, "--static", "--sample", "3"), ("--sample", "executes nothing")),
        ((*MODEL, "--both-paths"), ("--both-paths", "add --static")),
        ((*MODEL, "--static", "--trips", "a=1"), ("--trips", "is not the label of a loop", "none")),
        ((*MODEL, "--static", "--uncoalesced", "7"), ("--uncoalesced", "PTX line 7")),
        ((*MODEL, "--static", "--uncoalesced", "7", "--coalesced", "7"), ("as coalesced and as uncoalesced",)),
    ],
)
def test_static_options_that_cannot_be_meant_are_told(
    saxpy: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: tuple[str, ...]
) -> None:
    assert_one_error(run(capsys, "predict", saxpy, *LAUNCH, *words), 2, *told)


def test_static_analysis_of_a_trace_folder_is_refused(saxpy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "trace", saxpy, *LAUNCH, "-o", tmp_path / "t").code == 0
    assert_one_error(run(capsys, "predict", tmp_path / "t", *MODEL, "--static"), 2, "trace folder", "leave --static out")
