"""Can one write a kernel in the browser, mend it, change the GPU, compare, share, and lose nothing: with a mouse and without?"""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from visits import PATIENCE_S

from warpsight.explorer import server
from warpsight.explorer.answer import answer
from warpsight.explorer.examples import Example
from warpsight.explorer.project import Project
from warpsight.explorer.question import Question
from warpsight.explorer.results import Results
from warpsight.explorer.runs import Runs
from warpsight.explorer.worker import LAST, Limits

pytestmark = pytest.mark.browser

SCALE = """\
__global__ void scale(float* x, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""
QUESTION = Question(SCALE, grid="4", block="64", args={"x": "f32[256]:zeros", "n": "256"}, gpu="mdm-pascal", model="mdm")


class Here:
    """A worker without a process of its own: the engines that this process has loaded answer, one after another."""

    turn = threading.Lock()  # an answer changes the folder

    def __init__(self, question: Question, limits: Limits) -> None:
        self.question, self.told, self.bench = question, queue.Queue[tuple[str, Any]](), None

    def events(self) -> Iterator[tuple[str, Any]]:
        with self.turn:
            self.bench = answer(self.question, lambda kind, text: self.told.put((kind, json.loads(text))))
        while not self.told.empty():
            kind, data = self.told.get()
            yield kind, json.loads(json.dumps(data))
            if kind in LAST:
                return

    def designs(self, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert self.bench is not None
        return self.bench.answers(wanted)

    def end(self) -> None:
        pass


@contextmanager
def explorer(folder: Path, port: int = 0, readers: str = "") -> Iterator[str]:
    """The URL of the explorer of `folder` while it runs."""
    listening = socket.create_server(("127.0.0.1", port))
    host, token, project = f"127.0.0.1:{listening.getsockname()[1]}", f"token-{port}", Project(folder)
    api = server.Api(Results(folder), project, Runs(project, Limits(), Here), token, readers)  # type: ignore[arg-type]
    config = uvicorn.Config(server.application(api, frozenset({host})), log_level="error", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}/#{token}"
    finally:
        running.should_exit = True
        thread.join(PATIENCE_S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a project, and one example to begin with."""
    monkeypatch.chdir(tmp_path)  # and back at the end
    monkeypatch.setattr(server, "examples", lambda: (Example("scale", "Scale: " + "a long title, " * 9, QUESTION),))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(1000 * PATIENCE_S)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    context.close()
    assert wrong == []


def serious(page: Any, axe: str) -> list[str]:
    """What axe-core finds that keeps people out, in the page without its frames."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { iframes: false }).then((all) => all.violations)")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


def test_whole_loop_from_an_error_to_a_shared_file_and_a_server_that_starts_again(
    page: Any, folder: Path, axe: str, tmp_path: Path
) -> None:
    with explorer(folder) as url:
        page.goto(url)
        done = page.get_by_role("button", name="Simulate it cycle by cycle")
        done.wait_for()
        # an error stands under its line, and goes when it is mended
        page.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.type("oops")
        page.get_by_role("alert").wait_for()
        assert "kernel.cu(5): error" in page.get_by_role("alert").inner_text()
        assert page.locator(".cm-lint-marker-error").count() == 1
        for _ in "oops":
            page.keyboard.press("Backspace")
        done.wait_for()
        # sliders and another GPU are predicted beside the own one
        page.get_by_label("sm_count", exact=True).fill("0")
        page.get_by_label("noc.bandwidth, exact value").fill("1 GB/s")
        page.get_by_label("noc.bandwidth, exact value").press("Enter")
        page.get_by_label("Add a GPU").select_option("mdm-letter")
        rows = page.locator(".stacks tbody")
        rows.nth(4).locator(".lying-bar").wait_for()
        assert [text.split("=")[0] for text in rows.locator("th").all_inner_texts()] == [
            "mdm-pascal", "changed", "only sm_count", "only noc.bandwidth", "mdm-letter",
        ]  # fmt: skip
        assert [serious(page, axe), page.evaluate("document.documentElement.scrollWidth - innerWidth")] == [[], 0]
        page.get_by_role("button", name="Predict this GPU as a version").click()
        page.get_by_text("GPU changed: ").wait_for()
        # two versions are compared, one is shared
        page.get_by_role("tab", name="Versions").click()
        for number in (1, 2):
            page.get_by_label(f"Compare version {number}").check()
        page.get_by_text("What changed in the launch and the GPU").wait_for()
        assert page.get_by_text("The text is the same.").is_visible()
        page.emulate_media(color_scheme="dark")
        assert serious(page, axe) == []
        for width in (360, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
        with page.expect_download() as saving:
            page.get_by_role("button", name="Save the report of 1").click()
        saving.value.save_as(tmp_path / "shared.html")
        port = int(url.split(":")[2].partition("/")[0])
    # without the server: the shared file is whole, the text is not lost
    shared = page.context.new_page()
    page.context.set_offline(True)
    shared.goto((tmp_path / "shared.html").as_uri())
    assert shared.inner_text("h1") == "scale on mdm-pascal"
    page.context.set_offline(False)
    page.get_by_role("tab", name="Kernel").click()
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("// kept")
    page.get_by_text("the server does not answer").first.wait_for()
    with explorer(folder, port) as url:
        page.goto(url)
        page.reload()
        page.get_by_role("tab", name="Versions").click()
        page.get_by_role("button", name="Open 2").wait_for()
        assert "// kept" in page.locator(".cm-content").evaluate("(each) => each.textContent")


def test_what_is_typed_is_kept_before_anything_else_can_happen(page: Any, folder: Path) -> None:
    # microtasks alone lie between the key and the reading: no frame, no timer, and no event that could close the page
    typed_and_read = """async () => {
        document.execCommand("insertText", false, "// last");
        for (let turn = 0; turn < 20; turn++) await null;
        return JSON.parse(Object.values(localStorage)[0]).source;
    }"""
    with explorer(folder) as url:
        page.goto(url)
        page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
        page.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        assert page.evaluate(typed_and_read) == f"{SCALE}// last"


def test_field_that_an_error_is_about_is_marked_until_it_is_mended(page: Any, folder: Path, axe: str) -> None:
    with explorer(folder) as url:
        page.goto(url)
        page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
        fields = {name: page.get_by_role("textbox", name=name) for name in ("grid blocks", "block threads", "x float*", "n int")}
        for wrong, text in (("block threads", "2048"), ("x float*", "f33[256]:zeros")):
            before = fields[wrong].input_value()
            fields[wrong].fill(text)
            page.get_by_role("alert").wait_for()
            marked = [name for name, each in fields.items() if each.get_attribute("aria-invalid") == "true"]
            assert marked == [wrong] and serious(page, axe) == []
            fields[wrong].fill(before)
            page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
            assert fields[wrong].get_attribute("aria-invalid") == "false"
        # a key says what it is to those who point at nothing, too
        page.locator(".slider").filter(has_text="noc.bandwidth").get_by_text("between all SMs and the L2").wait_for()


def test_thumb_of_a_slider_goes_to_the_setting_next_to_a_typed_value(page: Any, folder: Path) -> None:
    with explorer(folder) as url:
        page.goto(url)
        page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
        page.get_by_label("noc.bandwidth, exact value").fill("1 GB/s")
        page.get_by_label("noc.bandwidth, exact value").press("Enter")
        page.get_by_text("noc.bandwidth=1 GB/s").first.wait_for()
        assert page.get_by_label("noc.bandwidth", exact=True).input_value() == "0", "below all settings"


def test_line_that_accesses_memory_shows_its_lanes_by_its_mark_and_by_the_cursor(page: Any, folder: Path, axe: str) -> None:
    with explorer(folder) as url:
        page.goto(url)
        page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
        assert "Speed of light: compute" in page.get_by_role("article").inner_text()
        page.locator(".accesses span").click()
        assert page.get_by_role("tab", name="Accesses").get_attribute("aria-selected") == "true"
        shown = page.get_by_role("group", name="Accesses of line 3")
        shown.locator("svg").first.wait_for()
        assert shown.locator("h4").first.inner_text().startswith("ld.global.f32 at kernel.cu:3")
        assert serious(page, axe) == []
        page.locator(".cm-content").click()
        page.keyboard.press("Control+Home")
        page.get_by_text("Put the cursor on a line that accesses memory (▸): 3.").wait_for()
        assert not shown.is_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        shown.locator("svg").first.wait_for()
        # another kernel is pasted: the launch of the one before, of which it has no parameter, is not asked of it
        page.keyboard.press("Control+a")
        page.keyboard.insert_text("__global__ void fill(int* out, int count) { if (threadIdx.x < count) out[threadIdx.x] = 1; }")
        page.get_by_role("article").get_by_text("fill on mdm-pascal").wait_for()
        fields = [page.get_by_role("textbox", name=name) for name in ("grid blocks", "block threads", "out int", "count int")]
        assert [each.input_value() for each in fields] == [""] * 4


def test_readers_open_versions_and_have_nothing_to_run(page: Any, folder: Path, axe: str) -> None:
    with explorer(folder, readers="readers") as url:
        page.goto(url)
        page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
        other = page.context.new_page()
        other.goto(url.partition("#")[0] + "#readers")
        other.get_by_role("button", name="Open 1").click()
        other.get_by_role("article").get_by_text("scale on mdm-pascal").wait_for()
        other.locator(".cm-content").click()
        other.keyboard.type("typed")
        assert "typed" not in other.locator(".cm-content").inner_text()
        other.locator(".accesses span").click()
        other.get_by_role("group", name="Accesses of line 3").locator("svg").first.wait_for()
        other.get_by_role("tab", name="Report").click()
        other.frame_locator("iframe").locator("#pane-source").wait_for()
        named = other.get_by_role("button").all_inner_texts()
        assert not [text for text in named if "Simulate" in text or "Predict" in text] and other.get_by_label("GPU").count() == 0
        assert serious(other, axe) == []
        # what the owner adds appears
        other.get_by_role("tab", name="Versions").click()
        page.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.type("// more")
        other.get_by_role("button", name="Open 2").wait_for()


def test_results_are_listed_shown_and_compared_without_a_mouse(page: Any, folder: Path, axe: str) -> None:
    for name, seconds in (("slow<10>", 2e-3), ("slow<9>", 9e-6)):
        stack = {"base": 1.0, "mem_data": 3.0}
        (folder / f"{name[5:-1]}.json").write_text(json.dumps({
            "kernel": name, "gpu": "a100", "model": "mdm", "cycles": seconds * 1e9, "seconds": seconds, "warp_instructions": 1000,
            "ipc_sm_warp": 0.25, "ipc_gpu_warp": 4.0, "ipc_gpu_thread": 128.0, "cpi": 4.0, "cpi_stack": stack, "bound_by": "DRAM",
            "dpki": 1.0, "class": "memory", "occupancy": 0.5, "occupancy_limiter": "blocks", "provenance": {},
        }))  # fmt: skip
    (folder / "other.json").write_text("{}")
    with explorer(folder) as url:
        page.goto(url)
        tab = page.get_by_role("tab", name="Results")
        tab.wait_for()
        assert tab.get_attribute("aria-selected") == "true" and not (folder / "versions").exists()
        assert "other.json: is not a prediction" in page.locator("main details").evaluate("(each) => each.textContent")
        page.get_by_role("button", name="Kernel").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        kernels = page.locator("tbody tr td:nth-child(2) button")
        assert kernels.all_inner_texts() == ["slow<10>", "slow<9>"]  # descending, and by number
        for name in ("9.json", "10.json"):
            page.get_by_label(f"Compare {name}").focus()
            page.keyboard.press("Space")
        page.get_by_role("button", name="Compare the two").focus()
        page.keyboard.press("Enter")
        page.frame_locator("iframe").locator("h1").wait_for()
        assert "slow<9>" in page.frame_locator("iframe").locator("h1").inner_text()
        assert serious(page, axe) == []
        tab.focus()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", name="Kernel").get_attribute("aria-selected") == "true"
        page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
        page.get_by_role("tab", name="GPUs").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.frame_locator("iframe[title='Report of version 1']").locator("#pane-source").wait_for()


def test_link_to_a_version_shows_it_and_a_reload_keeps_what_was_typed_after_it(page: Any, folder: Path) -> None:
    editor = page.locator(".cm-content")
    page.add_init_script("delete Crypto.prototype.randomUUID")  # as at an address of another machine without HTTPS
    with explorer(folder, readers="readers") as url:
        page.goto(url)
        page.wait_for_url("**&version=1")
        link = page.url
        editor.click()
        page.keyboard.press("Control+End")
        page.keyboard.type("// second")
        page.wait_for_url("**&version=2")
        page.keyboard.type("// third")
        assert "version=" not in page.url, "what is typed is of no version yet"
        page.reload()
        page.get_by_role("article").wait_for()
        assert "// second// third" in editor.inner_text()
        # the link in another tab, and one of a comparison at the address for readers
        page.goto("about:blank")
        page.goto(link)
        editor.filter(has_text="scale").filter(has_not_text="second").wait_for()
        editor.click()
        page.keyboard.press("Control+z")
        assert "// second// third" in editor.inner_text(), "undo brings the draft back"
        page.goto("about:blank")
        page.goto(url.partition("#")[0] + "#readers&page=Versions&compare=1,2")
        page.get_by_text("What changed in the text").wait_for()


def test_stopped_answer_is_asked_again_by_a_key_and_an_example_is_chosen_from_a_list(page: Any, folder: Path, axe: str) -> None:
    with explorer(folder) as url:
        page.goto(url)
        page.get_by_role("button", name="Simulate it cycle by cycle").wait_for()
        page.locator(".cm-content").click()
        with Here.turn:  # nothing is answered meanwhile
            page.keyboard.press("Control+End")
            page.keyboard.type("// slow")
            page.get_by_role("button", name="Stop").click()
            page.get_by_role("heading", name="Stopped").wait_for()
        page.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        page.wait_for_url("**&version=2")
        page.get_by_label("Example").focus()
        page.keyboard.press("ArrowDown")
        assert "// slow" in page.locator(".cm-content").inner_text(), "the first example is not taken at once"
        page.keyboard.press("Escape")
        page.get_by_text("Keys", exact=True).press("Enter")
        assert page.get_by_text("the next error").is_visible() and serious(page, axe) == []
        page.set_viewport_size({"width": 360, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
