"""Machine code in files: cubins, fat binaries, and programs that embed them; and which of its entries runs on a GPU.

A fat binary is a header (magic, version, header bytes, bytes that follow) and entries, each with a header of its own that says
kind, architecture, and how the payload is compressed. The layout is not documented by NVIDIA; it is read as nvcc 11 to 13 write
it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import lazy_loader as lazy

from warpsight.base.errors import FormatError, UnsupportedError, UsageError
from warpsight.kernels import elf
from warpsight.kernels.elf import Elf
from warpsight.kernels.machine_code import OLDEST
from warpsight.kernels.toolkit import Architecture, parse_architecture

pa = lazy.load("pyarrow")

MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _ELF = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000
_VARIANTS = {1 << 20: "a", 1 << 21: "f"}
_MAX_BYTES = 1 << 30
_REMEDY = "use level `sass` and a GPU of that compute capability, or compile with -gencode arch=compute_75,code=compute_75"


@dataclass(frozen=True)
class Entry:
    """One payload. `kind` is ptx, elf or a number; `data` is uncompressed."""

    kind: str
    architecture: Architecture
    data: bytes


def read_entries(content: bytes, place: str) -> list[Entry]:
    """All entries of the containers that follow each other in `content`. Raises FormatError for what is cut or no container."""
    return [entry for container in read_containers(content, place) for entry in container]


def read_containers(content: bytes, place: str) -> list[list[Entry]]:
    """The entries of each container; a container holds one module for several architectures. Raises as `read_entries` does."""
    containers: list[list[Entry]] = []
    offset = 0
    while offset + _CONTAINER.size <= len(content):
        magic, _, header_bytes, size = _CONTAINER.unpack_from(content, offset)
        if magic != MAGIC:
            break
        start, end = offset + header_bytes, offset + header_bytes + size
        if end > len(content) or header_bytes < _CONTAINER.size:
            raise _damaged(place, f"a container of {size:,} bytes is truncated")
        entries = []
        while start + _ENTRY.size <= end:
            entry, start = _read_entry(content, start, end, place)
            entries.append(entry)
        containers.append(entries)
        offset = end + -end % 8
    if not containers:
        raise _damaged(place, "it has no header of a fat binary")
    return containers


def _read_entry(content: bytes, start: int, end: int, place: str) -> tuple[Entry, int]:
    fields = _ENTRY.unpack_from(content, start)
    kind, header_bytes, size, compressed, architecture = fields[0], fields[2], fields[3], fields[4], fields[8]
    flags, plain_bytes = fields[11], fields[13]
    payload = start + header_bytes
    if header_bytes < _ENTRY.size or payload + size > end:
        raise _damaged(place, f"an entry of {size:,} bytes is truncated")
    data = content[payload : payload + size]
    if flags & (_LZ4 | _ZSTD):
        if compressed > size or plain_bytes > _MAX_BYTES:
            raise _damaged(place, "a compressed entry has inconsistent sizes")
        data = _expand(data[:compressed], plain_bytes, "lz4_raw" if flags & _LZ4 else "zstd", place)
    variant = next((letter for bit, letter in _VARIANTS.items() if flags & bit), "")
    return Entry({_PTX: "ptx", _ELF: "elf"}.get(kind, str(kind)), Architecture(architecture, variant), data), payload + size


def _expand(data: bytes, size: int, codec: str, place: str) -> bytes:
    try:
        return bytes(pa.Codec(codec).decompress(data, decompressed_size=size).to_pybytes())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _damaged(place, f"an entry cannot be decompressed ({error})") from error


def _damaged(place: str, why: str) -> FormatError:
    return FormatError(f"the fat binary cannot be read: {why}", place=place, remedy="build the program again")


# -- Files.


def is_binary(data: bytes) -> bool:
    """Whether a file is a cubin, a fat binary, or a program."""
    return data[:4] in (elf.MAGIC, struct.pack("<I", MAGIC))


def modules_in(data: bytes, place: str) -> list[list[Entry]]:
    """The modules of a cubin, a fat binary or a program, each for one or several architectures; at least one.

    Raises FormatError for a damaged file, and one without any; UnsupportedError for code that has yet to be linked.
    """
    if data[:4] != elf.MAGIC:
        return read_containers(data, place)
    try:
        file = Elf(data, place)
        if file.machine == elf.CUDA_MACHINE:
            if file.type == elf.RELOCATABLE:
                raise _unlinked(place)
            return [[Entry("elf", cubin_architecture(file), data)]]
        section = file.named(".nv_fatbin")
        if section is None:
            if file.named("__nv_relfatbin") is not None:
                raise _unlinked(place)
            remedy = "give a cubin, a fat binary, or a program that nvcc has built"
            raise FormatError("is a program or library without kernels: it embeds no fat binary", place=place, remedy=remedy)
        content = file.contents(section)
    except elf.DAMAGE as error:
        raise elf.damaged(error, place) from error
    return [entries for entries in read_containers(content, place) if entries]


_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(sm_\d+[af]?)", re.MULTILINE)


def image_entries(data: bytes, place: str) -> list[Entry]:
    """What a program loads itself: the entries of one module, of a cubin, a fat binary or PTX. Raises as `modules_in` does."""
    if is_binary(data):
        return [entry for entries in modules_in(data, place) for entry in entries]
    target = _TARGET.search(data)
    if target is None:
        remedy = "load the text that nvcc or NVRTC wrote"
        raise FormatError("the program loads PTX without a .target line", place=place, remedy=remedy)
    return [Entry("ptx", parse_architecture(target[1].decode()), data)]


def _unlinked(place: str) -> UnsupportedError:
    remedy = "give the linked program, or compile without -dc and -rdc=true"
    return UnsupportedError("holds machine code that has yet to be linked (relocatable device code)", place=place, remedy=remedy)


_NEW_ABI, _OLD_VARIANT = 8, 0x800
_COMPILED_FOR = re.compile(rb"-arch[= ]+sm_\d+([af])\b")


def cubin_architecture(file: Elf) -> Architecture:
    """What a cubin was assembled for. The header's flags have the number, and before CUDA 13 also whether the variant is `a`; since
    then the assembler's note of its options has the variant.
    """
    if file.abi_version < _NEW_ABI:
        return Architecture(file.flags & 0xFF, "a" if file.flags & _OLD_VARIANT else "")
    note = file.named(".note.nv.tkinfo")
    variant = _COMPILED_FOR.search(file.contents(note)) if note is not None else None
    return Architecture(file.flags >> 8 & 0xFF, variant[1].decode() if variant else "")


# -- Which entry runs on a GPU (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility").


def runs_on(code: Architecture, gpu: Architecture) -> bool:
    """Whether machine code for `code` runs on `gpu`: the same major version, minor not above; for variants just the same."""
    if code.variant:
        return code.number == gpu.number
    return code.number // 10 == gpu.number // 10 and code.number <= gpu.number


def best_code(entries: Sequence[Entry], gpu: Architecture) -> Entry | None:
    """The machine code that CUDA chooses for `gpu`, None where none runs on it that NVIDIA's disassembler reads."""
    fitting = [e for e in entries if e.kind == "elf" and runs_on(e.architecture, gpu) and e.architecture.number >= OLDEST]
    return max(fitting, key=lambda entry: (entry.architecture.number, entry.architecture.variant), default=None)


def architectures_in(entries: Sequence[Entry]) -> str:
    """The architectures that there is machine code for, as messages list them: `sm_80, sm_90a`."""
    found = {(e.architecture.number, e.architecture.real) for e in entries if e.kind == "elf"}
    return ", ".join(real for _, real in sorted(found)) or "nothing"


def _code_in(entries: Sequence[Entry]) -> str:
    """All code, as messages list it: `machine code for sm_80, sm_90a and PTX for compute_90`."""
    ptx = sorted({(e.architecture.number, e.architecture.virtual) for e in entries if e.kind == "ptx"})
    found = [f"machine code for {architectures_in(entries)}"] if any(e.kind == "elf" for e in entries) else []
    return " and ".join([*found, *([f"PTX for {', '.join(virtual for _, virtual in ptx)}"] if ptx else [])]) or "no code"


def ptx_texts(entries: Sequence[Entry], place: str, gpu: Architecture | None = None) -> list[str]:
    """The PTX of a module, the highest virtual architecture first: all, or what can be assembled for `gpu`. Raises FormatError."""
    def fits(entry: Entry) -> bool:
        if gpu is None:
            return True
        return runs_on(entry.architecture, gpu) if entry.architecture.variant else entry.architecture.number <= gpu.number

    def order(entry: Entry) -> tuple[int, bool]:
        return -entry.architecture.number, not entry.architecture.variant

    texts = sorted((e for e in entries if e.kind == "ptx" and fits(e)), key=order)
    try:
        return [entry.data.rstrip(b"\0").decode() for entry in texts]
    except UnicodeDecodeError as error:
        raise _damaged(place, "its PTX is not text") from error


def no_ptx(entries: Sequence[Entry], place: str) -> UnsupportedError:
    """What to say where PTX is needed and there is only machine code."""
    what = f"only machine code is embedded in it ({architectures_in(entries)}), no PTX"
    return UnsupportedError(what, place=place, remedy=_REMEDY)


def not_for(entries: Sequence[Entry], gpu: Architecture, place: str) -> UsageError:
    """What to say where neither machine code nor PTX runs on `gpu`."""
    what, build = f"has {_code_in(entries)}", f"-gencode arch=compute_{gpu.number},code={gpu.real}"
    if any(entry.kind == "elf" and runs_on(entry.architecture, gpu) for entry in entries):
        oldest = Architecture(OLDEST).real
        return UsageError(f"{what}, and NVIDIA's disassembler reads that of {oldest} and later", place=place,
                          remedy=f"build it with {build}")  # fmt: skip
    remedy = f"choose a GPU that it was built for, or build it with {build}"
    return UsageError(f"{what}, which does not run on {gpu.real}", place=place, remedy=remedy)
