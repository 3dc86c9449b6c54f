"""Writes the recording of the explorer for the README, docs/images/explorer.svg: a transpose is made faster, step by step.

Drives `warpsight serve` in chromium (tools/browser.sh) with Playwright (the test extra). The frames are pictures within one SVG
that its own style sheet shows one after another, so that it moves wherever a picture is shown.
"""

from __future__ import annotations

import argparse
import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from screenshots import chromium

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "explorer.svg"
WIDTH, HEIGHT, QUALITY, SECONDS = 1200, 860, 60, 3.2
TILED = """\
__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int r = 0; r < 32; r += 8) tile[threadIdx.y + r][threadIdx.x] = in[(y + r) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int r = 0; r < 32; r += 8) out[(y + r) * n + x] = tile[threadIdx.x][threadIdx.y + r];
}
"""


@contextmanager
def served(folder: str) -> Iterator[str]:
    """The URL of the explorer of `folder` while it runs."""
    command = [sys.executable, "-u", "-m", "warpsight", "serve", folder, "--port", "0", "--seconds", "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        found = next(match for line in server.stdout if (match := re.search(r"http://\S+", line)))
        try:
            yield found[0]
        finally:
            server.terminate()


def scenes(page: Any) -> Iterator[None]:
    """Work in the explorer; each `yield` is a frame."""
    page.set_default_timeout(60_000)
    done = page.get_by_role("button", name="Simulate it cycle by cycle")
    page.get_by_label("Example").select_option("transpose")
    done.wait_for()
    first = re.findall(r"[\d,]+ cycles", page.get_by_label("Answer", exact=True).inner_text())[0]
    yield
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(TILED.replace("__syncthreads();", "__syncthreads()"))
    page.get_by_role("alert").wait_for()
    yield
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(TILED)
    page.get_by_role("textbox", name="grid blocks").fill("n / 32, n / 32")
    # Playwright's own wait evaluates within the page, which the page's policy forbids
    while "cycles" not in (text := page.get_by_label("Answer", exact=True).inner_text()) or first in text:
        page.wait_for_timeout(100)
    done.wait_for()
    page.evaluate("scrollTo(0, 0)")
    yield
    page.get_by_label("noc.bandwidth, exact value").fill("14 TB/s")
    page.get_by_label("noc.bandwidth, exact value").press("Enter")
    page.get_by_label("Add a GPU").select_option("h100-sxm")
    page.locator(".stacks tbody").nth(2).locator(".lying-bar").wait_for()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    yield
    page.get_by_role("tab", name="Versions").click()
    numbers = page.locator("input[aria-label^='Compare version']")
    numbers.first.check()
    numbers.last.check()
    page.get_by_label("Comparison").scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    yield


def moving(frames: list[bytes]) -> str:
    """An SVG that shows the pictures (JPEG) one after another, for ever."""
    share, whole = 100 / len(frames), SECONDS * len(frames)
    shown = [
        f'<image width="{WIDTH}" height="{HEIGHT}" style="animation-delay:{SECONDS * k:.1f}s" '
        f'href="data:image/jpeg;base64,{base64.b64encode(frame).decode()}"/>'
        for k, frame in enumerate(frames)
    ]
    style = (
        f"image{{opacity:0;animation:show {whole:.1f}s step-end infinite}}"
        f"image:first-of-type{{opacity:1}}@keyframes show{{0%{{opacity:1}}{share:.3f}%{{opacity:0}}}}"
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"><style>{style}</style>{"".join(shown)}</svg>\n'


def main() -> int:
    """Record."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with chromium() as browser, tempfile.TemporaryDirectory() as folder, served(folder) as url:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(url)
        frames = [page.screenshot(type="jpeg", quality=QUALITY) for _ in scenes(page)]
    TARGET.write_text(moving(frames), "utf-8")
    print(f"{TARGET.name}: {len(frames)} frames, {TARGET.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
