"""Does a kernel's text become a form, a prediction, or an error at its line?"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warpsight.explorer import launch_form
from warpsight.explorer.answer import Beside, answer
from warpsight.explorer.question import Question
from warpsight.explorer.shown import shown
from warpsight.reports.html.page import MOST_PANELS, accesses, advice_part, page

pytestmark = pytest.mark.unit

SCALE = """\
__global__ void scale(float* x, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""
QUESTION = Question(
    SCALE, grid="ceil(n / 64)", block="64", args={"x": "f32[256]:zeros", "n": "256", "old": "1"}, gpu="mdm-pascal", model="mdm"
)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an answer tells, by kind, the last event of each; and its `bench`."""
    monkeypatch.chdir(tmp_path)  # and back at the end

    def ask(question: Question) -> dict[str, Any]:
        found: dict[str, Any] = {}
        found["bench"] = answer(question, lambda kind, text: found.update({kind: json.loads(text)}))
        return found

    return ask


def test_kernel_has_a_form_of_its_signature_a_first_and_a_whole_answer(told: Any) -> None:
    events = told(QUESTION)
    form = events["form"]
    assert (form["kernels"], form["kernel"], form["unused"]) == (["scale"], "scale", ["old"])
    assert [(each["name"], each["type"], each["value"], each["given"]) for each in form["parameters"]] == [
        ("x", "float*", "f32[256]:zeros", True), ("n", "int", "256", True), ("factor", "float", "f32:1.0", False),
    ]  # fmt: skip
    assert [each["value"] for each in form["dimensions"]] == ["ceil(n / 64)", "64", "0"]
    first, whole = events["first"]["document"], events["result"]["document"]
    assert first["predictions"][0]["cycles"] == whole["predictions"][0]["cycles"] > 0
    assert "advice" not in first and "advice" in whole
    assert max(first["rows"], key=lambda row: row["share"])["line"] == 3
    source = whole["code"]["source"]
    assert (max(source["rows"], key=lambda row: row["cpi"])["file"], source["missing_sources"]) == ("kernel.cu", [])
    assert shown(whole, "kernel.cu")["accesses"] == [3]
    assert events["advice"] == advice_part(whole["predictions"][0], whole["advice"]) == shown(whole, "kernel.cu")["advice"]
    assert str(Path.cwd()) not in json.dumps(whole)  # the folder of the text: a report that is shared names none
    own, fewer, slower, wrong = events["bench"].answers([
        {"gpu": "mdm-pascal", "overrides": overrides} for overrides in ([], ["sm_count=1"], ["noc.bandwidth=1GB/s"], ["sm_count=0"])
    ])  # fmt: skip
    assert own["cycles"] == whole["predictions"][0]["cycles"] < fewer["cycles"]
    assert own["cpi_stack"]["noc"] < slower["cpi_stack"]["noc"]
    assert wrong["error"]["place"] == "--set sm_count=0"


def test_work_beside_is_done_by_a_fork_and_here_if_the_fork_ends_before_its_time() -> None:
    here, told = os.getpid(), list[Any]()

    def ends_elsewhere() -> int:
        if os.getpid() != here:
            os._exit(1)
        return here

    for make, is_here in ((os.getpid, len(os.sched_getaffinity(0)) == 1), (ends_elsewhere, True)):
        told.clear()
        with Beside(make, told.append) as beside:
            found = beside.result()
        assert told == [found] and (found == here) is is_here
    with pytest.raises(ZeroDivisionError), Beside(lambda: 1 // 0, told.append) as beside:
        beside.result()


def test_memory_instructions_of_a_line_are_shown_as_in_the_report_and_escape_what_they_name(told: Any) -> None:
    document = told(QUESTION)["result"]["document"]
    assert accesses(document, "kernel.cu", 1) == accesses(document, "other.cu", 3) == ""
    html, report = accesses(document, "kernel.cu", 3), page(document)
    assert html.count("<article") == 2 and "href" not in html
    drawing = html[html.index("<svg") : html.index("</svg>")]
    assert drawing in report
    load = document["loads"][0]
    many = document | {"loads": [load | {"opcode": "<script>"}] * (MOST_PANELS + 3)}
    html = accesses(many, "kernel.cu", 3)
    assert html.count("<article") == MOST_PANELS and "3 more instructions" in html
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_missing_header_and_error_of_the_assembler_name_their_lines(told: Any) -> None:
    header = told(replace(QUESTION, source='// own\n#include "own.h"\n' + SCALE))["error"]
    assert [(each["line"], each["severity"]) for each in header["lines"]] == [(2, "error")]
    assert "own.h" in header["lines"][0]["message"]
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale()
{
  .reg .b32 %r<3>;
  add.s32 %r1, %r2;
  ret;
}
"""
    wrong = told(replace(QUESTION, source=ptx, language="ptx", grid="1", block="32", args={}, gpu="a100"))["error"]
    assert 7 in [each["line"] for each in wrong["lines"]], wrong


def test_error_of_the_compiler_and_fault_of_the_kernel_name_their_lines(told: Any) -> None:
    wrong = told(replace(QUESTION, source=SCALE.replace("factor;", "facto;")))["error"]
    assert wrong["kind"] == "CompileError"
    assert [(each["line"], each["severity"]) for each in wrong["lines"]] == [(3, "error")]
    assert '"facto" is undefined' in wrong["lines"][0]["message"]
    fault = told(replace(QUESTION, args=QUESTION.args | {"x": "f32[128]:zeros"}))["error"]
    assert fault["kind"] == "LaunchFault"
    assert [each["line"] for each in fault["lines"]] == [3]


def test_text_in_python_is_a_launch_file_and_says_when_triton_is_missing(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"source = {SCALE!r}\ngrid, block, args = 4, 64, ['f32[256]:zeros', 256, 'f32:1']\n"
    events = told(replace(QUESTION, source=text, language="python", grid="", block="", args={}))
    assert (events["form"]["kernels"], events["form"]["dimensions"], events["form"]["parameters"]) == ([], [], [])
    assert events["result"]["document"]["predictions"][0]["kernel"] == "scale"
    monkeypatch.setattr(launch_form, "find_spec", lambda name: None)
    missing = told(replace(QUESTION, source="import os\nfrom triton import jit\n", language="python"))["error"]
    assert (missing["what"], missing["place"]) == ("Triton is not installed", "kernel.py:2")
    assert "pip install triton" in missing["remedy"]
