"""The kernel's instructions as the simulation reads them: one row of numbers for each pc."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpsight.addressing.coalescing import packed_lines
from warpsight.gpu.latencies import ISSUE_ONLY, op_latency
from warpsight.gpu.spec import GpuSpec
from warpsight.timing import layout as at
from warpsight.timing.layout import Ints
from warpsight.trace.schema import ATOMIC, LOAD, STORE, KernelTrace, StaticInstruction

_ACCESS = {LOAD: at.IS_LOAD, STORE: at.IS_STORE, ATOMIC: at.IS_ATOMIC}
_FENCES = ("membar", "fence")


class Code(NamedTuple):
    """The tables `CODE` and `REGS` of module `layout`, how many registers and loads there are, and the units' initiation."""

    rows: Ints
    registers: Ints
    register_count: int
    loads: int
    initiation: Ints


def _kind(instruction: StaticInstruction) -> int:
    if instruction.has_sectors:
        return at.GLOBAL
    if instruction.event_bytes:
        return at.SHARED
    if instruction.is_block_barrier:
        return at.BARRIER
    return at.FENCE if instruction.opcode.lower().split(".")[0] in _FENCES else at.ALU


def _latency(instruction: StaticInstruction, gpu: GpuSpec) -> int:
    """Issue to dependent issue. Raises SpecError for an op class that the GPU has no latency for."""
    if instruction.access:
        return gpu.latency_cycles["int"]  # constants and parameters lie next to the register file and cost what a move costs
    if instruction.op_class in ISSUE_ONLY or instruction.op_class == "memory":
        return 1
    return op_latency(gpu, instruction.op_class, f'"{instruction.opcode}" ({instruction.file}:{instruction.line})')


def _renumber(code: tuple[StaticInstruction, ...]) -> dict[int, int]:
    """Dense numbers for the registers, in the order of first appearance."""
    numbers: dict[int, int] = {}
    for instruction in code:
        for register in instruction.destinations + instruction.sources:
            numbers.setdefault(register, len(numbers))
    return numbers


def code_of(trace: KernelTrace, gpu: GpuSpec) -> Code:
    """The code of `trace` on `gpu`. Raises SpecError for an op class without a latency."""
    numbers = _renumber(trace.instructions)
    units = {"": at.UNIT_MEMORY} | {name: k + 1 for k, name in enumerate(sorted(gpu.latency_cycles))}
    rows: list[tuple[int, ...]] = []
    registers: list[int] = []
    loads = 0
    for i in trace.instructions:
        kind = _kind(i)
        touched = [numbers[r] for r in dict.fromkeys(i.destinations + i.sources)]
        through_unit = kind in (at.GLOBAL, at.SHARED)
        returns = through_unit and i.access != STORE and bool(i.destinations)
        unit = at.UNIT_MEMORY if through_unit else units.get("int" if i.access else i.op_class, units["int"])
        rows.append((
            kind, unit, _latency(i, gpu), len(registers), len(touched), len(set(i.destinations)), _ACCESS.get(i.access, -1),
            i.access_bytes, i.event_bytes, i.has_sectors, i.has_degree, loads if returns else -1, packed_lines(i.access_bytes),
        ))  # fmt: skip
        registers.extend(touched)
        loads += returns
    initiation = [1] + [gpu.initiation_cycles.get(name, 1) for name in sorted(gpu.latency_cycles)]
    return Code(
        np.array(rows, np.int64).reshape(-1, at.CODE_WIDTH),
        np.array(registers, np.int64),
        max(1, len(numbers)),
        max(1, loads),
        np.array(initiation, np.int64),
    )
