"""The explorer of notebooks in a page with a model as anywidget gives it: is it drawn, and do its sliders ask Python?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from visits import PATIENCE_S

import warpsight
from warpsight.base.units import duration
from warpsight.explorer.widget import ExplorerWidget

pytestmark = pytest.mark.browser

SCALE = """\
__global__ void scale(float* x, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""
# What a notebook does: the module is loaded from a text, and the model's messages go to Python and back.
NOTEBOOK = """async ([text, shown]) => {
  const { default: widget } = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const heard = [];
  const model = {
    get: (name) => ({ shown })[name],
    on: (event, how) => event === "msg:custom" && heard.push(how),
    off: (event, how) => heard.splice(heard.indexOf(how), 1),
    send: (message) => window.python(JSON.stringify(message)).then((reply) => heard.forEach((how) => how(JSON.parse(reply)))),
  };
  window.end = widget.render({ model, el: document.getElementById("cell") });
  window.listening = () => heard.length;
}"""


def test_widget_is_drawn_asks_python_as_a_slider_moves_and_leaves_nothing_behind(browser: Any) -> None:
    args = ["f32[256]:zeros", 256, 2.0]
    widget: ExplorerWidget = warpsight.explore(SCALE, "mdm-pascal", "mdm", grid=4, block=64, args=args)
    page, wrong = browser.new_page(), []
    page.set_default_timeout(1000 * PATIENCE_S)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.expose_function("python", lambda message: json.dumps(widget.reply(json.loads(message))))
    page.set_content('<style>table { display: none }</style><h2>The notebook</h2><div id="cell"></div>')
    size = "getComputedStyle(document.querySelector('h2')).fontSize"
    before = page.evaluate(size)
    page.evaluate(NOTEBOOK, [str(widget._esm), widget.shown])
    assert page.get_by_text("scale on mdm-pascal").is_visible()
    hot = page.get_by_role("group", name="Time of each line").get_by_role("row", name="x[i] *= factor")
    assert "%" in hot.inner_text(), "the notebook's own style for tables does not reach in"
    page.get_by_role("button", name="Accesses of line 3").press("Enter")
    panel = page.get_by_role("group", name="Accesses of line 3")
    panel.get_by_text("ld.global").first.wait_for()
    panel.get_by_text("Each execution: 4 sectors").first.wait_for()  # 32 lanes one after the other read 128 bytes
    page.get_by_label("sm_count, exact value").fill("1")
    page.get_by_label("sm_count, exact value").press("Enter")
    stacks = page.get_by_role("group", name="GPUs side by side")
    changed = stacks.locator("tbody", has_text="changed")
    changed.locator(".lying-bar").wait_for()
    slower = widget.reply({"id": "1", "kind": "designs", "data": {"designs": [{"gpu": "mdm-pascal", "overrides": ["sm_count=1"]}]}})
    assert duration(slower["answer"][0]["seconds"]) in changed.inner_text(), "a time is written as on the terminal"
    page.get_by_label("sm_count, exact value").fill("none")
    page.get_by_label("sm_count, exact value").press("Enter")
    stacks.get_by_text("sm_count").first.wait_for()
    assert page.get_by_role("button", name="Predict this GPU as a version").count() == 0
    assert page.evaluate(size) == before, "nor does the widget's style reach out"
    assert page.evaluate("window.end(), window.listening()") == 0
    assert page.locator("#cell > *").count() == 0
    page.close()
    assert wrong == []
