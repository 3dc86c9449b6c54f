"""What MDM's tools print while they trace: the launches, and which opcode has which number. Users keep it as a file beside the
trace.

The lines are ``Kernel NAME - grid size X,Y,Z - block size X,Y,Z - nregs N - shmem BYTES - cuda stream id N`` and
``OPCODE NAME MAPS TO ID N``. Numbers are given out in the order in which a run meets opcodes: they are those of one run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.base.errors import FormatError
from warpsight.trace.importers.lines import whole_lines
from warpsight.trace.importers.mdm.names import kernel_of

_SUFFIXES = (".log", ".out", ".txt", ".err", "")
_THREE = r"(\d{1,10}),(\d{1,10}),(\d{1,10})"
_KERNEL = re.compile(
    (
        rf"Kernel (.{{1,4000}}) - grid size {_THREE} - block size {_THREE} - nregs (\d{{1,4}}) - shmem (\d{{1,9}}) "
        r"- cuda stream id (\d{1,20})\s*"
    ).encode()
)
_OPCODE = re.compile(rb"OPCODE ([A-Za-z][\w.]{0,80}) MAPS TO ID (\d{1,9})\s*")


@dataclass(frozen=True)
class LoggedKernel:
    """A launch as the tool printed it; `place` is file and line."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_bytes: int
    stream: int
    place: str


@dataclass
class Log:
    """The launches in order, and opcodes by number. `path` is None where the folder has no such file."""

    path: Path | None = None
    kernels: list[LoggedKernel] = field(default_factory=list)
    opcodes: dict[int, str] = field(default_factory=dict)


def read_log(folder: Path) -> Log:
    """What the tool printed, from the one file of the folder that has such lines.

    Raises FormatError where two files have them (numbers of two runs have nothing to do with each other), or one contradicts
    itself.
    """
    found = Log()
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", place=str(folder), remedy="check the path") from None
    for name in names:
        if kernel_of(name) or Path(name).suffix not in _SUFFIXES:
            continue
        log = _read(folder / name)
        if log.path is None:
            continue
        if found.path is not None:
            what = f"{found.path.name} and {name} both hold what a tool printed, and numbers of opcodes are those of one run"
            remedy = "keep the output of the run that made instruction_trace_<k>.txt alone"
            raise FormatError(what, place=str(folder), remedy=remedy)
        found = log
    return found


def _read(path: Path) -> Log:
    log = Log()
    line = 0
    for piece in whole_lines(path):
        for raw in piece:
            line += 1
            if raw.startswith(b"Kernel "):
                match = _KERNEL.fullmatch(raw)
                if match:
                    log.path = path
                    log.kernels.append(_kernel(match, f"{path}:{line}"))
            elif raw.startswith(b"OPCODE "):
                match = _OPCODE.fullmatch(raw)
                if match:
                    log.path = path
                    name, number = match[1].decode("ascii"), int(match[2])
                    if log.opcodes.setdefault(number, name) != name:
                        what = f"opcode {number} is {name} here, and {log.opcodes[number]} above"
                        raise FormatError(what, place=f"{path}:{line}", remedy="keep the output of one run alone")
    return log


def _kernel(match: re.Match[bytes], place: str) -> LoggedKernel:
    numbers = [int(match[k]) for k in range(2, 11)]
    name = match[1].decode("utf-8", "replace").split("(")[0].strip()
    name = "".join(c for c in name if c.isprintable()) or "kernel"
    return LoggedKernel(
        name, (numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5]), numbers[6], numbers[7], numbers[8], place
    )
