"""`sass_traces/kernel_<k>.sass`: the instructions that warps executed, a line each, without program counters.

PPT-GPU writes ``warp OPCODE operands`` for the first block that it meets alone; AMALI ``sm x y z warp OPCODE operands`` for all.
`warp` is the slot of the SM that the warp sits in, so that the warps of a block are numbered by the order of their slots.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.isa.sass.registers import is_register
from warpsight.trace.importers.launch import REMEDY
from warpsight.trace.importers.lines import Lines, read_lines, whole_lines

Longs = npt.NDArray[np.int64]
PPTGPU, AMALI = 1, 5  # numbers before the opcode
_OPCODE = re.compile(r"[A-Za-z][\w.]{0,80}", re.ASCII)
_NO_REGISTER = re.compile(r"U?[RP]-\d{1,3}")  # an address without a register
_MOST_OPERANDS = 8


@dataclass(frozen=True)
class WarpStream:
    """The lines of one warp, int64 indices of `SassFile.lines`, in order. `warp` is its number in its block."""

    warp: int
    index: Longs


@dataclass(frozen=True)
class SassFile:
    """A file. `blocks`: the streams of each block by (x, y, z), which for PPT-GPU is one block of unknown number, (0, 0, 0)."""

    path: Path
    lines: Lines
    amali: bool
    blocks: dict[tuple[int, int, int], list[WarpStream]]


def read_sass(path: Path, warps_per_block: int) -> SassFile:
    """Read a file. Raises FormatError, with file and line, for lines that are none and blocks with too many warps."""
    numbers = _numbers_before(path)
    lines = read_lines(path, numbers, b" ", _clean)
    order = np.argsort(lines.who, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(lines.who, minlength=len(lines.keys)))
    blocks: dict[tuple[int, int, int], dict[tuple[int, int], Longs]] = {}
    for who, key in enumerate(lines.keys):
        block = (key[1], key[2], key[3]) if numbers == AMALI else (0, 0, 0)
        slot = (key[0] if numbers == AMALI else 0, key[-1])
        first = int(ends[who - 1]) if who else 0
        blocks.setdefault(block, {})[slot] = order[first : int(ends[who])]
    for block, slots in blocks.items():
        if len(slots) > warps_per_block or len({sm for sm, _ in slots}) > 1:
            last = min(int(index[0]) for slot, index in sorted(slots.items())[warps_per_block:] or slots.items())
            what = f"block {block} has lines of {len(slots)} warps, and a block of this launch has {warps_per_block} on one SM"
            raise FormatError(what, place=f"{path}:{int(lines.line[last])}", remedy=REMEDY)
    streams = {
        block: [WarpStream(warp, index) for warp, (_, index) in enumerate(sorted(slots.items()))]
        for block, slots in blocks.items()
    }
    return SassFile(path, lines, numbers == AMALI, streams)


def _numbers_before(path: Path) -> int:
    """How many numbers stand before the opcode, by the first line."""
    line = 0
    for piece in whole_lines(path):
        for raw in piece:
            line += 1
            words = raw.split()
            if not words:
                continue
            count = next((k for k, word in enumerate(words) if not word.isdigit()), len(words))
            if count in (PPTGPU, AMALI) and count < len(words):
                return count
            what = f"{count} numbers before the opcode, where PPT-GPU writes 1 and AMALI 5: {raw[:60].decode('ascii', 'replace')!r}"
            raise FormatError(what, place=f"{path}:{line}", remedy="trace the program again with the present tracer of either")
    raise FormatError("the file holds no instruction", place=str(path), remedy="trace the program again")


def _clean(text: bytes) -> str:
    opcode, *operands = text.decode("ascii", "replace").split() or [""]
    if not _OPCODE.fullmatch(opcode):
        raise ValueError(f'"{opcode[:30]}" is no opcode')
    names = [name for name in operands if not _NO_REGISTER.fullmatch(name)]
    for name in names:
        if not is_register(name):
            raise ValueError(f'"{name[:20]}" is no register')
    if len(names) > _MOST_OPERANDS:
        raise ValueError(f"{len(names)} operands are more than any instruction has")
    return " ".join((opcode, *names))
