"""The files in a folder of PPT-GPU's tracer: their names, the list of launches, executed instructions, and addresses."""

from __future__ import annotations

import ast
import re
import warnings
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.base.inputs import read_input
from warpsight.isa.sass.registers import is_register
from warpsight.traces.importers.launch import REMEDY, damaged
from warpsight.traces.importers.layout import ADDRESS_LIMIT, Longs
from warpsight.traces.importers.lines import Lines, read_lines, whole_lines

CONFIG, SASS, MEMORY = "app_config.py", "sass_traces", "memory_traces"
_SASS_FILE = re.compile(r"kernel_(\d{1,9})\.sass")
_MEMORY_FILE = re.compile(r"kernel_(\d{1,9})_block_(\d{1,12})\.mem")


def place_of(path: str | Path) -> tuple[Path, int | None] | None:
    """(folder, kernel) that `path` names: the folder or its `app_config.py` (kernel None: all), or one `.sass` file; else None."""
    path = Path(path)
    try:
        if path.is_dir():
            return (path, None) if (path / CONFIG).is_file() and (path / SASS).is_dir() else None
        if path.name == CONFIG:
            return (path.parent, None) if (path.parent / SASS).is_dir() else None
        match = _SASS_FILE.fullmatch(path.name)
        if match and path.parent.name == SASS and path.is_file():
            return path.parent.parent, int(match[1])
    except (OSError, ValueError):
        pass
    return None


def may_be_pptgpu(path: str | Path) -> bool:
    """Whether the names at `path` are those of PPT-GPU's or AMALI's tracer."""
    return place_of(path) is not None


def sass_file(folder: Path, kernel: int) -> Path:
    """The file with a kernel's instructions."""
    return folder / SASS / f"kernel_{kernel}.sass"


def memory_files(folder: Path, kernel: int) -> dict[int, Path]:
    """The files with the addresses of a kernel by number of block, in order. Other names in the folder are ignored."""
    try:
        matches = [match for entry in (folder / MEMORY).iterdir() if (match := _MEMORY_FILE.fullmatch(entry.name))]
    except OSError:
        return {}
    return dict(sorted((int(match[2]), folder / MEMORY / match[0]) for match in matches if int(match[1]) == kernel))


# -- `app_config.py`: the launches of a program, written as Python. It is parsed as data and never executed.

_MOST_BYTES = 1 << 26
_LIST = "app_kernels_id"
_REMEDY = "give it as the tracer wrote it: kernel_1 = {...} and app_kernels_id = [...], literals alone"


@dataclass(frozen=True)
class KernelConfig:
    """The entry ``kernel_<number> = {...}``, at `line`.

    `blocks` in the grid and `threads` of a block are totals; `shared_bytes` static and dynamic together; `cluster` blocks in a
    cluster, 0 if not stated.
    """

    number: int
    line: int
    name: str
    registers: int
    shared_bytes: int
    blocks: int
    threads: int
    stream: int
    cluster: int


def read_config(path: Path) -> list[KernelConfig]:
    """The traced kernels in the order of ``app_kernels_id``. Raises FormatError, with file and line, for anything but literals."""
    values: dict[str, tuple[int, Any]] = {}
    for name, line, value in _assignments(path):
        if name in values:
            _refuse(path, line, f"{name} is given twice")
        values[name] = (line, value)
    if _LIST not in values:
        _refuse(path, 0, f"it has no {_LIST}, which is its last line: the file may be cut")
    line, numbers = values[_LIST]
    if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 10**9 for n in numbers):
        _refuse(path, line, f"{_LIST} is not a list of whole numbers")
    if len(set(numbers)) < len(numbers):
        _refuse(path, line, f"{_LIST} names a kernel twice")
    kernels = []
    for number in numbers:
        if f"kernel_{number}" not in values:
            _refuse(path, line, f"{_LIST} names kernel {number}, and there is no kernel_{number}")
        kernels.append(_kernel(path, number, *values[f"kernel_{number}"]))
    return kernels


def _assignments(path: Path) -> list[tuple[str, int, Any]]:
    """(name, line, value) of each assignment in the file."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            _refuse(path, 0, "it is larger than any list of kernels")
        text = read_input(path, _MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None
    except UnicodeDecodeError:
        _refuse(path, 0, "it is not UTF-8 text")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings
            tree = ast.parse(text)
    except SyntaxError as error:
        _refuse(path, error.lineno or 0, f"it is not Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError):
        _refuse(path, 0, "it is not Python that a tracer writes")
    assignments = []
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            _refuse(path, node.lineno, "this is not an assignment of a literal to a name, and nothing of the file is executed")
        try:
            value = ast.literal_eval(node.value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            _refuse(path, node.lineno, "the value is not a literal, and nothing of the file is executed")
        assignments.append((node.targets[0].id, node.lineno, value))
    return assignments


def _kernel(path: Path, number: int, line: int, value: Any) -> KernelConfig:
    if not isinstance(value, dict):
        _refuse(path, line, f"kernel_{number} is not a dictionary")

    def count(key: str, least: int, most: int, default: int | None = None) -> int:
        stated = value.get(key, default)
        if type(stated) is not int or not least <= stated <= most:
            shown = "missing" if stated is None else repr(stated)[:40]
            _refuse(path, line, f"{key} of kernel_{number} is {shown}, not a whole number from {least:,} to {most:,}")
        return stated

    name = value.get("kernel_name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        _refuse(path, line, f"kernel_name of kernel_{number} is missing, or not text")
    return KernelConfig(
        number, line, name, count("num_registers", 0, 255), count("shared_mem_bytes", 0, 1 << 30), count("grid_size", 1, 1 << 40),
        count("block_size", 1, 1024), count("cuda_stream_id", -(1 << 63), 1 << 64, 0), count("cluster_size", 0, 1 << 20, 0),
    )  # fmt: skip


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    raise FormatError(what, place=f"{path}:{line}" if line else str(path), remedy=_REMEDY)


# -- `sass_traces/kernel_<k>.sass`: the instructions that warps executed, a line each, without program counters.
#
# PPT-GPU writes ``warp OPCODE operands`` for the first block only; AMALI ``sm x y z warp OPCODE operands`` for all. `warp` is the
# warp slot of the SM, so the warps of a block are numbered in the order of their slots.

PPTGPU, AMALI = 1, 5  # numbers before the opcode
_OPCODE = re.compile(r"[A-Za-z][\w.]{0,80}", re.ASCII)
_NO_REGISTER = re.compile(r"U?[RP]-\d{1,3}")  # an address without a register
_MOST_OPERANDS = 8


@dataclass(frozen=True)
class WarpLines:
    """The lines of one warp, int64 indices of `SassFile.lines`, in order. `warp` is its number in its block."""

    warp: int
    index: Longs


@dataclass(frozen=True)
class SassFile:
    """A file. `blocks`: the streams of each block by (x, y, z), which for PPT-GPU is one block of unknown number, (0, 0, 0)."""

    path: Path
    lines: Lines
    amali: bool
    blocks: dict[tuple[int, int, int], list[WarpLines]]


def read_sass(path: Path, warps_per_block: int) -> SassFile:
    """Read a file. Raises FormatError, with file and line, for invalid lines and for blocks with too many warps."""
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
        block: [WarpLines(warp, index) for warp, (_, index) in enumerate(sorted(slots.items()))]
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
        raise ValueError(f'"{opcode[:30]}" is not an opcode')
    names = [name for name in operands if not _NO_REGISTER.fullmatch(name)]
    for name in names:
        if not is_register(name):
            raise ValueError(f'"{name[:20]}" is not a register')
    if len(names) > _MOST_OPERANDS:
        raise ValueError(f"{len(names)} operands are more than any instruction has")
    return " ".join((opcode, *names))


# -- `memory_traces/kernel_<k>_block_<b>.mem`: the addresses of a block's accesses, in the order in which the tracer met them.
#
# A record is ``OPCODE 0xaddress ...``; PPT-GPU writes a line ``=====`` before each, AMALI only a line feed. A blank follows every
# word. Addresses that are zero are not written.

_RULE = b"====="
_RECORD = re.compile(rb"([A-Za-z][\w.]{0,80})((?: 0x[0-9a-fA-F]{1,16})*) ?\r?")
_OPCODES = re.compile(rb"^[A-Za-z][\w.]{0,80}(?=[ \n]|$)", re.MULTILINE)
_LANES = 32
_SHARED_LIMIT = 1 << 24  # offsets in shared memory are below it, addresses of device memory above


@dataclass(frozen=True)
class Records:
    """The n accesses of a block, in order: opcodes, and int64 lines in the file.

    The addresses of record k are `address[offset[k] : offset[k + 1]]`. Of an LDGSTS, which has those of both its accesses, the
    first `shared[k]` are in shared memory; else that is 0. `dropped` addresses were beyond any memory, of inactive lanes.
    """

    path: Path
    dropped: int
    opcodes: list[str]
    line: Longs
    offset: Longs
    shared: Longs
    address: Longs


def no_records(path: Path) -> Records:
    """Records of a block without accesses, whose instructions are in the file at `path`."""
    none = np.zeros(0, np.int64)
    return Records(path, 0, [], none, np.zeros(1, np.int64), none, none)


def opcodes_with_records(paths: Iterable[Path]) -> frozenset[str]:
    """All opcodes that have a record in one of the files."""
    opcodes: set[bytes] = set()
    for path in paths:
        for lines in whole_lines(path):
            opcodes.update(_OPCODES.findall(b"\n".join(lines)))
    return frozenset(opcode.decode("ascii") for opcode in opcodes)


def read_records(path: Path) -> Records:
    """The records of a block. Raises FormatError, with file and line, for invalid lines and for a file that is cut."""
    opcodes: list[str] = []
    lines, offset, shared, address = (array("q") for _ in range(4))
    offset.append(0)
    line = dropped = blanks = 0
    last = b""
    for piece in whole_lines(path):
        for raw in piece:
            line += 1
            if raw in (b"", _RULE) or raw.isspace():
                continue
            match = _RECORD.fullmatch(raw)
            if match is None:
                raise damaged(f"not a record of an access: {raw[:60].decode('ascii', 'replace')!r}", f"{path}:{line}")
            opcode = match[1].decode("ascii")
            every = [int(word, 16) for word in match[2].split()]
            real = [each for each in every if each < ADDRESS_LIMIT]
            dropped += len(every) - len(real)
            count = 0
            what = f"an access has {len(real)} addresses"
            if opcode.startswith("LDGSTS"):
                real.sort(key=lambda each: each >= _SHARED_LIMIT)
                count = sum(each < _SHARED_LIMIT for each in real)
                what = f"a copy to shared memory has {count} and {len(real) - count} addresses"
            if max(count, len(real) - count) > _LANES:
                raise FormatError(f"{what}, and a warp has 32 lanes", place=f"{path}:{line}", remedy=REMEDY)
            opcodes.append(opcode)
            lines.append(line)
            shared.append(count)
            address.extend(real)
            offset.append(len(address))
            last = raw
            blanks += raw.rstrip(b"\r").endswith(b" ")
    if opcodes and blanks == len(opcodes) - 1 and blanks and not last.rstrip(b"\r").endswith(b" "):
        raise FormatError("the file ends inside a record", place=f"{path}:{lines[-1]}", remedy=f"the trace is cut: {REMEDY}")
    return Records(path, dropped, opcodes, *(np.asarray(column) for column in (lines, offset, shared, address)))
