"""What each PTX opcode is: its op class, how many operands it writes, and its memory access. The one table of opcodes.

Op classes are the keys of a GPU description's latencies (int, fp32, fp64, fp16, sfu, shared, tensor) and branch, barrier, memory,
control. A `rule` instead of a class says that types or the state space decide; `op_class` applies it. Opcodes are those of the
PTX ISA, section "Instruction Set"; an opcode that is not here is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.base.errors import UnsupportedError, suggestion
from warpsight.isa.program import Instruction, Vector
from warpsight.isa.refused import REFUSED
from warpsight.isa.types import TYPE_NAMES, type_bits, vector_lanes

OP_CLASSES = ("int", "fp32", "fp64", "fp16", "sfu", "tensor", "shared", "memory", "branch", "barrier", "control")


@dataclass(frozen=True, slots=True)
class Opcode:
    """One row. `rule` is an op class, or `arithmetic` (by operand type), `access` (by state space), `matrix` or `bar` (by variant).

    `writes` is the number of leading operands that are destinations; `access` is load, store, atomic or empty.
    """

    name: str
    rule: str
    writes: int
    access: str
    what: str


def _rows(rule: str, what: str, names: str, writes: int = 1, access: str = "") -> list[Opcode]:
    return [Opcode(name, rule, writes, access, what) for name in names.split()]


OPCODES: dict[str, Opcode] = {
    row.name: row
    for row in (
        *_rows("arithmetic", "addition and multiplication", "add sub mul mad fma addc subc madc mul24 mad24"),
        *_rows("arithmetic", "sign, minimum, maximum", "neg abs min max copysign"),
        *_rows("arithmetic", "comparison", "setp set testp"),
        *_rows("int", "sum of differences or products", "sad dp4a dp2a"),
        *_rows("int", "logic and shifts", "and or xor not cnot lop3 shl shr shf"),
        *_rows("int", "bit fields", "popc clz bfind fns brev bfe bfi bmsk szext prmt"),
        *_rows("int", "move, select and convert", "mov selp slct cvt cvta isspacep"),
        *_rows("int", "vote over the warp", "vote match activemask elect redux"),
        *_rows("sfu", "division and remainder", "div rem"),
        *_rows("sfu", "special functions", "rcp sqrt rsqrt sin cos lg2 ex2 tanh"),
        # A shuffle goes through the shared-memory pipeline and has about its latency (Nsight Compute counts both as MIO).
        *_rows("shared", "exchange between lanes", "shfl"),
        *_rows("access", "load", "ld ldu", 1, "load"),
        *_rows("access", "store", "st", 0, "store"),
        *_rows("access", "atomic operation that returns the old value", "atom", 1, "atomic"),
        *_rows("access", "atomic operation without result", "red", 0, "atomic"),
        *_rows("control", "cache hint", "prefetch prefetchu discard applypriority", 0),
        *_rows("branch", "branch, call, return and exit", "bra brx ret exit trap", 0),
        *_rows("branch", "call", "call", 1),
        *_rows("bar", "barrier of a thread block", "bar barrier", 0),
        *_rows("barrier", "memory fence", "membar fence", 0),
        *_rows("control", "no effect on data", "nanosleep brkpt pmevent griddepcontrol setmaxnreg", 0),
        *_rows("matrix", "warp matrix load, store and multiply", "wmma"),
        *_rows("tensor", "warp matrix multiply", "mma"),
        *_rows("access", "load of matrix tiles", "ldmatrix", 1, "load"),
        *_rows("access", "store of matrix tiles", "stmatrix", 0, "store"),
    )
}

_SPACES = {
    "global": "global", "shared": "shared", "local": "local", "const": "const", "param": "param",
    "shared::cta": "shared", "param::entry": "param", "param::func": "param",
}
# Asynchronous and cluster-wide variants of known opcodes have another meaning, so their names are refused like unknown opcodes.
_OTHER_MEANING = frozenset({"async", "bulk", "shared::cluster", "tensor"})
_SPACE_CLASS = {"shared": "shared", "param": "int", "const": "int"}


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """Space is global, shared, local, generic, const or param; access is load, store or atomic; bytes per lane of all elements."""

    space: str
    access: str
    bytes_per_lane: int


def lookup(instruction: Instruction) -> Opcode:
    """The table row of an instruction. Raises UnsupportedError, with the PTX line, when the opcode is not in the table."""
    row = OPCODES.get(instruction.opcode)
    if row is None or not _OTHER_MEANING.isdisjoint(instruction.modifiers):
        # Two letters are like too many opcodes: `cp` is no misspelt `rcp`.
        near = "" if row or len(instruction.opcode) < 3 else suggestion(instruction.opcode, OPCODES)
        if instruction.opcode in REFUSED:
            near = f" ({REFUSED[instruction.opcode]})"
        raise UnsupportedError(
            f'opcode "{instruction.text}" is not modelled{near}. Totals would be wrong, so none are given',
            place=f"ptx:{instruction.ptx_line}",
            remedy="compile the kernel for an older architecture (--arch compute_75), or without this instruction",
        )
    return row


def destination_count(instruction: Instruction) -> int:
    """How many leading operands an instruction writes (0 or 1; a paired destination is not counted)."""
    row = lookup(instruction)
    if row.rule == "bar":
        return int("red" in instruction.modifiers)
    if row.rule == "matrix":
        return int("store" not in instruction.modifiers)
    return row.writes


def value_type(instruction: Instruction) -> str:
    """The type that an instruction works on: its last type modifier (for set and cvt the source's), "" when it has none."""
    for modifier in reversed(instruction.modifiers):
        if modifier in TYPE_NAMES:
            return modifier
    return ""


def op_class(instruction: Instruction) -> str:
    """The op class of an instruction, one of `OP_CLASSES`. Raises UnsupportedError when the opcode is not in the table.

    Loads of parameters and constants are `int`: they come from the constant cache at about the latency of an arithmetic operation.
    """
    row = lookup(instruction)
    rule = row.rule
    if rule == "arithmetic":
        return _arithmetic_class(value_type(instruction))
    if rule == "access":
        return _SPACE_CLASS.get(_space(instruction), "memory")
    if rule == "bar":
        # bar.warp.sync orders the lanes of one warp only: no warp waits for another.
        return "control" if is_warp_barrier(instruction) else "barrier"
    if rule == "matrix":
        return "tensor" if "mma" in instruction.modifiers else _SPACE_CLASS.get(_space(instruction), "memory")
    return rule


def _arithmetic_class(type: str) -> str:
    if type.startswith(("f16", "bf16")):
        return "fp16"
    return {"f32": "fp32", "f32x2": "fp32", "f64": "fp64"}.get(type, "int")


def _space(instruction: Instruction) -> str:
    for modifier in instruction.modifiers:
        space = _SPACES.get(modifier)
        if space is not None:
            return space
    return "shared" if instruction.opcode in {"ldmatrix", "stmatrix"} else "generic"


def is_warp_barrier(instruction: Instruction) -> bool:
    """Whether it is `bar.warp.sync`, which waits for lanes of its own warp only."""
    return instruction.opcode == "bar" and instruction.modifiers[:1] == ("warp",)


def is_block_barrier(instruction: Instruction) -> bool:
    """Whether a warp may have to wait here for other warps of its thread block (or cluster): `bar`, `barrier`."""
    return instruction.opcode in {"bar", "barrier"} and not is_warp_barrier(instruction)


def memory_access(instruction: Instruction) -> MemoryAccess | None:
    """The memory access of an instruction, None when it has none. Raises UnsupportedError when the opcode is not in the table."""
    row = lookup(instruction)
    if row.rule == "matrix":
        return _fragment_access(instruction)
    if not row.access:
        return None
    if instruction.opcode in {"ldmatrix", "stmatrix"}:
        tiles = next((int(m[1:]) for m in instruction.modifiers if m in {"x1", "x2", "x4"}), 1)
        return MemoryAccess("shared", row.access, 4 * tiles)
    type = value_type(instruction)
    if not type:
        what = f'"{instruction.text}" names no type, so its size is not known'
        raise UnsupportedError(what, place=f"ptx:{instruction.ptx_line}", remedy="compile the kernel again")
    return MemoryAccess(_space(instruction), row.access, type_bits(type) // 8 * vector_lanes(instruction.modifiers))


def _fragment_access(instruction: Instruction) -> MemoryAccess | None:
    """`wmma.load` and `wmma.store`: a lane moves the registers of its fragment, 4 bytes each (8 for f64)."""
    access = "load" if "load" in instruction.modifiers else "store" if "store" in instruction.modifiers else ""
    if not access:
        return None
    registers = next((len(operand.elements) for operand in instruction.operands if isinstance(operand, Vector)), 1)
    return MemoryAccess(_space(instruction), access, registers * (8 if value_type(instruction) == "f64" else 4))
