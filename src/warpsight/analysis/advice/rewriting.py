"""Traces with other instructions: which registers depend on the thread or block, and the accesses of a trace as arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.intervals.usage import occurrences, path_use
from warpsight.traces.events import ChunkEvents, EventReader
from warpsight.traces.schema import ATOMIC, STORE, ChunkSource, KernelTrace, StaticInstruction, TraceChunk, TraceHeader

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def texts_of(trace: KernelTrace) -> list[str]:
    """The text of each instruction with its operands; empty where the trace has none."""
    kept = trace.extra.get("sass" if trace.header.level == "sass" else "ptx", {})
    return [str(kept.get(str(instruction.pc), "")) for instruction in trace.instructions]


_OFFSET = re.compile(r"-?(?:0x[0-9a-f]+|\d+)", re.IGNORECASE)


def address_of(text: str) -> tuple[str, int] | None:
    """The register part and the offset of the address in brackets, `R2.64` and 16 of `[R2.64+0x10]`; None without one."""
    inside = re.findall(r"\[([^\[\]]+)\]", text)
    if not inside:
        return None
    parts = [part.strip() for part in inside[-1].split("+")]
    offsets = [part for part in parts if _OFFSET.fullmatch(part)]
    return "+".join(part for part in parts if part not in offsets), sum(int(part, 0) for part in offsets)


# -- The accesses of a chunk as arrays.

@dataclass(frozen=True)
class Accesses:
    """The n accesses of consecutive warps in their order: `warp` from the first of them, `pc`, number of `sectors`, conflict
    `degree` and most lanes that share an address (`sharing`), all int64 [n]; and all their sectors in a row, uint32.
    """

    warp: Longs
    pc: Longs
    sectors: Longs
    degree: Longs
    sharing: Longs
    touched: npt.NDArray[np.uint32]

    @property
    def own(self) -> Longs:
        """The access that each sector is of."""
        return np.repeat(np.arange(len(self.pc)), self.sectors)

    def reordered(self, order: Longs, **changes: Longs) -> Accesses:
        """Those with the numbers `order`, in that order, with other columns if given."""
        places = _places((np.cumsum(self.sectors) - self.sectors)[order], self.sectors[order])
        columns: dict[str, Any] = {name: getattr(self, name)[order] for name in ("warp", "pc", "sectors", "degree", "sharing")}
        return Accesses(**columns | changes, touched=self.touched[places])


class EventBytes(NamedTuple):
    """What the events of each instruction hold: bytes that count sectors, and whether there is a `degree` and a `sharing`."""

    counted: Longs
    degree: Bools
    sharing: Bools

    @classmethod
    def of(cls, instructions: Sequence[StaticInstruction]) -> EventBytes:
        """Those of `instructions`, for all chunks."""
        return cls(
            np.array([each.sector_bytes for each in instructions], dtype=np.int64),
            np.array([each.has_degree for each in instructions], dtype=np.bool_),
            np.array([each.has_sharing for each in instructions], dtype=np.bool_),
        )

    def at(self, pcs: Longs) -> EventBytes:
        """Those of the instructions `pcs`."""
        return EventBytes(self.counted[pcs], self.degree[pcs], self.sharing[pcs])


class AccessReader:
    """Reads the accesses of a trace's chunks."""

    def __init__(self, trace: KernelTrace) -> None:
        self._trace, self._reader, self._bytes = trace, EventReader(trace), EventBytes.of(trace.instructions)

    def read(self, chunk: TraceChunk) -> Accesses:
        """The accesses of `chunk`."""
        return self._trace.once("accesses", chunk, lambda: self._read(chunk))

    def _read(self, chunk: TraceChunk) -> Accesses:
        events, raw = self._reader.read(chunk), np.asarray(chunk.events, dtype=np.int64)
        counted, degree, sharing = self._bytes.at(events.pc)
        behind = events.byte + counted

        def byte(there: Bools, place: Longs) -> Longs:
            return np.where(there, raw[np.where(there, place, 0)], 0) if len(raw) else place

        degrees, shared = byte(degree, behind), byte(sharing, behind + degree)
        return Accesses(events.warp, events.pc, events.sectors, degrees, shared, np.asarray(chunk.sectors))


def written(accesses: Accesses, held: EventBytes, path: npt.NDArray[np.int32], first_warp: int) -> TraceChunk:
    """The chunk of warps on `path` with these accesses, of instructions whose events hold `held`."""
    counted, degree, sharing = held.at(accesses.pc)
    width = counted + degree + sharing
    begin = np.cumsum(width) - width
    raw = np.zeros(int(width.sum()), dtype=np.uint8)
    for place in range(int(counted.max(initial=0))):
        here = counted > place
        raw[begin[here] + place] = accesses.sectors[here] >> 8 * place & 255
    raw[(begin + counted)[degree]] = accesses.degree[degree]
    raw[(begin + counted + degree)[sharing]] = accesses.sharing[sharing]
    offset, sector = (_offsets(accesses.warp, amounts, len(path)) for amounts in (width, accesses.sectors))
    return TraceChunk(first_warp, path, offset, raw, sector, accesses.touched)


class Rewritten(ChunkSource):
    """The chunks of a trace, each rewritten as it is read."""

    def __init__(self, trace: KernelTrace, rewrite: Callable[[TraceChunk, Accesses], TraceChunk]) -> None:
        self._chunks, self._reader, self._rewrite = trace.chunks, AccessReader(trace), rewrite

    def __iter__(self) -> Iterator[TraceChunk]:
        for chunk in self._chunks:
            yield self._rewrite(chunk, self._reader.read(chunk))


def with_events(trace: KernelTrace, chunk: TraceChunk, events: ChunkEvents, kept: Longs) -> TraceChunk:
    """`chunk` of `trace` with those of its events that are `kept` (numbers, in order), byte for byte."""
    width = np.array([instruction.event_bytes for instruction in trace.instructions], dtype=np.int64)
    warp, bytes_, count = events.warp[kept], width[events.pc[kept]], events.sectors[kept]
    return replace(
        chunk,
        event_offset=_offsets(warp, bytes_, len(chunk.path)),
        events=np.asarray(chunk.events)[_places(events.byte[kept], bytes_)],
        sector_offset=_offsets(warp, count, len(chunk.path)),
        sectors=np.asarray(chunk.sectors)[_places(events.first[kept], count)],
    )


def _offsets(warp: Longs, lengths: Longs, warps: int) -> Longs:
    """The start of each warp's part, and the end of the last one, int64 [warps + 1]."""
    return np.concatenate([[0], np.cumsum(np.bincount(warp, lengths, warps).astype(np.int64))])


def _places(first: Longs, lengths: Longs) -> Longs:
    """`first[k]`, `first[k] + 1`, ... `lengths[k]` of them, for each k in turn."""
    begin = np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    return begin + np.arange(len(begin))


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each of these integers once, ascending. Sorting takes a sixth of the time of `np.unique`, which hashes them."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def numbered(owner: Longs, owners: int) -> tuple[Longs, Longs]:
    """The number of each item among those of its owner, in their order, from 0; and how many each of `owners` has."""
    order, count = np.argsort(owner, kind="stable"), np.bincount(owner, minlength=owners).astype(np.int64)
    number = np.zeros(len(owner), dtype=np.int64)
    number[order] = np.arange(len(owner)) - (np.cumsum(count) - count)[owner[order]]
    return number, count


# -- Other instructions in the same basic blocks.

def recoded(trace: KernelTrace, code: Sequence[Sequence[StaticInstruction]]) -> tuple[tuple[StaticInstruction, ...], Any, Longs]:
    """The instructions that take the place of each one of `trace`, none or several, numbered anew; the starts of the basic blocks,
    and the new number of the first one in the place of each old one.
    """
    counts = np.array([len(each) for each in code], dtype=np.int64)
    first = np.cumsum(counts) - counts
    flat = [instruction for each in code for instruction in each]
    instructions = tuple(replace(instruction, pc=pc) for pc, instruction in enumerate(flat))
    start = np.append(first, len(flat))[np.asarray(trace.block_start, dtype=np.int64)]
    return instructions, start.astype(np.int32), first


def executing(trace: KernelTrace, weight: npt.NDArray[np.float64]) -> TraceHeader:
    """The header of `trace` if each instruction is executed `weight` [instructions] times as often."""
    times = occurrences(trace, path_use(trace)[0])
    return with_share(trace.header, float((times * weight).sum() / times.sum()))


def with_share(header: TraceHeader, share: float) -> TraceHeader:
    """`header` if that share of the warp instructions is executed."""
    return replace(
        header, warp_instructions=round(header.warp_instructions * share),
        sampled_instructions=round(header.sampled_instructions * share),
    )  # fmt: skip


# -- Which registers depend on the thread, or on the block.

_SPECIAL = re.compile(r"(?:SR_|%)(\w+(?:\.[xyz])?)", re.IGNORECASE)
_AXES = "xyz"


def differing_axes(block: tuple[int, int, int], stride: int) -> set[str]:
    """The thread indices, such as `tid.x`, in which the lanes of a warp differ from those of the warp `stride` further on, in any
    block of threads `block`."""
    thread = np.arange(block[0] * block[1] * block[2])
    index = dict(zip(_AXES, (thread % block[0], thread // block[0] % block[1], thread // (block[0] * block[1])), strict=True))
    apart = 32 * stride
    return {f"tid.{axis}" for axis, places in index.items() if (places[apart:] != places[:-apart]).any()}


@dataclass(frozen=True)
class Dependence:
    """What depends on special registers. `sources` maps the instructions whose result or operands do to those of their source
    registers that do; `registers` is the most registers at a time whose values do and are used later.
    """

    sources: dict[int, frozenset[int]]
    registers: int


def depends_on(trace: KernelTrace, special: set[str]) -> Dependence:
    """What depends on `special` registers, such as `tid.x` and `ctaid.y`.

    A load depends on them if its address does: two threads that read the same address read the same value. Local memory and atomics
    always do. The order of basic blocks is the one in which warps executed them.
    """
    texts, following = texts_of(trace), following_blocks(trace)
    known = {int(trace.paths.block[first]): frozenset[int]() for first in trace.paths.offset[:-1]}
    found: dict[int, frozenset[int]] = {}
    after: dict[int, frozenset[int]] = {}  # each instruction
    waiting = list(known)
    while waiting:
        block = waiting.pop()
        differ = set(known[block])
        for instruction in instructions_of(trace, block):
            text = texts[instruction.pc]
            named = special.intersection(name.lower() for name in _SPECIAL.findall(text))
            own = bool(named) or instruction.space == "local" or instruction.access == ATOMIC
            sources = frozenset(differ.intersection(instruction.sources))
            if own or sources:
                found[instruction.pc] = sources
                differ.update(instruction.destinations)
            elif not text.startswith("@"):  # what is guarded may leave the old value
                differ.difference_update(instruction.destinations)
            after[instruction.pc] = frozenset(differ)
        for successor in following.get(block, ()):
            before = known.get(successor)
            if before is None or not differ <= before:
                known[successor] = frozenset(differ | (before or frozenset()))
                waiting.append(successor)
    live = _live(trace, texts, following)
    return Dependence(found, max((len(differ & live[pc]) for pc, differ in after.items()), default=0))


def instructions_of(trace: KernelTrace, block: int) -> Sequence[StaticInstruction]:
    """The instructions of a basic block."""
    return trace.instructions[int(trace.block_start[block]) : int(trace.block_start[block + 1])]


def _live(trace: KernelTrace, texts: Sequence[str], following: dict[int, set[int]]) -> dict[int, frozenset[int]]:
    """The registers that are used after each instruction before they are written again."""
    blocks = np.unique(trace.paths.block).tolist()
    entry: dict[int, frozenset[int]] = dict.fromkeys(blocks, frozenset())
    found: dict[int, frozenset[int]] = {}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            used = set[int]().union(*(entry[each] for each in following.get(block, ())))
            for instruction in reversed(instructions_of(trace, block)):
                found[instruction.pc] = frozenset(used)
                if not texts[instruction.pc].startswith("@"):
                    used.difference_update(instruction.destinations)
                used.update(instruction.sources)
            changed |= used != entry[block]
            entry[block] = frozenset(used)
    return found


def following_blocks(trace: KernelTrace) -> dict[int, set[int]]:
    """The basic blocks that warps executed after each one."""
    table, found = trace.paths, dict[int, set[int]]()
    block = np.asarray(table.block, dtype=np.int64)
    last = np.zeros(len(block), dtype=np.bool_)
    last[np.asarray(table.offset[1:], dtype=np.int64) - 1] = True
    pairs = [np.stack([block[:-1], block[1:]])[:, ~last[:-1]], np.stack([block, block])[:, np.asarray(table.repeat) > 1]]
    for before, after in np.unique(np.concatenate(pairs, axis=1), axis=1).T.tolist():
        found.setdefault(before, set()).add(after)
    return found


def loops_of(following: dict[int, set[int]]) -> list[set[int]]:
    """The outermost loops: basic blocks that lead to each other, by the blocks that follow each."""

    def reached(block: int, edges: dict[int, set[int]]) -> set[int]:
        found, waiting = set[int](), [block]
        while waiting:
            new = edges.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    before: dict[int, set[int]] = {}
    for block, after in following.items():
        for each in after:
            before.setdefault(each, set()).add(block)
    loops, left = list[set[int]](), set(following)
    while left:
        block = left.pop()
        body = reached(block, following) & reached(block, before)
        left -= body
        if body:
            loops.append(body)
    return loops


def has_texts(trace: KernelTrace) -> bool:
    """Whether the operands of instructions are known, without which it is unknown what depends on the thread."""
    return any(texts_of(trace))


def writes_memory(instruction: StaticInstruction) -> bool:
    """A store or an atomic."""
    return instruction.access in (STORE, ATOMIC)
