"""Synthetic traces whose every number is known from how they are made, by a way other than the code under test."""

from __future__ import annotations

import dataclasses
from itertools import chain, pairwise
from typing import Any

import numpy as np

from warpsight.traces.schema import InMemory, KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader


def instruction(pc: int, opcode: str = "add.s32", **fields: Any) -> StaticInstruction:
    """An instruction with plain defaults."""
    base = {"op_class": "int", "destinations": (pc,), "sources": (0,), "space": "", "access": "", "access_bytes": 0}
    return StaticInstruction(pc=pc, opcode=opcode, file="k.cu", line=pc + 1, ptx_line=pc + 10, **{**base, **fields})


PROGRAM = (
    instruction(0),
    instruction(1, "ld.global.f32", op_class="memory", space="global", access="load", access_bytes=4),
    instruction(2, "st.shared.f32", op_class="memory", space="shared", access="store", access_bytes=4),
    instruction(3),
    instruction(4, "atom.add.u32", op_class="memory", space="generic", access="atomic", access_bytes=4),
    instruction(5, "exit", op_class="control"),
)
BLOCK_START = np.array([0, 3, 5, 6], np.int32)
# path 0: block 0 three times, then the end; path 1: block 0, block 1 twice, the end.
PATHS = PathTable(
    np.array([0, 2, 5], np.int64),
    np.array([0, 2, 0, 1, 2], np.int32),
    np.array([32, 32, 32, 7, 32], np.uint8),
    np.array([3, 1, 1, 2, 1], np.int32),
)
INSTRUCTIONS_OF_PATH = (3 * 3 + 1, 3 + 2 * 2 + 1)


def warp_stream(path: int, base: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Events and sectors of one warp, written out by hand for each of the two paths."""
    events: list[int] = []
    sectors: list[int] = []

    def touch() -> int:
        count = int(rng.integers(0, 5))
        sectors.extend(int(s) for s in base + rng.integers(0, 1000, count))
        return count

    if path == 0:
        for _ in range(3):
            events += [touch(), int(rng.integers(1, 33))]
    else:
        events += [touch(), 2]
        for _ in range(2):
            events += [touch(), 1, 7]
    return events, sectors


def chunk(first_warp: int, warps: int, rng: np.random.Generator) -> TraceChunk:
    """Warps that alternate at random between the two paths."""
    path = rng.integers(0, 2, warps).astype(np.int32)
    streams = [warp_stream(int(p), 5000 * (first_warp + w), rng) for w, p in enumerate(path)]
    events = [e for e, _ in streams]
    sectors = [s for _, s in streams]
    return TraceChunk(
        first_warp,
        path,
        np.cumsum([0, *map(len, events)]).astype(np.int64),
        np.array(list(chain(*events)), np.uint8),
        np.cumsum([0, *map(len, sectors)]).astype(np.int64),
        np.array(list(chain(*sectors)), np.uint32),
    )


def header(blocks: int, warp_instructions: int, **fields: Any) -> TraceHeader:
    """A launch of blocks of two warps (the second one partial)."""
    values: dict[str, Any] = {
        "kernel": "k", "mangled": "_Z1kv", "source": "k.cu", "target": "sm_75", "kernel_hash": "a1", "input_hash": "b2",
        "grid": (blocks, 1, 1), "block": (40, 1, 1), "static_shared_bytes": 0, "dynamic_shared_bytes": 64,
        "registers_per_thread": 16, "registers_from": "assembler", "emulation_seconds": 0.25, "tool_version": "0.1.0",
        "warp_instructions": warp_instructions, "thread_instructions": 20 * warp_instructions,
    }
    return TraceHeader(**{**values, **fields})


def small_trace(blocks: int = 12, chunks: int = 3, seed: int = 1) -> KernelTrace:
    """A trace of `blocks` blocks in `chunks` equal chunks."""
    rng = np.random.default_rng(seed)
    each = 2 * blocks // chunks
    parts = [chunk(each * i, each, rng) for i in range(chunks)]
    total = sum(INSTRUCTIONS_OF_PATH[int(p)] for part in parts for p in part.path)
    source = InMemory(parts)
    return KernelTrace(header(blocks, total), PROGRAM, BLOCK_START, PATHS, source, notes=("made by hand",), extra={"seed": seed})


def with_chunk(trace: KernelTrace, number: int, **fields: Any) -> KernelTrace:
    """The same trace with fields of one chunk replaced."""
    parts = [dataclasses.replace(c, **fields) if i == number else c for i, c in enumerate(trace.chunks)]
    return dataclasses.replace(trace, chunks=InMemory(parts))


def whole(trace: KernelTrace) -> dict[str, Any]:
    """All warps as plain lists, however they are chunked."""
    rows: dict[str, Any] = {"path": [], "events": [], "sectors": []}
    for part in trace.chunks:
        assert part.first_warp == len(rows["path"])
        rows["path"] += part.path.tolist()
        for name, offset in (("events", part.event_offset), ("sectors", part.sector_offset)):
            values = getattr(part, name).tolist()
            rows[name] += [values[a:b] for a, b in pairwise(offset)]
    return rows
