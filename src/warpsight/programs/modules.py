"""The modules and kernels of a running program: taken from fat binaries, parsed when loaded, compiled when first launched.

A fat binary is a header (magic, version, header bytes, bytes that follow) and entries, each with a header of its own that says
kind, architecture, and how the payload is compressed. The layout is not documented by NVIDIA; it is read as nvcc 11 to 13 write
it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property

import lazy_loader as lazy

from warpsight.base.errors import FormatError, UnsupportedError, WarpsightError
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.codegen.symbols import GLOBAL_ALIGN, align_up
from warpsight.emulator.ptx.system import needs_workspace
from warpsight.emulator.run.externals import uses_heap
from warpsight.emulator.run.launch import PreparedKernel, prepare_kernel
from warpsight.emulator.run.memory import ModuleData
from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.program import Function
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.mangling import display_name
from warpsight.kernels.registers import RegisterUse, register_use

pa = lazy.load("pyarrow")

MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _ELF = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000
_MAX_PTX_BYTES = 1 << 30
_REMEDY = "compile with -gencode arch=compute_75,code=compute_75, so that PTX is embedded"


@dataclass(frozen=True)
class Entry:
    """One payload. `kind` is ptx, elf or a number; `architecture` is 75 for compute_75; `data` is uncompressed."""

    kind: str
    architecture: int
    data: bytes


def read_entries(content: bytes, place: str) -> list[Entry]:
    """All entries of the containers that follow each other in `content`. Raises FormatError for what is cut or no container."""
    entries: list[Entry] = []
    offset = 0
    while offset + _CONTAINER.size <= len(content):
        magic, _, header_bytes, size = _CONTAINER.unpack_from(content, offset)
        if magic != MAGIC:
            break
        start, end = offset + header_bytes, offset + header_bytes + size
        if end > len(content) or header_bytes < _CONTAINER.size:
            raise _damaged(place, f"a container of {size:,} bytes is truncated")
        while start + _ENTRY.size <= end:
            entry, start = _read_entry(content, start, end, place)
            entries.append(entry)
        offset = end
    if offset == 0:
        raise _damaged(place, "it has no header of a fat binary")
    return entries


def _read_entry(content: bytes, start: int, end: int, place: str) -> tuple[Entry, int]:
    fields = _ENTRY.unpack_from(content, start)
    kind, header_bytes, size, compressed, architecture = fields[0], fields[2], fields[3], fields[4], fields[8]
    flags, plain_bytes = fields[11], fields[13]
    payload = start + header_bytes
    if header_bytes < _ENTRY.size or payload + size > end:
        raise _damaged(place, f"an entry of {size:,} bytes is truncated")
    data = content[payload : payload + size]
    if flags & (_LZ4 | _ZSTD):
        if compressed > size or plain_bytes > _MAX_PTX_BYTES:
            raise _damaged(place, "a compressed entry has inconsistent sizes")
        data = _expand(data[:compressed], plain_bytes, "lz4_raw" if flags & _LZ4 else "zstd", place)
    return Entry({_PTX: "ptx", _ELF: "elf"}.get(kind, str(kind)), architecture, data), payload + size


def _expand(data: bytes, size: int, codec: str, place: str) -> bytes:
    try:
        return bytes(pa.Codec(codec).decompress(data, decompressed_size=size).to_pybytes())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _damaged(place, f"an entry cannot be decompressed ({error})") from error


def _damaged(place: str, why: str) -> FormatError:
    return FormatError(f"the fat binary in the program cannot be read: {why}", place=place, remedy="build the program again")


def ptx_choices(content: bytes, place: str) -> list[str]:
    """All PTX of a fat binary, the highest virtual architecture first; at least one.

    Raises UnsupportedError where there is only machine code, and FormatError.
    """
    entries = read_entries(content, place)
    texts = sorted((e for e in entries if e.kind == "ptx"), key=lambda e: -e.architecture)
    if not texts:
        native = ", ".join(sorted({f"sm_{e.architecture}" for e in entries if e.kind == "elf"})) or "nothing"
        raise UnsupportedError(f"only machine code is embedded in the program ({native}), no PTX", place=place, remedy=_REMEDY)
    try:
        return [entry.data.rstrip(b"\0").decode() for entry in texts]
    except UnicodeDecodeError as error:
        raise _damaged(place, "its PTX is not text") from error


# -- The modules and kernels of one running program.

MODULE_ZONE = 0x40000000
"""Bytes at the start of the arena that no `cudaMalloc` gives, as in runtime.h: variables of modules in the first half, then the
heap of the kernels' own `malloc`, and at the end the workspace of a cooperative grid."""
WORKSPACE = ARENA_BASE + MODULE_ZONE - GLOBAL_ALIGN
HEAP_START = ARENA_BASE + MODULE_ZONE // 2
HEAP_MOST_BYTES = WORKSPACE - GLOBAL_ALIGN - HEAP_START


@dataclass(frozen=True)
class Kernel:
    """A kernel of a loaded module. `base` is where its module's variables lie."""

    source: KernelSource
    function: Function
    base: int

    @property
    def name(self) -> str:
        """As in the source."""
        return display_name(self.function.name)

    @cached_property
    def prepared(self) -> PreparedKernel:
        """Compiled. Raises UnsupportedError."""
        return prepare_kernel(self.source, self.function.name, global_base=self.base)

    @cached_property
    def uses_heap(self) -> bool:
        """Does it, or a function of its module, call `malloc`?"""
        return uses_heap([self.function, *self.source.module.functions.values()])

    @cached_property
    def needs_workspace(self) -> bool:
        """Does it wait for its whole grid?"""
        return needs_workspace(self.function)

    @cached_property
    def registers(self) -> RegisterUse:
        """Registers per thread and static shared memory."""
        return register_use(self.source, self.function.name)

    @cached_property
    def layout(self) -> list[tuple[int, int]]:
        """Offset and size of each parameter, in bytes."""
        rows, end = [], 0
        for parameter in self.function.parameters:
            end = align_up(end, max(1, parameter.align))
            rows.append((end, parameter.size))
            end += parameter.size
        return rows

    @property
    def max_threads(self) -> int:
        """Threads that a block may have, by the kernel's own word (.maxntid, .reqntid), else CUDA's limit."""
        most = self.function.required_threads or self.function.max_threads
        return most[0] * most[1] * most[2] if most else 1024


@dataclass(frozen=True)
class LoadedModule:
    """A module whose variables have their addresses."""

    source: KernelSource
    data: ModuleData
    base: int


@dataclass
class Modules:
    """Everything that one program has loaded. `program` names it in messages."""

    program: str
    modules: list[LoadedModule] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    _end: int = ARENA_BASE
    _known: dict[bytes, KernelSource] = field(default_factory=dict)

    def load(self, fatbin: bytes) -> int:
        """Load a fat binary; returns its number. Raises UnsupportedError, FormatError."""
        if fatbin not in self._known:
            self._known[fatbin] = self._parse(fatbin)
        source = self._known[fatbin]
        data = ModuleData(source.module, self._end, source.path)
        if data.end > HEAP_START:
            raise UnsupportedError(f"its modules' variables take more than {MODULE_ZONE >> 21} MiB", place=self.program)
        self.names |= {address: f'variable "{display_name(name)}"' for name, address, *_ in data.rows}
        self.modules.append(LoadedModule(source, data, self._end))
        self._end = data.end
        return len(self.modules) - 1

    def _parse(self, fatbin: bytes) -> KernelSource:
        number = len(self._known) + 1
        place = self.program if number == 1 else f"{self.program}[{number}]"
        refusal: WarpsightError | None = None
        for text in ptx_choices(fatbin, self.program):
            try:
                return KernelSource(place, text, parse_module(text, f"{place} (PTX)"))
            except WarpsightError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def kernel(self, module: int, name: str) -> int | None:
        """The number of a kernel of a loaded module, None if it has no such kernel."""
        loaded = self.modules[module]
        function = loaded.source.module.kernels.get(name)
        if function is None:
            return None
        if any(v.space in ("global", "const") for v in function.variables.values()):
            raise UnsupportedError("a kernel with global variables of its own is not modelled", place=f"{self.program}: {name}")
        self.kernels.append(Kernel(loaded.source, function, loaded.base))
        return len(self.kernels) - 1

    def reset(self) -> None:
        """Forget what was loaded, but not how it was parsed."""
        self.modules.clear()
        self.kernels.clear()
        self.names.clear()
        self._end = ARENA_BASE
