"""One instruction of machine code (SASS): its operands as they are listed, and its control word.

Operand syntax is that of NVIDIA's disassembler. The control word, which says when the instruction may issue, is not documented; its
fields are those of Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018), section 2.1, and of
Huerta et al., "Analyzing Modern NVIDIA GPU cores" (MICRO 2025), section 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

ZERO_REGISTERS = frozenset({"RZ", "URZ", "SRZ"})
TRUE_PREDICATES = frozenset({"PT", "UPT"})
CONSTANT_BANK_BYTES = 1 << 16
"""The disassembler lists an offset in a constant bank as a signed number of 16 bits: those of the second half are negative."""


@dataclass(frozen=True, slots=True)
class NativeRegister:
    """A register (`R4`, `UR4`, `RZ`) or predicate (`P0`, `UP0`, `PT`). `inverted` is `~` or `!`; `part` is what follows
    (`H0_H0`). An instruction descriptor, `idesc[UR5]`, is the register that holds it.
    """

    name: str
    negative: bool = False
    absolute: bool = False
    inverted: bool = False
    part: str = ""

    @property
    def is_predicate(self) -> bool:
        """A predicate, uniform or not."""
        return self.name.lstrip("U")[0] == "P"


@dataclass(frozen=True, slots=True)
class NativeImmediate:
    """A number. `value` is the integer as listed; `bits` are the 32 bits of the encoding, from which floats are read."""

    value: int
    bits: int
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class NativeConstant:
    """`c[bank][base + offset]`: `base` a register or None."""

    bank: int
    offset: int
    base: NativeRegister | None = None
    negative: bool = False
    absolute: bool = False
    inverted: bool = False
    part: str = ""


@dataclass(frozen=True, slots=True)
class NativeAddress:
    """`[base * scale + uniform + offset]`. `wide`: the base is a pair of registers; `short`: it is one although addresses are wide
    (`.U32`). `wide_uniform`: the uniform register is a pair. `descriptor` is the uniform register before it. A descriptor alone is
    the policy of the L2 for a copy by a tensor map.
    """

    base: NativeRegister | None
    uniform: NativeRegister | None = None
    offset: int = 0
    scale: int = 1
    wide: bool = False
    descriptor: str = ""
    short: bool = False
    wide_uniform: bool = False


@dataclass(frozen=True, slots=True)
class NativeSymbol:
    """The address of code or data by name: `half` is `lo` or `hi` (32 bits of it) or "" (all)."""

    name: str
    addend: int = 0
    half: str = ""


@dataclass(frozen=True, slots=True)
class NativeWord:
    """Anything else: a special register (`SR_TID.X`), a barrier (`B0`, `SB0`), a dimension (`2D`)."""

    text: str


@dataclass(frozen=True, slots=True)
class NativeDescriptors:
    """`gdesc[UR8].tnspB`: the descriptors of matrices A and B in shared memory, in four uniform registers from `name` on; that of
    one matrix, in two `registers`, for products with tensor memory. `words` say which are negated, transposed or kept.
    """

    name: str
    words: tuple[str, ...] = ()
    registers: int = 4


@dataclass(frozen=True, slots=True)
class NativeTensorMemory:
    """`tmem[UR4+0x8].A_KEEP`: a place in tensor memory. `words` say how long a matrix there is kept."""

    name: str
    offset: int = 0
    words: tuple[str, ...] = ()


NativeOperand = (
    NativeRegister | NativeImmediate | NativeConstant | NativeAddress | NativeSymbol | NativeWord | NativeDescriptors
    | NativeTensorMemory
)  # fmt: skip


def is_predicate(operand: NativeOperand) -> bool:
    """Whether an operand is a predicate, uniform or not."""
    return isinstance(operand, NativeRegister) and operand.is_predicate


_REGISTER = r"(?:UR|UP|R|P)(?:\d+|Z|T)"
_SIGNED = re.compile(rf"^([-~!]?)(\|?)({_REGISTER})(\|?)((?:\.\w+)*)(\|?)$")
_CONSTANT = re.compile(r"^([-~!]?)(\|?)c\[0x([0-9a-f]+)\] ?\[([^\]]*)\](\|?)((?:\.\w+)*)$")
_ADDRESS = re.compile(r"^(?:desc\[(UR\d+|URZ)\])?\[([^\]]*)\]$")
_POLICY = re.compile(r"^desc\[(UR\d+|URZ)\]$")
_DESCRIPTORS = re.compile(r"^gdesc\[(UR\d+|URZ)\]((?:\.\w+)*)$")
_TENSOR_MEMORY = re.compile(r"^tmem\[(UR\d+|URZ)(?:\+(-?0x[0-9a-f]+))?\]((?:\.\w+)*)$")
_FORM = re.compile(r"^idesc\[(UR\d+|URZ)\]$")
_INTEGER = re.compile(r"^([-+~]?)(0x[0-9a-f]+|\d+)$")
_FLOAT = re.compile(r"^[-+]?(\d+\.\d*(e[-+]?\d+)?|\d+e[-+]?\d+|INF|QNAN|SNAN|NAN)\s*$", re.IGNORECASE)
_HALF = re.compile(r"^(?:32@(lo|hi))?`?\(+([^\s()+]+)(?:@srel)?(?:\s*\+\s*(0x[0-9a-f]+|[^\s()@]+)(?:@srel)?)?\)+$")
_PARTS = re.compile(r"([-+]?)\s*((?:0x[0-9a-f]+|\d+)|(?:UR|R)(?:\d+|Z)(?:\.\w+)*)")


def _integer(text: str) -> int:
    match = _INTEGER.match(text)
    if match is None:
        raise ValueError(text)
    value = int(match[2], 0)
    return -value if match[1] == "-" else ~value if match[1] == "~" else value


def _register(text: str) -> NativeRegister | None:
    match = _SIGNED.match(text)
    if match is None:
        return None
    sign, bar, name, _, part, _ = match.groups()
    parts = [p for p in part.split(".") if p and p != "reuse"]
    return NativeRegister(name, sign == "-", bool(bar), sign in ("~", "!"), ".".join(parts))


def _address(text: str, descriptor: str) -> NativeAddress:
    base = uniform = None
    offset, scale, wide, short = 0, 1, False, False
    for sign, part in _PARTS.findall(text.replace("+-", "-")):
        if part[0] in "UR":
            name, *suffixes = part.split(".")
            register = NativeRegister(name)
            if name.startswith("UR"):
                uniform = register
            else:
                base = register
                wide, short = "64" in suffixes, "U32" in suffixes
                scale = next((int(s[1:]) for s in suffixes if re.fullmatch(r"X\d+", s)), 1)
        else:
            offset += -int(part, 0) if sign == "-" else int(part, 0)
    return NativeAddress(base, uniform, offset, scale, wide, descriptor, short)


def parse_operand(text: str, encoding: int) -> NativeOperand:
    """The operand that `text` lists; `encoding` is the instruction's. Raises ValueError for a form that is not known."""
    return _operand(text, 0 if text.startswith(_NO_NUMBER) else encoding >> 32 & 0xFFFFFFFF)


_NO_NUMBER = ("R", "UR", "P", "UP", "[", "c", "desc", "gdesc", "tmem", "idesc")


@lru_cache(maxsize=1 << 14)  # the same few hundred are listed over and over
def _operand(text: str, bits: int) -> NativeOperand:
    if (register := _register(text)) is not None:
        return register
    if _INTEGER.match(text):
        return NativeImmediate(_integer(text), bits)
    if _FLOAT.match(text):
        return NativeImmediate(0, bits, True)
    if match := _CONSTANT.match(text):
        sign, bar, bank, place, _, part = match.groups()
        inner = _address(place, "")
        base = inner.base if inner.base is not None else inner.uniform
        parts = ".".join(p for p in part.split(".") if p and p != "reuse")
        fixed = base is None or base.name in ZERO_REGISTERS
        offset = inner.offset % CONSTANT_BANK_BYTES if fixed else inner.offset
        return NativeConstant(int(bank, 16), offset, base, sign == "-", bool(bar), sign in ("~", "!"), parts)
    if match := _ADDRESS.match(text):
        return _address(match[2], match[1] or "")
    if match := _POLICY.match(text):
        return NativeAddress(None, NativeRegister(match[1]), descriptor=match[1], wide_uniform=True)
    if match := _DESCRIPTORS.match(text):
        return NativeDescriptors(match[1], tuple(match[2].split(".")[1:]))
    if match := _TENSOR_MEMORY.match(text):
        return NativeTensorMemory(match[1], int(match[2] or "0", 16), tuple(match[3].split(".")[1:]))
    if match := _FORM.match(text):
        return NativeRegister(match[1])
    if match := _HALF.match(text):
        half, name, addend = match.groups()
        if addend and not addend.startswith("0x"):  # a label of the section: an address in it
            return NativeSymbol(addend, 0, half or "")
        return NativeSymbol(name, int(addend or "0", 16), half or "")
    if re.fullmatch(r"[A-Za-z0-9_.]+|\{\d(,\d)*\}", text):
        return NativeWord(text)
    raise ValueError(text)


# -- When an instruction may issue.

HALVED = "ENL2"
"""Modifier of accesses of 256 bits, whose data are two operands: those of a load the upper and the lower half, of a store the lower
and the upper one, as ptxas uses them.
"""


def kept_words(operands: Sequence[NativeOperand]) -> tuple[list[int], list[int]]:
    """Which of the eight words of such a load are kept, of the lower and of the upper half: a number behind the address says it."""
    mask = next((operand.value for operand in operands if isinstance(operand, NativeImmediate)), 0xFF)
    kept = [word for word in range(8) if mask >> word & 1]
    return [word for word in kept if word < 4], [word for word in kept if word >= 4]


def halved_widths(tokens: Sequence[str], operands: Sequence[NativeOperand]) -> list[int]:
    """How many registers each operand of such an access takes; none for another instruction."""
    if HALVED not in tokens:
        return []
    lower, upper = kept_words(operands)
    return [1, 4, 4] if isinstance(operands[0], NativeAddress) else [len(upper), len(lower), *[1] * (len(operands) - 2)]


NO_BARRIER = 7
BARRIERS = 6
# From the issue of a memory instruction until its operands have been read, on an RTX A6000: Huerta et al. (MICRO 2025), table 2,
# dependences of kind WAR of instructions with the address in a regular register. A store reads what it writes: 2 cycles longer for
# 64 bits, 6 for 128, that is 2 for each register more, and so for 256. Atomics are not in the table; they read as much as a store.
# Of other instructions, loads stand for them.
_READ = {("load", "shared"): 9, ("store", "shared"): 12, ("atomic", "shared"): 12, ("store", ""): 14, ("atomic", ""): 14}
_READ_BY_OPCODE = {"LDC": 29, "LDGSTS": 13}
_READ_DEVICE = 11
_LONGER = {8: 2, 16: 6, 32: 14}


@lru_cache(1 << 10)
def operand_cycles(opcode: str, space: str, access: str, size: int) -> int:
    """Cycles from the issue of an instruction until its operands have been read; `size` are the bytes of an access, per lane."""
    if (own := _READ_BY_OPCODE.get(opcode.partition(".")[0])) is not None:
        return own
    read = _READ.get((access, "shared" if space == "shared" else ""), _READ_DEVICE)
    return read + (_LONGER.get(size, 0) if access in ("store", "atomic") else 0)


@dataclass(frozen=True, slots=True)
class ControlWord:
    """`stall` is the number of cycles before the warp's next instruction may issue; `yields` asks the scheduler to switch warps.

    `write_barrier` (0 to 5, 7: none) is released when the result is written, `read_barrier` when the operands have been read. The
    instruction waits until the barriers in the mask `waits` are released. `reuse` has a bit for each source operand that stays in
    the operand cache.
    """

    stall: int
    yields: bool
    write_barrier: int
    read_barrier: int
    waits: int
    reuse: int

    @property
    def waited_for(self) -> tuple[int, ...]:
        """The barriers that it waits for."""
        return tuple(k for k in range(BARRIERS) if self.waits >> k & 1)


def control_word(encoding: int) -> ControlWord:
    """The control word in bits 105 to 125 of a 128-bit encoding (Volta and later)."""
    return _control_fields(encoding >> 105 & 0x1FFFFF)


@lru_cache(maxsize=1 << 12)
def _control_fields(field: int) -> ControlWord:
    return ControlWord(
        field & 15, not field >> 4 & 1, field >> 5 & 7, field >> 8 & 7, field >> 11 & 63, field >> 17 & 15
    )


@dataclass(frozen=True, slots=True)
class NativeInstruction:
    """A decoded instruction, `text` as it is listed. `address` is its byte offset in the code of its section; `results` of its
    `operands` are written.

    `reads` and `writes` name all registers and predicates, without those that are always zero or true. `space`, `access` and
    `access_bytes` (per lane) are empty and 0 unless it touches memory.
    """

    section: str
    address: int
    text: str
    mnemonic: str
    operands: tuple[NativeOperand, ...]
    results: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    op_class: str
    space: str
    access: str
    access_bytes: int
    control: ControlWord

    @property
    def base(self) -> str:
        """The opcode without its modifiers, `IMAD`."""
        return self.mnemonic.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """What follows the opcode, in order."""
        return tuple(self.mnemonic.split(".")[1:])
