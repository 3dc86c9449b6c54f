"""All threads that are analysed together: their registers, and the memory transactions of an access with a known address."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import packed_segments, segment_bytes, transaction_rule_number, transactions_of_lanes
from warpsight.base.errors import LimitError
from warpsight.intervals.interval_profile import LaunchTotals
from warpsight.intervals.static.values import Content, Linear, Mask, Number, Unknown, apply, linear, merged, negated, wrap
from warpsight.isa.ptx.constants import type_bits
from warpsight.isa.ptx.program import Address, Immediate, Instruction, Negated, Operand, Register, SpecialRegister, Symbol, Vector
from warpsight.isa.ptx.rules import destination_count, writes

Dim3 = tuple[int, int, int]
LANES = 32
# Every array, and every variable of the program, is taken to lie at a multiple of this: aligned, and far from the others.
_APART = 1 << 40


@dataclass(frozen=True)
class Threads:
    """Threads of consecutive blocks, flat, each block filled up to whole warps. `active` says which exist."""

    special: dict[str, Linear]
    active: Mask

    @property
    def count(self) -> int:
        """Threads, those that fill up warps included."""
        return len(self.active)


def threads_of(grid: Dim3, block: Dim3, first_block: int, blocks: int) -> Threads:
    """The threads of `blocks` blocks from number `first_block` on (x fastest, as threads of a block are)."""
    size = block[0] * block[1] * block[2]
    padded = -(-size // LANES) * LANES
    place = np.tile(np.arange(padded, dtype=np.int64), blocks)
    number = np.repeat(np.arange(first_block, first_block + blocks, dtype=np.int64), padded)
    values: dict[str, npt.NDArray[np.int64] | int] = {
        "%tid.x": place % block[0], "%tid.y": place // block[0] % block[1], "%tid.z": place // (block[0] * block[1]),
        "%ctaid.x": number % grid[0], "%ctaid.y": number // grid[0] % grid[1], "%ctaid.z": number // (grid[0] * grid[1]),
        "%laneid": place % LANES,
    }  # fmt: skip
    for axis, sizes in zip("xyz", zip(grid, block, strict=True), strict=True):
        values[f"%nctaid.{axis}"], values[f"%ntid.{axis}"] = sizes
        if sizes[0] == 1:
            values[f"%ctaid.{axis}"] = 0
        if sizes[1] == 1:
            values[f"%tid.{axis}"] = 0
    return Threads({name: Linear(value) for name, value in values.items()}, place < size)


class Registers:
    """Register contents by name, written under a mask. `parameters` maps (parameter, offset) to the bytes or array behind it."""

    def __init__(self, threads: Threads, parameters: Mapping[str, bytes | int]) -> None:
        self.threads = threads
        self.alive = threads.active.copy()
        self.contents: dict[str, Content] = {}
        self._parameters = parameters
        self._places: dict[str, int] = {}

    def execute(self, instruction: Instruction, mask: Mask) -> None:
        """Write the results of `instruction` for the threads of `mask`."""
        targets = writes(instruction)
        if not targets:
            return
        first = destination_count(instruction)
        simple = instruction.operands[:first]
        single = len(simple) == 1 and isinstance(simple[0], Register) and len(targets) == 1
        if single and instruction.opcode == "ld":
            result = self._loaded(instruction)
        elif single:
            result = apply(instruction, [self.operand(o, instruction) for o in instruction.operands[first:]])
        else:
            result = Unknown(f'a result of "{instruction.text}"', instruction.ptx_line)
        if instruction.guard is not None:
            guard = self.guard(instruction)
            if isinstance(guard, bool | np.ndarray):
                mask = mask & guard
            else:
                result = guard if isinstance(guard, Unknown) else Unknown("a write under a condition", instruction.ptx_line)
        for target in targets:
            self.write(target, result, mask)

    def write(self, name: str, value: Content, mask: Mask) -> None:
        """Put `value` where `mask` is; threads that have left do not matter."""
        old = self.contents.get(name)
        if old is None or not (self.alive & ~mask).any():
            self.contents[name] = value
        else:
            self.contents[name] = merged(mask, value, old)

    def guard(self, instruction: Instruction) -> Content:
        """The guard of an instruction as a predicate, True without one."""
        if instruction.guard is None:
            return True
        value = self.read(instruction.guard.register.name, instruction)
        return negated(value) if instruction.guard.negated else value

    def read(self, name: str, instruction: Instruction) -> Content:
        """A register's content."""
        content = self.contents.get(name)
        return Unknown(f"{name}, which nothing has written", instruction.ptx_line) if content is None else content

    def operand(self, operand: Operand | Negated, instruction: Instruction) -> Content:
        """A source operand."""
        if isinstance(operand, Register):
            return self.read(operand.name, instruction)
        if isinstance(operand, Negated):
            return negated(self.read(operand.register.name, instruction))
        if isinstance(operand, Immediate) and not operand.is_float:
            return Linear(wrap(int(operand.value), 64))
        if isinstance(operand, SpecialRegister) and operand.name in self.threads.special:
            return self.threads.special[operand.name]
        if isinstance(operand, Symbol):
            return Linear(self._place(operand.name) + operand.offset)
        if isinstance(operand, Address):
            return self.address(operand, instruction)
        if isinstance(operand, Vector):
            return Unknown("parts of a value", instruction.ptx_line)
        return Unknown(operand.name if isinstance(operand, SpecialRegister) else "a floating-point value", instruction.ptx_line)

    def address(self, address: Address, instruction: Instruction) -> Content:
        """The sum of base and offset."""
        return linear(self.operand(address.base, instruction), Linear(address.offset), operator.add, 64)

    def _place(self, symbol: str) -> int:
        """A made-up, aligned address of a variable."""
        return self._places.setdefault(symbol, (1 + len(self._places)) * _APART + (_APART << 14))

    def _loaded(self, instruction: Instruction) -> Content:
        """A load: of a parameter what the launch says, else data."""
        source = instruction.operands[-1]
        if "param" in instruction.modifiers and isinstance(source, Address) and isinstance(source.base, Symbol):
            argument = self._parameters.get(source.base.name)
            if isinstance(argument, int):
                return Linear(argument)
            offset, kind = source.base.offset + source.offset, instruction.modifiers[-1]
            if isinstance(argument, bytes) and kind[:1] in "usb":
                size = type_bits(kind) // 8
                return Linear(wrap(int.from_bytes(argument[offset : offset + size], "little"), 8 * size))
        return Unknown("a value loaded from memory", instruction.ptx_line)


def array_address(number: int) -> int:
    """A made-up address for array argument `number`."""
    return (1 + number) * _APART


# -- Transactions of a memory instruction whose address is known as a function of thread and loop counters.

_ALIGNMENT = 256  # of what cudaMalloc gives; rules look at no more of an address
_MOST_PLACES = 4096


@dataclass
class Tally(LaunchTotals):
    """The sums so far: counts times their iterations. `hinted` are the PTX lines whose hints were used."""

    hinted: set[int] = field(default_factory=set)

    def copy(self) -> Tally:
        """The sums as they are now."""
        return Tally(**{**self.__dict__, "hinted": set(self.hinted)})


@dataclass(frozen=True)
class Coalescing:
    """A GPU's rule and the bytes that its L1 fetches."""

    rule: str
    sector_bytes: int

    def add(
        self, tally: Tally, address: Linear, active: Mask, access_bytes: int, ranges: Mapping[str, tuple[int, int]], times: float
    ) -> None:
        """Count one execution for each of the iterations that `ranges` (first, end of each counter) spans; `times` is their number.

        Raises LimitError where the addresses of the iterations differ in too many ways.
        """
        number = transaction_rule_number(self.rule)
        alignment = max(_ALIGNMENT, segment_bytes(number, access_bytes, self.sector_bytes))
        lanes = active.reshape(-1, 32)
        for shift, share in _places(_seen(address, active), ranges, alignment):
            where = np.broadcast_to(np.asarray(address.const + shift, dtype=np.int64), active.shape).reshape(-1, 32)
            made, good = transactions_of_lanes(where, lanes, access_bytes, number, self.sector_bytes)
            some = lanes.any(axis=1)
            weight = share * times
            tally.coalesced += weight * float((good & some).sum())
            tally.uncoalesced += weight * float((~good & some).sum())
            tally.transactions += weight * float(made[~good & some].sum())
            tally.access_bytes += weight * access_bytes * float(some.sum())

    def add_hinted(self, tally: Tally, active: Mask, access_bytes: int, coalesced: bool, times: float) -> None:
        """Count an instruction whose kind is a hint: an uncoalesced one makes a transaction for every active lane."""
        lanes = active.reshape(-1, 32)
        some = float(lanes.any(axis=1).sum())
        tally.access_bytes += times * access_bytes * some
        if coalesced:
            tally.coalesced += times * some
        else:
            segment = segment_bytes(transaction_rule_number(self.rule), access_bytes, self.sector_bytes)
            each = max(1, packed_segments(access_bytes, segment) // 32)
            tally.uncoalesced += times * some
            tally.transactions += times * each * float(lanes.sum())


def _seen(address: Linear, active: Mask) -> Linear:
    """The address without counters that no active thread's has: those are left over from threads that went another way."""
    terms = {
        name: step if isinstance(step, int) else np.where(active, step, 0)
        for name, step in address.terms.items()
        if isinstance(step, int) or step[active].any()
    }
    return Linear(address.const, terms)


def _places(address: Linear, ranges: Mapping[str, tuple[int, int]], alignment: int) -> list[tuple[Number, float]]:
    """What counters add to the address, modulo the alignment, and in which share of the iterations."""
    places: list[tuple[Number, float]] = [(0, 1.0)]
    for name, step in address.terms.items():
        first, end = ranges[name]
        common = step if isinstance(step, int) else int(np.gcd.reduce(np.unique(step)))
        period = alignment // math.gcd(alignment, common)
        count = end - first
        ways = [(k, len(range(k, count, period)) / count) for k in range(min(period, count))]
        uniform: dict[int, float] = {}
        rest: list[tuple[Number, float]] = []
        for shift, share in places:
            for k, part in ways:
                moved = shift + step * (first + k)
                if isinstance(moved, int):
                    uniform[moved % alignment] = uniform.get(moved % alignment, 0.0) + share * part
                else:
                    rest.append((moved % alignment, share * part))
        places = [*uniform.items(), *rest]
        if len(places) > _MOST_PLACES:
            what = f"an address takes more than {_MOST_PLACES:,} places in a line over the iterations of its loops"
            raise LimitError(what, remedy="leave out `static`: a trace counts any kernel")
    return places
