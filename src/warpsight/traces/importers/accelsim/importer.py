"""The launches of a folder (its list of kernels, or the files that are there), and one kernel's file to one trace."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from warpsight.base.errors import FormatError, UsageError
from warpsight.base.inputs import read_input
from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.accelsim.files import (
    LIST,
    GroupedText,
    TraceFileHeader,
    header_of,
    is_kernel_file,
    is_raw,
    prefix_numbers,
)
from warpsight.traces.importers.accelsim.parser import OutOfOrder, Parser, Text
from warpsight.traces.importers.accelsim.raw import RawLines, SortedBlocks
from warpsight.traces.importers.build import Source, build_trace
from warpsight.traces.importers.launch import Launch, Progress
from warpsight.traces.schema import KernelTrace, TraceSink

_COPY = re.compile(r"MemcpyHtoD\s*,\s*(?:0[xX])?([0-9a-fA-F]{1,16})\s*,\s*(\d{1,18})\s*")
_UNPACKED = re.compile(r"(\.gz|\.xz)$")
_MOST_LIST_BYTES = 1 << 26


@dataclass(frozen=True)
class KernelFile(Launch):
    """One launch of a program: the file of its kernel. `notes` are on the list that names it."""

    notes: tuple[str, ...] = ()

    @cached_property
    def header(self) -> TraceFileHeader:
        """What the file says of the launch, read at first use. Raises FormatError."""
        return header_of(self.path)

    def trace(self, sink: TraceSink | None = None, progress: Progress | None = None) -> KernelTrace:
        """As `Launch.trace`."""
        grouped = GroupedText(self.path, self.header)
        prefix = prefix_numbers(self.path, self.header)
        try:
            return self._trace(RawLines(grouped, self.header) if is_raw(self.path) else grouped, prefix, sink, progress)
        except OutOfOrder:
            if sink is not None:
                sink.restart()
            return self._trace(SortedBlocks(grouped, self.header), prefix, sink, progress)

    def _trace(self, text: Text, prefix: int, sink: TraceSink | None, progress: Progress | None) -> KernelTrace:
        parser = Parser(self.header, self.isa, text, prefix)

        def notes() -> tuple[str, ...]:
            cut = text.cut if isinstance(text, RawLines) else ""
            ends = (f"the file's last line ({cut}) has no line feed: the trace may be cut there",) if cut else ()
            return (*self.header.notes(), *parser.notes(), *ends, *self.notes)

        return build_trace(Source(self.path, self.header, self.isa, notes), parser, sink, progress)


def import_accelsim(path: str | Path, isa: SassTable | None = None) -> list[KernelFile]:
    """The launches in the folder, list or kernel's file at `path`, in order; `isa` gives the meaning of opcodes.

    Only lists are read yet. Raises FormatError if a list names a file that is not there, UsageError if there is no launch.
    """
    path, isa = Path(path), isa or SassTable()
    if is_kernel_file(path) and path.is_file():
        return [KernelFile(1, isa, path)]
    lists = [path] if path.is_file() else _lists(path)
    files, copies, notes = _listed(lists) if lists else (_loose(path), [], ())
    if not files:
        remedy = "give a folder with kernelslist.g or kernel-N.traceg files"
        raise UsageError("it contains no kernel trace", place=str(path), remedy=remedy)
    before = copies or [()] * len(files)
    return [KernelFile(n, isa, file, notes, copies=each) for n, (file, each) in enumerate(zip(files, before, strict=True), 1)]


def _lists(folder: Path) -> list[Path]:
    """The lists in a folder: grouped ones (`.g`) if there are any, else raw ones."""
    try:
        lists = sorted(p for p in folder.iterdir() if p.name.startswith(LIST) and p.is_file())
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=str(folder), remedy="check the path") from None
    return [p for p in lists if p.suffix == ".g"] or lists


_Copies = tuple[tuple[int, int], ...]


def _listed(lists: list[Path]) -> tuple[list[Path], list[_Copies], tuple[str, ...]]:
    """The kernels' files of some lists, the copies (address, bytes) before each, and notes on what else they say."""
    files: list[Path] = []
    before: list[_Copies] = []
    pending: list[tuple[int, int]] = []
    copies = size = 0
    other: list[str] = []
    for list_file in lists:
        known = set(files)  # of the lists before this one; in one list a file may stand for several launches
        for number, line in enumerate((each.strip() for each in _text(list_file).splitlines()), 1):
            copy = _COPY.fullmatch(line)
            if line.startswith("kernel"):
                file = _file(list_file, number, line)
                if file not in known:  # the lists of a program's contexts and the one of all of them
                    files.append(file)
                    before.append(tuple(pending))
                    pending = []
            elif copy:
                pending.append((int(copy[1], 16), int(copy[2])))
                copies, size = copies + 1, size + int(copy[2])
            elif line:
                other.append(f"{list_file.name}:{number}: {line[:60]}")
    notes = []
    if copies:
        notes.append(
            f"the program also copies {size:,} bytes to the device in {copies:,} transfers, which are not part of the kernels' time"
        )
    if other:
        named = "; ".join(other[:3])
        notes.append(f"{len(other)} lines of the list are not kernels or copies to the device and are ignored: {named}")
    return files, before, tuple(notes)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_LIST_BYTES:
            raise FormatError("is larger than any list of kernels", place=str(path), remedy="give a list of Accel-Sim's tracer")
        return read_input(path, _MOST_LIST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None


def _file(list_file: Path, number: int, line: str) -> Path:
    """The file that a line names, packed or not. A list may be older than the packing of its files."""
    named = list_file.parent / line
    if not is_kernel_file(named):
        what = f'"{line[:80]}" is not the file of a kernel\'s trace'
        raise FormatError(what, place=f"{list_file}:{number}", remedy="write kernel-N.traceg, .traceg.xz or .traceg.gz")
    bare = _UNPACKED.sub("", str(named))
    for candidate in (named, Path(bare), Path(f"{bare}.xz"), Path(f"{bare}.gz")):
        if os.path.isfile(candidate):  # unlike a Path's own method, this takes names that no file can have
            return candidate
    remedy = "put it beside the list, or remove the line"
    raise FormatError(f'"{line[:80]}" does not exist', place=f"{list_file}:{number}", remedy=remedy)


def _loose(folder: Path) -> list[Path]:
    """The kernels' files of a folder without a list, in order of their numbers. A grouped file replaces the raw one of its name."""
    files = sorted((p for p in folder.iterdir() if is_kernel_file(p) and p.is_file()), key=lambda p: (not is_raw(p), p.name))
    by_name = {path.name.split(".trace")[0]: path for path in files}  # grouped ones come last and replace raw ones
    number = re.compile(r"\D*(\d+)")
    return sorted(by_name.values(), key=lambda path: int(match[1]) if (match := number.match(path.name)) else -1)
