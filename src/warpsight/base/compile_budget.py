"""One budget of time and memory for compiling a kernel, so that no input makes Warpsight compute without an end.

`WARPSIGHT_COMPILE_SECONDS` (300) and `WARPSIGHT_COMPILE_MEMORY` (4 GiB) hold for all that is done from a source to code that can be
executed. Compiler, assembler and disassembler are processes of their own, and so is LLVM where the code is long. Parsing, analysis
and generation of code ask now and then. Each kernel or source has the whole budget.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from warpsight.base.errors import LimitError, UsageError
from warpsight.base.units import SIZE, format_quantity, parse_quantity

SECONDS, MEMORY = "WARPSIGHT_COMPILE_SECONDS", "WARPSIGHT_COMPILE_MEMORY"
DEFAULT_SECONDS, DEFAULT_BYTES = 300.0, 4 << 30
_LEAST_BYTES = 64 << 20  # less than any compiler needs to start
_LOOK_S = 0.05  # how often the memory of a process is looked at
_STATE = threading.local()


@dataclass(frozen=True)
class Budget:
    """For compiling `place`: `seconds`, which end at `end` (`time.monotonic`), and `size` bytes, which this process may grow by, to
    `most_resident`, and each process that it starts may have.
    """

    place: str
    seconds: float
    size: int
    end: float
    most_resident: int

    def check(self, doing: str) -> None:
        """Raise LimitError if the budget is used up. `doing` says what by, as in "generating code"."""
        if time.monotonic() > self.end:
            raise self.too_slow(doing)
        if _resident() > self.most_resident:
            raise self.too_large(doing)

    def too_slow(self, doing: str) -> LimitError:
        """The time is over."""
        what = f"{doing} takes longer than the {self.seconds:g} s that compiling may take"
        remedy = f"make the kernel smaller, or set {SECONDS} to more than {self.seconds:g}"
        return LimitError(what, place=self.place, remedy=remedy)

    def too_large(self, doing: str) -> LimitError:
        """The memory is used up."""
        size = format_quantity(self.size, SIZE)
        what = f"{doing} needs more than the {size} of memory that compiling may take"
        return LimitError(what, place=self.place, remedy=f"make the kernel smaller, or set {MEMORY} to more than {size}")

    def run(
        self, command: Sequence[str], given: bytes, doing: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a compiler with `given` as its standard input, and end it when the budget is used up. Raises LimitError, OSError."""
        with tempfile.TemporaryFile() as file:  # a pipe would have to be written while the process writes to its own
            file.write(given)
            file.seek(0)
            process = subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        with process:
            try:
                with suppress(ProcessLookupError):
                    most = math.ceil(self.seconds * (os.cpu_count() or 1)) + 1  # for a compiler that outlives Warpsight
                    resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most))
                return self._wait(process, doing)
            except BaseException:
                process.kill()
                raise

    def _wait(self, process: subprocess.Popen[bytes], doing: str) -> subprocess.CompletedProcess[bytes]:
        while True:
            if time.monotonic() > self.end:
                raise self.too_slow(doing)
            try:
                out, err = process.communicate(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                if _resident(process.pid) > self.size:
                    raise self.too_large(doing) from None
            else:
                return subprocess.CompletedProcess(process.args, process.returncode, out, err)


_PAGE = os.sysconf("SC_PAGE_SIZE")


def _resident(process: int | str = "self") -> int:
    """Resident bytes of a process; 0 where nobody knows."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _limits(environment: Mapping[str, str]) -> tuple[float, int]:
    """Seconds and bytes. Raises UsageError for what is neither."""
    seconds, size = DEFAULT_SECONDS, DEFAULT_BYTES
    if text := environment.get(SECONDS):
        with suppress(ValueError):
            seconds = float(text)
        if not (0 < seconds < math.inf) or not text.strip()[:1].isdigit():
            raise UsageError(f'"{text}" is not a number of seconds above 0', place=SECONDS, remedy=f"write {DEFAULT_SECONDS:g}")
    if text := environment.get(MEMORY):
        size = int(parse_quantity(text, SIZE, key="it", place=MEMORY))
        if size < _LEAST_BYTES:
            least = format_quantity(_LEAST_BYTES, SIZE)
            raise UsageError(f'"{text}" is less than any compiler needs', place=MEMORY, remedy=f"give {least} or more")
    return seconds, size


@contextmanager
def compiling(place: str) -> Iterator[Budget]:
    """The budget for compiling `place`, which names it in messages. Inside another one that is the budget."""
    outer: Budget | None = getattr(_STATE, "budget", None)
    if outer is not None:
        yield outer
        return
    seconds, size = _limits(os.environ)
    _STATE.budget = Budget(place, seconds, size, time.monotonic() + seconds, _resident() + size)
    try:
        yield _STATE.budget
    finally:
        _STATE.budget = None


def check(doing: str) -> None:
    """As `Budget.check` of the budget in effect; nothing where there is none."""
    budget: Budget | None = getattr(_STATE, "budget", None)
    if budget is not None:
        budget.check(doing)
