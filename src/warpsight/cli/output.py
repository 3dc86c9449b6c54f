"""What a command writes: results to stdout, as text with the next useful command or as JSON, and a progress bar to stderr."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from warpsight.base import settings
from warpsight.base.errors import UsageError, suggestion
from warpsight.base.outputs import write_whole
from warpsight.base.progress import Watch
from warpsight.base.units import AUTO, TIME_UNITS
from warpsight.reports.formats import documents_json
from warpsight.reports.terminal import WIDTH, Style

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def terminal_style() -> Style:
    """Colour only on a terminal that has it and where NO_COLOR is not set (no-color.org: set and not empty); times as chosen."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(colour, time_unit())


UNIT_VARIABLE, UNIT_SETTING = "WARPSIGHT_UNITS", "units"


def time_unit() -> str:
    """The unit of times in text: that of `WARPSIGHT_UNITS`, else of `warpsight config units`, else each time's own."""
    remedy = "choose another with `warpsight config units UNIT`, or forget it with `warpsight config units --clear`"
    named = os.environ.get(UNIT_VARIABLE)
    place = UNIT_VARIABLE if named else str(settings.folder() / UNIT_SETTING)
    return checked_unit(named or settings.kept(UNIT_SETTING, remedy) or AUTO, place)


def checked_unit(text: str, place: str) -> str:
    """`text`, if it is a unit of times. Raises UsageError."""
    if text not in TIME_UNITS:
        what = f'"{text}" is no unit of times{suggestion(text, TIME_UNITS)}'
        raise UsageError(what, place=place, remedy=f"name one of {', '.join(TIME_UNITS)}")
    return text


_NARROWEST = 60


def terminal_size() -> tuple[int, int]:
    """Columns, at least 60, and lines of the terminal. Where stdout is none: COLUMNS or 120, and 0 lines, which is any number."""
    if sys.stdout.isatty():
        size = shutil.get_terminal_size((WIDTH, 0))
        return max(size.columns, _NARROWEST), size.lines
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), _NARROWEST) if columns.isdecimal() else WIDTH, 0


def print_json(documents: list[Any]) -> None:
    """One document as an object, several as a list."""
    print(documents_json(documents))


def print_answer(text: str, next_line: str) -> None:
    """The answer, then the line with the next useful command; on a terminal that is too short for them through a pager."""
    answer = f"{text}\n\n{fitted(next_line, terminal_size()[0])}"
    if not _paged(answer):
        print(answer)


def fitted(next_line: str, width: int) -> str:
    """The line with the next command; where it is too wide, the reason, and below it the command alone, which is never broken."""
    command, _, why = next_line.rpartition("   # ")
    if len(next_line) <= width or not command:
        return next_line
    return "\n".join([*textwrap.wrap(why, width, initial_indent="# ", subsequent_indent="# "), command])


def _paged(text: str) -> bool:
    """Show `text` with `WARPSIGHT_PAGER`, else `PAGER`, else less; False where nobody could leave it, or where the text fits."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        return False
    words = shlex.split(os.environ.get("WARPSIGHT_PAGER", os.environ.get("PAGER", "less")))
    if text.count("\n") + 2 <= shutil.get_terminal_size().lines or not words or shutil.which(words[0]) is None:
        return False
    sys.stdout.flush()
    # less: colours as they are, and the text stays on the screen
    subprocess.run(words, input=text + "\n", text=True, errors="replace", env={"LESS": "-RX", **os.environ}, check=False)
    return True


def print_result(arguments: argparse.Namespace, document: Any, text: Callable[[], str], next_line: str) -> int:
    """The document with `--json`, else the text with the next useful command. Returns the exit code 0."""
    if arguments.json:
        print_json([document])
    else:
        print_answer(text(), next_line)
    return 0


def refuse_two_tables(arguments: argparse.Namespace) -> None:
    """Raises UsageError where stdout should get both CSV (`-o -`) and JSON."""
    if arguments.json and arguments.output == "-":
        raise UsageError("stdout can hold CSV or JSON, not both", place="-o", remedy="leave out one of them, or name a file")


def print_rows(
    arguments: argparse.Namespace, document: Any, table: Callable[[], str], answer: Callable[[], tuple[str, str]]
) -> None:
    """The rows as CSV to `-o`; then the document with `--json`, else, unless stdout has the rows, the text and the next command."""
    if arguments.output == "-":
        print(table(), end="")
    elif arguments.output:
        write_output(arguments.output, table(), "-o")
    if arguments.json:
        print_json([document])
    elif arguments.output != "-":
        print_answer(*answer())


def write_output(path: str, text: str, option: str) -> None:
    """Writes the file that `option` names. Raises UsageError."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=path, remedy=f"name another file with {option}") from None


# -- A progress bar on stderr for work of more than two seconds; nothing at all when stderr is not a terminal.

PATIENCE_SECONDS = 2.0
# Before the first report: reading and compiling the kernel and, on the first run ever, the simulators.
_BEFORE = "preparing"


class ProgressBar:
    """A context manager; `watch` is None if stderr is not a terminal. The bar appears once the work has taken two seconds."""

    def __init__(self) -> None:
        visible = sys.stderr.isatty()
        self.watch: Watch | None = self._observe if visible else None
        self._timer = threading.Timer(PATIENCE_SECONDS, self._open) if visible else None
        self._lock = threading.Lock()
        self._closed = False
        self._display: Progress | None = None
        self._task: TaskID | None = None
        self._stage = (_BEFORE, 0, 0)

    def __enter__(self) -> ProgressBar:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._display is not None:
                self._display.stop()

    def _observe(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            fresh, self._stage = stage != self._stage[0], (stage, done, total)
            if self._display is not None:
                self._draw(fresh)

    def _open(self) -> None:
        with self._lock:
            if not self._closed:
                # only here, as short commands never show it: a lazy module would load without the lock that keeps out other threads
                # transient: the bar disappears when done; it never writes to a file on stdout
                terminal = importlib.import_module("rich.console").Console(stderr=True)
                bars = importlib.import_module("rich.progress")
                self._display = bars.Progress(console=terminal, transient=True, redirect_stdout=sys.stdout.isatty())
                self._display.start()
                self._draw(fresh=True)

    def _draw(self, fresh: bool) -> None:
        """Show the stage; without a total the bar only moves."""
        assert self._display is not None
        stage, done, total = self._stage
        if self._task is not None and fresh:
            self._display.remove_task(self._task)
        if self._task is None or fresh:
            self._task = self._display.add_task(stage, total=None)
        self._display.update(self._task, completed=done, total=total or None)
