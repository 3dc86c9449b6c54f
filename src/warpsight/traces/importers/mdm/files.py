"""The files in a folder of MDM's tools: their names, the tool's output, cache files, accesses, and the instructions of a kernel."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.base.inputs import read_input
from warpsight.isa.sass.opcodes import GLOBAL, LOAD, STORE, SassOpcode, SassTable, unnamed
from warpsight.traces.importers.launch import REMEDY, damaged
from warpsight.traces.importers.layout import ADDRESS_LIMIT, Ints, Longs
from warpsight.traces.importers.lines import Lines, whole_lines

INSTRUCTIONS, MEMORY, FUNCTIONAL = "instruction_trace_{}.txt", "mem_trace_{}.txt", "memory_access_{}.txt"
CACHE_FILES = ("L1_cache", "L2_cache")
_NAME = re.compile(r"(instruction_trace|mem_trace|memory_access|interval_info)_(\d{1,9})\.txt")


def kernel_of(name: str) -> tuple[str, int] | None:
    """(kind, kernel) of a file's name, as ``("mem_trace", 1)``; None for any other name."""
    match = _NAME.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def may_be_mdm(path: str | Path) -> bool:
    """Whether the names at `path` are those of MDM's tools: a folder with such files, or a kernel's instructions."""
    path = Path(path)
    try:
        if path.is_dir():
            return any(kernel_of(entry.name) for entry in path.iterdir())
        named = kernel_of(path.name)
        return named is not None and named[0] == "instruction_trace" and path.is_file()
    except (OSError, ValueError):
        return False


# -- The output of MDM's tools while they trace: the launches, and the numbers of opcodes. Users store it beside the trace.
#
# The lines are ``Kernel NAME - grid size X,Y,Z - block size X,Y,Z - nregs N - shmem BYTES - cuda stream id N`` and
# ``OPCODE NAME MAPS TO ID N``. Opcodes are numbered in the order of their first use, so the numbers are
# those of one run.

_SUFFIXES = (".log", ".out", ".txt", ".err", "")
_THREE = r"(\d{1,10}),(\d{1,10}),(\d{1,10})"
_LAUNCH = rf"Kernel (.{{1,4000}}) - grid size {_THREE} - block size {_THREE} - nregs (\d{{1,4}}) - shmem (\d{{1,9}})"
_KERNEL = re.compile(_LAUNCH.encode() + rb" - cuda stream id (\d{1,20})\s*")
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
    """The launches in order, and opcodes by number. `path` is None if the folder has no such file."""

    path: Path | None = None
    kernels: list[LoggedKernel] = field(default_factory=list)
    opcodes: dict[int, str] = field(default_factory=dict)


def read_log(folder: Path) -> Log:
    """The output of the tool, from the one file of the folder that has such lines.

    Raises FormatError if two files have them (the numbers of two runs are unrelated), or if one contradicts itself.
    """
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", place=str(folder), remedy="check the path") from None
    first = Log()
    for name in names:
        if kernel_of(name) or Path(name).suffix not in _SUFFIXES:
            continue
        log = _read(folder / name)
        if first.path is not None and log.path is not None:
            what = f"{first.path.name} and {name} both hold the output of a tool, and the numbers of opcodes are those of one run"
            remedy = "keep only the output of the run that made instruction_trace_<k>.txt"
            raise FormatError(what, place=str(folder), remedy=remedy)
        first = log if log.path is not None else first
    return first


def _read(path: Path) -> Log:
    log = Log()
    line = 0
    for piece in whole_lines(path):
        for raw in piece:
            line += 1
            if raw.startswith(b"Kernel ") and (match := _KERNEL.fullmatch(raw)):
                log.path = path
                log.kernels.append(_kernel(match, f"{path}:{line}"))
            elif raw.startswith(b"OPCODE ") and (match := _OPCODE.fullmatch(raw)):
                log.path = path
                name, number = match[1].decode("ascii"), int(match[2])
                if log.opcodes.setdefault(number, name) != name:
                    what = f"opcode {number} is {name} here, and {log.opcodes[number]} above"
                    raise FormatError(what, place=f"{path}:{line}", remedy="keep the output of one run only")
    return log


def _kernel(match: re.Match[bytes], place: str) -> LoggedKernel:
    x, y, z, bx, by, bz, registers, shared_bytes, stream = (int(number) for number in match.groups()[1:])
    name = match[1].decode("utf-8", "replace").split("(")[0].strip()
    name = "".join(c for c in name if c.isprintable()) or "kernel"
    return LoggedKernel(name, (x, y, z), (bx, by, bz), registers, shared_bytes, stream, place)


# -- The cache files of MDM's scripts, `L1_cache` and `L2_cache`: four lines of ``name = value``.

_KEYS = ("line size", "number of lines", "associativity", "replacement policy")
_LINE = re.compile(r"\s*([a-z ]+?)\s*=\s*(\w+)\s*")
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class CacheFile:
    """`line_bytes`, number of `lines`, `ways` and replacement `policy` as written, ``LRU``."""

    line_bytes: int
    lines: int
    ways: int
    policy: str


def read_cache_file(path: Path) -> CacheFile:
    """Read a cache file. Raises FormatError, with file and line, for an invalid line and for missing values."""
    try:
        text = read_input(path)[:_MOST_BYTES].decode("ascii", "replace")
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if not match or match[1] not in _KEYS or match[1] in values or (match[1] != _KEYS[3] and not _is_size(match[2])):
            what = f"not a line of a cache file: {line[:60]!r}"
            raise FormatError(what, place=f"{path}:{number}", remedy=f"write {' = ..., '.join(_KEYS)} = ...")
        values[match[1]] = match[2]
    missing = [key for key in _KEYS if key not in values]
    if missing:
        raise FormatError(f"has no {', '.join(missing)}", place=str(path), remedy="write a line `name = value` for each")
    line_bytes, lines, ways, policy = (values[key] for key in _KEYS)
    return CacheFile(int(line_bytes), int(lines), int(ways), policy)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:10]) > 0 and len(text) <= 10


# -- `mem_trace_<k>.txt` and `memory_access_<k>.txt`: the cache lines that each access touches.
#
# ``warp,sm,pc,RoW,line,line,...,`` with RoW 1 for a load and 0 for anything else; of the functional simulator ``warp,pc,R|W,...,``.
# The numbers that follow are addresses divided by the size of a cache line (128 bytes in the tool), each once, in ascending order.

_LANES = 32
_MOST = 1 << 40


@dataclass(frozen=True)
class Accesses:
    """All accesses of a kernel, int64 [n] each: warp of the launch, pc, whether it is a load, line in the file. The cache lines of
    access k are `touched[offset[k] : offset[k + 1]]`. `dropped` numbers were not lines of any memory.
    """

    path: Path
    dropped: int
    warp: Longs
    pc: Longs
    load: Longs
    line: Longs
    offset: Longs
    touched: Longs


_NONE = np.zeros(0, np.int64)
NO_ACCESSES = Accesses(Path(), 0, _NONE, _NONE, _NONE, _NONE, np.zeros(1, np.int64), _NONE)


def read_accesses(path: Path, line_bytes: int, *, functional: bool) -> Accesses:
    """Read a file. Raises FormatError, with file and line, for an invalid line and for a file that is cut."""
    warp, pc, load, numbers, offset, touched = (array("q") for _ in range(6))
    offset.append(0)
    line = dropped = 0
    limit = ADDRESS_LIMIT // line_bytes
    at = 2 if functional else 3
    for piece in whole_lines(path):
        for raw in piece:
            line += 1
            if not raw or raw.isspace():
                continue
            *parts, end = raw.split(b",")
            if end.strip() or len(parts) <= at:
                raise _no_access(path, line, raw, "it does not end with a comma, or has too few fields")
            kind = parts[at].strip()
            parts[at] = {b"R": b"1", b"W": b"0"}.get(kind, b"?") if functional else kind
            try:
                values = [int(part) for part in parts]
            except ValueError:
                raise _no_access(path, line, raw, "a field is not a number") from None
            if values[at] not in (0, 1) or not 0 <= values[0] < _MOST or not 0 <= values[at - 1] < 1 << 31:
                raise _no_access(path, line, raw, "warp, pc or the mark of a load is invalid")
            kept = [value for value in values[at + 1 :] if 0 < value < limit]
            dropped += len(values) - at - 1 - len(kept)
            if len(kept) > _LANES:
                raise _no_access(path, line, raw, f"{len(kept)} cache lines, and a warp has {_LANES} lanes")
            warp.append(values[0])
            pc.append(values[at - 1])
            load.append(values[at])
            numbers.append(line)
            touched.extend(kept)
            offset.append(len(touched))
    return Accesses(path, dropped, *(np.asarray(column) for column in (warp, pc, load, numbers, offset, touched)))


def _no_access(path: Path, line: int, raw: bytes, what: str) -> FormatError:
    return damaged(f"not an access: {raw[:60].decode('ascii', 'replace')!r}: {what}", f"{path}:{line}")


# -- The instructions of a kernel from `instruction_trace_<k>.txt`: ``warp,pc,opcode,dst,src1,src2,src3``, opcodes as numbers.
#
# The tool writes the first number of each operand of any kind; 10000 is none. Sources from 1000 on are not written: the field then
# has whatever was in memory. So a field that differs from one execution to the next is not an operand.

_TEXT = re.compile(rb"\d{1,10},\d{1,9}(,-?\d{1,11}){3,4}\s*")
_REGISTERS, _PREDICATES = 256, 8
_SHOWN = 12


@dataclass(frozen=True)
class Instruction:
    """One instruction: `names` are its operands; `addressed` if its accesses are in the memory trace."""

    pc: int
    opcode: str
    names: tuple[str, ...]
    addressed: bool


@dataclass(frozen=True)
class Program:
    """Instructions in order of pc; `of_text` int32 [texts]: the instruction of each text; `isa` also has rows for accesses whose
    opcode is not known. `varying` operand fields differ between executions and are left out.
    """

    instructions: list[Instruction]
    of_text: Ints
    isa: SassTable
    varying: int


def clean(text: bytes) -> str:
    """The text behind the warp in a line. Raises ValueError if it is invalid."""
    if not _TEXT.fullmatch(text):
        raise ValueError("pc, opcode, destination and two or three sources are expected")
    return text.decode("ascii").strip()


def program_of(path: Path, lines: Lines, accesses: Accesses, opcodes: Mapping[int, str], isa: SassTable) -> Program:
    """The program. Raises FormatError if a pc has two opcodes, and if the opcode of a number is not known."""
    fields: dict[int, list[list[int]]] = {}
    texts = [[int(field) for field in text.split(",")] for text in lines.texts]
    for number, text in enumerate(texts):
        known = fields.setdefault(text[0], [])
        if known and known[0][1] != text[1]:
            what = f"pc {text[0]:#x} has opcode {text[1]} here and {known[0][1]} above"
            line = int(lines.line[int(np.argmax(lines.text == number))])
            raise FormatError(what, place=f"{path}:{line}", remedy=f"the trace is damaged: {REMEDY}")
        known.append(text)
    pcs, first = np.unique(accesses.pc, return_index=True)
    recorded = dict(zip(pcs.tolist(), accesses.load[first].tolist(), strict=True))  # the pcs with accesses: 1 for loads
    names = dict(opcodes)
    rows = dict(isa.own)
    missing = set()
    for pc, executions in fields.items():
        number = executions[0][1]
        if number in names:
            continue
        if pc in recorded:
            names[number] = unnamed(number)
            what = "an access in the memory trace"
            rows[unnamed(number)] = SassOpcode(unnamed(number), "memory", GLOBAL, LOAD if recorded[pc] else STORE, what)
        else:
            missing.add(number)
    missing -= set(names)
    if missing:
        shown = ", ".join(map(str, sorted(missing)[:_SHOWN])) + (" ..." if len(missing) > _SHOWN else "")
        what = f"the opcodes of the numbers {shown} are not known: the tool numbers them in each run, and prints the numbers"
        remedy = "put its output (OPCODE LDG.E MAPS TO ID 3 ...) beside it as a .log file, or give a file of opcodes " \
            "(`isa_file`) with `3: LDG.E`"  # fmt: skip
        raise FormatError(what, place=str(path), remedy=remedy)
    instructions, varying = [], 0
    place = {pc: k for k, pc in enumerate(sorted(fields))}
    for pc in place:
        opcode = names[fields[pc][0][1]]
        operands, odd = _operands(opcode, fields[pc])
        varying += odd
        instructions.append(Instruction(pc, opcode, operands, pc in recorded))
    of_text = np.array([place[text[0]] for text in texts], np.int32)
    return Program(instructions, of_text, SassTable(rows, isa.numbers), varying)


def _operands(opcode: str, texts: list[list[int]]) -> tuple[tuple[str, ...], int]:
    """The registers of an instruction that its texts agree on, and the number of fields that they do not agree on."""
    base = opcode.split(".", maxsplit=1)[0]
    predicates = 2 if base.endswith("SETP") else 0
    names, varying = [], 0
    for k in range(2, len(texts[0])):
        values = {text[k] for text in texts if len(text) > k}
        if len(values) > 1:
            varying += 1
            continue
        value = values.pop()
        if k - 2 < predicates and 0 <= value < _PREDICATES:
            names.append(f"P{value}")
        elif 0 <= value < _REGISTERS:
            names.append(f"R{value}")
    return tuple(names), varying
