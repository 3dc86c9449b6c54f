"""Small kernels, traces and miss profiles written out by hand, and eq. 4 of GPUMech in its plainest form."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from warpsight.caches.miss_profile import COUNTS, SHARES, MissProfile
from warpsight.gpu.spec import DramSpec, GpuSpec, L1Spec, L2Spec, NocSpec, SmSpec
from warpsight.traces.schema import InMemory, KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader

LATENCIES = {"int": 4, "fp32": 6, "fp64": 8, "sfu": 20, "shared": 24, "fp16": 6}


def gpu(**changes: Any) -> GpuSpec:
    """A GPU with L1 25, L2 120 and DRAM 300 more cycles, as GPUMech's (its Table I)."""
    fields: dict[str, Any] = {
        "name": "by-hand",
        "core_clock_hz": 1e9,
        "sm_count": 2,
        "sm": SmSpec(32, 16, 32768, 49152, 1, 1, "gto"),
        "latency_cycles": dict(LATENCIES),
        "initiation_cycles": dict.fromkeys(LATENCIES, 1),
        "l1": L1Spec(32768, 128, 128, 8, 32, 32, 25),
        "noc": NocSpec(1e12),
        "l2": L2Spec(786432, 128, 128, 8, 128, 64, 120, slices=6),
        "dram": DramSpec(192e9, 6, 300),
    }
    return GpuSpec(**{**fields, **changes})


def op(
    pc: int, writes: tuple[int, ...] = (), reads: tuple[int, ...] = (), op_class: str = "int", **fields: Any
) -> StaticInstruction:
    """An instruction that writes and reads those registers."""
    base = {"opcode": "add.s32", "space": "", "access": "", "access_bytes": 0, "file": "k.cu", "line": pc + 1, "ptx_line": pc + 9}
    return StaticInstruction(pc=pc, op_class=op_class, destinations=writes, sources=reads, **{**base, **fields})


def load(pc: int, writes: tuple[int, ...], reads: tuple[int, ...] = (), space: str = "global") -> StaticInstruction:
    """A 4-byte load."""
    return op(pc, writes, reads, "memory", opcode=f"ld.{space}.f32", space=space, access="load", access_bytes=4)


def trace(
    program: tuple[StaticInstruction, ...],
    blocks: list[int],
    paths: list[list[tuple[int, int]]],
    warps: list[int],
    warps_per_block: int = 1,
) -> KernelTrace:
    """`blocks`: first pc of each basic block and the end; `paths`: (basic block, repeat) each; `warps`: the path of each warp."""
    entries = [entry for path in paths for entry in path]
    offset = np.cumsum([0, *(len(path) for path in paths)]).astype(np.int64)
    table = PathTable(
        offset,
        np.array([block for block, _ in entries], dtype=np.int32),
        np.full(len(entries), 32, dtype=np.uint8),
        np.array([repeat for _, repeat in entries], dtype=np.int32),
    )
    lengths = [sum((blocks[b + 1] - blocks[b]) * times for b, times in path) for path in paths]
    header = TraceHeader(
        "k", "_Z1kv", "k.cu", (len(warps) // warps_per_block, 1, 1), (32 * warps_per_block, 1, 1), 0, 0, 16, "assembler", "sm_75",
        "", "", sum(lengths[path] for path in warps), 0, 0.0, "test",
    )  # fmt: skip
    none = np.zeros(len(warps) + 1, dtype=np.int64)
    chunk = TraceChunk(0, np.array(warps, dtype=np.int32), none, np.zeros(0, np.uint8), none, np.zeros(0, np.uint32))
    return KernelTrace(header, program, np.array(blocks, dtype=np.int32), table, InMemory([chunk]))


def misses(instructions: int, **counts: dict[int, int]) -> MissProfile:
    """A miss profile that is 0 but for `counts`: count name to pc to value. A line takes a cycle unless they say else."""
    counts = {"tag_cycles": counts.get("l1_reads", {}), **counts}
    arrays = {name: np.zeros(instructions, dtype=np.int64) for name in COUNTS}
    for name, values in counts.items():
        for pc, value in values.items():
            arrays[name][pc] = value
    return MissProfile(**arrays, **dict.fromkeys(SHARES, 1.0))  # type: ignore[arg-type]


def issue_cycles(stream: list[StaticInstruction], latency: list[Fraction]) -> tuple[list[Fraction], list[int]]:
    """Eq. 4 word for word on a dynamic stream: the issue cycle of each instruction, and the pc it waited for (-1: none)."""
    issued: list[Fraction] = []
    waited: list[int] = []
    writer: dict[int, int] = {}
    for number, instruction in enumerate(stream):
        earliest = issued[-1] + 1 if issued else Fraction(0)
        cause = -1
        for register in instruction.sources:
            if register in writer:
                source = writer[register]
                done = issued[source] + latency[stream[source].pc]
                if done + 1 > earliest:
                    earliest, cause = done + 1, stream[source].pc
        issued.append(earliest)
        waited.append(cause)
        writer |= dict.fromkeys(instruction.destinations, number)
    return issued, waited
