"""Are the inputs of `warpsight report` shown whatever they lack, and options refused that say nothing about them?"""

from __future__ import annotations

import io
import json
import os
import shlex
from dataclasses import replace
from html import escape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import assert_one_error, run

import warpsight
from warpsight.analysis.explanation import explain_views, language, place_of, views_of
from warpsight.analysis.report_data.files import write_report
from warpsight.analysis.report_data.kernel import code_views
from warpsight.base.display import Display
from warpsight.base.errors import UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import profile_trace

pytestmark = pytest.mark.unit

EMPTY = ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n"
SHARED = """
extern "C" __global__ void turned() {
    __shared__ float a[64];
    a[threadIdx.x] = threadIdx.x;
    __syncthreads();
    float b = a[63 - threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = 2 * b;
}
"""
TWICE = 'extern "C" __global__ void twice(float *a) { a[blockIdx.x * blockDim.x + threadIdx.x] *= 2.0f; }\n'
OUT = ("-o", "r.html", "--what-if", "none")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def result(capsys: Capture) -> str:
    """A file of a prediction."""
    Path("empty.ptx").write_text(EMPTY)
    Path("result.json").write_text(run(capsys, "predict", "empty.ptx", "--grid", "1", "--block", "32", "--json").out)
    return "result.json"


def test_report_has_the_prediction_of_predict_with_its_summary_and_so_has_one_of_its_result(capsys: Capture) -> None:
    Path("twice.cu").write_text(TWICE)
    launch = ("twice.cu", "--grid", "64", "--block", "128", "--arg", "f32[8192]:uniform")
    Path("twice.json").write_text(run(capsys, "predict", *launch, "--json").out)
    predicted = json.loads(Path("twice.json").read_text())
    made = json.loads(run(capsys, "report", *launch, *OUT, "--json").out)
    assert made["predictions"][0] == predicted
    assert [each["model"] for each in predicted["summary"]["others"]] == ["mdm", "gpumech-plus", "gpumech"]
    again = json.loads(run(capsys, "report", "twice.json", "-o", "again.html", "--json").out)
    assert again["predictions"] == [predicted]
    pages = [Path(name).read_text() for name in ("r.html", "again.html")]
    for cause in predicted["summary"]["why"]:
        assert all(escape(cause["text"]) in page for page in pages)
    assert all("not simulated" in page for page in pages[:1])


@pytest.mark.parametrize(("name", "text"), [("empty.ptx", EMPTY), ("turned.cu", SHARED)])
def test_kernel_that_moves_no_bytes_has_a_report_without_rooflines(name: str, text: str, capsys: Capture) -> None:
    Path(name).write_text(text)
    outcome = run(capsys, "report", name, "--grid", "2", "--block", "64", *OUT, "--json")
    assert json.loads(outcome.out)["rooflines"] == []
    html = Path("r.html").read_text("utf-8")
    assert "Speed of light" in html
    assert "<h3>Roofline" not in html


def test_source_from_stdin_has_lanes_like_that_of_a_file(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TWICE.encode())))
    outcome = run(capsys, "report", "-", "--grid", "2", "--block", "64", "--arg", "f32[128]:uniform", *OUT, "--json")
    document = json.loads(outcome.out)
    assert document["loads_about"]["lanes_unknown"] == ""
    assert document["loads"][0]["patterns"][0]["lanes"] == [4 * lane for lane in range(32)]


@pytest.mark.parametrize("options", ["--gpu v100", "--set sm_count=4", "--model mdm", "--grid 4", "--caches reuse-distance",
                                     "--other-gpu v100", "--simulator"])  # fmt: skip
def test_results_refuse_what_would_make_others(options: str, result: str, capsys: Capture) -> None:
    assert_one_error(run(capsys, "report", result, *options.split(), "-o", "r.html"), 2, options.split(maxsplit=1)[0], result)
    assert not Path("r.html").exists()


def test_comparison_is_no_side_of_another_one(result: str, capsys: Capture) -> None:
    Path("both.json").write_text(run(capsys, "report", result, result, "-o", "r.html", "--json").out)
    assert_one_error(run(capsys, "report", "both.json", result, "-o", "r.html"), 2, "both.json", "comparison")


def test_report_is_no_folder_and_leaves_a_device_what_it_is(folder: Path) -> None:
    for path in (folder, "."):
        with pytest.raises(UsageError, match="is a folder"):
            write_report(path, "text")
    link = folder / "null"
    link.symlink_to(os.devnull)
    write_report(link, "text")
    assert link.is_char_device()


def test_predictions_of_a_report_are_of_one_kernel(result: str, folder: Path) -> None:
    predictions = [warpsight.predict(warpsight.trace(name, grid=1, block=32)) for name in ("empty.ptx",)]
    with pytest.raises(UsageError, match="needs at least one prediction"):
        warpsight.report([], folder / "r.html")
    Path("other.ptx").write_text(EMPTY.replace("empty", "other"))
    predictions.append(warpsight.predict(warpsight.trace("other.ptx", grid=1, block=32)))
    with pytest.raises(UsageError, match="empty, other"):
        warpsight.report(predictions, folder / "r.html")


def test_place_says_what_the_instruction_is_written_in() -> None:
    assert place_of("a/b.cu", 27, 63, "") == "b.cu:27"
    assert place_of("", 0, 63, "@%p1 bra $L;") == "PTX line 63"
    assert place_of("", 0, 63, "/*0010*/ @!P0 LDG.E R2, [R4]") == "SASS line 63"
    assert place_of("", 0, 63, "EXIT", 0xA0) == "SASS 0x000a0"
    assert [language(text) for text in ("", "ret;", "EXIT")] == ["PTX", "PTX", "SASS"]


def test_code_of_a_report_has_the_languages_of_its_trace() -> None:
    Path("twice.cu").write_text(TWICE)
    arguments = {"grid": 8, "block": 64, "args": [np.ones(512, np.float32)], "gpu": "a100"}
    native, ptx = (warpsight.trace("twice.cu", level=level, **arguments) for level in ("sass", "ptx"))
    gpu = load_gpu("a100")
    without = {"cuda": {"file": "", "line": 0}, "ptx": {"ptx_line": 0}}
    bare = replace(native, instructions=tuple(replace(each, **without["cuda"], **without["ptx"]) for each in native.instructions))
    traces = (ptx, native, bare)
    views = [code_views(explain_views(profile_trace(each, gpu), gpu, "warpsight", views_of(each)), each) for each in traces]
    assert [list(each) for each in views] == [["source", "line"], ["source", "line", "sass"], ["sass"]]
    assert "sources" in views[2]["sass"] and "unused" not in views[0]["line"]
    ((_, left_out),) = ((line, text) for line, text in views[1]["line"]["unused"].items() if text.startswith("cvta.to.global"))
    assert left_out.endswith(";")
    assert [row["machine"]["address"] for row in views[1]["sass"]["rows"]] == [16 * pc for pc in range(len(native.instructions))]
    # the branch at the end, which keeps what is behind the kernel from being executed, has no execution
    assert views[1]["sass"]["rows"][-1]["executions"] == 0


def test_notebook_shows_the_text_of_what_has_no_answer_to_draw() -> None:
    def draw(value: object) -> str:
        raise UsageError("no design has a time", place="study", remedy="correct those that failed")

    display = Display()
    display.by(draw)
    assert display.html("study") is None


def test_inputs_can_be_named(folder: Path, capsys: Capture) -> None:
    (folder / "twice.cu").write_text(TWICE)
    launch = ("--grid", "4", "--block", "64", "--arg", "f32[256]:uniform", "--model", "mt,mdm")
    outcome = run(capsys, "report", "old=twice.cu", "new=twice.cu", "-o", "two.html", *launch, "--json")
    assert json.loads(outcome.out)["names"] == ["old", "new"]
    (folder / "cycles.csv").write_text("gpu,kernel,cycles\nmdm-pascal,mine,4000\n")
    named = run(capsys, "report", "mine=twice.cu", *OUT, *launch, "--against", "cycles.csv")
    assert named.out.strip().splitlines()[-1].startswith("next: warpsight advise twice.cu --grid 4")
    assert "4,000" in (folder / "r.html").read_text("utf-8")


def test_after_two_sides_the_next_step_is_advice_for_the_slower(folder: Path, capsys: Capture) -> None:
    for name in ("twice.cu", "more.cu"):
        (folder / name).write_text(TWICE)
    launch, gpus = ("--grid", "4", "--block", "64", "--arg", "f32[256]:uniform"), ("mdm-pascal", "gpumech")

    def following(*words: str) -> list[str]:
        out = run(capsys, "report", *words, "-o", "two.html").out
        return shlex.split(out.splitlines()[-1].removeprefix("next: warpsight "), comments=True)

    def seconds(gpu: str) -> float:
        document = json.loads(run(capsys, "predict", "twice.cu", *launch, "--gpu", gpu, "--model", "mdm", "--json").out)
        return float(document["seconds"])

    slower = max(gpus, key=seconds)
    for first, second in (gpus, gpus[::-1]):
        found = following("twice.cu", *launch, "--model", "mdm,gpumech", "--gpu", first, "--other-gpu", second)
        assert found == ["advise", "twice.cu", *launch, "--gpu", slower, "--model", "mdm"]
    # equally fast: the first
    assert following("more.cu", "twice.cu", *launch, "--model", "mdm") == ["advise", "more.cu", *launch, "--model", "mdm"]
    assert following("old=twice.cu", "new=twice.cu", *launch) == ["advise", "twice.cu", *launch]
