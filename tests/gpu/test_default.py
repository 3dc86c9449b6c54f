"""Which GPU is meant where none is named, and do all that answer name it?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import assert_one_error, run

import warpsight
from warpsight.base.errors import UsageError
from warpsight.gpu.default import chosen_gpu
from warpsight.gpu.loader import default_gpu, load_gpu
from warpsight.pipeline.request import KernelRequest
from warpsight.sweeps.study import Study
from warpsight.sweeps.study_arguments import study_of_options

LAUNCH = """\
source: saxpy.cu
kernel: saxpy
grid: 4
block: 64
args: ['2.0', 'f32[256]:uniform', 'f32[256]:zeros', '256']
"""
KERNEL = """\
__global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user who has chosen nothing yet, and the folder of the choice."""
    monkeypatch.delenv("WARPSIGHT_GPU")
    monkeypatch.setenv("WARPSIGHT_CONFIG", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


def test_variable_comes_before_the_choice_and_the_choice_before_the_a100(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert default_gpu() == "a100"
    document = json.loads(run(capsys, "gpus", "use", "rtx4090", "--json").out)
    assert (document["gpu"], document["from"]) == ("rtx4090", str(folder / "gpu"))
    assert default_gpu() == "rtx4090"
    monkeypatch.setenv("WARPSIGHT_GPU", "t4")
    assert default_gpu() == "t4"
    shown = run(capsys, "gpus", "use", "l4").out
    assert "default GPU: t4" in shown
    assert "l4 is kept in" in " ".join(shown.split())
    monkeypatch.setenv("WARPSIGHT_GPU", "")  # as good as not set
    assert default_gpu() == "l4"
    assert "default GPU: a100" in run(capsys, "gpus", "use", "--clear").out
    assert not (folder / "gpu").exists()
    assert run(capsys, "gpus", "use", "--clear").code == 0


def test_choice_is_kept_where_the_platform_keeps_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WARPSIGHT_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder, gpu in ((tmp_path / "xdg", "v100"), (tmp_path / "home" / ".config", "l40s")):
        place = folder / "warpsight" / "gpu"
        place.parent.mkdir(parents=True)
        place.write_text(f"{gpu}\n")
        assert (chosen_gpu().gpu, chosen_gpu().place) == (gpu, str(place))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def test_a_description_file_can_be_the_choice_from_any_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text("like: v100\nname: mine\nsm_count: 40\nsources: {sm_count: estimated by the owner}\n")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "gpus", "use", "mine.yaml").code == 0
    monkeypatch.chdir("/")
    assert load_gpu(None).sm_count == 40
    assert load_gpu(None, overrides=["sm_count=20"]).sm_count == 20
    (tmp_path / "mine.yaml").unlink()
    assert_one_error(run(capsys, "gpus", "use"), 2, "configuration/gpu", "mine.yaml", "gpus use --clear")


def test_a_wrong_default_is_refused_and_the_error_names_what_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "saxpy.cu").write_text(KERNEL)
    (tmp_path / "saxpy.yaml").write_text(LAUNCH)
    assert_one_error(run(capsys, "gpus", "use", "rtx409"), 2, 'did you mean "rtx4090"')
    assert_one_error(run(capsys, "gpus", "use", "v100", "--clear"), 2, "--clear")
    monkeypatch.setenv("WARPSIGHT_GPU", "rtx409")
    for command in ("predict", "sweep", "report", "dvfs"):
        assert_one_error(run(capsys, command, tmp_path / "saxpy.yaml"), 2, "WARPSIGHT_GPU", 'did you mean "rtx4090"')
    with pytest.raises(UsageError, match="neither a GPU"):
        load_gpu(None)


def test_every_answer_names_the_default_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "saxpy.cu").write_text(KERNEL)
    (tmp_path / "saxpy.yaml").write_text(LAUNCH)
    trace = warpsight.trace(tmp_path / "saxpy.yaml", out=tmp_path / "saxpy.trace")
    assert run(capsys, "gpus", "use", "rtx3070").code == 0
    for command in ("predict", "simulate", "profile", "explain", "advise", "compare", "cache"):
        outcome = run(capsys, command, tmp_path / "saxpy.trace", *(["--model", "mdm"] if command == "compare" else []))
        assert outcome.code == 0, outcome.err
        assert re.search(r"   rtx3070( 1.725 GHz)?   ", outcome.out.splitlines()[0]), outcome.out
    monkeypatch.chdir(tmp_path)
    swept = run(capsys, "sweep", "saxpy.trace", "--set", "sm_count=23,46", "--executor", "inline", "--out", "study")
    assert "around rtx3070" in swept.out
    assert "   rtx3070   " in run(capsys, "sweep", "best", "study").out
    assert run(capsys, "profile", "saxpy.trace", "-o", "saxpy.json").out.splitlines()[-1].startswith("next: ")
    assert "   rtx3070   " in run(capsys, "model", "--profile", "saxpy.json").out
    assert warpsight.predict(trace).gpu == warpsight.simulate(trace).gpu == "rtx3070"
    assert warpsight.predict(trace, gpu="v100").gpu == "v100"


def test_demonstration_and_study_files_stay_on_the_papers_machine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "gpus", "use", "v100").code == 0
    assert "   mdm-pascal   " in run(capsys, "demo").out.splitlines()[0]
    assert Study("from a file", ()).gpu == "mdm-pascal"
    (tmp_path / "saxpy.cu").write_text(KERNEL)
    (tmp_path / "saxpy.yaml").write_text(LAUNCH)
    (tmp_path / "study.yaml").write_text("schema: 1\nname: mine\nkernels: [saxpy.yaml]\naxes: {sm_count: [14, 28]}\n")
    plan = run(capsys, "sweep", tmp_path / "study.yaml", "--plan")
    assert "around mdm-pascal" in plan.out, plan.err


def test_a_study_of_options_has_the_default_gpu_unless_gpus_are_an_axis() -> None:
    kernels = [KernelRequest("saxpy.cu", grid=1, block=32)]
    assert study_of_options(kernels).gpus == ("a100",)
    assert study_of_options(kernels, gpu="v100").gpus == ("v100",)
    assert study_of_options(kernels, settings=["gpu=v100,t4"]).gpus == ("v100", "t4")
    with pytest.raises(UsageError, match="gpu is an axis, and l4 is also given"):
        study_of_options(kernels, gpu="l4", settings=["gpu=v100,t4"])
