"""An independent PTX interpreter for tests: pure Python, one thread at a time, from one barrier to the next.

It shares no code with the product and no idea of a warp, so that the two can only agree by both being right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scalar_interpreter_ops import combine, evaluate, types
from scalar_interpreter_text import WIDTHS, Code, Operand, Step, read_kernel

_ALIGNMENT = 256


class RunawayError(Exception):
    """A thread executed more steps than allowed."""


@dataclass
class Memory:
    """Device memory: arrays at addresses of their own, with a gap between, every access checked."""

    arrays: list[tuple[int, bytearray]] = field(default_factory=list)

    def place(self, data: bytes) -> int:
        """Copy an array in and give its address."""
        last = self.arrays[-1] if self.arrays else (1 << 32, bytearray())
        base = -(-(last[0] + len(last[1]) + _ALIGNMENT) // _ALIGNMENT) * _ALIGNMENT
        self.arrays.append((base, bytearray(data)))
        return base

    def at(self, address: int, size: int) -> tuple[bytearray, int]:
        """The array around an access, and where in it. Raises IndexError outside of all."""
        for base, data in self.arrays:
            if base <= address and address + size <= base + len(data):
                return data, address - base
        raise IndexError(f"access to {size} bytes at {address:#x}")


@dataclass
class Thread:
    """One thread: registers as bit patterns, where it is, and its special registers."""

    special: dict[str, int]
    registers: dict[str, int] = field(default_factory=dict)
    pc: int = 0
    steps: int = 0


class Machine:
    """Runs one launch."""

    def __init__(self, code: Code, parameters: dict[str, bytes], memory: Memory, max_steps: int) -> None:
        self.code, self.parameters, self.memory, self.max_steps = code, parameters, memory, max_steps
        self.shared = bytearray(code.shared_bytes)

    def run_block(self, threads: list[Thread]) -> None:
        """Run a block's threads, each to the next barrier or its end, until all have ended."""
        self.shared = bytearray(self.code.shared_bytes)
        while threads:
            threads = [thread for thread in threads if self._reaches_barrier(thread)]

    def _reaches_barrier(self, thread: Thread) -> bool:
        code = self.code
        while thread.pc < len(code.steps):
            step = code.steps[thread.pc]
            thread.pc += 1
            thread.steps += 1
            if thread.steps > self.max_steps:
                raise RunawayError(step.text)
            if step.guard and bool(thread.registers.get(step.guard, 0)) == step.negated:
                continue
            if step.opcode in ("ret", "exit"):
                return False
            if step.opcode in ("bar", "barrier"):
                return True
            if step.opcode == "bra":
                thread.pc = code.labels[step.operands[0].name]
            else:
                self._execute(thread, step)
        return False

    def _execute(self, thread: Thread, step: Step) -> None:
        if step.opcode == "ld":
            self._load(thread, step)
        elif step.opcode == "st":
            self._store(thread, step)
        elif step.opcode == "setp":
            self._compare(thread, step)
        else:
            target, *operands = step.operands
            result, kinds = types(step.opcode, step.modifiers, len(operands))
            sources = [self._read(thread, o, kind) for o, kind in zip(operands, kinds, strict=True)]
            self._write(thread, target, result, evaluate(step.opcode, step.modifiers, sources))

    def _compare(self, thread: Thread, step: Step) -> None:
        kind, combined = step.modifiers[-1], step.modifiers[1] in ("and", "or", "xor")
        results = len(step.operands) - 2 - combined
        a, b, *rest = step.operands[results:]
        found = evaluate("setp", step.modifiers, [self._read(thread, a, kind), self._read(thread, b, kind)])
        # The third source is read before either result is written: it may be one of them.
        other = self._read(thread, rest[0], "pred") if combined else 0
        for target, truth in zip(step.operands[:results], (found, 1 - found), strict=False):
            thread.registers[target.name] = combine(step.modifiers, truth, other) if combined else truth

    def _load(self, thread: Thread, step: Step) -> None:
        kind = step.modifiers[-1]
        target, address = step.operands
        size = WIDTHS[kind] // 8
        targets = target.elements or (target,)
        data, at = self._place(thread, step, address, size * len(targets))
        for i, register in enumerate(targets):
            self._write(thread, register, kind, int.from_bytes(data[at + i * size : at + (i + 1) * size], "little"))

    def _store(self, thread: Thread, step: Step) -> None:
        kind = step.modifiers[-1]
        address, source = step.operands
        size = WIDTHS[kind] // 8
        sources = source.elements or (source,)
        data, at = self._place(thread, step, address, size * len(sources))
        bits = b"".join(self._read(thread, register, kind).to_bytes(size, "little") for register in sources)
        data[at : at + len(bits)] = bits

    def _place(self, thread: Thread, step: Step, address: Operand, size: int) -> tuple[Any, int]:
        if "param" in step.modifiers:
            return self.parameters[address.name], address.value
        base = thread.registers[address.name] if address.name.startswith("%") else self.code.shared[address.name]
        at = base + address.value
        if at % size:
            raise IndexError(f"misaligned access to {at:#x}")
        if "shared" not in step.modifiers:
            return self.memory.at(at, size)
        if at + size > len(self.shared):
            raise IndexError(f"shared access to {at}")
        return self.shared, at

    def _read(self, thread: Thread, operand: Operand, kind: str) -> int:
        mask = (1 << WIDTHS[kind]) - 1
        if operand.kind in ("integer", "float"):
            return operand.value & mask
        if operand.kind == "special":
            return thread.special[operand.name]
        if operand.kind == "symbol":
            return self.code.shared[operand.name]
        if operand.name.startswith("!"):
            return 1 - thread.registers[operand.name[1:]]
        return thread.registers[operand.name] & mask

    def _write(self, thread: Thread, target: Operand, kind: str, bits: int) -> None:
        wide, narrow = self.code.width(target.name), WIDTHS[kind]
        if kind[0] == "s" and wide > narrow and bits >> (narrow - 1) & 1:
            bits |= (1 << wide) - (1 << narrow)
        thread.registers[target.name] = bits


def run(
    text: str, kernel: str, *, grid: tuple[int, ...], block: tuple[int, ...], args: list[Any], max_steps: int = 100_000
) -> None:
    """Run `kernel` of the PTX `text`. NumPy arrays are device memory, written back; NumPy scalars are passed by value.

    Raises IndexError for an access outside of the arrays, RunawayError for a thread without end, ValueError for unknown text.
    """
    code, memory = read_kernel(text, kernel), Memory()
    parameters = {}
    for (name, size), argument in zip(code.parameters, args, strict=True):
        if isinstance(argument, np.ndarray):
            parameters[name] = memory.place(argument.tobytes()).to_bytes(8, "little")
        else:
            parameters[name] = argument.tobytes()
        assert len(parameters[name]) == size
    machine = Machine(code, parameters, memory, max_steps)
    (gx, gy, gz), (bx, by, bz) = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    for c in range(gx * gy * gz):
        place = {"ctaid": (c % gx, c // gx % gy, c // gx // gy), "ntid": (bx, by, bz), "nctaid": (gx, gy, gz)}
        machine.run_block([_thread(t, (bx, by), place) for t in range(bx * by * bz)])
    arrays = iter(memory.arrays)
    for argument in args:
        if isinstance(argument, np.ndarray):
            argument[...] = np.frombuffer(bytes(next(arrays)[1]), argument.dtype).reshape(argument.shape)


def _thread(number: int, block: tuple[int, int], place: dict[str, tuple[int, int, int]]) -> Thread:
    bx, by = block
    where = {**place, "tid": (number % bx, number // bx % by, number // bx // by)}
    special = {f"%{name}.{axis}": value for name, triple in where.items() for axis, value in zip("xyz", triple, strict=True)}
    return Thread({**special, "%laneid": number % 32})
