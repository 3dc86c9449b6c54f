"""Where a kernel's variables lie in their state spaces: parameters, shared, local, and the module's global and constant data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.emulator.codegen.layout import ARENA_BASE, EXTERNAL_BASE, FUNCTION_BASE, FUNCTION_STEP
from warpsight.isa.architectures import shared_memory_unit, system_shared_bytes
from warpsight.isa.ptx.linking import EXTERNALS
from warpsight.isa.ptx.program import Address, Function, Module, SpecialRegister, Symbol, Variable, Vector
from warpsight.kernels.cubin import KernelImage

GLOBAL_ALIGN = 256  # as cudaMalloc
STACK_LIMIT = 1024  # bytes per lane that `alloca` may take: CUDA's default of cudaLimitStackSize
_STACK_OPCODES = frozenset({"alloca", "stacksave", "stackrestore"})


CONSTANT_BYTES = 1 << 16  # PTX ISA, "Constant State Space"
DYNAMIC_SHARED_ALIGN = 16  # CUDA C++ Programming Guide: the alignment that a kernel may assume of it


def align_up(value: int, to: int) -> int:
    """The next multiple of `to`."""
    return -(-value // to) * to


@dataclass(frozen=True)
class GlobalData:
    """A module variable in device memory: `address`, and whether stores to it are allowed."""

    variable: Variable
    address: int
    writable: bool


@dataclass(frozen=True)
class Placed:
    """A variable of shared, local or parameter memory: `offset` and `size` in bytes."""

    space: str
    name: str
    offset: int
    size: int


# What the system keeps at the start of a block's shared memory since compute capability 8.0. Kernels that
# do not ask for it see none. Cooperative groups use 288 bytes from `_1` on for tiles of more than 32 threads.
RESERVED_SHARED = {
    "%reserved_smem_offset_begin": 0, "%reserved_smem_offset_end": 1024, "%reserved_smem_offset_cap": 1024,
    "%reserved_smem_offset_0": 0, "%reserved_smem_offset_1": 512,
}  # fmt: skip


def used_symbols(function: Function) -> set[str]:
    """Names of all symbols that the function's operands mention."""

    def names_in(operand: object) -> set[str]:
        if isinstance(operand, Symbol):
            return {operand.name}
        if isinstance(operand, Address):
            return names_in(operand.base)
        return set().union(*map(names_in, operand.elements)) if isinstance(operand, Vector) else set()

    return {name for instruction in function.instructions for operand in instruction.operands for name in names_in(operand)}


class SymbolTable:
    """Lays out every variable that a kernel can name: `addresses` are offsets within the state space, of global and constant data
    addresses, of functions (also in `functions`) what a pointer to them holds.

    `static_shared_bytes`, `local_bytes` (per lane, the stack from `stack_start` on included) and `param_bytes` are the sizes of
    those spaces; `system_shared_bytes` of the first are the system's. Global and constant data begin at device address
    `global_base`: the module's own first, in their order, so that all kernels of a module agree on them. `stack_grows_down` says
    from which end of local memory a thread's stack is used, `parameters_start` where the parameters begin in theirs. `shared_names`
    are the variables in shared memory. `pair_object` is that of `KernelImage`, in machine code.
    """

    stack_grows_down = False
    pair_object = 0
    parameters_start = 0
    system_shared_bytes = 0
    banks: dict[int, tuple[int, int]] = {}
    externals: dict[str, int] = {}

    def __init__(self, module: Module, function: Function, global_base: int = ARENA_BASE) -> None:
        self.global_base = global_base
        # The same in every kernel of the module, since one may write a pointer into memory and another call through it.
        numbers = {name: number for number, name in enumerate(module.functions)}
        self.functions = {name: FUNCTION_BASE + FUNCTION_STEP * numbers[f.name] for name, f in module.functions.items()}
        self.addresses: dict[str, int] = dict(self.functions)
        self.placed: list[Placed] = []
        self.param_bytes = self._place(function.parameters)
        used = used_symbols(function)
        variables = (*module.variables.values(), *function.variables.values())
        if any(isinstance(o, SpecialRegister) and o.name in RESERVED_SHARED for i in function.instructions for o in i.operands):
            self.system_shared_bytes = RESERVED_SHARED["%reserved_smem_offset_end"]
            self.placed.append(Placed("shared", "reserved shared memory", 0, self.system_shared_bytes))
        self._place_shared([v for v in variables if v.space == "shared" and v.name in used])
        self.shared_names = {v.name for v in variables if v.space == "shared"}
        self.local_bytes = self._place([v for v in function.variables.values() if v.space == "local"])
        self.local_bytes = self.stack_start = align_up(self.local_bytes, 16)
        if any(i.opcode in _STACK_OPCODES for i in function.instructions):
            self.local_bytes += STACK_LIMIT
        self.global_data: list[GlobalData] = []
        constant = sum(v.size for v in module.variables.values() if v.space == "const")
        if constant > CONSTANT_BYTES:
            what = f"its variables take {constant:,} bytes of constant memory, and a GPU has {CONSTANT_BYTES:,}"
            raise UsageError(what, place=module.path, remedy="keep large tables in global memory (`__device__ const`)")
        self._place_global([v for v in variables if v.space in ("global", "const")], global_base)

    def _place(self, variables: Iterable[Variable], end: int = 0) -> int:
        """Place variables one after the other from `end` on; the offset where they end."""
        for variable in variables:
            end = align_up(end, max(1, variable.align))
            self.addresses[variable.name] = end
            self.placed.append(Placed(variable.space, variable.name, end, variable.size))
            end += variable.size
        return end

    def _place_shared(self, variables: list[Variable]) -> None:
        """Static variables first; all dynamic (extern) ones begin where those end."""
        self.static_shared_bytes = self._place([v for v in variables if not v.extern], self.system_shared_bytes)
        dynamic = [v for v in variables if v.extern]
        self.dynamic_shared_offset = align_up(self.static_shared_bytes, max((v.align for v in dynamic), default=1))
        for variable in dynamic:
            self.addresses[variable.name] = self.dynamic_shared_offset

    def _place_global(self, variables: list[Variable], address: int) -> None:
        for variable in variables:
            address = align_up(address, max(GLOBAL_ALIGN, variable.align))
            self.addresses[variable.name] = address
            self.global_data.append(GlobalData(variable, address, variable.space == "global"))
            address += variable.size
        self.arena_start = align_up(address, GLOBAL_ALIGN)


class NativeSymbolTable(SymbolTable):
    """Where a kernel's variables lie when its machine code is run.

    Parameters, shared memory and constant banks lie as the assembler has laid them out; variables in device memory as at the level
    of PTX, so that both write the same addresses. `banks` gives (device address, bytes) by number; those of the module's other
    kernels have a place too. `externals` are the addresses of functions of the runtime that the code calls through registers.
    `inside` has the variables (name, offset, size) of a bank by its address. `stack_start` is the size of a thread's stack, from
    whose end it grows down.
    """

    stack_grows_down = True

    def __init__(self, module: Module, function: Function, image: KernelImage, global_base: int = ARENA_BASE) -> None:
        super().__init__(module, function, global_base)
        self.placed = [p for p in self.placed if p.space != "param"]
        self.parameters_start = image.parameters
        # What is aligned is so within the bank. Code reads whole words, also of a last parameter of one or two bytes.
        self.param_bytes = align_up(self._place(function.parameters, image.parameters), 4)
        self.static_shared_bytes = image.shared_bytes
        self.system_shared_bytes, self.pair_object = image.system_shared_bytes, image.pair_object
        self.dynamic_shared_offset = align_up(image.shared_bytes, DYNAMIC_SHARED_ALIGN)
        self.local_bytes = self.stack_start = align_up(image.stack_bytes, 16)
        numbers = {name: number for number, name in enumerate(EXTERNALS)}
        self.externals = {name: EXTERNAL_BASE + FUNCTION_STEP * numbers[name] for name in image.externals}
        self.addresses |= {name: EXTERNAL_BASE + FUNCTION_STEP * number for name, number in numbers.items()} | self.functions
        renamed = _declared_names(module, image)
        self.addresses |= {name: self.addresses[declared] for name, declared in renamed.items()}
        self.banks: dict[int, tuple[int, int]] = {}
        self.inside: dict[int, tuple[tuple[str, int, int], ...]] = {}
        for bank in image.banks:
            inside = {renamed.get(name, name) for name, _, _ in bank.symbols}
            self.global_data = [data for data in self.global_data if data.variable.name not in inside]
            fixups = tuple((f.offset, f.symbol, f.addend) for f in bank.fixups)
            name = f"constant bank {bank.number}" + (f" of {bank.owner}" if bank.owner else "")
            variable = Variable(name, "const", "b8", len(bank.data), GLOBAL_ALIGN, False, bank.data, fixups)
            if bank.owner in ("", function.name):
                self.banks[bank.number] = (self.arena_start, len(bank.data))
            self.addresses |= {name: self.arena_start + offset for name, offset, _ in bank.symbols}
            self.inside[self.arena_start] = bank.symbols
            self.global_data.append(GlobalData(variable, self.arena_start, False))
            self.arena_start = align_up(self.arena_start + len(bank.data), GLOBAL_ALIGN)


def _declared_names(module: Module, image: KernelImage) -> dict[str, str]:
    """What the module calls the variables of functions (`kernel/table`), by the assembler's names for them. A name of which
    the assembler has dropped some is left out, as nothing says which.
    """
    found: dict[str, str] = {}
    for name, renamed in image.renamed:
        own = re.compile(rf".*/{re.escape(name)}(\$\d+)?")
        declared = [variable for variable in module.variables if own.fullmatch(variable)]
        if len(declared) == len(renamed):
            found |= dict(zip(renamed, declared, strict=True))
    return found


@dataclass(frozen=True)
class SharedMemory:
    """Bytes of shared memory of a block. `asked`: static and dynamic, from offset 0 on. `room`: from there to the end of what the
    hardware allocates, which is what it checks accesses with: an assembler may merge loads past what was asked for. `total`
    is allocated for the kernel, `system` for the system beside it (PTX ISA, "%total_smem_size", "%aggr_smem_size").
    """

    asked: int
    room: int
    total: int
    system: int

    @classmethod
    def of(cls, symbols: SymbolTable, dynamic: int, target: str) -> SharedMemory:
        """That of a launch with so many bytes of `dynamic` shared memory on an architecture such as `sm_90a`."""
        asked = symbols.dynamic_shared_offset + dynamic if dynamic else symbols.static_shared_bytes
        total = align_up(asked - symbols.system_shared_bytes, shared_memory_unit(target))
        return cls(asked, symbols.system_shared_bytes + total, total, system_shared_bytes(target))


def has_contents(data: GlobalData) -> bool:
    """Whether a variable begins with anything but zeros."""
    return bool(data.variable.initial or data.variable.initial_symbols)


def initial_bytes(symbols: SymbolTable, data: GlobalData, place: str) -> bytes:
    """The first contents of a module variable, symbol addresses filled in, zero-extended to its size."""
    content = bytearray(data.variable.initial.ljust(data.variable.size, b"\0"))
    for offset, name, addend in data.variable.initial_symbols:
        if name not in symbols.addresses:
            what = f'an initialiser needs the address of "{name}", which is neither data nor a function of this PTX'
            raise UnsupportedError(what, place=place)
        content[offset : offset + 8] = (symbols.addresses[name] + addend).to_bytes(8, "little")
    return bytes(content)
