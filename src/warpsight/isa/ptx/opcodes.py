"""What each PTX opcode is: its op class, how many operands it writes, and its memory access; and which opcodes are refused by
name.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.base.errors import UnsupportedError, suggestion
from warpsight.isa.ptx.constants import TYPE_NAMES, type_bits, vector_lanes
from warpsight.isa.ptx.program import Address, Immediate, Instruction, Vector

_WARPGROUP = "matrix multiplication by four warps together (sm_90a), with operands in shared memory"
_FIFTH = "matrix multiplication with tensor memory (sm_100 and later)"
_TENSOR_MAP = "the tensor memory accelerator: copies of boxes of a tensor map"

REFUSED: dict[str, str] = {
    "wgmma": _WARPGROUP,
    "tcgen05": _FIFTH,
    "tensormap": _TENSOR_MAP,
    "multimem": "one address for the memories of several GPUs",
    "clusterlaunchcontrol": "work stealing between clusters (sm_100 and later)",
}


# -- What each PTX opcode is: its op class, how many operands it writes, and its memory access. The one table of opcodes.
#
# Op classes are the keys of a GPU description's latencies (int, fp32, fp64, fp16, sfu, shared, tensor) and branch, barrier, memory,
# control. A `rule` instead of a class says that types or the state space decide; `op_class` applies it. Opcodes are those of the
# PTX ISA, section "Instruction Set"; an opcode that is not here is refused.

OP_CLASSES = ("int", "fp32", "fp64", "fp16", "sfu", "tensor", "shared", "memory", "branch", "barrier", "control")


@dataclass(frozen=True, slots=True)
class Opcode:
    """One row. `rule` is an op class, or what decides: `arithmetic` (operand type), `access` (state space), `matrix`, `bar`,
    `copy` or `mbarrier` (variant).

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
        *_rows("int", "video: a chosen byte or half-word", "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset"),
        *_rows("int", "video: two half-words", "vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2"),
        *_rows("int", "video: four bytes", "vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4"),
        *_rows("int", "bit fields", "popc clz bfind fns brev bfe bfi bmsk szext prmt"),
        *_rows("int", "move, select and convert", "mov selp slct cvt cvta isspacep"),
        *_rows("int", "vote over the warp", "vote match activemask elect redux"),
        *_rows("sfu", "division and remainder", "div rem"),
        *_rows("sfu", "special functions", "rcp sqrt rsqrt sin cos lg2 ex2 tanh"),
        # A shuffle goes through the shared-memory pipeline and has about its latency (Nsight Compute counts both as MIO).
        *_rows("shared", "exchange between lanes", "shfl movmatrix"),
        *_rows("access", "load", "ld ldu", 1, "load"),
        *_rows("access", "store", "st", 0, "store"),
        *_rows("access", "atomic operation that returns the old value", "atom", 1, "atomic"),
        *_rows("access", "atomic operation without result", "red", 0, "atomic"),
        *_rows("control", "cache hint", "prefetch prefetchu discard applypriority", 0),
        *_rows("int", "cache policy", "createpolicy"),
        *_rows("int", "address in another block of the cluster", "mapa getctarank"),
        *_rows("int", "allocation on a thread's stack", "alloca stacksave"),
        *_rows("int", "release of a thread's stack", "stackrestore", 0),
        *_rows("copy", "asynchronous copy", "cp", 0),
        *_rows("mbarrier", "barrier object in shared memory", "mbarrier"),
        *_rows("memory", "texture fetch", "tex tld4", 1, "load"),
        *_rows("memory", "load from a surface", "suld", 1, "load"),
        *_rows("memory", "store to a surface", "sust", 0, "store"),
        *_rows("memory", "reduction on a surface", "sured", 0, "atomic"),
        *_rows("int", "query of a texture, surface or address", "txq suq istypep"),
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

IMAGE_OPCODES = frozenset({"tex", "tld4", "suld", "sust", "sured"})
_SPACES = {
    "global": "global", "shared": "shared", "local": "local", "const": "const", "param": "param",
    "shared::cta": "shared", "shared::cluster": "shared", "param::entry": "param", "param::func": "param",
}
# Asynchronous variants of known opcodes have another meaning, so their names are refused like unknown opcodes.
_OTHER_MEANING = frozenset({"async", "bulk", "tensor"})
_COMPLETES = "mbarrier::complete_tx::bytes"
# An event counts sectors in one byte, so this is the most that a bulk copy can move between device memory and a block.
MOST_BULK_BYTES = 255 * 32
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
    if row is None or _has_other_meaning(instruction):
        raise UnsupportedError(
            f'opcode "{instruction.text}" is not modelled{_hint(instruction)}. Totals would be wrong, so none are given',
            place=f"ptx:{instruction.ptx_line}",
            remedy="compile the kernel for an older architecture (--arch compute_75), or without this instruction",
        )
    return row


def _hint(instruction: Instruction) -> str:
    if instruction.opcode in REFUSED:
        return f" ({REFUSED[instruction.opcode]})"
    # Two letters are like too many opcodes: `cp` is no misspelt `rcp`.
    known = instruction.opcode in OPCODES or len(instruction.opcode) < 3
    return "" if known else suggestion(instruction.opcode, OPCODES)


def _has_other_meaning(instruction: Instruction) -> bool:
    words = instruction.modifiers
    if instruction.opcode == "cp":
        return "tensor" in words or "async" not in words
    if instruction.opcode == "fence":
        return False
    if instruction.opcode in {"st", "red"} and "async" in words:
        return _COMPLETES not in words or "bulk" in words
    return not _OTHER_MEANING.isdisjoint(words)


def destination_count(instruction: Instruction) -> int:
    """How many leading operands an instruction writes (0 or 1; a paired destination is not counted)."""
    row = lookup(instruction)
    if row.rule == "bar":
        return int("red" in instruction.modifiers)
    if row.rule == "matrix":
        return int("store" not in instruction.modifiers)
    if row.rule == "mbarrier":
        return int(not isinstance(instruction.operands[0], Address)) if instruction.operands else 0
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
    if rule == "mbarrier":
        return "int" if "pending_count" in instruction.modifiers else "shared"
    if rule == "copy":
        access = _copy_access(instruction)
        return "control" if access is None else _SPACE_CLASS.get(access.space, "memory")
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
    if row.rule == "copy":
        return _copy_access(instruction)
    if row.rule == "mbarrier":
        return _mbarrier_access(instruction)
    if not row.access:
        return None
    if instruction.opcode in {"ldmatrix", "stmatrix"}:
        tiles = next((int(m[1:]) for m in instruction.modifiers if m in {"x1", "x2", "x4"}), 1)
        return MemoryAccess("shared", row.access, 4 * tiles)
    if instruction.opcode in IMAGE_OPCODES:
        # Of `tex`, the first type is the result's and the last the coordinates'.
        type = next((m for m in instruction.modifiers if m in TYPE_NAMES), "b32")
        return MemoryAccess("global", row.access, type_bits(type) // 8 * vector_lanes(instruction.modifiers))
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


def is_async_copy(instruction: Instruction) -> bool:
    """Whether it is `cp.async.ca` or `cp.async.cg`: each lane copies a few bytes from device to shared memory."""
    return instruction.opcode == "cp" and instruction.modifiers[:1] == ("async",) and bool({"ca", "cg"} & {*instruction.modifiers})


def is_bulk_copy(instruction: Instruction) -> bool:
    """Whether it is `cp.async.bulk` or `cp.reduce.async.bulk` that moves data: each lane copies a run of bytes."""
    words = instruction.modifiers
    waits = {"commit_group", "wait_group", "prefetch", "tensor"}
    return instruction.opcode == "cp" and "bulk" in words and waits.isdisjoint(words)


def bulk_spaces(instruction: Instruction) -> tuple[str, str]:
    """Destination and source state space of a bulk copy: the first two that its name gives, `global` or `shared`."""
    found = [_SPACES[m] for m in instruction.modifiers if m in _SPACES]
    if len(found) != 2 or found == ["global", "global"] or not {*found} <= {"global", "shared"}:
        what = f'"{instruction.text}" does not name two state spaces that can be copied between'
        raise UnsupportedError(what, place=f"ptx:{instruction.ptx_line}", remedy="compile the kernel again")
    return found[0], found[1]


def _copy_access(instruction: Instruction) -> MemoryAccess | None:
    """The side in device memory of an asynchronous copy: what it reads there, or writes; of a copy within the block, the latter."""
    size = instruction.operands[2] if len(instruction.operands) > 2 else None
    known = int(size.value) if isinstance(size, Immediate) else 0
    if is_async_copy(instruction):
        return MemoryAccess("global", "load", known)
    if not is_bulk_copy(instruction):
        return MemoryAccess("shared", "atomic", 8) if "mbarrier" in "".join(instruction.modifiers) else None
    target, source = bulk_spaces(instruction)
    access = "atomic" if "reduce" in instruction.modifiers else "load" if source == "global" else "store"
    return MemoryAccess("shared" if target == source else "global", access, known or MOST_BULK_BYTES)


def _mbarrier_access(instruction: Instruction) -> MemoryAccess | None:
    """An mbarrier is 8 bytes of shared memory."""
    kind = instruction.modifiers[:1]
    if kind == ("pending_count",):
        return None
    access = {"init": "store", "inval": "store", "test_wait": "load", "try_wait": "load"}.get("".join(kind), "atomic")
    return MemoryAccess("shared", access, 8)
