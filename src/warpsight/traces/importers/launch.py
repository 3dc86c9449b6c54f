"""One launch in the trace of another tool, in any format, and the choice among several."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.isa.sass.opcodes import SassTable
from warpsight.kernels.launch import LaunchShape
from warpsight.kernels.mangling import display_name
from warpsight.traces.schema import KernelTrace, TraceSink

Progress = Callable[[int, int], None]
REMEDY = "copy the trace again, or trace the program again"


def damaged(what: str, place: str) -> FormatError:
    """The error for a trace that is cut or damaged at `place`."""
    return FormatError(what, place=place, remedy=f"the trace is cut or damaged here: {REMEDY}")


@dataclass(frozen=True)
class KernelHeader(LaunchShape):
    """What a trace says of a launch.

    `number` is the tool's own; `shared_bytes` static and dynamic together; `binary` the SM architecture as 80, 0 if it is not
    known. `origin` is the first note on the trace: what made it, and for which GPU. `shared_base` and `local_base` are the windows
    of the generic address space, 0 if they are not known; `thread_instructions` is -1 if they are not known. With `one_register`
    an operand is one register of any size (PTX), else the first of a pair or a quad. `tracer` is the version of the rules for
    operands that a trace follows (Accel-Sim's), `nvbit` the version of NVBit.
    """

    name: str
    number: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    registers: int
    binary: int
    stream: int
    origin: str
    shared_base: int = 0
    local_base: int = 0
    thread_instructions: int = -1
    one_register: bool = False
    tracer: int = 6
    nvbit: str = ""


@dataclass(frozen=True)
class LaunchFacts:
    """What the user states about a launch if the format does not: shapes (``16x64``), bytes per block, registers per thread."""

    grid: str | int | Sequence[int] | None = None
    block: str | int | Sequence[int] | None = None
    shared: str | int | None = None
    registers: int | None = None


@dataclass(frozen=True)
class Launch(ABC):
    """One launch of a program. `number` counts from 1 in the order of the trace; `isa` gives the meaning of opcodes.

    `path` is the file of this launch, where a folder has several. `copies` are what the program has copied to the device since the
    launch before, as (address, bytes).
    """

    number: int
    isa: SassTable
    path: Path
    copies: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)

    @property
    @abstractmethod
    def header(self) -> KernelHeader:
        """What the trace says of the launch. Raises FormatError."""

    def files(self) -> tuple[Path, ...]:
        """Every file that the launch is read from, in a fixed order."""
        return (self.path,)

    @property
    def kernel(self) -> str:
        """The kernel's name as people write it."""
        return display_name(self.header.name)

    @abstractmethod
    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """Read the launch: its trace, in `sink` or held in memory and, beyond 128 MiB, in a temporary folder.

        `progress(done, total)` counts blocks. Raises FormatError with file and line, LimitError.
        """


AnyLaunch = TypeVar("AnyLaunch", bound=Launch)


def select(launches: Sequence[AnyLaunch], kernels: str | None, numbers: str | None) -> list[AnyLaunch]:
    """The launches of `kernels` (names with commas between, as written or mangled) among `numbers` (``1,3-5``), or UsageError."""
    chosen = list(launches)
    if numbers is not None:
        selected = _numbers(numbers, len(launches))
        chosen = [launch for launch in chosen if launch.number in selected]
    if kernels is not None:
        names = [name.strip() for name in kernels.split(",") if name.strip()]
        known = {name for launch in launches for name in _names(launch)}
        for name in names:
            if name not in known:
                shown = ", ".join(dict.fromkeys(launch.kernel for launch in launches))
                what = f'the trace has no kernel "{name}"{suggestion(name, known)}'
                raise UsageError(what, place="kernels", remedy=f"it has {shown}")
        chosen = [launch for launch in chosen if not _names(launch).isdisjoint(names)]
    if not chosen:
        raise UsageError("no launch is left", place="kernels", remedy="name other kernels, or leave out `launches`")
    return chosen


def _names(launch: Launch) -> set[str]:
    return {launch.kernel, launch.header.name, launch.kernel.split("<")[0].split("::")[-1]}


def _numbers(text: str, most: int) -> set[int]:
    chosen: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (0, 0)
        if not 1 <= first <= last <= most:
            what = f'"{part.strip()}" is not a launch or a range of launches; there are {most:,}, counted from 1'
            raise UsageError(what, place="launches", remedy="write e.g. 1,3-5")
        chosen.update(range(first, last + 1))
    return chosen
