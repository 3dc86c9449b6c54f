"""The launches of a folder of MDM's tools; each becomes a trace when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.semantics import SassTable
from warpsight.trace.importers.launch import REMEDY, KernelHeader, Launch, Progress
from warpsight.trace.importers.mdm.log import Log, LoggedKernel, read_log
from warpsight.trace.importers.mdm.names import CACHE_FILES, FUNCTIONAL, INSTRUCTIONS, MEMORY, kernel_of
from warpsight.trace.schema import KernelTrace
from warpsight.trace.sink import TraceSink
from warpsight.workload.launch_check import parse_dim3
from warpsight.workload.sizes import parse_integer

if TYPE_CHECKING:
    from warpsight.trace.importers.launch import LaunchFacts

_ORIGIN = (
    "SASS of a GPU that MDM's tool does not name: addresses and control flow carry over to other GPUs, opcodes do not"
)
_MOST_SHARED = 1 << 30


@dataclass(frozen=True)
class TracedKernel(Launch):
    """One launch: the folder, its number in the names of files, what the tool printed, and what the user says."""

    folder: Path
    file_number: int
    log: Log
    facts: LaunchFacts

    @cached_property
    def header(self) -> KernelHeader:
        """The launch as printed or as the user says. Raises UsageError for what neither says or both say differently."""
        printed = self._printed()
        grid = self._shape("grid", self.facts.grid, printed.grid if printed else None)
        block = self._shape("block", self.facts.block, printed.block if printed else None)
        registers = self._number("registers", self.facts.registers, printed.registers if printed else None, 255)
        shared = self._number("shared", self.facts.shared, printed.shared_bytes if printed else None, _MOST_SHARED)
        if block[0] * block[1] * block[2] > 1024 or grid[0] * grid[1] * grid[2] > 1 << 40:
            place = printed.place if printed else "--block"
            raise UsageError(f"grid {grid} of blocks {block} is larger than any GPU launches", place=place, remedy="correct it")
        name = printed.name if printed else f"kernel_{self.file_number}"
        return KernelHeader(
            name, self.file_number, grid, block, shared, registers, 0, printed.stream if printed else 0, 0, 0, "", 6, False, "", -1,
            False, (), 0, 0, _ORIGIN,
        )  # fmt: skip

    def files(self) -> tuple[Path, ...]:
        """As `Launch.files`."""
        other = (self.folder / name.format(self.file_number) for name in (MEMORY, FUNCTIONAL))
        named = (self.folder / name for name in CACHE_FILES)
        log = (self.log.path,) if self.log.path else ()
        return (self.path, *(file for file in (*other, *named, *log) if Path(file).is_file()))

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """As `Launch.trace`."""
        from warpsight.trace.importers.mdm.importer import import_kernel

        return import_kernel(self, sink, progress)

    def _printed(self) -> LoggedKernel | None:
        """The launch in what the tool printed: the tool counts from 1 what it has launched."""
        kernels = self.log.kernels
        if not kernels:
            return None
        if not 1 <= self.file_number <= len(kernels):
            what = f"the tool printed {len(kernels)} launches, of which kernel {self.file_number} is none"
            raise FormatError(what, place=str(self.log.path), remedy="keep the output of the run that made the trace")
        return kernels[self.file_number - 1]

    def _shape(
        self, name: str, given: str | int | object, printed: tuple[int, int, int] | None
    ) -> tuple[int, int, int]:
        found = printed if given is None else parse_dim3(given, f"--{name}")  # type: ignore[arg-type]
        if found is None:
            self._missing(name, "64" if name == "block" else "128")
        if min(found) < 1 or (printed is not None and found != printed):
            self._contradiction(name, found, printed or "at least 1 in each dimension")
        return found

    def _number(self, name: str, given: str | int | None, printed: int | None, most: int) -> int:
        found = parse_integer(given, f"--{name}") if isinstance(given, str) else given
        found = printed if found is None else found
        if found is None:
            self._missing(name, "0" if name == "shared" else "32")
        if not 0 <= found <= most or (printed is not None and found != printed):
            self._contradiction(name, found, f"0 to {most:,}" if printed is None else printed)
        return found

    def _missing(self, name: str, example: str) -> NoReturn:
        what = f"is missing: {self.folder / INSTRUCTIONS.format(self.file_number)} does not say it"
        remedy = (
            f"put what the tool printed (Kernel NAME - grid size ...) beside it as a .log file, or give --{name}, e.g. {example}"
        )
        raise UsageError(what, place=f"--{name}", remedy=remedy)

    def _contradiction(self, name: str, found: object, printed: object) -> NoReturn:
        where = f" ({self.log.path})" if self.log.path else ""
        what = f"{found} cannot be: it is {printed}{where}"
        raise UsageError(what, place=f"--{name}", remedy="leave the option out, or correct it")


def import_mdm(path: str | Path, isa: SassTable | None, facts: LaunchFacts) -> list[TracedKernel]:
    """The launches in the folder at `path`, or the one of an `instruction_trace_<k>.txt`, in order of their numbers.

    `isa.numbers` are opcodes by number, over those that the tool printed. Raises FormatError for a log that contradicts itself, and
    where there are only addresses.
    """
    path = Path(path)
    folder = path.parent if path.is_file() else path
    names = [path.name] if path.is_file() else [entry.name for entry in path.iterdir()]
    kinds = [kind for kind in map(kernel_of, names) if kind]
    numbers = sorted(number for kind, number in kinds if kind == "instruction_trace")
    if not numbers:
        what = f"has {', '.join(sorted({kind for kind, _ in kinds}))} files and no instruction_trace_<k>.txt: no instructions"
        raise FormatError(what, place=str(path), remedy="trace the program with MDM's instruction tool too (MDM-inst-trace)")
    if numbers[0] == 0:
        what = "instruction_trace_0.txt holds lines of a launch that was running while its number was given out"
        raise FormatError(what, place=str(folder / INSTRUCTIONS.format(0)), remedy=f"append them to the next file, or {REMEDY}")
    log = read_log(folder)
    table = isa or SassTable()
    paths = [folder / INSTRUCTIONS.format(number) for number in numbers]
    return [
        TracedKernel(k, table, path, folder, number, log, facts)
        for k, (number, path) in enumerate(zip(numbers, paths, strict=True), 1)
    ]
