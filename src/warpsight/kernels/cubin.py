"""What a cubin says beside its instructions: an ELF64 file with sections of NVIDIA's own.

The layout has no public specification. Used here: `.nv.info` and `.nv.info.<kernel>` hold attributes as (format, attribute, size,
payload), where 0x2f is a pair (symbol index, registers per thread), 0x11 a pair (symbol index, bytes of stack frame), 0x12 the
same for the stack with all calls, and 0x0a the place of the parameters in constant bank 0 (symbol index, offset, size); 0x17 is a
parameter (index, number, offset, and a word whose bits from 18 on are its size), 0x45 the same as (index,
number, offset, size, flags), which does not list those that the driver makes (`host_code`), 0x0f the functions that the kernel
calls and the file does not contain, 0x05, 0x10 and 0x3d what `.maxntid`, `.reqntid` and `.reqnctapercluster` say.
`.nv.constant<bank>[.<kernel>]` are constant banks, `.nv.global` and `.nv.global.init` the variables in device memory.
`.nv.shared.<kernel>` has the size of the static shared memory, plus the 1 KiB that the system keeps for itself from sm_90 on
(symbols `.nv.reservedSmem.*` then stand in the symbol table). Before sm_90 the number of registers is also in bits 31 to 24 of the
`sh_info` of `.text.<kernel>`; the tests check that the two agree.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.isa.ptx.linking import DEVICE_RUNTIME, EXTERNALS, why_not
from warpsight.isa.ptx.program import Function, Module, Variable
from warpsight.kernels.elf import DAMAGE, FUNCTION, OBJECT, SECTION, Elf, Section, Symbol, damaged
from warpsight.kernels.toolkit import Architecture

_PLACE = "cubin"
_REGISTER_COUNT, _FRAME_SIZE, _MIN_STACK, _PARAMETERS, _PARAMETER, _STATED_PARAMETER = 0x2F, 0x11, 0x12, 0x0A, 0x17, 0x45
_CALLED, _MAX_THREADS, _REQUIRED_THREADS, _CLUSTER = 0x0F, 0x05, 0x10, 0x3D
_SIZED_VALUE = 0x04
_ENTRY = 0x10  # of a symbol: it is a kernel
_UNKNOWN_STACK = 0xFFFFFFFF
_SYSTEM_SHARED_SYMBOL, _SYSTEM_SHARED_BYTES = ".nv.reservedSmem.", 1024
# The mbarrier object with which pairs of blocks allocate tensor memory: as CUDA 12.9 names it, and what it lies in as 13.0 does.
_PAIR_OBJECTS = {"__nv_reservedSMEM_tmem_allocation_pipeline_mbarrier": 0, "__nv_reservedSMEM_tcgen05_partition": 8}
_RENAMED = re.compile(r"\$__([\w$%]+)__(\d+)")
_ADDRESSES = (2, 4, 35)  # relocations to the 64-bit address of a symbol, to its generic address, and to a function


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
    """A constant bank of one kernel, its `owner`, or of all (""): its first contents, and the addresses to be filled in. `symbols`
    are (name, offset, size) of variables.
    """

    number: int
    owner: str
    data: bytes
    fixups: tuple[Fixup, ...] = ()
    symbols: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class KernelImage:
    """What a kernel needs beside its instructions.

    `banks` are the constant banks of all kernels of the module but for bank 0, where the parameters begin at `parameters`.
    `shared_bytes` is the static shared memory with the `system_shared_bytes` at its start; `stack_bytes` a thread's stack with all
    calls. `externals` are the functions of the runtime whose addresses stand in the banks. With the mbarrier object at
    `pair_object` in shared memory, pairs of blocks allocate tensor memory; 0 for none. `renamed` are the variables that functions
    of the PTX declare: each name there, and what the assembler calls those of this name (`$__table__10`), in their order.
    """

    parameters: int
    shared_bytes: int
    stack_bytes: int
    banks: tuple[Bank, ...] = ()
    externals: tuple[str, ...] = ()
    system_shared_bytes: int = 0
    pair_object: int = 0
    renamed: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Cubin(Elf):
    """A cubin. Raises what `Elf` raises."""

    def __init__(self, data: bytes, place: str = _PLACE) -> None:
        super().__init__(data, place)
        self.place = place

    @property
    def renamed(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """As in `KernelImage`."""
        found = [match for symbol in self.symbols if symbol.kind == OBJECT and (match := _RENAMED.fullmatch(symbol.name))]
        found.sort(key=lambda match: int(match[2]))
        return tuple((name, tuple(m[0] for m in found if m[1] == name)) for name in sorted({m[1] for m in found}))

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
        """The addresses to be filled into a section. Those of unknown functions stay 0: kernels that call them are refused."""
        found, contents = [], self.contents(section)
        for each in self.relocations(section):
            symbol = self.symbols[each.symbol]
            if each.type not in _ADDRESSES or symbol.kind == SECTION:
                what = f"a relocation of type {each.type} in {section.name} is not modelled"
                raise UnsupportedError(what, place=self.place, remedy="give the source or its PTX")
            if symbol.section or symbol.name in EXTERNALS:
                (inside,) = struct.unpack_from("<q", contents, each.offset)
                found.append(Fixup(each.offset, symbol.name, inside if each.addend is None else each.addend))
        return tuple(found)

    def banks(self) -> tuple[Bank, ...]:
        """The constant banks without bank 0, those of all kernels first."""
        found = []
        for number, section in enumerate(self.sections):
            match = re.fullmatch(r"\.nv\.constant(\d+)(?:\.(.+))?", section.name)
            if match and match[1] != "0":
                inside = tuple((s.name, s.value, s.size) for s in self.symbols if s.section == number and s.kind == OBJECT)
                found.append(Bank(int(match[1]), match[2] or "", self.contents(section), self.fixups(section), inside))
        return tuple(sorted(found, key=lambda bank: (bank.owner, bank.number)))

    def shared_bytes(self, kernel: str) -> int:
        """Static shared memory of a kernel with what the system keeps."""
        section = self.named(f".nv.shared.{kernel}")
        return section.size if section else self.reserved

    @property
    def reserved(self) -> int:
        """Shared memory that the system keeps at the start of each block's."""
        return _SYSTEM_SHARED_BYTES if any(s.name.startswith(_SYSTEM_SHARED_SYMBOL) for s in self.symbols) else 0

    @property
    def pair_object(self) -> int:
        """See `KernelImage`."""
        return next((s.value + _PAIR_OBJECTS[s.name] for s in self.symbols if s.name in _PAIR_OBJECTS), 0)


def read_cubin(data: bytes, place: str = _PLACE) -> dict[str, CubinKernel]:
    """The kernels of a cubin by mangled name. Raises FormatError when it is damaged or has no register counts."""
    try:
        elf = Cubin(data, place)
        code = [section.name.removeprefix(".text.") for section in elf.sections if section.name.startswith(".text.")]
        registers, frames = elf.counts(_REGISTER_COUNT), elf.counts(_FRAME_SIZE)
        shared = {name: max(elf.shared_bytes(name) - elf.reserved, 0) for name in code}
    except DAMAGE as error:
        raise damaged(error, place) from error
    if missing := [name for name in code if name not in registers]:
        raise FormatError(f"has no register count for {missing[0]}", place=place)
    return {name: CubinKernel(registers[name], shared[name], frames.get(name, 0)) for name in code}


def kernel_image(data: bytes, kernel: str, place: str = _PLACE) -> KernelImage:
    """What `kernel` (mangled name) needs beside its instructions; "" for what all kernels have in common.

    Raises FormatError when the cubin is damaged or lacks it, UnsupportedError for what is not modelled.
    """
    try:
        elf = Cubin(data, place)
        banks = elf.banks()
        if not kernel:
            return KernelImage(0, 0, 0, banks, renamed=elf.renamed)
        information = elf.named(f".nv.info.{kernel}")
        if information is None or elf.named(f".text.{kernel}") is None:
            raise FormatError(f"has no kernel {kernel}", place=place)
        attributes = elf.attributes(information)
        starts = (struct.unpack("<IHH", payload)[1] for kind, payload in attributes if kind == _PARAMETERS)
        # Without parameters bank 0 ends where they would begin.
        parameters = next(iter((*starts, *(s.size for s in elf.sections if s.name == f".nv.constant0.{kernel}"))))
        for payload in (payload for kind, payload in attributes if kind == _CALLED):
            for symbol in (elf.symbols[index] for (index,) in struct.iter_unpack("<I", payload)):
                if not symbol.section and (name := symbol.name) not in EXTERNALS:
                    what = why_not(name, "its file")
                    remedy = "launch the kernels from the host" if DEVICE_RUNTIME in what else "give the linked program"
                    raise UnsupportedError(what, place=f"{place}: {kernel}", remedy=remedy)
        stacks = [elf.counts(kind).get(kernel, 0) for kind in (_MIN_STACK, _FRAME_SIZE)]
        # With recursion the stack with all calls is not known; what the launch gives such kernels comes on top.
        stack = max(size for size in stacks if size != _UNKNOWN_STACK)
        own = [fixup.symbol for bank in banks if bank.owner in ("", kernel) for fixup in bank.fixups]
        externals = tuple(n for n in EXTERNALS if n in own)
        shared = elf.shared_bytes(kernel)
        return KernelImage(parameters, shared, stack, banks, externals, elf.reserved, elf.pair_object, elf.renamed)
    except DAMAGE as error:
        raise damaged(error, place) from error


# -- A cubin as the module that it was made from: kernels with their parameters, variables in device memory.


def read_module(data: bytes, architecture: Architecture, place: str) -> Module:
    """The kernels and functions of a cubin, without instructions, and its variables. Raises FormatError, UnsupportedError."""
    try:
        elf = Cubin(data, place)
        functions = {
            symbol.name: _function(elf, symbol) for symbol in elf.symbols
            if symbol.kind == FUNCTION and symbol.section and elf.sections[symbol.section].name.startswith(".text.")
        }  # fmt: skip
        variables = {variable.name: variable for variable in _variables(elf)}
    except DAMAGE as error:
        raise damaged(error, place) from error
    return Module(place, divmod(architecture.number, 10), architecture.real, 64, functions, variables, {})


def _function(elf: Cubin, symbol: Symbol) -> Function:
    section = elf.named(f".nv.info.{symbol.name}")
    attributes = elf.attributes(section) if symbol.other & _ENTRY and section is not None else []
    rows = [(number, offset, word >> 18) for number, offset, word in
            (struct.unpack("<IHHI", payload)[1:] for kind, payload in attributes if kind == _PARAMETER)]  # fmt: skip
    stated = [struct.unpack("<IHHHH", payload)[1:4] for kind, payload in attributes if kind == _STATED_PARAMETER]
    limits = {kind: payload for kind, payload in attributes if kind in (_MAX_THREADS, _REQUIRED_THREADS, _CLUSTER)}
    start, needed = next((struct.unpack("<IHH", payload)[1:] for kind, payload in attributes if kind == _PARAMETERS), (0, 0))
    parameters, end = [], start
    for number, offset, size in sorted(rows + stated):
        place = start + offset
        kind = f"b{8 * size}" if size in (1, 2, 4, 8) else "b8"
        align = next((1 << bits for bits in range(13) if -(-end >> bits) << bits == place), 0)
        if not align:
            raise ValueError(f"parameter {number + 1} of {symbol.name} is at {offset}")
        parameters.append(Variable(f"{symbol.name}_param_{number}", "param", kind, size, align))
        end = place + size
    end -= start
    made = needed - end if stated else 0
    if made > 0:
        parameters.append(Variable(f"{symbol.name}_param_made", "param", "b8", made, 1))
        end = needed
    if end != needed:
        raise ValueError(f"the parameters of {symbol.name} have {end} bytes, and {needed} are needed")
    threads = {kind: struct.unpack_from("<3I", payload) for kind, payload in limits.items()}
    return Function(
        symbol.name, bool(symbol.other & _ENTRY), tuple(parameters), (), {}, {},
        max_threads=threads.get(_MAX_THREADS), required_threads=threads.get(_REQUIRED_THREADS),
        required_cluster=threads.get(_CLUSTER), made_bytes=max(made, 0),
    )  # fmt: skip


def _variables(elf: Cubin) -> Iterator[Variable]:
    """The variables in device memory."""
    for number, section in enumerate(elf.sections):
        if section.name not in (".nv.global", ".nv.global.init"):
            continue
        contents, fixups = elf.contents(section), elf.fixups(section)
        for symbol in elf.symbols:
            if symbol.section == number and symbol.kind == OBJECT:
                end = symbol.value + symbol.size
                if end > section.size:
                    raise ValueError(f"variable {symbol.name} ends behind the end of {section.name}")
                inside = tuple((f.offset - symbol.value, f.symbol, f.addend) for f in fixups if symbol.value <= f.offset < end)
                first = contents[symbol.value : end] if section.name.endswith(".init") else b""
                yield Variable(symbol.name, "global", "b8", symbol.size, max(section.align, 1), False, first, inside)


def code_of_kernel(data: bytes, kernel: str, place: str = _PLACE) -> tuple[int, ...]:
    """The symbols of a kernel (mangled name) and of the functions outside of kernels, which it may call. Raises FormatError."""
    try:
        symbols = Cubin(data, place).symbols
    except DAMAGE as error:
        raise damaged(error, place) from error
    functions = {number: symbol for number, symbol in enumerate(symbols) if symbol.kind == FUNCTION and symbol.section}
    kernels = {symbol.section for symbol in functions.values() if symbol.other & _ENTRY}
    return tuple(n for n, symbol in functions.items() if symbol.name == kernel or symbol.section not in kernels)


# -- Code for the host in cubins of CUDA Tile.

_HOST_CODE, _X86_64 = ".nv.host", 62
_TILE_FUNCTIONS, _TILE_VERSION = "__CUDA_TILEIR_CALLBACKS", 2
_ROW_BYTES, _ROWS = 0x20, 0x28  # places in the table of that name; the number of rows follows
_MAKES = 0x28  # the place in a row of the function that makes a kernel's last parameters; at 0 is the kernel's name


def host_code(data: bytes, kernel: str, place: str = _PLACE) -> bytes:
    """The code of the host that makes the last parameters of `kernel` (mangled name), such as tensor maps, from those before them.

    The section `.nv.host` is an object file. Its symbol `__CUDA_TILEIR_CALLBACKS` is a table: a version, and at 0x28 the address of
    a row of pointers for each kernel. The function in a row gets, as its fourth argument, the address of all parameters, and
    returns 0. This was inferred from what `tileiras` makes. Raises FormatError, and UnsupportedError for what differs from it.
    """
    try:
        cubin = Cubin(data, place)
        section = cubin.named(_HOST_CODE)
        code = None if section is None else _HostCode(cubin.contents(section), place)
        found = None if code is None else code.maker(kernel)
    except DAMAGE as error:
        raise damaged(error, place) from error
    if found is None:
        what = "does not contain the code that makes its last parameters"
        raise FormatError(what, place=f"{place}: {kernel}", remedy="build it again")
    return found


class _HostCode(Elf):
    def __init__(self, data: bytes, place: str) -> None:
        super().__init__(data, place)
        self._place = place

    def maker(self, kernel: str) -> bytes | None:
        """The code of the function that makes the parameters."""
        if self.machine != _X86_64:
            raise self._unknown("is not for x86-64")
        table = next(symbol for symbol in self.symbols if symbol.name == _TILE_FUNCTIONS)
        words = self.contents(self.sections[table.section])[table.value :]
        (version,), (size, _, count) = struct.unpack_from("<I", words), struct.unpack_from("<3Q", words, _ROW_BYTES)
        if version != _TILE_VERSION:
            raise self._unknown(f"has version {version}")
        home, rows = self._pointer(table.section, table.value + _ROWS)
        for row in range(rows, rows + size * count, size):
            text, start = self._pointer(home, row)
            name = self.contents(self.sections[text])[start:].partition(b"\0")[0].decode()
            if name == kernel:
                filled = {each.offset - row for each in self.relocations(self.sections[home]) if row <= each.offset < row + size}
                if filled != {0, _MAKES}:
                    raise self._unknown("has other functions than the one that makes parameters")
                return self._function(*self._pointer(home, row + _MAKES))
        return None

    def _pointer(self, section: int, offset: int) -> tuple[int, int]:
        """The section and the place in it that a pointer leads to."""
        each = next(each for each in self.relocations(self.sections[section]) if each.offset == offset)
        symbol = self.symbols[each.symbol]
        return symbol.section, symbol.value + (each.addend or 0)

    def _function(self, section: int, start: int) -> bytes:
        size = next(s.size for s in self.symbols if s.kind == FUNCTION and (s.section, s.value) == (section, start))
        if any(start <= each.offset < start + size for each in self.relocations(self.sections[section])):
            raise self._unknown("needs other code or data")
        return self.contents(self.sections[section])[start : start + size]

    def _unknown(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"the code with which NVIDIA's driver makes a kernel's last parameters {what}", place=self._place)


def embedded_ptx(data: bytes) -> str:
    """The PTX that a cubin with line information was made from, line by line as the disassembler counts them; "" without."""
    elf = Cubin(data)
    section = elf.named(".nv_debug_ptx_txt")
    return "" if section is None else elf.contents(section).replace(b"\0", b"\n").decode(errors="replace")


def undefined_names(data: bytes) -> set[str]:
    """The functions that the kernels of a cubin call and that it does not contain."""
    return {symbol.name for symbol in Cubin(data).symbols if symbol.name and not symbol.section}
