"""A report opened in the browser, with everything recorded that must not happen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from warpsight.reports.html.page import SECTIONS

READY = "document.documentElement.dataset.ready === 'yes'"
PATIENCE_S = 180.0
"""How long a browser may take for anything: others use the machine, too, and no test measures time with it."""
DATA = re.compile(r'<script type="application/json" id="document">(.*?)</script>', re.S)


def data_of(path: Path) -> dict[str, Any]:
    """The document in a report, read from the file as another tool would."""
    found = DATA.search(path.read_text("utf-8"))
    assert found, f"{path} has no data"
    return json.loads(found[1])  # type: ignore[no-any-return]


class Visit:
    """A page of the browser that shows the report `path`. `wrong` collects console messages, errors, requests and dialogs."""

    def __init__(self, context: Any, path: Path, place: str = "", *, scripts: bool = True) -> None:
        self.path, self.address, self.wrong = path, path.as_uri(), []
        self.page = context.new_page()
        self.page.on("console", lambda message: self.wrong.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._request)
        self.page.on("dialog", self._dialog)
        self._protocol = context.new_cdp_session(self.page)
        self._protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(self.address + place)
        if scripts:
            self.until(READY)

    wrong: list[str]

    def _request(self, request: Any) -> None:
        if request.url.partition("#")[0] != self.address and not request.url.startswith("data:"):
            self.wrong.append(f"request: {request.url}")

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    @property
    def hash(self) -> str:
        """What is behind # in the address."""
        return str(self.page.evaluate("location.hash"))

    @property
    def sections(self) -> list[str]:
        """The names of the report's sections, in order."""
        return self.ask("Array.from(document.querySelectorAll('main > section'), (each) => each.id)")  # type: ignore[no-any-return]

    @property
    def shown(self) -> list[str]:
        """The names of the sections that can be seen."""
        script = "Array.from(document.querySelectorAll('main > section')).filter((each) => each.checkVisibility()).map((e) => e.id)"
        return self.ask(script)  # type: ignore[no-any-return]

    def ask(self, script: str) -> Any:
        """What a script of the test finds."""
        return self.page.evaluate(script)

    def used_s(self) -> float:
        """The processor time in seconds of the thread that has read and laid out the page, and run its scripts."""
        metrics = self._protocol.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")

    def until(self, script: str) -> None:
        """Wait until `script` is true. Playwright's own wait evaluates within the page, which the page's policy forbids."""
        end = monotonic() + PATIENCE_S
        while not self.ask(script):
            assert monotonic() < end, f"never true: {script}"
            self.page.wait_for_timeout(20)

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        return int(self.ask("document.documentElement.scrollWidth - innerWidth"))


def needs_section(name: str) -> pytest.MarkDecorator:
    """Skip while reports of kernels have no such section."""
    there = any(section.name == name for section in SECTIONS["kernel"])
    return pytest.mark.skipif(not there, reason=f"reports have no section {name}")
