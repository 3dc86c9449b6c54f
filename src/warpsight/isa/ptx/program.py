"""A program: what the parser of PTX and the decoder of machine code produce, and the emulator, the trace and the control-flow
analysis consume.

Every instruction keeps its PTX line and the source line that the last `.loc` named, so that every later result can name both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from posixpath import normpath
from typing import NamedTuple

from warpsight.isa.sass.native import NativeInstruction

# Headers of the CUDA toolkit (also of its packages, `nvidia/cu13/include`) and of the system, and the files of Triton's language.
_LIBRARY = re.compile(
    r"/(cuda[-/]?[\d.]*|nvidia/\w+)/(targets/[^/]+/)?include/|^/usr/(local/)?include/|/triton/(experimental/gluon/)?language/"
)


def _is_library(path: str) -> bool:
    return _LIBRARY.search(normpath(path)) is not None


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


class ExpandedCall(NamedTuple):
    """A call that was expanded in place: the function's mangled name ("" if it is not known), and where the call stands."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of PTX, or of machine code in PTX's words (`isa/sass/decode.py`), which then is `native` as it is.

    `opcode` is the first word (`ld`), `modifiers` the dotted rest in order (`("global", "v4", "f32")`).

    `operands` in PTX order, destination first. A paired destination `%p|%q` (setp, shfl, atom) puts the second in `pair`.
    `index` is its position in the kernel, counted from 0 over all instructions of the kernel's body in PTX order: the pc of traces.
    `calls` are the expanded calls that it is part of, innermost first.
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
    native: NativeInstruction | None = None
    calls: tuple[ExpandedCall, ...] = ()

    @property
    def text(self) -> str:
        """The full opcode as written, `ld.global.f32`, `LDG.E`."""
        if self.native is not None:
            return self.native.mnemonic
        return ".".join((self.opcode, *self.modifiers))

    @property
    def user_place(self) -> tuple[str, int]:
        """File and line, or, of a library's code, of the innermost expanded call that stands in none of its headers.

        `nvcuda::wmma::load_matrix_sync` is code of `mma.hpp`, but whoever tunes a kernel can change the line that calls it alone.
        """
        places = [(self.file, self.line), *((call.file, call.line) for call in self.calls)]
        return next((place for place in places if place[0] and not _is_library(place[0])), places[0])


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
class Prototype:
    """What a `.callprototype` says of the functions that an indirect call may reach."""

    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]


@dataclass(frozen=True)
class CallSite:
    """A call that is not expanded in place. Frames lie on each thread's call stack; offsets and sizes are bytes in a frame.

    `targets` are the functions that it may reach. `frame` is the size of the caller's frame: the callee's begins where it ends.
    `arguments` and `results` are copies (offset in the caller's frame, offset in the callee's, bytes), done before and after.
    `saved` are registers (name, offset in the caller's frame) that another activation of the caller may overwrite meanwhile.
    """

    caller: str
    targets: tuple[str, ...]
    frame: int
    arguments: tuple[tuple[int, int, int], ...]
    results: tuple[tuple[int, int, int], ...]
    saved: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Callable:
    """A function whose body follows the kernel's: instructions `[first, end)`, the bytes of its frame, where it returns to."""

    first: int
    end: int
    frame: int
    return_register: str


@dataclass(frozen=True)
class Function:
    """A kernel (`.entry`) or device function (`.func`).

    `registers` maps each register name to its declared type (`pred`, `b32`, `f64`, ...). `labels` maps a label to the index
    of the instruction it stands before (may equal len(instructions)). `branch_targets` holds `.branchtargets` lists by label.
    `parameters` are in order, with their byte sizes and alignments; for .func, `returns` likewise. `prototypes` and `call_targets`
    hold `.callprototype` and `.calltargets` by label. `callables` and `call_sites` (by instruction index) are empty but for a
    kernel to which `inline_calls` has appended the functions that it calls; `frame` is what it takes itself of the call stack, 0
    when it needs none. `required_cluster` is the shape of its clusters, `max_cluster_blocks` the most blocks of one. The last
    parameter is not of the launch if `made_bytes` is not 0: NVIDIA's driver makes so many bytes by code for the host in the cubin.
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
    required_cluster: tuple[int, int, int] | None = None
    max_cluster_blocks: int | None = None
    ptx_line: int = 0
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    callables: dict[str, Callable] = field(default_factory=dict)
    call_sites: dict[int, CallSite] = field(default_factory=dict)
    frame: int = 0
    made_bytes: int = 0

    @property
    def is_of_library(self) -> bool:
        """Whether all of it stands in headers of a library, as `EmptyKernel` of CUB does."""
        files = {instruction.user_place[0] for instruction in self.instructions}
        return any(files) and all(_is_library(file) for file in files if file)


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
