"""The registers that a native instruction reads and writes, from the operands that a trace lists.

The order is that of NVIDIA's disassembler: results first, a predicate result before a register or behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warpsight.isa.sass.native import NativeDescriptors, NativeOperand, NativeTensorMemory, is_predicate
from warpsight.isa.sass.opcodes import CONST, STORE, SassOpcode

_ALL_READ = ("branch", "barrier", "control")
# Opcodes that compute and yet write nothing.
_NO_RESULT = ("RED", "REDG", "REDAS", "LDGSTS", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED", "LDGBULK", "SURED",
              "UGETNEXTWORKID")
_WRITES_IN_BRANCHES = ("BMOV", "RPCMOV", "CALL", "USETMAXREG")
# A predicate result in front of the register that is written too.
_PREDICATE_AND_REGISTER = (
    "LOP3", "ULOP3", "R2UR", "SHFL", "ATOM", "ATOMG", "ATOMS", "MATCH", "ELECT", "LDG", "LD", "LDS", "SUATOM",
    "UTCATOMSWS",
)  # fmt: skip


def split_operands(row: SassOpcode, opcode: str, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(written, read) of `names`, the registers and predicates of an instruction in the order of its operands.

    Stores, reductions, branches and barriers write nothing. Of all others the first is written, and so is a second predicate of a
    comparison (``ISETP P0, PT, ...``), the register behind a predicate (``LOP3 P0, R1, ...``), and a predicate behind a
    register (the carry of ``IADD3 R0, P0, ...``).
    """
    base = opcode.split(".", maxsplit=1)[0]
    if not names or row.access == STORE or base in _NO_RESULT or (row.op_class in _ALL_READ and base not in _WRITES_IN_BRANCHES):
        return (), tuple(names)
    count = 1
    if len(names) > 1:
        first, second = _is_predicate(names[0]), _is_predicate(names[1])
        pair = base.endswith("SETP") or base in ("PLOP3", "UPLOP3") if second else base in _PREDICATE_AND_REGISTER
        count += pair if first else second
    return tuple(names[:count]), tuple(names[count:])


def _is_predicate(name: str) -> bool:
    return name.startswith(("P", "UP"))


# -- All registers of an instruction.
#
# A name stands for the first of the consecutive registers of an operand. Operands are pairs or quads by what the instruction is:
# the data of an access of 8 or 16 bytes, a 64-bit address (``.E``), double precision, the fragments of a matrix product (PTX ISA,
# sections "Matrix Fragments for mma": the same registers). Zero registers (R255, UR63 or UR255, P7 and UP7: PT) carry nothing and
# are left out.

ZERO = frozenset({"R255", "RZ", "UR63", "UR255", "URZ", "P7", "PT", "UP7", "UPT"})
_NAME = re.compile(r"(UR|UP|R|P)(\d{1,3})")
# (A, B) registers of the fragments, by shape; C and D have 2 for f16, else 4 (the shapes of sm_70: 4 and 8; of f64: 4).
_FRAGMENTS = {
    "884": (2, 2), "1688": (2, 1), "16816": (4, 2), "16832": (4, 2), "16864": (4, 2), "8816": (1, 1), "8832": (1, 1),
    "88128": (1, 1), "168128": (2, 1), "168256": (4, 2),
}  # fmt: skip


def is_register(name: str) -> bool:
    """Whether a trace's token names a register: ``R4``, ``UR8``, ``P0``, ``UP3``; 256 general ones, 8 predicates."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match[2]) < (8 if match[1] in ("P", "UP") else 256)


def destinations(row: SassOpcode, opcode: str, names: tuple[str, ...], access_bytes: int) -> tuple[str, ...]:
    """All registers that are written."""
    return _spread(names, [_destination_registers(row, opcode, access_bytes)] * len(names))


def sources(row: SassOpcode, opcode: str, names: tuple[str, ...], access_bytes: int) -> tuple[str, ...]:
    """All registers that are read. Of a store or an atomic the first names the address and the second the data."""
    return _spread(names, _source_registers(row, opcode, len(names), access_bytes))


def named(names: tuple[str, ...]) -> tuple[str, ...]:
    """The registers that are named, each once: for lines without the width of operands."""
    return _spread(names, [1] * len(names))


def _destination_registers(row: SassOpcode, opcode: str, access_bytes: int) -> int:
    if row.op_class == "tensor":
        return _accumulator(opcode)
    if row.access:
        return max(1, access_bytes // 4)
    return 2 if "d" in row.wide else 1


def _source_registers(row: SassOpcode, opcode: str, count: int, access_bytes: int) -> list[int]:
    if row.op_class == "tensor":
        shape = next((t for t in opcode.split(".") if t in _FRAGMENTS), "")
        a, b = _FRAGMENTS.get(shape, (1, 1))
        return [a, b, *[_accumulator(opcode)] * count][:count]
    if row.access and row.space != CONST:
        address = 2 if ".E" in opcode else 1
        data = 1 if row.access == "load" else max(1, access_bytes // 4)
        return [address, *[data] * count][:count]
    return [2 if "s" in row.wide else 1] * count


_SHAPE = re.compile(r"(16|8)x?(8)x?(4|8|16|32|64|128|256)|(64)x(\d+)x(\d+)")
_GROUP_ROWS, _GROUP_WARPS = 64, 4
_INPUT_BITS = {"TF32": 32, "S4": 4, "U4": 4, "S8": 8, "U8": 8}
_PRODUCT_BITS = {"HMMA": 16, "DMMA": 64, "BMMA": 1, "QMMA": 8, "OMMA": 4}


def matrix_size(mnemonic: str) -> tuple[tuple[int, int, int], str] | None:
    """(m, n, k) of a matrix product and the modifier that says it; None if none does. `16816` or `16x8x16` is that of one warp, and
    `64x8x16` of a warp group.
    """
    for token in mnemonic.split(".")[1:]:
        if match := _SHAPE.fullmatch(token):
            m, n, k = (int(size) for size in match.groups() if size)
            return (m, n, k), token
    return None


def group_accumulator(mnemonic: str) -> int:
    """Registers of D in a product of a warp group, whose four warps have 16 rows each; 0 for any other opcode."""
    size, modifiers = matrix_size(mnemonic), mnemonic.split(".")
    if size is None or size[0][0] != _GROUP_ROWS:
        return 0
    return _GROUP_ROWS * size[0][1] * (16 if "F16" in modifiers else 32) // (_GROUP_WARPS * _WARP_BITS)


def matrix_registers(row: SassOpcode, opcode: str, operands: Sequence[NativeOperand]) -> list[int]:
    """Consecutive registers of each operand of a matrix product: D, A, B, C, and what a sparse one has behind them.

    A warp holds each matrix once, so a fragment has as many registers as its bits fill. A product of a warp group has descriptors
    of B, and of A unless it is in four registers.
    """
    size, (base, *modifiers), count = matrix_size(opcode), opcode.split("."), len(operands)
    if base.startswith("UTC"):
        return _tensor_memory_registers(modifiers, operands)
    if sums := group_accumulator(opcode):
        place = next((k for k, operand in enumerate(operands) if isinstance(operand, NativeDescriptors)), 1)
        return [sums, *([4, 2] if place == 2 else [4]), sums, *[1] * count][:count]
    if size is None or base not in (*_PRODUCT_BITS, "IMMA"):
        return [_destination_registers(row, opcode, 0), *_source_registers(row, opcode, count - 1, 0)]
    if any(m.startswith("STEP") for m in modifiers):  # a part of the four products of `mma.m8n8k4`
        return [2] * count
    m, n, k = size[0]
    bits = next((_INPUT_BITS[word] for word in modifiers if word in _INPUT_BITS), _PRODUCT_BITS.get(base, 8))
    behind = 2 if {"SF", "SP"} <= {*modifiers} else 1  # metadata and the scales of A
    result = m * n * (64 if base == "DMMA" else 16 if "F16" in modifiers else 32) // _WARP_BITS
    left = m * k * bits // _WARP_BITS // (2 if "SP" in modifiers else 1)
    return [result, left, k * n * bits // _WARP_BITS, result, behind, 1, 1, 1][:count]


def _tensor_memory_registers(modifiers: Sequence[str], operands: Sequence[NativeOperand]) -> list[int]:
    """Of a product with tensor memory: A, B, D, metadata, the instruction descriptor, then the places of scales of A and B, or the
    lanes of D that stay as they are (`.WS`: the columns of B that are zeros); whether D counts, and its scale.
    """
    counts = [operand.registers if isinstance(operand, NativeDescriptors) else 1 for operand in operands]
    if len(operands) > _BEHIND_FORM and not is_predicate(behind := operands[_BEHIND_FORM]):
        lanes = 2 if "WS" in modifiers else 8 if "2CTA" in modifiers else 4
        counts[_BEHIND_FORM] = 2 if isinstance(behind, NativeTensorMemory) else lanes
    return counts


_BEHIND_FORM = 5  # the place of the operand behind the instruction descriptor


def tensor_memory_words(mnemonic: str) -> int:
    """Registers of each lane that `LDTM` or `STTM` moves: so many of its shape, so many times; 0 for any other opcode."""
    base, *modifiers = mnemonic.split(".")
    if base not in ("LDTM", "STTM"):
        return 0
    times = next((int(m[1:]) for m in modifiers if _TIMES.fullmatch(m)), 1)
    return times * (2 if "16dp128bit" in modifiers else 4 if "16dp256bit" in modifiers else 1)


_TIMES = re.compile(r"x\d+")
_WARP_BITS = 1024  # of one register in all lanes


def conversion_registers(tokens: Sequence[str], operands: Sequence[NativeOperand]) -> list[int]:
    """Registers of the result and the source of a conversion: its types stand in that order where it names two."""
    base, wide = tokens[0], {"F64", "S64", "U64"}
    types = [t for t in tokens[1:] if re.fullmatch(r"(F|S|U|B|BF)\d+", t)]
    result = source = 1
    if base == "F2F" and len(types) >= 2:
        result, source = (2 if t in wide else 1 for t in types[:2])
    elif base == "I2F":
        result, source = 2 if "F64" in types else 1, 2 if {"S64", "U64"} & set(types) else 1
    elif base == "F2I":
        result, source = 2 if {"S64", "U64"} & set(types) else 1, 2 if "F64" in types else 1
    elif base == "FRND" and "F64" in types:
        result = source = 2
    elif base == "MATCH" and wide & set(types):
        source = 2
    return [result] + [source] * (len(operands) - 1) if base != "MATCH" else [1] * (len(operands) - 1) + [source]


def _accumulator(opcode: str) -> int:
    tokens = opcode.split(".")
    if count := group_accumulator(opcode):
        return count
    if "884" in tokens:
        return 8 if "F32" in tokens else 4
    if tokens[0] == "HMMA" and "F16" in tokens:
        return 2
    return 2 if "8816" in tokens or "8832" in tokens else 4 if any(t in _FRAGMENTS for t in tokens) else 1


def _spread(names: tuple[str, ...], counts: list[int]) -> tuple[str, ...]:
    """`counts` consecutive registers from each name on, each once; predicates stay single and zero registers are left out."""
    registers: dict[str, None] = {}
    for name, count in zip(names, counts, strict=True):
        match = _NAME.fullmatch(name)
        if match is None or match[1] in ("P", "UP") or name in ZERO:
            registers[name] = None
        else:
            registers.update(dict.fromkeys(f"{match[1]}{int(match[2]) + k}" for k in range(count)))
    return tuple(name for name in registers if name not in ZERO)
