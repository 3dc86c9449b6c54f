"""A browser, and reports to open in it. Without a browser these tests skip, unless the environment says that there is one."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import browser_reports
import pytest
from visits import PATIENCE_S, Visit

_REMEDY = 'as root, eval "$(tools/browser.sh)" installs it'


def _missing(what: str) -> NoReturn:
    """Skip, or fail where the environment promises a browser."""
    if os.environ.get("WARPSIGHT_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what}, although WARPSIGHT_REQUIRE_BROWSER=1")
    pytest.skip(f"{what}: {_REMEDY}")


class Chromium:
    """One browser without a window for the tests of this folder that follow each other: one takes long to start."""

    def __init__(self) -> None:
        self._open, self._browser = ExitStack(), None

    def started(self) -> Any:
        """The browser, started where none runs."""
        if self._browser is None or not self._browser.is_connected():
            self.end()
            self._browser = self._open.enter_context(_chromium())
        return self._browser

    def end(self) -> None:
        """Close it, and with it the event loop that Playwright keeps running, which other tests cannot do with."""
        self._browser = None
        self._open.close()


@contextmanager
def _chromium() -> Iterator[Any]:
    # the shell draws pages as Chromium does, without what is around them: a page takes it half the processor time
    names = ("chromium-headless-shell", "chromium")
    program = os.environ.get("WARPSIGHT_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not program:
        _missing("there is no chromium")
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        _missing("there is no playwright")
    # root's browser has no sandbox; the files that it opens are ours
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=program, args=options, timeout=1000 * PATIENCE_S)
        except Error as error:
            _missing(f"{program} does not start ({error.message.splitlines()[0]})")
        yield started
        started.close()


_CHROMIUM = Chromium()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """See `Chromium`. A test with an event loop of its own ends it."""
    yield _CHROMIUM
    _CHROMIUM.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """The browser is closed behind the last test of this folder."""
    yield
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        _CHROMIUM.end()


@pytest.fixture
def browser(chromium: Chromium) -> Any:
    """Chromium without a window."""
    return chromium.started()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The path of a report of `browser_reports.DOCUMENTS`. The processes of a test run share them."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "reports"
    folder.mkdir(exist_ok=True)

    def find(name: str) -> Path:
        path = folder / f"{name}.html"
        with open(folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                browser_reports.write(name, path.with_suffix(".part"))
                path.with_suffix(".part").rename(path)
        return path

    return find


@pytest.fixture
def visit(browser: Any, report: Callable[[str], Path]) -> Iterator[Callable[..., Visit]]:
    """Opens a report: its name, what is behind the #, and how the browser is. In the end nothing may have gone wrong."""
    contexts, visits = [], []

    def open_report(
        name: str, place: str = "", *, width: int = 1280, theme: str = "light", scripts: bool = True, touch: bool = False
    ) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=scripts, has_touch=touch,
            reduced_motion="reduce",
        )  # fmt: skip
        context.set_default_timeout(1000 * PATIENCE_S)
        contexts.append(context)
        visits.append(Visit(context, report(name), place, scripts=scripts))
        return visits[-1]

    yield open_report
    for context in contexts:
        context.close()
    assert [line for each in visits for line in each.wrong] == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core."""
    path = os.environ.get("WARPSIGHT_AXE", "")
    if not path or not Path(path).is_file():
        _missing("there is no axe-core (WARPSIGHT_AXE)")
    return Path(path).read_text("utf-8")

