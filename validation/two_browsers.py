"""Chromium and Firefox with the same calls, for what works with a page in both."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright
from test_browser_firefox import BACKSPACE, CONTROL, END, ENTER, LEFT, RIGHT, SHIFT, TAB, Tab, firefox
from tornado.websocket import websocket_connect

KEYS = {
    CONTROL: "Control", END: "End", BACKSPACE: "Backspace", LEFT: "ArrowLeft", SHIFT: "Shift", TAB: "Tab", ENTER: "Enter",
    RIGHT: "ArrowRight",
}  # fmt: skip
PREFERENCES = {
    "browser.download.folderList": 2,
    "browser.download.useDownloadDir": True,
    "browser.download.always_ask_before_handling_new_types": False,
    "layout.css.prefers-color-scheme.content-override": 0,  # dark
}


class Chromium:
    """Chromium with the calls that `Tab` has for Firefox. Downloads go to `folder`."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.folder, self._saving = page, folder, set[asyncio.Task[None]]()
        page.on("download", lambda each: self._saving.add(asyncio.ensure_future(each.save_as(folder / each.suggested_filename))))

    async def goto(self, url: str) -> None:
        """Open the page anew; another token behind # alone would not."""
        await self.page.goto("about:blank")
        await self.page.goto(url)

    async def run(self, script: str) -> Any:
        """What the script returns."""
        return await self.page.evaluate(script)

    async def press(self, *keys: str) -> None:
        """Type keys; those after CONTROL while it is held."""
        if keys[0] in (CONTROL, SHIFT):
            await self.page.keyboard.press("+".join(KEYS.get(each, each) for each in keys))
            return
        for each in keys:
            await self.page.keyboard.press(KEYS.get(each, each))

    async def resize(self, width: int) -> None:
        """Make the window so wide."""
        await self.page.set_viewport_size({"width": width, "height": 900})


class Firefox(Tab):
    """Firefox. Downloads go to `folder`."""

    folder: Path

    async def goto(self, url: str) -> None:
        """Open the page anew."""
        for each in ("about:blank", url):
            await self._ask("browsingContext.navigate", context=self._context, url=each, wait="complete")

    async def press(self, *keys: str) -> None:
        """Type keys; the second while SHIFT is held."""
        if keys[0] != SHIFT:
            await super().press(*keys)
            return
        pressed = [("keyDown", SHIFT), ("keyDown", keys[1]), ("keyUp", keys[1]), ("keyUp", SHIFT)]
        actions = [{"type": kind, "value": key} for kind, key in pressed]
        await self._ask("input.performActions", context=self._context, actions=[{"type": "key", "id": "keys", "actions": actions}])

    async def resize(self, width: int) -> None:
        """Make the window so wide."""
        await self._ask("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": 900})


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Chromium]:
    """A page of Chromium."""
    program = os.environ.get("WARPSIGHT_CHROMIUM") or shutil.which("chromium")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield Chromium(await browser.new_page(accept_downloads=True), folder)
        await browser.close()


@asynccontextmanager
async def fox(folder: Path) -> AsyncIterator[Firefox]:
    """A page of Firefox, with a new profile."""
    profile = folder / "profile"
    profile.mkdir()
    preferences = PREFERENCES | {"browser.download.dir": str(folder)}
    (profile / "user.js").write_text("".join(f'user_pref("{name}", {json.dumps(value)});\n' for name, value in preferences.items()))
    with firefox(profile) as address:
        tab = Firefox(await websocket_connect(f"{address}/session", max_message_size=1 << 26))
        tab.folder = folder
        await tab.open("about:blank")
        yield tab


BROWSERS: dict[str, Callable[[Path], Any]] = {"Chromium": chromium, "Firefox": fox}
