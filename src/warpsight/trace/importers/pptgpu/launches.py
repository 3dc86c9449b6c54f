"""The launches of a folder of PPT-GPU's or AMALI's tracer; each becomes a trace when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.semantics import SassTable
from warpsight.trace.importers.launch import REMEDY, KernelHeader, Launch, Progress
from warpsight.trace.importers.pptgpu.config import KernelConfig, read_config
from warpsight.trace.importers.pptgpu.names import CONFIG, SASS, memory_files, place_of, sass_file
from warpsight.trace.schema import KernelTrace
from warpsight.trace.sink import TraceSink


@dataclass(frozen=True)
class TracedKernel(Launch):
    """One launch: what `app_config.py` says of it, and the folder that its files are in."""

    folder: Path
    config: KernelConfig

    @property
    def header(self) -> KernelHeader:
        """The launch. Grid and block are given as totals: the trace does not say their shape."""
        config = self.config
        return KernelHeader(
            config.name, config.number, (config.blocks, 1, 1), (config.threads, 1, 1), config.shared_bytes, config.registers, 0,
            max(0, config.stream), 0, 0, "", 6, False, "", -1, False, (), 0, 0, "SASS",
        )  # fmt: skip

    def files(self) -> tuple[Path, ...]:
        """As `Launch.files`."""
        return (self.folder / CONFIG, self.path, *memory_files(self.folder, self.config.number).values())

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """As `Launch.trace`."""
        from warpsight.trace.importers.pptgpu.importer import import_kernel

        return import_kernel(self.folder, self.config, self.header, self.isa, sink, progress)


def import_pptgpu(path: str | Path, isa: SassTable | None = None) -> list[TracedKernel]:
    """The launches in the folder at `path`, or the one of a `.sass` file, in the order of `app_kernels_id`.

    Raises FormatError for an `app_config.py` that is none and for files that are not there, UsageError where there is no launch.
    """
    found = place_of(path)
    if found is None:
        raise UsageError("is no trace of PPT-GPU's tracer", place=str(path), remedy=f"give a folder with {CONFIG} and {SASS}/")
    folder, only = found
    kernels = read_config(folder / CONFIG)
    if only is not None:
        kernels = [kernel for kernel in kernels if kernel.number == only]
    if not kernels:
        what = "there is no launch in it" if only is None else f"its app_kernels_id does not name kernel {only}"
        raise UsageError(what, place=str(folder / CONFIG), remedy="trace the program again")
    for kernel in kernels:
        if not sass_file(folder, kernel.number).is_file():
            what = f"there is no {SASS}/kernel_{kernel.number}.sass"
            raise FormatError(what, place=f"{folder / CONFIG}:{kernel.line}", remedy=REMEDY)
    isa = isa or SassTable()
    return [
        TracedKernel(number, isa, sass_file(folder, kernel.number), folder, kernel) for number, kernel in enumerate(kernels, 1)
    ]
