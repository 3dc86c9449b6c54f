"""One launch in the trace of another tool, whatever its format, and the choice among several."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from warpsight.base.errors import UsageError, suggestion
from warpsight.isa.sass.opcodes import SassTable
from warpsight.kernels.mangling import display_name
from warpsight.traces.schema import KernelTrace, TraceSink

Progress = Callable[[int, int], None]
REMEDY = "copy the trace again, or trace the program again"


@dataclass(frozen=True)
class KernelHeader:
    """What a file says of its launch. Bytes of shared memory are static and dynamic ones together; `binary` is the SM
    architecture as 80.

    Base addresses are 0 where the tracer did not write them, `binary` is where it does not name the architecture.
    `thread_instructions` is only in files that Warpsight wrote, else -1; in those of PTX a name is one register, of whatever size
    (`one_register`), where a native one begins a pair or a quad. `other` are keys that no tracer known here writes. `lines` and
    `bytes` are the header's own, up to and with the line of `#` that ends it. `origin` is what to say of the tool where it is not
    Accel-Sim's.
    """

    name: str
    number: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    registers: int
    binary: int
    stream: int
    shared_base: int
    local_base: int
    nvbit: str
    version: int
    lineinfo: bool
    format: str
    thread_instructions: int
    one_register: bool
    other: tuple[str, ...]
    lines: int
    bytes: int
    origin: str = ""

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def warps_per_block(self) -> int:
        """Warps in a block."""
        return -(-self.block[0] * self.block[1] * self.block[2] // 32)


@dataclass(frozen=True)
class LaunchFacts:
    """What a user says of a launch where a format does not: shapes as ``16x64`` or numbers, bytes of shared memory of a block,
    registers of a thread. None where nothing was said.
    """

    grid: str | int | Sequence[int] | None = None
    block: str | int | Sequence[int] | None = None
    shared: str | int | None = None
    registers: int | None = None


@dataclass(frozen=True)
class Launch(ABC):
    """One launch of a program. `number` counts from 1 in the order of the trace; `isa` says what opcodes are.

    `path` is the file that names this launch alone, where a folder has several.
    """

    number: int
    isa: SassTable
    path: Path

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
    """The launches of `kernels` (names with commas between, as written or mangled) among `numbers` (as ``1,3-5``).

    Raises UsageError.
    """
    chosen = list(launches)
    if numbers is not None:
        wanted = _numbers(numbers, len(launches))
        chosen = [launch for launch in chosen if launch.number in wanted]
    if kernels is not None:
        names = [name.strip() for name in kernels.split(",") if name.strip()]
        known = {name for launch in launches for name in _names(launch)}
        for name in names:
            if name not in known:
                shown = ", ".join(dict.fromkeys(launch.kernel for launch in launches))
                raise UsageError(
                    f'"{name}" is no kernel of the trace{suggestion(name, known)}', place="--kernels", remedy=f"it has {shown}"
                )
        chosen = [launch for launch in chosen if not _names(launch).isdisjoint(names)]
    if not chosen:
        raise UsageError("no launch is left", place="--kernels", remedy="give others, or leave out --launches")
    return chosen


def _names(launch: Launch) -> set[str]:
    return {launch.kernel, launch.header.name, launch.kernel.split("<")[0].split("::")[-1]}


def _numbers(text: str, most: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (0, 0)
        if not 1 <= first <= last <= most:
            what = f'"{part.strip()}" is no launch or range of launches; there are {most:,}, counted from 1'
            raise UsageError(what, place="--launches", remedy="write e.g. 1,3-5")
        found.update(range(first, last + 1))
    return found
