"""The explorer in Firefox, driven by WebDriver BiDi: do keys reach all of the loop from an error to two versions compared, and to a
shared report that needs no server?

Playwright drives only a Firefox of its own build; BiDi is W3C's protocol, which Firefox speaks by itself. Skipped without one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_browser_explorer import explorer, folder  # noqa: F401  the folder with one example
from tornado.websocket import WebSocketClientConnection, WebSocketError, websocket_connect
from visits import PATIENCE_S

pytestmark = pytest.mark.browser

_LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
CONTROL, SHIFT, TAB, BACKSPACE, ENTER, SPACE = "\ue009", "\ue008", "\ue004", "\ue003", "\ue006", " "
END, HOME, LEFT, RIGHT = "\ue010", "\ue011", "\ue012", "\ue014"
_FOCUS = "document.activeElement.matches({})"
_MOST_TABS = 150  # to an element, which is further than any that is worth a way by keys


class Gone(Exception):
    """Firefox has ended, or does not answer."""


@contextmanager
def firefox(profile: Path) -> Iterator[str]:
    """The address of the BiDi server of a Firefox without a window."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if not program:
        pytest.skip("there is no firefox: apt-get install firefox-esr")
    command = [program, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    environment = {**os.environ, "HOME": str(profile), "MOZ_HEADLESS": "1"}
    said = profile / "stderr.txt"  # not a pipe, which would fill up
    with said.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env=environment) as process:
        try:
            end = time.monotonic() + PATIENCE_S
            while not (found := _LISTENING.search(said.read_text("utf-8", "replace"))):
                if process.poll() is not None or time.monotonic() > end:
                    raise Gone(f"it does not listen: {said.read_text('utf-8', 'replace')[-2000:]}")
                time.sleep(0.05)
            yield found[1]
        finally:
            process.kill()


class Tab:
    """A tab that runs scripts and gets keys."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection, self._numbers, self._context = connection, itertools.count(1), ""

    async def _ask(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._connection.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
                while message := await self._connection.read_message():
                    reply = json.loads(message)
                    if reply.get("id") == number:
                        assert reply["type"] == "success", reply
                        return reply["result"]
        except (TimeoutError, WebSocketError) as error:
            raise Gone(f"no answer to {method}") from error
        raise Gone(f"the connection was closed before the answer to {method}")

    async def open(self, url: str) -> None:
        """Begin a session, in a tab of its own: in the first one the address bar keeps the focus, and Enter presses no button."""
        await self._ask("session.new", capabilities={})
        self._context = (await self._ask("browsingContext.create", type="tab"))["context"]
        await self.go(url)

    async def go(self, url: str) -> None:
        await self._ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    async def resize(self, width: int) -> None:
        await self._ask("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": 900})

    async def run(self, script: str) -> Any:
        found = await self._ask("script.evaluate", expression=script, target={"context": self._context}, awaitPromise=False)
        assert found["type"] == "success", found
        return found["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until a script is true."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self.run(script):
                await asyncio.sleep(0.05)

    async def press(self, *keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        if keys[0] in (CONTROL, SHIFT):  # held while the others are pressed
            actions = [actions[0], *actions[2:], actions[1]]
        await self._ask("input.performActions", context=self._context, actions=[{"type": "key", "id": "keys", "actions": actions}])

    async def reach(self, selector: str, *, back: bool = False) -> None:
        """Press Tab until the element has the focus."""
        for _ in range(_MOST_TABS):
            if await self.run(_FOCUS.format(json.dumps(selector))):
                return
            await self.press(*((SHIFT, TAB) if back else (TAB,)))
        raise AssertionError(f"{selector} is not reached by Tab")


def _says(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


async def _loop(tab: Tab, url: str, downloads: Path) -> Path:
    """From an error to a shared report; the report's file."""
    await tab.open(url)
    await tab.until(_says("scale on mdm-pascal"))
    await tab.until("document.querySelector('.heat span') !== null")
    await tab.until("document.getElementById('what-if-sm_count') !== null")
    assert await tab.run("matchMedia('(prefers-reduced-motion: reduce)').matches")
    await tab.reach("#what-if-sm_count")
    await tab.press(LEFT)
    await tab.until("document.querySelectorAll('.stacks .lying-bar').length === 2")
    assert "changed" in await tab.run("document.querySelector('.stacks').tBodies[1].innerText")
    await tab.reach(".cm-content", back=True)
    await tab.press(CONTROL, END)
    await tab.press(*"wrong")
    await tab.until("document.querySelector('.busy') !== null")
    assert await tab.run("document.getAnimations().length") == 0
    await tab.until("document.querySelector('[role=alert]') !== null")
    assert "kernel.cu" in await tab.run("document.querySelector('[role=alert]').innerText")
    await tab.press(CONTROL, HOME)
    await tab.reach("[role=alert] button")
    await tab.press(ENTER)
    await tab.until(_FOCUS.format('".cm-content"'))
    await tab.press(END, *[BACKSPACE] * 5)  # in the line of the error
    await tab.until("document.querySelector('[role=alert]') === null")
    await tab.press(*"// mended")
    await tab.until("location.hash.endsWith('&version=2')")
    await tab.reach("#tab-Kernel", back=True)
    await tab.press(RIGHT)
    await tab.until("[...document.querySelectorAll('button')].some((each) => each.innerText.trim() === 'Open 2')")
    for number in (2, 1):
        await tab.reach(f'[aria-label="Compare version {number}"]')
        await tab.press(SPACE)
    await tab.until(_says("What changed in the text"))
    assert await tab.run("location.hash.endsWith('&page=Versions&compare=2%2C1')")
    changed = "[...document.querySelectorAll('.insert .after code, .replace .after code')].map((each) => each.innerText).join()"
    assert "// mended" in await tab.run(changed)
    for width in (360, 1280):
        await tab.resize(width)
        assert await tab.run("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    await tab.reach("tr:first-child td:last-child button", back=True)
    await tab.press(ENTER)
    saved = downloads / "version-2.html"
    async with asyncio.timeout(PATIENCE_S):
        while not (saved.exists() and "</html>" in saved.read_text()):
            await asyncio.sleep(0.05)
    return saved


async def _both(address: str, project: Path, downloads: Path) -> None:
    tab = Tab(await websocket_connect(f"{address}/session"))
    with explorer(project) as url:
        saved = await _loop(tab, url, downloads)
    await tab.go(saved.as_uri())  # the server has ended
    assert await tab.run("document.querySelector('h1').innerText") == "scale on mdm-pascal"


def _try(place: Path) -> None:
    profile, project, downloads = (place / name for name in ("firefox", "project", "downloads"))
    for each in (profile, project, downloads):
        each.mkdir(parents=True)
    settings = {"browser.download.folderList": 2, "browser.download.dir": str(downloads), "ui.prefersReducedMotion": 1}
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in settings.items()]
    (profile / "user.js").write_text("".join(lines))
    with firefox(profile) as address:
        asyncio.run(_both(address, project, downloads))
    assert "// mended" in (project / "versions" / "0002" / "kernel.cu").read_text()


def test_keys_reach_the_loop_from_an_error_to_a_shared_report(chromium: Any, tmp_path: Path, folder: Path) -> None:  # noqa: F811
    chromium.end()  # and its event loop: there can be but one
    try:
        _try(tmp_path / "first")
    except Gone:  # a browser that crashes, or that a loaded machine ends, says nothing of the explorer; twice it would
        _try(tmp_path / "second")
