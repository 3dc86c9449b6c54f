"""Writes the pictures of reports for the README, docs/images/report-*.png: a kernel of our suite, predicted and simulated, and the
code of another one that is executed as machine code.

Needs Playwright (the test extra) and chromium (tools/browser.sh).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warpsight.analysis.report_data.kernel import Parts, advised_report_data
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.formats import json_text
from warpsight.reports.html.page import page

ROOT = Path(__file__).resolve().parent.parent
KERNEL = "suites/warpsight/spmv_csr_vector/manifest.yaml"
NATIVE_KERNEL = "suites/warpsight/conv2d_shared/manifest.yaml"
FOLDER = ROOT / "docs" / "images"
WIDTH, SCALE = 1440, 1
# picture: the view, light or dark, and the height of the window; that of the code is of the report `native`
SHOTS = {
    "report-overview": ("overview", "light", 900),
    "report-code": ("code&line=src-0-19", "dark", 760),
    "report-what-if": ("what-if&noc.bandwidth=2.1%20TB/s&sm_count=56", "light", 720),
    "report-timeline": ("timeline&theme=dark", "dark", 620),
}


def report() -> str:
    """The page of `warpsight report KERNEL --model warpsight --simulator`, with file names relative to the repository."""
    request, gpu = KernelRequest(str(ROOT / KERNEL)), load_gpu("mdm-pascal")
    parts = Parts(simulator=True, command=("warpsight", "report", KERNEL, "--model", "warpsight", "--simulator"))
    document = advised_report_data(obtain_trace(request), gpu, "warpsight", parts=parts, request=request)
    return page(json.loads(json_text(document).replace(f"{ROOT}/", "")))


def native() -> str:
    """The page of `warpsight report NATIVE_KERNEL --gpu a100 --level sass`, with file names relative to the repository."""
    request, gpu = KernelRequest(str(ROOT / NATIVE_KERNEL), level="sass"), load_gpu("a100")
    document = advised_report_data(obtain_trace(request, gpu=gpu), gpu, "warpsight", parts=Parts(what_if="none"), request=request)
    return page(json.loads(json_text(document).replace(f"{ROOT}/", "")))


@contextmanager
def chromium() -> Iterator[Any]:
    """Playwright's browser, while it runs. Where there is no chromium the program ends with an error."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("WARPSIGHT_CHROMIUM") or shutil.which("chromium")
    if program is None:
        sys.exit("error: there is no chromium; tools/browser.sh installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def main() -> int:
    """Make the report, and a picture of each view."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        pages = {kind: Path(folder) / f"{kind}.html" for kind in ("report", "native")}
        pages["report"].write_text(report(), "utf-8")
        pages["native"].write_text(native(), "utf-8")
        for name, (view, theme, height) in SHOTS.items():
            viewport = {"width": WIDTH, "height": height}
            context = browser.new_context(viewport=viewport, device_scale_factor=SCALE, color_scheme=theme)
            shown = context.new_page()
            kind = "native" if name == "report-code" else "report"
            shown.goto(f"{pages[kind].as_uri()}#{view}")
            shown.locator("html[data-ready]").wait_for(state="attached")
            shown.screenshot(path=FOLDER / f"{name}.png")
            context.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
