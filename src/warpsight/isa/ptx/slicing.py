"""The slice of a kernel that decides what its trace records: addresses, ways through the program, who takes part.

A prediction needs cycles, not results. What is not in this slice need not be computed (docs/adr/0039-address-slices.md): of
arithmetic nothing is left, of an access to memory the check of its addresses and its record. It is a backward slice (Weiser,
"Program Slicing", ICSE 1981), found by strong liveness: an instruction counts only if what it writes does. Memory is told apart by
state space, and device memory by the parameter or variable that an address can come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from warpsight.base.compile_budget import check
from warpsight.isa.ptx.cfg import ControlFlowGraph, with_calls
from warpsight.isa.ptx.dataflow import RegisterBits
from warpsight.isa.ptx.pointers import ANYTHING
from warpsight.isa.ptx.program import Address, Function, Instruction
from warpsight.isa.ptx.rules import is_async_copy, memory_access, op_class, reads, register_names, writes
from warpsight.isa.sass.native import ZERO_REGISTERS, NativeAddress, NativeConstant
from warpsight.isa.sass.structure import operand_registers

Sources = Callable[[Instruction], frozenset[str]]
"""The parameters and variables that the address of an access to device memory can come from; nothing where that is not known."""


@dataclass(frozen=True)
class Slice:
    """What is left of a kernel. `skipped` (pcs) need not be done at all; of the accesses `recorded` (pcs, and the registers that
    still count) only the record is needed. `not_computed` are the registers that these two write; `live_in` and `live_out`, per
    basic block, those of all registers whose value is needed later.
    """

    skipped: frozenset[int]
    recorded: dict[int, frozenset[str]]
    not_computed: frozenset[str]
    live_in: list[frozenset[str]]
    live_out: list[frozenset[str]]


def slice_of(
    function: Function, graph: ControlFlowGraph, sources: Sources, recorded: frozenset[int] | None = None
) -> Slice | None:
    """The slice of a kernel; None where all of it has to be executed, since it does what is not known well enough here.
    Of accesses to memory those at the pcs `recorded` count (None: all).
    """
    calls_of_ptx = any(function.instructions[index].native is None for index in function.call_sites)
    if graph.waits.independent or calls_of_ptx:
        return None
    parts = _Parts(function, sources, recorded)
    return None if parts.unknown else parts.solved(with_calls(function, graph))


# -- What an instruction does.

_PURE_CLASSES = frozenset({"int", "imad", "fp16", "fp32", "fp64", "sfu", "uniform", "constant", "tensor", "shared"})
_IMPURE = frozenset({
    "call", "alloca", "stacksave", "stackrestore", "tensormap", "wgmma", "tcgen05", "mbarrier", "clusterlaunchcontrol",
})  # fmt: skip
_WARP_PRODUCTS = ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA")
_EXCHANGES = frozenset({"shfl", "vote", "match", "redux", "elect", "movmatrix", "mma", "wmma", "ldmatrix", "stmatrix"})
_NATIVE_EXCHANGES = ("R2UR", "MOVM", "LDSM", "STSM", *_WARP_PRODUCTS)
_PLAIN = frozenset({"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix"})
_PLAIN_NATIVE = frozenset({
    "LD", "LDG", "LDL", "LDS", "LDSM", "ST", "STG", "STL", "STS", "STSM", "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "LDGSTS",
})  # fmt: skip
_ON_CHIP = frozenset({"shared", "local"})


def _is_pure(instruction: Instruction) -> bool:
    """Whether it does nothing but write registers, which follow from those that it reads."""
    native = instruction.native
    if not writes(instruction) or instruction.opcode in _IMPURE or op_class(instruction) not in _PURE_CLASSES:
        return False
    access = memory_access(instruction)
    if native is not None:
        indexed = any(isinstance(o, NativeConstant) and o.base and o.base.name not in ZERO_REGISTERS for o in native.operands)
        product = native.op_class != "tensor" or native.base in _WARP_PRODUCTS
        return access is None and product and not indexed  # what is indexed may lie outside of its bank
    constant = access is not None and access.space in ("param", "const") and access.access == "load"
    return access is None or (constant and not register_names(instruction.operands[1:]))


def _is_plain(instruction: Instruction) -> bool:
    """Whether it is an access to memory whose record follows from its addresses."""
    native, modifiers = instruction.native, instruction.modifiers
    if native is not None:
        return native.base in _PLAIN_NATIVE and "ARRIVE" not in native.modifiers
    return is_async_copy(instruction) or (instruction.opcode in _PLAIN and not {"async", "bulk"} & set(modifiers))


def _address_registers(instruction: Instruction) -> list[str]:
    """The registers of an access that its record follows from."""
    guard = [] if instruction.guard is None else [instruction.guard.register.name]
    if instruction.native is not None:
        places = [o for o in instruction.native.operands if isinstance(o, NativeAddress)]
        return guard + [name for place in places for name in operand_registers(place, 1)]
    return guard + register_names([o for o in instruction.operands if isinstance(o, Address)])


def _sees_lanes(instruction: Instruction) -> bool:
    """Whether a lane may get what others hold."""
    native = instruction.native
    return instruction.opcode in _EXCHANGES or (native is not None and native.base in _NATIVE_EXCHANGES)


def _copies(instruction: Instruction) -> bool:
    """Whether it is a copy by each lane from device to shared memory."""
    return is_async_copy(instruction) if instruction.native is None else instruction.native.base == "LDGSTS"


_Guard = tuple[int, bool]  # the bit of a predicate, and whether it must not hold


@dataclass(frozen=True)
class _Part:
    """An instruction: registers as bit sets, memory as places. With a `guard` lanes read nothing else where it does not hold; None
    where it has none, or lanes read values of others. `effect` are the registers that count whatever becomes of its
    results; None: it has no effect but its results. Of a `plain` access that is its record.
    """

    reads: int
    writes: int
    guarded: bool
    guard: _Guard | None
    effect: int | None
    plain: bool
    loads: frozenset[str]
    stores: frozenset[str]


class _Live:
    """The registers that count at a place: `everywhere`, or only in lanes where a guard holds. Assemblers write a register under a
    guard and read it under the same one: what it held before does not count.
    """

    def __init__(self, everywhere: int) -> None:
        self.everywhere = everywhere
        self._where: dict[_Guard, int] = {}

    def uses(self, part: _Part) -> bool:
        """Whether something that the instruction writes counts after it."""
        return bool(part.writes and part.writes & (self.everywhere | self._seen(part.guard)))

    def _seen(self, guard: _Guard | None) -> int:
        """The registers that count in lanes in which a `guard` may hold, beside those that count everywhere."""
        seen = 0
        for (predicate, negated), registers in self._where.items():
            if guard is None or guard != (predicate, not negated):
                seen |= registers
        return seen

    def pass_back(self, part: _Part, *, wanted: bool) -> None:
        """Go from behind an instruction to before it."""
        for guard in [guard for guard in self._where if guard[0] & part.writes]:
            self.everywhere |= self._where.pop(guard)  # the predicate was another one before
        if wanted and not part.guarded:
            self.everywhere &= ~part.writes
            self._where = {guard: registers & ~part.writes for guard, registers in self._where.items()}
        read = part.reads if wanted else part.effect or 0
        if part.guard is None:
            self.everywhere |= read
        elif read:
            kept = self._where.get(part.guard, 0)
            self._where[part.guard] = (kept & ~part.writes if wanted else kept) | read
            self.everywhere |= part.guard[0]

    def at_start(self) -> int:
        """The registers that count at the start of a basic block, whatever its predicates hold."""
        return self.everywhere | self._seen(None)


class _Parts:
    """The instructions of a function, and the places in memory whose contents are needed."""

    def __init__(self, function: Function, sources: Sources, recorded: frozenset[int] | None) -> None:
        self._function, self._sources, self._recorded, self._bits = function, sources, recorded, RegisterBits()
        self.unknown = False
        self._parts = [self._part(instruction) for instruction in function.instructions]
        self._needed: set[str] = set()

    def _part(self, instruction: Instruction) -> _Part:
        bits, access = self._bits.of, memory_access(instruction)
        read, written = bits(reads(instruction)), bits(writes(instruction))
        held, nowhere = instruction.guard, frozenset[str]()
        guarded = held is not None
        alone = None if held is None or _sees_lanes(instruction) else (bits([held.register.name]), held.negated)
        if _is_pure(instruction):
            return _Part(read, written, guarded, alone, None, False, nowhere, nowhere)
        plain = _is_plain(instruction)
        if access is None or access.space in ("param", "const") or not plain:
            in_memory = access is not None and not (access.space in ("param", "const") and access.access == "load")
            external = instruction.opcode == "call" and instruction.index not in self._function.call_sites
            self.unknown = self.unknown or in_memory or external or instruction.opcode in _IMPURE - {"call"}
            return _Part(read, written, guarded, None, read, False, nowhere, nowhere)
        places = self._places(instruction, access.space)
        if _copies(instruction):
            return _Part(read, written, guarded, alone, read, True, places, frozenset({"shared"}))
        # What a load reads is all part of its address; the others have data beside it.
        effect = read if access.access == "load" else bits(tuple(_address_registers(instruction)))
        counts = self._recorded is None or instruction.index in self._recorded
        loads = places if access.access == "load" or (access.access == "atomic" and written) else nowhere
        stores = nowhere if access.access == "load" else places
        return _Part(read, written, guarded, alone, effect if counts else None, counts, loads, stores)

    def _places(self, instruction: Instruction, space: str) -> frozenset[str]:
        """What an access may touch: state spaces on the chip, and names of device memory."""
        if space in _ON_CHIP:
            return frozenset({space})
        names = self._sources(instruction) or frozenset({ANYTHING})
        return names if space == "global" else names | _ON_CHIP | {ANYTHING}

    def solved(self, flow: ControlFlowGraph) -> Slice:
        """The slice, by turns of what is live and what is needed in memory, until neither grows."""
        bounds = list(pairwise(flow.block_start.tolist()))
        start, end = [0] * len(bounds), [0] * len(bounds)
        while True:
            self._solve(flow, bounds, start, end)
            wanted = self._wanted(bounds, end)
            found = {place for part, is_wanted in zip(self._parts, wanted, strict=True) if is_wanted for place in part.loads}
            if found <= self._needed:
                return self._result(wanted, start, end)
            self._needed |= found

    def _solve(self, flow: ControlFlowGraph, bounds: Sequence[tuple[int, int]], start: list[int], end: list[int]) -> None:
        """The registers that count at the start and the end of each block, from what is known of them on."""
        pending = dict.fromkeys(range(len(bounds)))
        while pending:
            block, _ = pending.popitem()
            check("looking for what decides addresses")
            out = 0
            for successor in flow.successors[block]:
                out |= start[successor]
            end[block] = out
            live = self._before(*bounds[block], out)
            if live != start[block]:
                start[block] = live
                pending.update(dict.fromkeys(flow.predecessors[block]))

    def _before(self, first: int, last: int, after: int, wanted: list[bool] | None = None) -> int:
        """The registers that count before a basic block, of those `after` it; notes in `wanted` which instructions are executed."""
        live = _Live(after)
        for index in range(last - 1, first - 1, -1):
            part = self._parts[index]
            is_wanted = live.uses(part) or self._is_needed(part.stores) or not (part.plain or part.effect is None)
            live.pass_back(part, wanted=is_wanted)
            if wanted is not None:
                wanted[index] = is_wanted
        return live.at_start()

    def _is_needed(self, places: frozenset[str]) -> bool:
        """Whether the contents of some of the places may be needed."""
        if not places or not self._needed:
            return False
        in_device = [bool(names - _ON_CHIP) for names in (places, self._needed)]
        anywhere = ANYTHING in places or ANYTHING in self._needed
        return not self._needed.isdisjoint(places) or (anywhere and all(in_device))

    def _wanted(self, bounds: Sequence[tuple[int, int]], end: Sequence[int]) -> list[bool]:
        """Whether each instruction must be executed: because of its results, of what it leaves in memory, or of another effect."""
        wanted = [False] * len(self._parts)
        for (first, last), out in zip(bounds, end, strict=True):
            self._before(first, last, out, wanted)
        return wanted

    def _result(self, wanted: Sequence[bool], start: Sequence[int], end: Sequence[int]) -> Slice:
        left_out = [k for k, is_wanted in enumerate(wanted) if not is_wanted]
        names, parts = self._bits.names, self._parts
        recorded = {k: names(parts[k].effect or 0) for k in left_out if parts[k].plain}
        written = 0
        for k in left_out:
            written |= parts[k].writes
        skipped = frozenset(left_out) - recorded.keys()
        return Slice(skipped, recorded, names(written), [names(bits) for bits in start], [names(bits) for bits in end])


