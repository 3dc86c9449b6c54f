"""Works with `warpsight serve` in Chromium and Firefox, and writes what happened to validation/explorer.md.

The same steps for a kernel in CUDA C++, one in PTX and one in Triton: predict it, type an error, mend it, move a slider, compare
two versions, save a report, and open the file after the server has ended. Then: axe-core, the page's width, SIGKILL, the same by
keyboard alone, and both browsers at one server. A step that fails is a row of the table, and ends its loop. `--only` with `--write`
replaces the rows of what it runs. `--wait` is the limit of a step.
Needs tools/browser.sh, the test extra, and the drivers of the browser tests:

    PYTHONPATH=tests/browser python validation/explorer_loops.py --write
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from test_browser_firefox import BACKSPACE, CONTROL, END, ENTER, LEFT, RIGHT, SHIFT, SPACE, TAB

from marked_page import get, put
from two_browsers import BROWSERS, Chromium, chromium, fox

PAGE, COMMAND = Path(__file__).with_name("explorer.md"), "python validation/explorer_loops.py --write"
HEAD = "| browser | example | check | outcome | seconds |\n|---|---|---|---|---:|"
WAIT_S = 60.0
TOGETHER, KEYBOARD = "both", "keyboard alone"
PTX = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.s32 %rd2, %r4, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd3], %f2;
  ret;
}
"""
DRAFTS: dict[str, dict[str, Any]] = {
    "CUDA C++": {},  # the first example of the explorer
    "PTX": {"source": PTX, "language": "ptx", "grid": "256", "block": "256", "args": {"x": "f32[65536]:uniform"}},
    "Triton": {"source": "", "language": "python", "grid": "", "block": "", "args": {}},  # its example
}


def keep(rows: list[str]) -> None:
    """Put rows into the page. Those of the same browser and example go; the others stay."""
    new = {_of(row) for row in rows}
    old = [row for row in get(PAGE, COMMAND, "table").splitlines()[2:] if _of(row) not in new]
    order = [(browser, example) for browser in (*BROWSERS, TOGETHER) for example in (*DRAFTS, KEYBOARD, "one server")]
    put(PAGE, COMMAND, {"table": "\n".join([HEAD, *sorted([*old, *rows], key=lambda row: order.index(_of(row)))])})


def _of(row: str) -> tuple[str, str]:
    """The browser and the example of a row."""
    browser, example = (cell.strip() for cell in row.split("|")[1:3])
    return browser, example


@contextmanager
def served(folder: Path, port: int, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL of a server of its own process, and the process, which ends at the end if it has not before. With `more` options
    that give readers a URL, both URLs with a space between.
    """
    command = [sys.executable, "-u", "-m", "warpsight", "serve", str(folder), "--port", str(port), "--python", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        found = (match[0] for line in server.stdout if (match := re.search(r"http://\S+", line)))
        urls = [next(found) for _ in range(2 if more else 1)]
        try:
            yield " ".join(urls), server
        finally:
            server.terminate()


@dataclass
class Table:
    """Rows, and the step that writes one."""

    wait_s: float = WAIT_S
    rows: list[str] = field(default_factory=list)
    browser: str = ""
    example: str = ""

    async def step(self, check: str, doing: Callable[[], Awaitable[Any]]) -> bool:
        """Do it, and write its outcome: what it returns, `yes` for None, or why it failed."""
        begin, done = time.monotonic(), False
        try:
            async with asyncio.timeout(self.wait_s):
                outcome = await doing()
            outcome, done = "yes" if outcome is None else str(outcome), True
        except Exception as error:
            outcome = f"no: {type(error).__name__} {str(error).splitlines()[0] if str(error) else ''}".replace("|", "/")[:160]
        self.rows.append(f"| {self.browser} | {self.example} | {check} | {outcome} | {time.monotonic() - begin:.1f} |")
        print(self.rows[-1], flush=True)
        return done


class Loop:
    """The steps in a `tab` that shows the project in `folder`."""

    def __init__(self, tab: Any, folder: Path, draft: dict[str, Any]) -> None:
        self.tab, self.folder, self.draft = tab, folder, draft

    async def until(self, script: str) -> None:
        """Wait until it is true; `Table.step` has the limit."""
        while not await self.tab.run(script):
            await asyncio.sleep(0.05)

    async def button(self, text: str) -> None:
        """Press a button once it is there."""
        find = f"[...document.querySelectorAll('button')].find((each) => each.innerText.trim() === {json.dumps(text)})"
        await self.until(f"{find} !== undefined")
        await self.tab.run(f"{find}.click()")

    async def answered(self) -> None:
        """The whole answer is there, and no error."""
        await self.until("!!document.querySelector('article[aria-busy=false]') && !document.querySelector('[role=alert]')"
                         " && document.querySelector('output').innerText === ''")  # fmt: skip

    async def predict(self, url: str) -> None:
        """Open the explorer; the kernel of `draft` is chosen, or brought into the editor."""
        await self.tab.goto(url)
        await self.until("!!document.querySelector('.cm-content')")
        if self.draft.get("language") == "python":
            await self.tab.run("{ const each = document.querySelector('header select'); each.value = 'triton';"
                               " each.dispatchEvent(new Event('change', { bubbles: true })) }")  # fmt: skip
            await self.until("document.querySelector('.cm-content').innerText.includes('triton')")
        elif self.draft:
            await self.answered()  # the page knows its project
            await self.tab.run(f"localStorage.setItem(Object.keys(localStorage)[0], {json.dumps(json.dumps(self.draft))})")
            await self.tab.goto(url)
            await self.until("document.querySelector('.cm-content')?.innerText.includes('.visible')")
        await self.answered()
        await self.until("!!document.querySelector('article h2')")

    async def err(self) -> str:
        """Type an error; it stands under its line."""
        await self.tab.run("document.querySelector('.cm-content').focus()")
        await self.tab.press(CONTROL, END)
        await self.tab.press(*"oops")
        await self.until("!!document.querySelector('[role=alert]') && !!document.querySelector('.cm-lint-marker-error')")
        return "yes: " + str(await self.tab.run("document.querySelector('[role=alert]').innerText.split('\\n')[0].slice(0, 80)"))

    async def mend(self) -> None:
        """Take it away; there is an answer again."""
        await self.tab.press(*[BACKSPACE] * 4)
        await self.answered()

    async def slide(self) -> None:
        """A slider by its key; its GPU is predicted beside the own one, and then as a version."""
        await self.until("!!document.getElementById('what-if-sm_count')")
        await self.tab.run("document.getElementById('what-if-sm_count').focus()")
        await self.tab.press(LEFT)
        await self.until("document.querySelectorAll('.stacks .lying-bar').length >= 2")
        await self.button("Predict this GPU as a version")
        await self.until("document.body.innerText.includes('GPU changed: ')")
        await self.answered()

    async def compare(self) -> None:
        """Tick the two newest versions."""
        await self.button("Versions")
        await self.until("document.querySelectorAll('[aria-label^=\"Compare version\"]').length >= 2")
        for at in (0, 1):
            await self.tab.run(f"document.querySelectorAll('[aria-label^=\"Compare version\"]')[{at}].click()")
            await self.until(f"document.querySelectorAll('input:checked').length === {at + 1}")
        await self.until("document.body.innerText.includes('What changed in the launch and the GPU')")

    async def share(self) -> str:
        """Save the report of the first version."""
        await self.button("Save the report of 1")
        while not (found := list(self.tab.folder.glob("version-1*.html"))) or not found[0].stat().st_size:
            await asyncio.sleep(0.05)
        return f"yes: {found[0].stat().st_size / 1e6:.2f} MB"

    async def offline(self) -> str:
        """Open the shared file. It is ready, and has asked for nothing."""
        await self.tab.goto((self.tab.folder / "version-1.html").as_uri())
        await self.until("document.documentElement.dataset.ready === 'yes'")
        asked = await self.tab.run(
            "performance.getEntriesByType('resource').filter((each) => !each.name.startsWith('data:')).length"
        )
        if asked:
            raise ValueError(f"it asked for {asked} resources")
        return "yes: " + str(await self.tab.run("document.querySelector('h1').innerText"))


async def widths(loop: Loop) -> str:
    """How much wider than its window the page is, in each tab, from 360 to 2,560 pixels."""
    wide = []
    for width in (360, 768, 1280, 2560):
        await loop.tab.resize(width)
        for name in ("Versions", "Results", "Kernel"):
            await loop.button(name)
            wide.append(await loop.tab.run("document.documentElement.scrollWidth - innerWidth"))
    if max(wide) > 0:
        raise ValueError(f"wider than the window by {wide} px")
    return "no tab wider than 360, 768, 1,280 and 2,560 px"


async def accessible(loop: Loop, axe: str) -> str:
    """What axe-core calls serious or critical, in each tab in both themes; Firefox has the dark one, which no script can change."""
    found = []
    await loop.tab.run(axe)
    themes = ("light", "dark") if isinstance(loop.tab, Chromium) else ("dark",)
    for theme in themes:
        if isinstance(loop.tab, Chromium):
            await loop.tab.page.emulate_media(color_scheme=theme)
        for name in ("Kernel", "Versions", "Results"):
            await loop.button(name)
            await loop.tab.run("document.axeFound = ''; axe.run(document, { iframes: false })"
                               ".then((all) => { document.axeFound = JSON.stringify(all.violations) }); 0")  # fmt: skip
            await loop.until("document.axeFound !== ''")
            violations = json.loads(await loop.tab.run("document.axeFound"))
            found += [f"{theme}, {name}: {each['id']}" for each in violations if each["impact"] in ("serious", "critical")]
    if found:
        raise ValueError("; ".join(found))
    return f"no violation in 3 tabs, {' and '.join(themes)}"


async def by_keyboard(loop: Loop, url: str) -> str:
    """From the page to the shared file with keys alone: an error, mended, a slider, a version of its GPU, two compared, saved."""
    pressed = 0

    async def reach(what: str, *, back: bool = False) -> None:
        """Tab, or Shift-Tab, until the element that has the focus is `what`."""
        nonlocal pressed
        for _ in range(200):
            if await loop.tab.run(f"((each) => {what})(document.activeElement)"):
                return
            await loop.tab.press(*((SHIFT, TAB) if back else (TAB,)))
            pressed += 1
        raise ValueError(f"no such element in the order of Tab: {what}")

    await loop.tab.goto(url)
    await loop.answered()
    await loop.until("!!document.querySelector('article h2')")
    await reach("each.classList.contains('cm-content')")
    await loop.tab.press(CONTROL, END)
    await loop.tab.press(*"oops")
    await loop.until("!!document.querySelector('[role=alert]')")
    await loop.mend()
    await reach("each.id === 'what-if-sm_count'")
    await loop.tab.press(LEFT)
    await loop.until("document.querySelectorAll('.stacks .lying-bar').length >= 2")
    await reach("each.innerText?.trim() === 'Predict this GPU as a version'")
    await loop.tab.press(ENTER)
    await loop.until("document.body.innerText.includes('GPU changed: ')")
    await loop.answered()
    await reach("each.id === 'tab-Kernel'", back=True)
    await loop.tab.press(RIGHT)
    await loop.until("!!document.querySelector('[aria-label=\"Compare version 2\"]')")
    for number in (2, 1):
        await reach(f"each.getAttribute('aria-label') === 'Compare version {number}'")
        await loop.tab.press(SPACE)
    await loop.until("document.body.innerText.includes('What changed in the launch and the GPU')")
    await reach("each.innerText?.trim() === 'Save the report of 1'")
    await loop.tab.press(ENTER)
    while not (found := list(loop.tab.folder.glob("version-1*.html"))) or not found[0].stat().st_size:
        await asyncio.sleep(0.05)
    return f"yes: saved after {pressed} presses of Tab"


COUNT = "document.querySelectorAll('[aria-label^=\"Compare version\"]').length"


async def together(table: Table) -> None:
    """Both browsers at one server, each an owner with a text of its own; then one of them as a reader."""
    with TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as free:
        folder, port = Path(name), free.getsockname()[1]
        free.close()
        (folder / "project").mkdir()
        (folder / "fox").mkdir()
        with served(folder / "project", port, "--host", "127.0.0.2") as (urls, _):
            owner, reader = urls.split()
            async with chromium(folder) as one_tab, fox(folder / "fox") as other_tab:
                first, second = (Loop(tab, folder / "project", {}) for tab in (one_tab, other_tab))

                async def two_owners() -> str:
                    await asyncio.gather(first.predict(owner), second.predict(owner))
                    for loop, text in ((first, "//one"), (second, "//two")):
                        await loop.tab.run("document.querySelector('.cm-content').focus()")
                        await loop.tab.press(CONTROL, END)
                        await loop.tab.press(*text)
                    for loop in (first, second):
                        await loop.answered()
                        await loop.button("Versions")
                        await loop.until(f"{COUNT} === 3")
                    end = "document.querySelector('.cm-content').textContent.slice(-5)"
                    kept = [await loop.tab.run(end) for loop in (first, second)]
                    if kept != ["//one", "//two"]:
                        raise ValueError(f"the texts are {kept}")
                    return "yes: both see 3 versions (their common question is one), each has its own text"

                async def owner_and_reader() -> str:
                    await second.tab.goto(reader)
                    await second.until(f"{COUNT} === 3")
                    await first.button("Kernel")
                    await first.tab.run("document.querySelector('.cm-content').focus()")
                    await first.tab.press(CONTROL, END)
                    await first.tab.press(*"//more")
                    await second.until(f"{COUNT} === 4")
                    if await second.tab.run("!!document.querySelector('form') || document.body.innerText.includes('Example')"):
                        raise ValueError("the reader has a form")
                    return "yes: the reader sees the owner's new version, and has no form"

                if await table.step("two owners", two_owners):
                    await table.step("an owner and a reader", owner_and_reader)


async def killed(loop: Loop, server: subprocess.Popen[str]) -> str:
    """SIGKILL, text typed without the server, the server again: the versions and the text are there."""
    await loop.button("Kernel")
    kept = len(list((loop.folder / "versions").iterdir()))
    server.send_signal(signal.SIGKILL)
    server.wait()
    await loop.tab.run("document.querySelector('.cm-content').focus()")
    await loop.tab.press(CONTROL, END)
    await loop.tab.press(*"//kept")
    await loop.until("document.body.innerText.includes('the server does not answer')")
    return f"yes: {kept} versions before"


async def again(loop: Loop, url: str) -> str:
    """After the server has started again."""
    await loop.tab.goto(url)
    await loop.until("document.querySelector('.cm-content')?.innerText.includes('//kept')")
    await loop.button("Versions")
    await loop.until("document.querySelectorAll('[aria-label^=\"Compare version\"]').length > 0")
    count = await loop.tab.run("document.querySelectorAll('[aria-label^=\"Compare version\"]').length")
    return f"yes: the text, and {count} versions"


async def keyboard(table: Table) -> None:
    """A browser and the first example, by keys."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "project").mkdir()
        async with BROWSERS[table.browser](folder) as tab:
            with served(folder / "project", 0) as (url, _):
                loop = Loop(tab, folder / "project", {})
                if not await table.step("the whole loop", lambda: by_keyboard(loop, url)):
                    return
            await table.step("saved report opened, server dead", loop.offline)


async def one(table: Table, draft: dict[str, Any]) -> None:
    """A browser and an example. A step that fails ends the loop."""
    with TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as free:
        folder, port = Path(name), free.getsockname()[1]
        free.close()
        (folder / "project").mkdir()
        async with BROWSERS[table.browser](folder) as tab:
            loop = Loop(tab, folder / "project", draft)
            with served(loop.folder, port) as (url, server):
                steps: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
                    ("predicted", lambda: loop.predict(url)), ("error under its line", loop.err),
                    ("mended and predicted", loop.mend),
                    ("slider, then a version", loop.slide), ("two versions compared", loop.compare), ("report saved", loop.share),
                ]  # fmt: skip
                if not draft:
                    axe = Path(os.environ["WARPSIGHT_AXE"]).read_text("utf-8")
                    steps += [("widths", lambda: widths(loop)), ("axe-core, serious", lambda: accessible(loop, axe))]
                steps.append(("server killed by SIGKILL", lambda: killed(loop, server)))
                for check, doing in steps:
                    if not await table.step(check, doing):
                        return
            await table.step("saved report opened, server dead", loop.offline)
            with served(loop.folder, port) as (url, _):
                await table.step("started again, nothing lost", lambda: again(loop, url))


def main() -> int:
    """Run, print the rows, and keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="browser and example, as `Firefox PTX`")
    parser.add_argument("--wait", type=float, default=WAIT_S, metavar="S", help="seconds that a step may take")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    table = Table(arguments.wait)
    for table.browser in BROWSERS:
        for table.example, draft in DRAFTS.items():
            if not re.search(arguments.only, f"{table.browser} {table.example}"):
                continue
            if table.example == "Triton" and find_spec("triton") is None:
                table.rows.append(f"| {table.browser} | Triton | all | not run: there is no Triton | |")
                continue
            asyncio.run(one(table, draft))
        table.example = KEYBOARD
        if re.search(arguments.only, f"{table.browser} {table.example}"):
            asyncio.run(keyboard(table))
    table.browser, table.example = TOGETHER, "one server"
    if re.search(arguments.only, f"{table.browser} {table.example}"):
        asyncio.run(together(table))
    if arguments.write:
        keep(table.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
