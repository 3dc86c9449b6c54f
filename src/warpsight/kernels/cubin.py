"""What a cubin says beside its instructions: an ELF64 file with sections of NVIDIA's own.

The layout has no public specification. Used here: `.nv.info` and `.nv.info.<kernel>` hold attributes as (format, attribute, size,
payload), where 0x2f is a pair (symbol index, registers per thread), 0x11 a pair (symbol index, bytes of stack frame), 0x12 the same
for the stack with all calls, and 0x0a the place of the parameters in constant bank 0 (symbol index, offset, size); 0x17 is a
parameter. `.nv.constant<bank>[.<kernel>]` are constant banks. `.nv.shared.<kernel>` has the size of the static shared memory, plus
the 1 KiB that the system keeps for itself from sm_90 on (symbols `.nv.reservedSmem.*` then stand in the symbol table). Before sm_90
the number of registers is also in bits 31 to 24 of the `sh_info` of `.text.<kernel>`; the tests check that the two agree.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError
from warpsight.kernels.elf import DAMAGE, OBJECT, Elf, Section

_PLACE = "cubin"
_REGISTER_COUNT, _FRAME_SIZE, _MIN_STACK, _PARAMETERS, _PARAMETER = 0x2F, 0x11, 0x12, 0x0A, 0x17
_SIZED_VALUE = 0x04
_UNKNOWN_STACK = 0xFFFFFFFF
_SYSTEM_SHARED_SYMBOL, _SYSTEM_SHARED_BYTES = ".nv.reservedSmem.", 1024
_ADDRESS = 2  # relocation to the 64-bit address of a symbol


@dataclass(frozen=True)
class CubinKernel:
    """One kernel: registers per thread, static shared memory a block, stack (local memory) a thread."""

    registers: int
    static_shared_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class Fixup:
    """8 bytes at `offset` that become the address of `symbol` plus `addend`."""

    offset: int
    symbol: str
    addend: int


@dataclass(frozen=True)
class Bank:
    """A constant bank: its first contents, and the addresses to be filled in. `symbols` are (name, offset, size) of variables."""

    data: bytes
    fixups: tuple[Fixup, ...] = ()
    symbols: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class KernelImage:
    """What a kernel needs beside its instructions.

    `banks` are its constant banks by number, without bank 0; `parameters` is where the parameters begin in bank 0. `shared_bytes`
    is the static shared memory with what the system keeps at its start; `stack_bytes` a thread's stack with all calls.
    """

    parameters: int
    shared_bytes: int
    stack_bytes: int
    banks: dict[int, Bank] = field(default_factory=dict)


class Cubin(Elf):
    """A cubin. Raises what `Elf` raises."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, _PLACE)

    def attributes(self, section: Section) -> list[tuple[int, bytes]]:
        """(attribute, payload) of every sized entry of an information section."""
        entries, offset, end = [], section.offset, section.offset + section.size
        while offset + 4 <= end:
            layout, attribute, size = struct.unpack_from("<BBH", self.data, offset)
            offset += 4
            # In the other layouts the last two bytes are the value itself.
            if layout == _SIZED_VALUE:
                entries.append((attribute, self.data[offset : offset + size]))
                offset += size
        return entries

    def counts(self, attribute: int) -> dict[str, int]:
        """A number for each kernel or function, from the pairs (symbol index, number) of `.nv.info`."""
        found = {}
        for section in self.sections:
            for kind, payload in self.attributes(section) if section.name == ".nv.info" else ():
                if kind == attribute:
                    symbol, value = struct.unpack("<II", payload)
                    found[self.symbols[symbol].name] = value
        return found

    def fixups(self, section: Section) -> tuple[Fixup, ...]:
        """The addresses to be filled into a section."""
        found, contents = [], self.contents(section)
        for each in self.relocations(section):
            if each.type == _ADDRESS:
                (inside,) = struct.unpack_from("<q", contents, each.offset)
                found.append(Fixup(each.offset, self.symbols[each.symbol].name, inside if each.addend is None else each.addend))
        return tuple(found)

    def shared_bytes(self, kernel: str) -> int:
        """Static shared memory of a kernel with what the system keeps."""
        section = self.named(f".nv.shared.{kernel}")
        return section.size if section else self.reserved

    @property
    def reserved(self) -> int:
        """Shared memory that the system keeps at the start of each block's."""
        return _SYSTEM_SHARED_BYTES if any(s.name.startswith(_SYSTEM_SHARED_SYMBOL) for s in self.symbols) else 0


def read_cubin(data: bytes) -> dict[str, CubinKernel]:
    """The kernels of a cubin by mangled name. Raises FormatError when it is damaged or has no register counts."""
    try:
        elf = Cubin(data)
        code = [section.name.removeprefix(".text.") for section in elf.sections if section.name.startswith(".text.")]
        registers, frames = elf.counts(_REGISTER_COUNT), elf.counts(_FRAME_SIZE)
        shared = {name: max(elf.shared_bytes(name) - elf.reserved, 0) for name in code}
    except DAMAGE as error:
        raise FormatError(f"is damaged: {error}", place=_PLACE) from error
    if missing := [name for name in code if name not in registers]:
        raise FormatError(f"has no register count for {missing[0]}", place=_PLACE)
    return {name: CubinKernel(registers[name], shared[name], frames.get(name, 0)) for name in code}


def kernel_image(data: bytes, kernel: str) -> KernelImage:
    """What `kernel` (mangled name) needs beside its instructions. Raises FormatError when the cubin is damaged or lacks it."""
    try:
        elf = Cubin(data)
        information = elf.named(f".nv.info.{kernel}")
        if information is None or elf.named(f".text.{kernel}") is None:
            raise FormatError(f"has no kernel {kernel}", place=_PLACE)
        place = next(struct.unpack("<IHH", payload)[1] for kind, payload in elf.attributes(information) if kind == _PARAMETERS)
        banks = {}
        for number, section in enumerate(elf.sections):
            match = re.fullmatch(r"\.nv\.constant(\d+)(?:\.(.+))?", section.name)
            if match and match[1] != "0" and match[2] in (None, kernel):
                inside = tuple((s.name, s.value, s.size) for s in elf.symbols if s.section == number and s.kind == OBJECT)
                banks[int(match[1])] = Bank(elf.contents(section), elf.fixups(section), inside)
        stacks = [elf.counts(kind).get(kernel, 0) for kind in (_MIN_STACK, _FRAME_SIZE)]
        # With recursion the stack with all calls is not known; what the launch gives such kernels comes on top.
        stack = max(size for size in stacks if size != _UNKNOWN_STACK)
        return KernelImage(place, elf.shared_bytes(kernel), stack, banks)
    except DAMAGE as error:
        raise FormatError(f"is damaged: {error}", place=_PLACE) from error
