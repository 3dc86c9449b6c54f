"""Can one sort the list of results that `warpsight serve` shows, and compare two of them?"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsight.analysis.report_data.files import ResultFolder
from warpsight.reports.html.serving import Server

pytestmark = pytest.mark.browser


def prediction(kernel: str, gpu: str, seconds: float) -> dict[str, Any]:
    stack = {"base": 1.0, "mem_data": 3.0}
    return {"kernel": kernel, "gpu": gpu, "model": "mdm", "cycles": seconds * 1e9, "seconds": seconds, "warp_instructions": 1000,
            "ipc_sm_warp": 0.25, "ipc_gpu_warp": 4.0, "ipc_gpu_thread": 128.0, "cpi": 4.0, "cpi_stack": stack, "bound_by": "DRAM",
            "dpki": 1.0, "class": "memory", "occupancy": 0.5, "occupancy_limiter": "blocks", "provenance": {}}  # fmt: skip


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server with three results, and a file that is none."""
    for age, (kernel, gpu, seconds) in enumerate((("spmv", "v100", 2e-3), ("gemm<10>", "a100", 9e-6), ("gemm<9>", "v100", 1.0))):
        file = tmp_path / f"{age}.json"
        file.write_text(json.dumps(prediction(kernel, gpu, seconds)))
        os.utime(file, (1e9 - 1e6 * age,) * 2)
    (tmp_path / "other.json").write_text("{}")
    with Server(ResultFolder(tmp_path), 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    context.close()
    assert wrong == []


def kernels(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#results tbody th a").all_inner_texts()]


def test_list_is_sorted_by_the_heading_that_is_pressed_and_stays_so(page: Any, address: str) -> None:
    page.goto(address)
    assert kernels(page) == ["spmv", "gemm<10>", "gemm<9>"]  # the newest first
    page.click("th[data-key=time] button")
    assert kernels(page) == ["gemm<10>", "spmv", "gemm<9>"]
    page.click("th[data-key=time] button")
    assert kernels(page) == ["gemm<9>", "spmv", "gemm<10>"]
    assert page.get_attribute("th[data-key=time]", "aria-sort") == "descending"
    page.reload()
    assert kernels(page) == ["gemm<9>", "spmv", "gemm<10>"]
    page.click("th[data-key=kernel] button")
    assert kernels(page) == ["gemm<9>", "gemm<10>", "spmv"]
    assert "other.json" not in page.inner_text("#results")


def test_two_ticked_results_open_their_comparison_and_no_third_can_be_ticked(page: Any, address: str) -> None:
    page.goto(address)
    boxes = page.locator("#results input")
    assert page.is_disabled("#compare")
    boxes.nth(0).check()
    assert page.is_disabled("#compare")
    boxes.nth(1).check()
    assert boxes.nth(2).is_disabled()
    page.click("#compare")
    page.wait_for_url("**/show/*")
    assert page.inner_text("h1") == "gemm<10> and spmv"  # the older one first
    page.go_back()
    assert page.locator("#results").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_list_fits_every_window_and_axe_finds_nothing_serious(browser: Any, address: str, axe: str, theme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.evaluate(axe)
    found = page.evaluate("axe.run(document).then((all) => all.violations)")
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    context.close()
