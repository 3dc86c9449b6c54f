"""Kernel traces made in plain Python, from a description of the code and the addresses that each warp touches.

Independent of the emulator and of every producer: tests of the caches need streams whose content is known beforehand.
Code is written as one text per basic block, one instruction a line: `op_class_or_access destination ... <- source ...`, for example
`int r2 <- r0 r1`, `load.global.4 r3 <- r2`, `store.global.4 <- r3`, `atomic.global.4 r1 <- r0`, `store.shared.4 <- r3`, `barrier`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.traces.schema import InMemory, KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader


@dataclass(frozen=True)
class Warp:
    """One warp: its path as (block, active lanes, repeat), and per memory instruction executed what it touches, in path order.

    A global access is its list of byte addresses (one per active lane); a shared access its bank-conflict degree (an int),
    a shared atomic that and the most lanes at one address (a tuple).
    """

    path: tuple[tuple[int, int, int], ...]
    accesses: Sequence[Sequence[int] | tuple[int, int] | int]


def static_code(blocks: Sequence[str]) -> tuple[tuple[StaticInstruction, ...], np.ndarray]:
    """The static instructions of `blocks` and where each block starts."""
    code: list[StaticInstruction] = []
    starts = [0]
    numbers: dict[str, int] = {}
    for block in blocks:
        for line in block.strip().splitlines():
            left, _, right = line.partition("<-")
            word, *destinations = left.split()
            kind, _, rest = word.partition(".")
            space, _, width = rest.partition(".")
            memory = kind in ("load", "store", "atomic")
            opcode = "bar.sync" if kind == "barrier" else word
            registers = [tuple(numbers.setdefault(r, len(numbers)) for r in side) for side in (destinations, right.split())]
            code.append(
                StaticInstruction(
                    pc=len(code),
                    opcode=opcode,
                    op_class="memory" if memory else kind,
                    destinations=registers[0],
                    sources=registers[1],
                    space=space if memory else "",
                    access=kind if memory else "",
                    access_bytes=int(width) if memory else 0,
                    file="",
                    line=0,
                    ptx_line=0,
                )
            )
        starts.append(len(code))
    return tuple(code), np.array(starts, np.int32)


def sector_list(addresses: Iterable[int], access_bytes: int) -> list[int]:
    """Sectors in lane order, duplicates merged, for accesses that do not straddle more than one boundary."""
    touched: dict[int, None] = {}
    for address in addresses:
        touched[address >> 5] = None
        touched[(address + access_bytes - 1) >> 5] = None
    return list(touched)


def _stream(warp: Warp, code: tuple[StaticInstruction, ...], starts: np.ndarray) -> tuple[list[int], list[int]]:
    events: list[int] = []
    sectors: list[int] = []
    accesses = iter(warp.accesses)
    for block, _, repeat in warp.path:
        memory = [i for i in code[starts[block] : starts[block + 1]] if i.event_bytes]
        for _ in range(repeat):
            for instruction in memory:
                touched = next(accesses)
                if isinstance(touched, tuple):
                    events.extend(touched)
                    continue
                if isinstance(touched, int):
                    events.append(touched)
                else:
                    listed = sector_list(touched, instruction.access_bytes)
                    sectors.extend(listed)
                    events.append(len(listed))
                if instruction.has_sharing:
                    listed = [] if isinstance(touched, int) else list(touched)
                    events.append(max(map(listed.count, listed), default=1))
    assert next(accesses, None) is None, "accesses left over"
    return events, sectors


def build_trace(
    blocks: Sequence[str], warps: Iterable[Warp], warps_per_block: int = 1, chunk_blocks: int = 1_000_000
) -> KernelTrace:
    """A trace of `warps`, `warps_per_block` to a block, cut into chunks of `chunk_blocks` blocks."""
    code, starts = static_code(blocks)
    paths: dict[tuple[tuple[int, int, int], ...], int] = {}
    rows: list[tuple[int, list[int], list[int]]] = []
    for warp in warps:
        rows.append((paths.setdefault(warp.path, len(paths)), *_stream(warp, code, starts)))
    assert len(rows) % warps_per_block == 0
    chunks = []
    step = chunk_blocks * warps_per_block
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        chunks.append(
            TraceChunk(
                first_warp=first,
                path=np.array([r[0] for r in part], np.int32),
                event_offset=np.cumsum([0, *(len(r[1]) for r in part)], dtype=np.int64),
                events=np.array([e for r in part for e in r[1]], np.uint8),
                sector_offset=np.cumsum([0, *(len(r[2]) for r in part)], dtype=np.int64),
                sectors=np.array([s for r in part for s in r[2]], np.uint32),
            )
        )
    entries = [entry for path in paths for entry in path]
    table = PathTable(
        offset=np.cumsum([0, *(len(path) for path in paths)], dtype=np.int64),
        block=np.array([e[0] for e in entries], np.int32),
        lanes=np.array([e[1] for e in entries], np.uint8),
        repeat=np.array([e[2] for e in entries], np.int32),
    )
    return KernelTrace(_header(len(rows) // warps_per_block, warps_per_block), code, starts, table, InMemory(chunks))


def _header(grid: int, warps_per_block: int) -> TraceHeader:
    return TraceHeader(
        kernel="by_hand",
        mangled="by_hand",
        source="by_hand.cu",
        grid=(grid, 1, 1),
        block=(32 * warps_per_block, 1, 1),
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        registers_per_thread=32,
        registers_from="override",
        target="sm_75",
        kernel_hash="",
        input_hash="",
        warp_instructions=0,
        thread_instructions=0,
        emulation_seconds=0.0,
        tool_version="0",
    )
