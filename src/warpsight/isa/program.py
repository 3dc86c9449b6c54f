"""A parsed PTX module: what the parser produces and the emulator, the trace and the control-flow analysis consume.

Every instruction keeps its PTX line and the source line that the last `.loc` named, so that every later result can name both.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register by name, `%r1`. Special registers (`%tid.x`) are `SpecialRegister`."""

    name: str


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """`%tid.x`, `%ctaid.y`, `%laneid`, `%clock64`, ... including the dimension suffix."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. Integers as Python int (any sign, up to 64 bits); `0f`/`0d` and decimal floats as float with
    `bits` the exact pattern (32 bits for 0f, 64 bits for 0d and decimal)."""

    value: int | float
    bits: int
    is_float: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter, function or label: `sdata`, `$L__BB0_2`, plus a byte offset (`sdata+16`)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; base a register, a symbol or (absolute) an immediate."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, c, d}`; an element may be the sink `_` (None)."""

    elements: tuple[Operand | None, ...]


Operand = Register | SpecialRegister | Immediate | Symbol | Address | Vector


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p1` or `@!%p1`."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Negated:
    """`!%p1` as a source operand (setp, selp combine forms)."""

    register: Register


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction. `opcode` is the first word (`ld`), `modifiers` the dotted rest in order (`("global", "v4", "f32")`).

    `operands` in PTX order, destination first. A paired destination `%p|%q` (setp, shfl, atom) puts the second in `pair`.
    `index` is its position in the kernel, counted from 0 over all instructions of the kernel's body in PTX order: the pc of traces.
    """

    index: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand | Negated, ...]
    guard: Guard | None
    pair: Register | None
    ptx_line: int
    file: str
    line: int

    @property
    def text(self) -> str:
        """The full opcode as written, `ld.global.f32`."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable of a state space (`.shared .align 4 .b8 ta[1024]`), or a kernel parameter (space `param`).

    `extern` marks `.extern .shared` (size 0: the dynamic shared memory). `initial` holds initial bytes for .global and .const
    (b"" when zero-initialised); `initial_symbols` lists (byte offset, symbol, addend) to be filled with addresses.
    """

    name: str
    space: str
    type: str
    size: int
    align: int
    extern: bool = False
    initial: bytes = b""
    initial_symbols: tuple[tuple[int, str, int], ...] = ()
    is_pointer: bool = False


@dataclass(frozen=True)
class Function:
    """A kernel (`.entry`) or device function (`.func`).

    `registers` maps each register name to its declared type (`pred`, `b32`, `f64`, ...). `labels` maps a label to the index
    of the instruction it stands before (may equal len(instructions)). `branch_targets` holds `.branchtargets` lists by label.
    `parameters` are in order, with their byte sizes and alignments; for .func, `returns` likewise.
    """

    name: str
    is_entry: bool
    parameters: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    registers: dict[str, str]
    labels: dict[str, int]
    variables: dict[str, Variable] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    returns: tuple[Variable, ...] = ()
    max_threads: tuple[int, int, int] | None = None
    required_threads: tuple[int, int, int] | None = None
    ptx_line: int = 0


@dataclass(frozen=True)
class Module:
    """One PTX translation unit. `files` maps `.file` numbers to names; `path` names the PTX text in messages."""

    path: str
    version: tuple[int, int]
    target: str
    address_size: int
    functions: dict[str, Function]
    variables: dict[str, Variable]
    files: dict[int, str]

    @property
    def kernels(self) -> dict[str, Function]:
        """The entry functions, by mangled name, in order."""
        return {name: f for name, f in self.functions.items() if f.is_entry}
