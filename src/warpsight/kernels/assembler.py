"""PTX to machine code with nvJitLink, and what the assembler decided about each kernel, read from the cubin."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import CompileError, FormatError
from warpsight.kernels import nvjitlink_process
from warpsight.kernels import toolkit as libraries
from warpsight.kernels.toolkit import Architecture

PACKAGE = "nvidia-nvjitlink"
_LIBRARY = "libnvJitLink.so.13"
_TIMEOUT_S = 600


def library_identity() -> str:
    """Which nvJitLink this is, without loading it. Raises MissingLibraryError."""
    return libraries.identity(libraries.library_path(_LIBRARY, PACKAGE))


def assemble(ptx: str, path: str, architecture: Architecture) -> bytes:
    """The cubin of `ptx` for `architecture`; `path` names it in messages.

    Raises CompileError with the assembler's words, MissingLibraryError when nvJitLink is not installed.
    """
    library = libraries.library_path(_LIBRARY, PACKAGE)
    script = Path(nvjitlink_process.__file__)
    command = [sys.executable, "-I", "-S", str(script), str(library), architecture.real, path]
    try:
        process = subprocess.run(command, input=ptx.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"the assembler (nvJitLink) cannot be run: {error}", place=path) from None
    if process.returncode == 0:
        return process.stdout
    failure = "crashes on it"
    if process.returncode == 2:
        failure = f"does not know {architecture.real}"
    elif process.returncode == 1 and process.stdout:
        failure = f"refuses it:\n{process.stdout.decode(errors='replace').strip()}"
    raise CompileError(f"the assembler (nvJitLink) {failure}", place=path)


# -- What NVIDIA's assembler decided about each kernel, read from a cubin (an ELF64 file with NVIDIA's own sections).
#
# The section layout has no public specification. Used here: `.nv.info` holds attributes as (format, attribute, size, payload),
# where 0x2f is a pair (symbol index, registers per thread) and 0x11 a pair (symbol index, bytes of stack frame);
# `.nv.shared.<kernel>` has the size of the static shared memory, plus the 1 KiB that the system keeps for itself from sm_90 on
# (symbols `.nv.reservedSmem.*` then stand in the symbol table). Before sm_90 the number of registers is also in bits 31 to 24 of
# the `sh_info` of `.text.<kernel>`; the tests check that the two agree.

_PLACE = "cubin"
_REGISTER_COUNT, _FRAME_SIZE = 0x2F, 0x11
_SIZED_VALUE = 0x04
_SYMBOL_TABLE, _SYMBOL_BYTES = 2, 24
_SYSTEM_SHARED_SYMBOL, _SYSTEM_SHARED_BYTES = ".nv.reservedSmem.", 1024


@dataclass(frozen=True)
class CubinKernel:
    """One kernel: registers per thread, static shared memory a block, stack (local memory) a thread."""

    registers: int
    static_shared_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class _Section:
    name: str
    type: int
    offset: int
    size: int
    link: int
    info: int


def _text_at(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _sections(data: bytes) -> list[_Section]:
    if data[:5] != b"\x7fELF\x02":
        raise FormatError("is not a 64-bit ELF file", place=_PLACE)
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * entry_size) for index in range(count)]
    names = raw[names_index][4]
    return [_Section(_text_at(data, names + r[0]), r[1], r[4], r[5], r[6], r[7]) for r in raw]


def _symbol_names(data: bytes, sections: list[_Section]) -> list[str]:
    table = next(section for section in sections if section.type == _SYMBOL_TABLE)
    strings = sections[table.link].offset
    entries = range(table.offset, table.offset + table.size, _SYMBOL_BYTES)
    return [_text_at(data, strings + struct.unpack_from("<I", data, entry)[0]) for entry in entries]


def _attributes(data: bytes, section: _Section) -> list[tuple[int, bytes]]:
    """(attribute, payload) of every sized entry."""
    entries, offset, end = [], section.offset, section.offset + section.size
    while offset + 4 <= end:
        layout, attribute, size = struct.unpack_from("<BBH", data, offset)
        offset += 4
        # In the other layouts the last two bytes are the value itself.
        if layout == _SIZED_VALUE:
            entries.append((attribute, data[offset : offset + size]))
            offset += size
    return entries


def read_cubin(data: bytes) -> dict[str, CubinKernel]:
    """The kernels of a cubin by mangled name. Raises FormatError when it is damaged or has no register counts."""
    try:
        sections = _sections(data)
        symbols = _symbol_names(data, sections)
        code = [section.name.removeprefix(".text.") for section in sections if section.name.startswith(".text.")]
        reserved = _SYSTEM_SHARED_BYTES if any(symbol.startswith(_SYSTEM_SHARED_SYMBOL) for symbol in symbols) else 0
        own = [section for section in sections if section.name.startswith(".nv.shared.")]
        shared = {section.name.removeprefix(".nv.shared."): max(section.size - reserved, 0) for section in own}
        values: dict[int, dict[str, int]] = {_REGISTER_COUNT: {}, _FRAME_SIZE: {}}
        for section in sections:
            for attribute, payload in _attributes(data, section) if section.name == ".nv.info" else ():
                if attribute in values:
                    symbol, value = struct.unpack("<II", payload)
                    values[attribute][symbols[symbol]] = value
    except (struct.error, ValueError, IndexError, StopIteration) as error:
        raise FormatError(f"is damaged: {error}", place=_PLACE) from error
    registers, frames = values[_REGISTER_COUNT], values[_FRAME_SIZE]
    if missing := [name for name in code if name not in registers]:
        raise FormatError(f"has no register count for {missing[0]}", place=_PLACE)
    return {name: CubinKernel(registers[name], shared.get(name, 0), frames.get(name, 0)) for name in code}
