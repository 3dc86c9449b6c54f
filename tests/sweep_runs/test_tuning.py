"""Does tuning rank what gives the same results, name what does not and what fails, and continue where it was stopped?"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.base.progress import listening
from warpsight.cli.main import main
from warpsight.kernels.triton_kernel import OpenChoice
from warpsight.pipeline import autotune
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import trace_kernel
from warpsight.reports.tuning import tuning_csv, tuning_text
from warpsight.sweeps import tuning
from warpsight.sweeps.tuning import Tuning

pytestmark = pytest.mark.unit
# TILE 3 does not compile; with TILE 8 every result is three times too large
KERNEL = """\
#if TILE == 3
#error "TILE is a power of two"
#endif
__global__ void doubled(const float* x, float* y, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * TILE;
  for (int k = i; k < i + TILE; k++) if (k < n) y[k] = (TILE == 8 ? 6 : 2) * x[k];
}
"""
GRID, AXES, GPU = "ceil(n / (block.x * TILE))", {"block": [32, 64], "define.TILE": [1, 2]}, "mdm-pascal"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "doubled.cu").write_text(KERNEL)
    (folder / "launch.yaml").write_text(
        f"source: doubled.cu\ngrid: {GRID}\nblock: 64\ndefines: [TILE=2]\n"
        "args: ['f32[200]:uniform', 'f32[200]:zeros', 'i32:200']\n"
    )
    return folder


def tuned(source: Path, axes: dict[str, Any], **settings: Any) -> Tuning:
    return warpsight.tune(source / "launch.yaml", axes, GPU, results=source / "results", **settings)


@pytest.fixture(scope="module")
def found(source: Path) -> Tuning:
    return tuned(source, {"block": [32, 64], "define.TILE": [1, 2, 3, 8]}, where=["block == 64 or TILE < 3"])


def by_configuration(found: Tuning) -> dict[tuple[str, ...], dict[str, Any]]:
    return {tuple(row["configuration"].values()): row for row in found.rows}


def test_predictions_are_those_of_predict_and_are_ranked(source: Path, found: Tuning) -> None:
    rows = by_configuration(found)
    for (block, tile), row in rows.items():
        if not row["failed"]:
            trace = warpsight.trace(source / "launch.yaml", block=int(block), defines=[f"TILE={tile}"], gpu=GPU)
            assert warpsight.predict(trace, GPU).seconds == row["seconds"]
            assert trace.header.grid == tuple(row["grid"]) == (-(-200 // (int(block) * int(tile))), 1, 1)
    times = [row["seconds"] for row in found.rows if row["results"] in ("same", "default")]
    assert times == sorted(times)
    assert len(times) == 4
    assert found.best is found.rows[0]
    assert found.default["configuration"] == {"block": "64", "TILE": "2"}
    assert found.best["speedup"] == found.default["seconds"] / found.best["seconds"]


def test_wrong_results_and_failures_are_named_and_not_ranked(found: Tuning) -> None:
    rows = by_configuration(found)
    wrong, failed = rows["64", "8"], rows["64", "3"]
    assert (wrong["results"], [each["argument"] for each in wrong["differences"]]) == ("differs", [2])
    assert wrong["differences"][0]["difference"] == pytest.approx(2.0)
    assert "TILE is a power of two" in failed["failed"]
    assert [row["results"] for row in found.rows[-2:]] == ["differs", "not compared"]
    assert found.to_json()["failed"] == 1


def test_text_and_csv_have_every_configuration(found: Tuning) -> None:
    document = found.to_json()
    text = tuning_text(document)
    assert max(map(len, text.splitlines())) <= 120
    assert "6 configurations tried" in text
    assert "2 of 8 combinations excluded by --where" in text
    assert "block=64 TILE=8: argument 2 by up to 200 % of its largest value" in text
    (default,) = (line.split() for line in text.splitlines() if "default" in line.split()[1:2])
    assert default[2:4] == ["64", "2"]
    rows = list(csv.DictReader(io.StringIO(tuning_csv(document))))
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4", "", ""]
    assert [row["default"] for row in rows].count("True") == 1


def test_second_run_executes_nothing_again(source: Path, found: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise UsageError("it ran again")

    monkeypatch.setattr(tuning, "run_ready", refuse)
    again = tuned(source, AXES)
    assert [row["failed"] for row in again.rows] == [""] * 4
    known = by_configuration(found)
    assert all(row["seconds"] == known[configuration]["seconds"] for configuration, row in by_configuration(again).items())
    other = tuned(source, {"block": [32, 128]}, defines=["TILE=1"])  # another default: there are other results to compare with
    assert {row["failed"] for row in other.rows} == {"it ran again"}


def test_arrays_of_the_caller_stay_and_each_configuration_begins_with_them(source: Path) -> None:
    x, y = np.ones(200, np.float32), np.zeros(200, np.float32)
    found = warpsight.tune(
        source / "doubled.cu", AXES, GPU, grid=GRID, args=[x, y, 200], budget=3, results=source / "results",
    )  # fmt: skip
    assert not y.any()
    assert (len(found.rows), found.to_json()["left_out"]) == (3, 1)
    assert {row["results"] for row in found.rows} == {"default", "same"}


def test_command_prints_a_ranking_and_exits_with_1_where_nothing_is_predicted(
    source: Path, found: Tuning, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", str(source / "launch.yaml"), "--gpu", GPU, "--results", str(source / "results"), "--jobs", "1"]
    capsys.readouterr()
    assert main([*words, "--block", "32,64", "-D", "TILE=1,2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0]["configuration"] == found.rows[0]["configuration"]
    assert document["varied"] == {"block": "block", "TILE": "define.TILE"}
    assert main([*words, "--block", "32,64", "-D", "TILE=3"]) == 1
    out = capsys.readouterr().out
    assert "not predicted: 2 configurations" in out
    assert main([*words, "-DTILE=1,2"]) == 0
    assert f"--gpu {GPU} -D TILE=" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "what"),
    [((), "there is nothing to vary"), (("--block", "32"), "there is nothing to vary"), (("--vary", "blok=1,2"), "is not NAME=V"),
     (("--block", "32,64", "--vary", "grid=1,2", "--vary", "grid=3,4"), "is given twice"), (("--block", "32,x"), "--block"),
     (("--block", "32,64", "--budget", "few"), "--budget"), (("--block", "32,64", "--json", "-o", "-"), "CSV or JSON, not both"),
     (("--constant", "BLOCK=1,2"), "only a Triton kernel")],
)  # fmt: skip
def test_slips_on_the_command_line_get_one_error(
    source: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], what: str
) -> None:
    assert main(["tune", str(source / "launch.yaml"), "--jobs", "1", *words]) == 2
    captured = capsys.readouterr()
    assert what in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("default", "other", "far"),
    [([1.0, 2.0], [1.0, 2.0001], None), ([1.0, 2.0], [1.0, 2.002], 0.001), ([0.0, 0.0], [0.0, 0.5], 0.5),
     ([np.nan, 1], [np.nan, 1.0001], None), ([np.nan, 1.0], [0.0, 1.0], 1.0), ([np.inf, 1.0], [np.inf, 1.0], None)],
)  # fmt: skip
def test_results_agree_in_half_of_their_digits(default: list[float], other: list[float], far: float | None) -> None:
    found = tuning._difference(np.array(default, np.float32), np.array(other, np.float32))
    assert found == (None if far is None else pytest.approx(far, rel=1e-3))
    wholes = tuning._difference(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5]))
    assert wholes == 0.25


# -- What `@triton.autotune` leaves open: the choice, with configurations of a kernel that needs no Triton.

def test_open_configurations_are_tried_and_the_fastest_is_launched(
    source: Path, found: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, listed, key = autotune.prepare, [{"TILE": "3"}, {"TILE": "1"}, {"TILE": "2"}], [200]

    def tuner() -> None:
        """Stands for Triton's object."""

    def as_autotuned(request: KernelRequest, gpu: Any) -> Any:
        if not request.constants:
            raise OpenChoice("tuned at run time", listed, tuner, tuple(key))
        (tile,) = dict(request.constants).values()  # type: ignore[arg-type]
        return prepare(KernelRequest(request.path, args=request.args, defines=(f"TILE={tile}",)), gpu)

    monkeypatch.setattr(autotune, "prepare", as_autotuned)
    x, y = np.ones(200, np.float32), np.zeros(200, np.float32)
    request, notes = KernelRequest(str(source / "launch.yaml"), args=(x, y, 200)), list[str]()
    gpu = warpsight.load_gpu(GPU)
    with listening(notes.append):
        trace = trace_kernel(request, gpu=gpu)
    assert (y == 2).all()
    rows = by_configuration(found)
    assert trace.header.grid == tuple(min((rows["64", "1"], rows["64", "2"]), key=lambda row: float(row["seconds"]))["grid"])
    assert len(notes) == 1
    assert "fastest of 3 configurations" in notes[0]
    with listening(notes.append):
        assert trace_kernel(request, gpu=gpu).header.grid == trace.header.grid
        assert len(notes) == 1  # it is kept, as Triton does
        key[0] = 201
        trace_kernel(request, gpu=gpu)
    assert len(notes) == 2


def test_where_no_configuration_can_be_used_the_first_error_is_given(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(request: KernelRequest, gpu: Any) -> Any:
        if request.constants:
            raise WarpsightError(f"no {request.constants}")
        raise OpenChoice("tuned at run time", [{"A": 1}, {"A": 2}])

    monkeypatch.setattr(autotune, "prepare", refuse)
    with pytest.raises(WarpsightError, match=r"no \{'A': 1\}"):
        trace_kernel(KernelRequest(str(source / "launch.yaml")))
