"""The latency of every static instruction on a GPU, and where a load spends it (GPUMech section V-B)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.latencies import ISSUE_ONLY, op_latency
from warpsight.gpu.spec import GpuSpec
from warpsight.trace.schema import ATOMIC, LOAD, STORE, StaticInstruction

Floats = npt.NDArray[np.float64]

LEVELS = ("l1", "l2", "dram")


@dataclass(frozen=True)
class LatencyTable:
    """Per pc. `cycles` float64 [instructions] from issue to done (0: no consumer ever waits).

    `memory` bool [instructions]: a stall on this pc counts as a memory stall. `levels` float64 [instructions, 3]: the part of
    `cycles` that is served by L1, L2 and DRAM; a request counts wholly for the level that serves it.
    """

    cycles: Floats
    memory: npt.NDArray[np.bool_]
    levels: Floats


def latency_table(
    instructions: tuple[StaticInstruction, ...], misses: MissProfile, gpu: GpuSpec, occurrences: npt.NDArray[np.int64]
) -> LatencyTable:
    """Latencies of `instructions` on `gpu` with the misses found on its caches.

    `occurrences` int64 [instructions]: how often warps came past each pc, executions with every lane guarded off included; those
    cost their issue alone, so memory latencies are means over all occurrences. Raises SpecError for an op class without a latency.
    """
    levels = np.zeros((len(instructions), len(LEVELS)))
    other = np.zeros(len(instructions))
    for instruction in instructions:
        pc, times = instruction.pc, int(occurrences[instruction.pc])
        if not instruction.access and instruction.op_class != "memory":
            other[pc] = _compute_latency(instruction, gpu)
        elif times and instruction.access != STORE and instruction.destinations:
            levels[pc] = _served(instruction, misses, gpu) / times
            other[pc] = _on_chip(instruction, misses, gpu, times)
    device = levels.sum(axis=1)
    return LatencyTable(device + other, device > other, levels)


def _compute_latency(instruction: StaticInstruction, gpu: GpuSpec) -> float:
    """The latency of the op class: the GPU's own, or 0 for what only issues (it never stalls a consumer, eq. 4)."""
    if instruction.op_class in ISSUE_ONLY and instruction.op_class not in gpu.latency_cycles:
        return 0.0
    return float(op_latency(gpu, instruction.op_class, f'"{instruction.opcode}" ({instruction.file}:{instruction.line})'))


def _served(instruction: StaticInstruction, misses: MissProfile, gpu: GpuSpec) -> Floats:
    """Latency cycles of all executions together, by the level that served them: a load by its slowest request."""
    pc = instruction.pc
    l2 = float(gpu.l2.latency_cycles)
    reach = np.array([float(gpu.l1.latency_cycles), l2, l2 + gpu.dram.latency_cycles])
    if instruction.access == LOAD:
        events = [misses.slowest_l1[pc], misses.slowest_l2[pc], misses.slowest_dram[pc]]
        served: Floats = np.asarray(events, dtype=np.float64) * reach
        return served + _merged(pc, misses)
    if instruction.access == ATOMIC and misses.l2_reads[pc]:
        # An atomic's requests are told apart only one by one, so its misses are taken as spread evenly over its executions.
        missed = float(misses.l2_read_misses[pc] + misses.l2_read_merges[pc]) / float(misses.l2_reads[pc])
        spread: Floats = float(misses.executions[pc]) * np.array([0.0, 1.0 - missed, missed]) * reach
        return spread
    return np.zeros(len(LEVELS))


def _merged(pc: int, misses: MissProfile) -> Floats:
    """Cycles that loads waited for lines already on their way, as L1 misses of this pc are shared between L2 and DRAM."""
    beyond = np.array([0.0, float(misses.slowest_l2[pc]), float(misses.slowest_dram[pc])])
    if not beyond.any():
        beyond[1] = 1.0  # only merges were seen: the lines came at least from the L2
    shared: Floats = float(misses.merged_wait_cycles[pc]) * beyond / beyond.sum()
    return shared


def _on_chip(instruction: StaticInstruction, misses: MissProfile, gpu: GpuSpec, times: int) -> float:
    """Mean cycles in shared memory (latency plus one cycle for each further pass), or in the constant and parameter cache."""
    if instruction.has_degree:
        executions, passes = int(misses.shared_executions[instruction.pc]), int(misses.shared_passes[instruction.pc])
        return (executions * gpu.latency_cycles["shared"] + passes - executions) / times if executions else 0.0
    # Constants and parameters hit a cache next to the register file (taken as perfect): they cost what a move costs.
    return 0.0 if instruction.has_sectors else float(gpu.latency_cycles["int"])
