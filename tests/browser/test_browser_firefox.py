"""The explorer in Firefox, driven by WebDriver BiDi: does the loop from an error to two versions compared work?

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_browser_explorer import explorer, folder  # noqa: F401  the folder with one example
from tornado.websocket import WebSocketClientConnection, websocket_connect

pytestmark = pytest.mark.browser

_LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
_WAIT_S = 60.0  # the simulators may have to be compiled
CONTROL, END, BACKSPACE, LEFT = "\ue009", "\ue010", "\ue003", "\ue012"


@contextmanager
def firefox(profile: Path) -> Iterator[str]:
    """The address of the BiDi server of a Firefox without a window."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if not program:
        pytest.skip("there is no firefox: apt-get install firefox-esr")
    command = [program, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    environment = {**os.environ, "HOME": str(profile), "MOZ_HEADLESS": "1"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        found = next((match for line in process.stderr if (match := _LISTENING.search(line))), None)
        assert found is not None, "it ended before it listened"
        try:
            yield found[1]
        finally:
            process.kill()


class Tab:
    """A tab that runs scripts and gets keys."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection, self._numbers, self._context = connection, itertools.count(1), ""

    async def _ask(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        await self._connection.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            reply = json.loads(await self._connection.read_message() or "{}")
            if reply.get("id") == number:
                assert reply["type"] == "success", reply
                return reply["result"]

    async def open(self, url: str) -> None:
        await self._ask("session.new", capabilities={})
        self._context = (await self._ask("browsingContext.getTree"))["contexts"][0]["context"]
        await self._ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    async def run(self, script: str) -> Any:
        found = await self._ask("script.evaluate", expression=script, target={"context": self._context}, awaitPromise=False)
        assert found["type"] == "success", found
        return found["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until a script is true."""
        async with asyncio.timeout(_WAIT_S):
            while not await self.run(script):
                await asyncio.sleep(0.05)

    async def press(self, *keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        if keys[0] == CONTROL:  # held while the others are pressed
            actions = [actions[0], *actions[2:], actions[1]]
        await self._ask("input.performActions", context=self._context, actions=[{"type": "key", "id": "keys", "actions": actions}])


def _says(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


async def _loop(address: str, url: str) -> None:
    tab = Tab(await websocket_connect(f"{address}/session"))
    await tab.open(url)
    await tab.until(_says("scale on mdm-pascal"))
    await tab.until("document.querySelector('.heat span') !== null")
    await tab.until("document.getElementById('what-if-sm_count') !== null")
    await tab.run("document.getElementById('what-if-sm_count').focus()")
    await tab.press(LEFT)
    await tab.until("document.querySelectorAll('.stacks .lying-bar').length === 2")
    assert "changed" in await tab.run("document.querySelector('.stacks').tBodies[1].innerText")
    await tab.run("document.querySelector('.cm-content').focus()")
    await tab.press(CONTROL, END)
    await tab.press(*"wrong")
    await tab.until("document.querySelector('[role=alert]') !== null")
    assert "kernel.cu" in await tab.run("document.querySelector('[role=alert]').innerText")
    await tab.press(*[BACKSPACE] * 5)
    await tab.until("document.querySelector('[role=alert]') === null")
    await tab.press(*"// mended")
    await tab.run("[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === 'Versions').click()")
    await tab.until("[...document.querySelectorAll('button')].some((each) => each.innerText.trim() === 'Open 2')")
    for number in (1, 2):
        await tab.run(f"document.querySelector('[aria-label=\"Compare version {number}\"]').click()")
        await tab.until(f"document.querySelectorAll('input:checked').length === {number}")
    await tab.until(_says("What changed in the text"))
    changed = "[...document.querySelectorAll('.insert .after code, .replace .after code')].map((each) => each.innerText).join()"
    assert "// mended" in await tab.run(changed)


def test_kernel_is_predicted_its_error_shown_and_its_correction_kept_as_a_version(tmp_path: Path, folder: Path) -> None:  # noqa: F811
    profile = tmp_path / "firefox"
    profile.mkdir()
    with firefox(profile) as address, explorer(folder) as url:
        asyncio.run(_loop(address, url))
    assert "// mended" in (folder / "versions" / "0002" / "kernel.cu").read_text()
