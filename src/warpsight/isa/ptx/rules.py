"""What an instruction is, by its row in the table of opcodes and its modifiers: op class, memory access, registers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsight.base.errors import UnsupportedError, suggestion
from warpsight.isa.ptx.constants import TYPE_NAMES, type_bits, vector_lanes
from warpsight.isa.ptx.names import SINK
from warpsight.isa.ptx.opcodes import OPCODES, REFUSED, Opcode
from warpsight.isa.ptx.program import Address, Immediate, Instruction, Negated, Operand, Register, Vector

IMAGE_OPCODES = frozenset({"tex", "tld4", "suld", "sust", "sured"})
_SPACES = {
    **{space: space for space in ("global", "shared", "local", "const", "param")},
    "shared::cta": "shared", "shared::cluster": "shared", "param::entry": "param", "param::func": "param",
}
# Asynchronous variants of known opcodes have another meaning, so their names are refused like unknown opcodes.
_OTHER_MEANING = frozenset({"async", "bulk", "tensor"})
_COMPLETES = "mbarrier::complete_tx::bytes"
# Stands for the size of a bulk copy that is not known before it runs.
MOST_BULK_BYTES = 255 * 32
_TENSOR_CLASS = {"mma": "tensor", **dict.fromkeys(("ld", "st", "cp", "alloc", "commit"), "shared")}
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
            f'opcode "{instruction.text}" is not modelled{_hint(instruction)}. The results would be wrong, so nothing is run.',
            place=f"ptx:{instruction.ptx_line}",
            remedy="compile the kernel for an older architecture (`arch='compute_75'`), or without this instruction",
        )
    return row


def _hint(instruction: Instruction) -> str:
    if instruction.opcode in REFUSED:
        return f" ({REFUSED[instruction.opcode]})"
    # Two letters are like too many opcodes: `cp` is not a misspelt `rcp`.
    known = instruction.opcode in OPCODES or len(instruction.opcode) < 3
    return "" if known else suggestion(instruction.opcode, OPCODES)


def _has_other_meaning(instruction: Instruction) -> bool:
    modifiers = instruction.modifiers
    if instruction.opcode == "cp":
        return "async" not in modifiers
    if instruction.opcode in {"fence", "clusterlaunchcontrol"}:
        return False
    if instruction.opcode in {"st", "red"} and "async" in modifiers:
        return _COMPLETES not in modifiers or "bulk" in modifiers
    return not _OTHER_MEANING.isdisjoint(modifiers)


def destination_count(instruction: Instruction) -> int:
    """How many leading operands an instruction writes (0 or 1; a paired destination is not counted)."""
    row = lookup(instruction)
    if row.rule == "bar":
        return int("red" in instruction.modifiers)
    if row.rule == "matrix":
        return int("store" not in instruction.modifiers)
    if row.rule == "group":
        return int("mma_async" in instruction.modifiers)
    if row.rule == "tensor_memory":
        return int("ld" in instruction.modifiers)
    if row.rule == "mbarrier":
        return int(not isinstance(instruction.operands[0], Address)) if instruction.operands else 0
    return row.writes


CARRY = "%.cc"  # the carry of extended-precision arithmetic: a predicate register that no program can name


def in_chain(instruction: Instruction) -> bool:
    """Does it read or write the carry?"""
    return "cc" in instruction.modifiers or instruction.opcode in ("addc", "subc", "madc")


def reads(instruction: Instruction) -> tuple[str, ...]:
    """Names of the registers that an instruction reads, each once: guard, then sources, address bases and vector elements in order.

    The old value that a guarded write leaves in place is not listed; special registers are not. Raises UnsupportedError for an
    opcode that is not in the table.
    """
    if instruction.native is not None:
        return instruction.native.reads
    written = destination_count(instruction)
    names = [instruction.guard.register.name] if instruction.guard is not None else []
    names += register_names(instruction.operands[written:])
    # A destination may hold an address only by mistake; its base would still be read.
    names += register_names(operand for operand in instruction.operands[:written] if isinstance(operand, Address))
    if instruction.opcode in ("addc", "subc", "madc"):
        names.append(CARRY)
    if instruction.opcode == "wgmma":  # which adds to its destination
        names += register_names(instruction.operands[:written])
    return tuple(dict.fromkeys(names))


def writes(instruction: Instruction) -> tuple[str, ...]:
    """Names of the registers that an instruction writes, each once: destination, vector elements, second of a pair; not `_`.

    Raises UnsupportedError for an opcode that is not in the table.
    """
    if instruction.native is not None:
        return instruction.native.writes
    destinations = instruction.operands[: destination_count(instruction)]
    names = register_names(operand for operand in destinations if not isinstance(operand, Address))
    if instruction.pair is not None and instruction.pair.name != SINK:
        names.append(instruction.pair.name)
    if "cc" in instruction.modifiers:
        names.append(CARRY)
    return tuple(dict.fromkeys(names))


def register_names(operands: Iterable[Operand | Negated | None]) -> list[str]:
    """Names of the registers in operands, their addresses and vectors; not `_`."""
    names = []
    for operand in operands:
        if isinstance(operand, Register):
            if operand.name != SINK:
                names.append(operand.name)
        elif isinstance(operand, Address):
            if isinstance(operand.base, Register):
                names.append(operand.base.name)
        elif isinstance(operand, Vector):
            names += register_names(operand.elements)
        elif isinstance(operand, Negated):
            names.append(operand.register.name)
    return names


def value_type(instruction: Instruction) -> str:
    """The type that an instruction works on: its last type modifier (for set and cvt the source's), "" when it has none."""
    return next((modifier for modifier in reversed(instruction.modifiers) if modifier in TYPE_NAMES), "")


def op_class(instruction: Instruction) -> str:
    """The op class of an instruction, one of `OP_CLASSES`. Raises UnsupportedError when the opcode is not in the table.

    Loads of parameters and constants are `int`: they come from the constant cache at about the latency of an arithmetic operation.
    """
    if instruction.native is not None:
        return instruction.native.op_class
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
    if rule == "group":
        return "tensor" if "mma_async" in instruction.modifiers else "control"
    if rule == "tensor_memory":
        return _TENSOR_CLASS.get(instruction.modifiers[0] if instruction.modifiers else "", "control")
    if rule == "mbarrier":
        return "int" if {"pending_count", "query_cancel"} & {*instruction.modifiers} else "shared"
    if rule == "copy":
        access = _copy_access(instruction)
        return "control" if access is None else _SPACE_CLASS.get(access.space, "memory")
    return rule


def _arithmetic_class(type: str) -> str:
    if type.startswith(("f16", "bf16")):
        return "fp16"
    return {"f32": "fp32", "f32x2": "fp32", "f64": "fp64"}.get(type, "int")


def _space(instruction: Instruction) -> str:
    default = "shared" if instruction.opcode in {"ldmatrix", "stmatrix"} else "generic"
    return next((_SPACES[modifier] for modifier in instruction.modifiers if modifier in _SPACES), default)


def is_warp_barrier(instruction: Instruction) -> bool:
    """Whether it is `bar.warp.sync`, which waits for lanes of its own warp only."""
    return instruction.opcode == "bar" and instruction.modifiers[:1] == ("warp",)


def is_block_barrier(instruction: Instruction) -> bool:
    """Whether a warp may have to wait here for other warps of its thread block (or cluster): `bar`, `barrier`."""
    return instruction.opcode in {"bar", "barrier"} and not is_warp_barrier(instruction)


def counts_threads(instruction: Instruction) -> bool:
    """Whether it is a barrier for so many threads of a thread block as it says: `bar.sync a, b`, `bar.arrive a, b`."""
    if not is_block_barrier(instruction) or "cluster" in instruction.modifiers:
        return False
    return len(instruction.operands) > (3 if "red" in instruction.modifiers else 1)


def waits_for_group(instruction: Instruction) -> bool:
    """Whether a warp waits here for the other warps of its warp group: `wgmma.fence`, `wgmma.wait_group`."""
    return instruction.opcode == "wgmma" and not {"fence", "wait_group"}.isdisjoint(instruction.modifiers)


_SIGNALS = frozenset({"SYNCS", "ARRIVES", "UTMALDG", "UBLKCP", "UBLKRED", "UTCBAR", "STAS", "REDAS", "UGETNEXTWORKID"})


def may_signal(instruction: Instruction) -> bool:
    """Whether it may complete a phase of an mbarrier: it arrives, or its bytes do."""
    if (native := instruction.native) is not None:
        arrives = native.base in _SIGNALS or (native.base == "ATOMS" and "ARRIVE" in native.modifiers)
        return arrives and "PHASECHK" not in native.modifiers
    modifiers = instruction.modifiers
    if instruction.opcode == "mbarrier":
        return modifiers[:1] in (("arrive",), ("arrive_drop",), ("complete_tx",))
    return "mbarrier" in modifiers or _COMPLETES in modifiers or "mbarrier::arrive::one" in modifiers


def is_plain_exit(block: Sequence[Instruction]) -> bool:
    """Whether a basic block does nothing but end the kernel for all of its lanes."""
    if len(block) != 1 or block[0].guard is not None:
        return False
    return block[0].opcode == "exit" or (block[0].opcode == "ret" and not block[0].operands)


def memory_access(instruction: Instruction) -> MemoryAccess | None:
    """The memory access of an instruction, None when it has none. Raises UnsupportedError when the opcode is not in the table."""
    if (native := instruction.native) is not None:
        return MemoryAccess(native.space, native.access, native.access_bytes) if native.access else None
    row = lookup(instruction)
    if row.rule == "matrix":
        return _fragment_access(instruction)
    if row.rule == "copy":
        return _copy_access(instruction)
    if row.rule == "mbarrier":
        return _mbarrier_access(instruction)
    if row.rule == "tensor_memory":
        return _tensor_memory_access(instruction)
    if not row.access:
        return None
    if instruction.opcode in {"ldmatrix", "stmatrix"}:
        tiles = next((int(m[1:]) for m in instruction.modifiers if m in {"x1", "x2", "x4"}), 1)
        return MemoryAccess("shared", row.access, 4 * tiles * (2 if "m16n16" in instruction.modifiers else 1))
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
    """Whether it is `cp.async.bulk` or `cp.reduce.async.bulk` that moves data: each lane a run of bytes, or a box of a tensor."""
    modifiers = instruction.modifiers
    others = {"commit_group", "wait_group", "prefetch"}
    return instruction.opcode == "cp" and "bulk" in modifiers and others.isdisjoint(modifiers)


def says_bytes(instruction: Instruction) -> bool:
    """Whether the text says how many bytes a lane accesses: a bulk copy may have that in a register, and a box in a tensor map."""
    if (native := instruction.native) is not None:
        return not native.base.startswith(("UBLK", "UTMA"))
    return not is_bulk_copy(instruction) or isinstance(instruction.operands[2], Immediate)


def bulk_spaces(instruction: Instruction) -> tuple[str, str]:
    """Destination and source state space of a bulk copy: the first two that its name gives, `global` or `shared`."""
    spaces = [_SPACES[m] for m in instruction.modifiers if m in _SPACES]
    if len(spaces) != 2 or spaces == ["global", "global"] or not {*spaces} <= {"global", "shared"}:
        what = f'"{instruction.text}" does not name two state spaces that can be copied between'
        raise UnsupportedError(what, place=f"ptx:{instruction.ptx_line}", remedy="compile the kernel again")
    return spaces[0], spaces[1]


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
    kind = "".join(instruction.modifiers[:1])
    access = {"init": "store", "inval": "store", "test_wait": "load", "try_wait": "load"}.get(kind, "atomic")
    return MemoryAccess("shared", access, 8) if kind not in ("pending_count", "query_cancel") else None


def _tensor_memory_access(instruction: Instruction) -> MemoryAccess | None:
    """`alloc` writes an address to shared memory; `commit` arrives on an mbarrier there."""
    if "alloc" in instruction.modifiers:
        return MemoryAccess("shared", "store", 4)
    return MemoryAccess("shared", "atomic", 8) if "commit" in instruction.modifiers else None
