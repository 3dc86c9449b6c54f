"""`explore`: does the explorer in a notebook show a kernel, and answer what its sliders ask?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.explorer.designs import choices
from warpsight.explorer.shown import shown_lines
from warpsight.explorer.widget import ExplorerWidget

pytestmark = pytest.mark.unit

SCALE = """\
__global__ void scale(float* x, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""


@pytest.fixture(scope="module")
def array() -> Any:
    return np.ones(256, np.float32)


@pytest.fixture(scope="module")
def widget(array: Any) -> ExplorerWidget:
    return warpsight.explore(SCALE, "mdm-pascal", "mdm", ["sm_count=14"], grid=4, block=64, args=[array, 256, 2.0])


def asked(widget: ExplorerWidget, kind: str, **data: Any) -> Any:
    """The answer to a message, as it goes to the front end."""
    sent: list[Any] = []
    widget.send = sent.append  # type: ignore[method-assign]
    widget._handle_custom_msg({"id": "7", "kind": kind, "data": data}, [])
    (reply,) = sent
    assert reply.pop("id") == "7"
    return reply


def test_widget_shows_the_prediction_its_lines_and_what_gpus_are_chosen_from(widget: ExplorerWidget, array: Any) -> None:
    shown = widget.shown
    (prediction,) = shown["answer"]["document"]["predictions"]
    expected = warpsight.predict(SCALE, "mdm-pascal", "mdm", ["sm_count=14"], grid=4, block=64, args=["f32[256]:ones", 256, 2.0])
    assert prediction["cycles"] == expected.cycles and prediction["cpi_stack"] == expected.cpi_stack
    assert array.sum() == 256, "the kernel has run on a copy"
    assert [(each["line"], each["text"]) for each in shown["lines"]] == list(enumerate(SCALE.splitlines(), 1))
    assert max(shown["lines"], key=lambda line: line["share"])["line"] == 3
    assert [each["line"] for each in shown["lines"] if each["accesses"]] == [3]
    assert shown["gpu"] == "mdm-pascal" and shown["choices"] == choices()


def test_sliders_and_other_gpus_are_answered_by_messages(widget: ExplorerWidget, array: Any) -> None:
    about = {"gpu": "mdm-pascal", "overrides": []}
    rows, settings = asked(widget, "keys", **about)["answer"], asked(widget, "settings", **about, keys=["sm_count"])["answer"]
    assert next(row["value"] for row in rows if row["key"] == "sm_count") == "14", "the changed GPU, not that of the catalogue"
    assert settings[0]["settings"][settings[0]["own"]] == "14"
    designs = [{"gpu": "mdm-pascal", "overrides": overrides} for overrides in ([], ["noc.bandwidth=1GB/s"], ["sm_count=0"])]
    own, slower, wrong, other = asked(widget, "designs", designs=[*designs, {"gpu": "v100", "overrides": []}])["answer"]
    assert own["cycles"] == widget.shown["answer"]["document"]["predictions"][0]["cycles"]
    assert own["cpi_stack"]["noc"] < slower["cpi_stack"]["noc"]
    assert wrong["error"]["place"] == "--set sm_count=0"
    assert other["gpu"] == "v100" and other["cycles"] > 0
    assert array.sum() == 256, "the kernel has run again, on a copy"
    assert asked(widget, "settings", **about, keys=["sm_cuont"])["error"]["place"] == "sm_cuont"


def test_accesses_of_a_line_are_those_of_the_report(widget: ExplorerWidget) -> None:
    (file,) = {each["file"] for each in widget.shown["lines"]}
    html = asked(widget, "accesses", file=file, line=3)["answer"]
    # 64 floats a block, one after the other: a warp's 32 lanes have 128 bytes, 4 sectors of one line, in a load and in a store
    assert html.count("<figure") >= 2 and "ld.global" in html and "st.global" in html
    assert "address of each lane" not in html, "the kernel was run again for them, on its input"
    assert asked(widget, "accesses", file=file, line=2)["answer"] == ""


def test_lines_of_a_file_keep_their_text_and_a_kernel_without_line_information_has_none() -> None:
    view = {
        "rows": [
            {"file": "a.cu", "line": 5, "share": 0.5, "cause": "dram"},
            {"file": "gone.cuh", "line": 2, "share": 0.1, "cause": "base"},
            {"file": "", "line": 0, "share": 0.4, "cause": "launch"},
        ],
        "sources": {"a.cu": {"4": "four", "5": "five"}}, "missing_sources": ["gone.cuh"],
    }  # fmt: skip
    loads = [{"file": "a.cu", "line": 5}, {"file": "b.cuh", "line": 4}]
    found = shown_lines({"code": {"source": view}, "loads": loads}, {})
    assert [(each["file"], each["line"], each["text"], each["share"], each["accesses"]) for each in found] == [
        ("a.cu", 4, "four", 0.0, False), ("a.cu", 5, "five", 0.5, True), ("gone.cuh", 2, "", 0.1, False),
    ]  # fmt: skip
    assert shown_lines({"code": {"ptx": view}}, {}) == []


def test_built_module_stands_alone_in_the_package(widget: ExplorerWidget) -> None:
    module = str(widget._esm)
    assert "export{" in module and "attachShadow" in module
    assert not module.lstrip().startswith("import") and "from\"./" not in module.replace(" ", "")


def test_what_cannot_be_explored_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, array: Any) -> None:
    with pytest.raises(warpsight.WarpsightError, match="gird"):
        warpsight.explore(SCALE, "mdm-pascal", gird=4)
    monkeypatch.setattr("warpsight.notebook.find_spec", {"anywidget": None}.__getitem__)
    with pytest.raises(warpsight.WarpsightError, match="anywidget is not installed") as raised:
        warpsight.explore(SCALE, "mdm-pascal", grid=4, block=64, args=[array, 256, 2.0])
    assert "pip install anywidget" in str(raised.value)


def test_simulator_answers_by_a_message_as_its_model_does(widget: ExplorerWidget) -> None:
    args = ["f32[256]:ones", 256, 2.0]
    expected = warpsight.simulate(SCALE, "mdm-pascal", ["sm_count=14"], grid=4, block=64, args=args)
    assert asked(widget, "simulation")["answer"] == pytest.approx(expected.seconds)
