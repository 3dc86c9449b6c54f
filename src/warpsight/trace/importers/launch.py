"""One launch in the trace of another tool, whatever its format, and the choice among several."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from warpsight.base.errors import UsageError, suggestion
from warpsight.workload.mangling import display_name

if TYPE_CHECKING:
    from warpsight.isa.sass.semantics import SassTable
    from warpsight.trace.importers.accelsim.header import KernelHeader
    from warpsight.trace.schema import KernelTrace
    from warpsight.trace.sink import TraceSink

Progress = Callable[[int, int], None]


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
