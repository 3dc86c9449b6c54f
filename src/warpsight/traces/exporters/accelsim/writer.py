"""A whole trace as a folder that Accel-Sim reads: `kernelslist.g` and `kernel-1.traceg` (tracer version 5, text)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from warpsight._version import __version__
from warpsight.base.errors import UsageError
from warpsight.base.outputs import folder_beside, put_in_place
from warpsight.isa.sass.from_ptx import architecture, is_native, sass_opcode
from warpsight.traces.exporters.accelsim.lines import Place, WarpLines, Written
from warpsight.traces.schema import BARRIER_RECORD, KernelTrace, TraceChunk

LIST, KERNEL = "kernelslist.g", "kernel-1.traceg"
_WINDOWS = (0x7F0000000000, 0x7F0010000000)  # of shared and local memory, far from any address that the emulator gives
_MOST_SOURCES, _REGISTERS = 4, 255
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    """What was written: `instructions` lines in `blocks`, of which `split` because an access did not fit one line; `notes`."""

    folder: Path
    blocks: int
    warps: int
    instructions: int
    bytes: int
    split: int
    notes: tuple[str, ...]


def export_accelsim(
    trace: KernelTrace, folder: str | Path, *, overwrite: bool = False, progress: Progress | None = None
) -> Exported:
    """Write `trace` to the new folder, whole or not at all. Reading back an imported trace that was exported gives the same trace.

    Raises UsageError if the folder holds anything but an exported trace (which is replaced with `overwrite`) or the disk refuses.
    """
    place = Path(folder)
    _refuse_to_destroy(place, overwrite)
    try:
        new = folder_beside(place)
        with new as partial:
            writer = _KernelWriter(trace)
            with (partial / KERNEL).open("w", encoding="utf-8", newline="\n") as file:
                writer.write(file, progress)
            (partial / LIST).write_text(f"{KERNEL}\n", encoding="utf-8")
            put_in_place(new, place)
    except OSError as error:
        raise _disk_refuses(place, error) from None
    size = (place / KERNEL).stat().st_size
    header = trace.header
    return Exported(place, header.recorded_blocks, header.warps, writer.count, size, writer.split, tuple(writer.notes()))


class _KernelWriter:
    """Writes one kernel's file."""

    def __init__(self, trace: KernelTrace) -> None:
        self._trace = trace
        known: dict[str, Any] = trace.extra.get("accelsim", {})
        self._known = known
        shared, local = known.get("shared_base", _WINDOWS[0]), known.get("local_base", _WINDOWS[1])
        self._place = Place(shared, local, tuple(known.get("regions", ())))
        pcs = known.get("pcs") or [16 * i.pc for i in trace.instructions]
        self._dropped = 0
        self._calls = any(i.opcode.startswith("call") for i in trace.instructions)
        self._written = [self._compose(pc, pcs[pc]) for pc in range(len(trace.instructions))]
        self._continues = [k > 0 and w.is_bulk and pcs[k] == pcs[k - 1] for k, w in enumerate(self._written)]
        self.count = self.split = 0
        self._blocks: dict[tuple[int, int], list[list[str] | int]] = {}

    def _compose(self, pc: int, address: int) -> Written:
        instruction = self._trace.instructions[pc]
        opcode = sass_opcode(
            instruction.opcode, instruction.op_class, instruction.space, instruction.access, instruction.access_bytes
        )
        if opcode == "RET.ABS" and not self._calls:
            opcode = "EXIT"  # a kernel's own return
        operands = self._known.get("operands")
        if operands:
            return Written.of(instruction, address, opcode, operands[pc][0], operands[pc][1])
        written = [f"R{number % _REGISTERS}" for number in instruction.destinations]
        read = [f"R{number % _REGISTERS}" for number in instruction.sources]
        self._dropped += max(0, len(written) - 1) + max(0, len(read) - _MOST_SOURCES)
        return Written.of(instruction, address, opcode, written[:1], read[:_MOST_SOURCES])

    def notes(self) -> Iterator[str]:
        """What a user of the exported trace must know."""
        registers = max((r for i in self._trace.instructions for r in (*i.destinations, *i.sources)), default=-1) + 1
        header = self._trace.header
        if header.recorded_blocks < header.blocks:
            yield (
                f"{header.recorded_blocks:,} of {header.blocks:,} blocks are written; Accel-Sim stops at the first missing one; "
                "to run only these, set grid dim in the header to their number"
            )
        if self._known:
            return
        if any(not is_native(i.opcode) for i in self._trace.instructions):
            yield "PTX instructions are written one by one as the nearest native ones: a compiler would select, merge and expand"
        if registers > _REGISTERS:
            yield f"{registers} registers of PTX share {_REGISTERS} numbers, so some dependences are not those of the kernel"
        if self._dropped:
            yield f"{self._dropped} operands are left out: a line has one destination and four sources"
        if self.split:
            yield f"{self.split:,} additional lines: accesses that do not fit into one line of 32 lanes are written as several"

    def write(self, file: IO[str], progress: Progress | None) -> None:
        """Header, then blocks as they come."""
        self._header(file)
        header = self._trace.header
        numbers = self._known.get("blocks")
        done = 0
        for chunk in self._trace.chunks:
            for first in range(0, len(chunk.path), header.warps_per_block):
                self._block(file, chunk, first, numbers[done] if numbers else done)
                done += 1
            if progress is not None:
                progress(done, header.recorded_blocks)

    def _header(self, file: IO[str]) -> None:
        header, known = self._trace.header, self._known
        one_register = known.get("one_register", not known and any(not is_native(i.opcode) for i in self._trace.instructions))
        single = "-one register an operand = 1\n" if one_register else ""
        binary = known.get("binary") or architecture(w.opcode for w in self._written)
        file.write(
            f"-kernel name = {header.mangled}\n-kernel id = 1\n"
            f"-grid dim = ({','.join(map(str, header.grid))})\n-block dim = ({','.join(map(str, header.block))})\n"
            f"-shmem = {header.static_shared_bytes + header.dynamic_shared_bytes}\n-nregs = {header.registers_per_thread}\n"
            f"-binary version = {binary}\n-cuda stream id = {known.get('stream', 0)}\n"
            f"-shmem base_addr = {self._place.shared_base:#018x}\n-local mem base_addr = {self._place.local_base:#018x}\n"
            f"-nvbit version = {known.get('nvbit') or 'none'}\n-accelsim tracer version = 5\n-enable lineinfo = 0\n"
            f"-written by = warpsight {__version__}\n-thread instructions = {header.thread_instructions}\n"
            f"{single}\n"
            "#traces format = PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width [adrrescompress?] "
            "[mem_addresses] immediate\n"
        )

    def _block(self, file: IO[str], chunk: TraceChunk, first: int, number: int) -> None:
        x, y, _ = self._trace.header.grid
        out = ["", "#BEGIN_TB", "", f"thread block = {number % x},{number // x % y},{number // (x * y)}"]
        for warp in range(self._trace.header.warps_per_block):
            lines = WarpLines(self._place)
            self._warp(chunk, first + warp, lines)
            out += ["", f"warp = {warp}", f"insts = {len(lines.lines)}", *lines.lines]
            self.count += len(lines.lines)
            self.split += lines.split
        file.write("\n".join([*out, "", "#END_TB", ""]))

    def _warp(self, chunk: TraceChunk, warp: int, lines: WarpLines) -> None:
        """The lines of a warp: what a block always writes is kept, memory instructions are composed from their events."""
        table, path = self._trace.paths, int(chunk.path[warp])
        runs = slice(int(table.offset[path]), int(table.offset[path + 1]))
        events = chunk.events[int(chunk.event_offset[warp]) : int(chunk.event_offset[warp + 1])].tobytes()
        sectors = chunk.sectors[int(chunk.sector_offset[warp]) : int(chunk.sector_offset[warp + 1])].tolist()
        event = _WarpEvents(events, sectors)
        bulk: tuple[Written, int, list[int]] | None = None
        alive = _Alive(self._trace, warp % self._trace.header.warps_per_block)
        blocks, counts = table.block[runs].tolist(), table.lanes[runs].tolist()
        for entry, (block, lanes, repeat) in enumerate(zip(blocks, counts, table.repeat[runs].tolist(), strict=True)):
            parts = self._parts(block, lanes)
            for turn in range(repeat):
                for part in parts:
                    if not isinstance(part, int):
                        _flush(bulk, lines)
                        bulk = None
                        lines.plain(part)
                        continue
                    written = self._written[part]
                    if written.is_exit:
                        last = entry == len(blocks) - 1 and turn == repeat - 1
                        falls_through = not last and not self._known and blocks[entry + 1 : entry + 2] == [block + 1]
                        stay = counts[entry + 1] if falls_through else 0
                        lines.plain([f"{written.before} {alive.leave(max(0, lanes - stay), last):08x} {written.after} 0"])
                        continue
                    touched, passes, sharing = event.next(written)
                    if not written.instruction.access:  # a barrier for a part of the block
                        _flush(bulk, lines)
                        bulk = None
                        lines.plain([f"{written.before} {(1 << lanes) - 1:08x} {written.after} 0"])
                        continue
                    if bulk is not None and self._continues[part]:
                        bulk[2].extend(touched)
                        continue
                    _flush(bulk, lines)
                    bulk = (written, lanes, touched) if written.is_bulk else None
                    if not written.is_bulk:
                        lines.access(written, lanes, touched, passes, sharing)
        _flush(bulk, lines)

    def _parts(self, block: int, lanes: int) -> list[list[str] | int]:
        """A basic block entered with so many lanes: lines that never change, in lists, and pcs of memory instructions between."""
        key = (block, lanes)
        if key not in self._blocks:
            parts: list[list[str] | int] = []
            mask = (1 << lanes) - 1
            for pc in range(int(self._trace.block_start[block]), int(self._trace.block_start[block + 1])):
                written = self._written[pc]
                if written.instruction.event_bytes or written.is_exit:
                    parts.append(pc)
                    continue
                line = f"{written.before} {mask:08x} {written.after}{' 0x0 0 0 0 3 0 0' if written.is_bulk else ' 0'}"
                if parts and isinstance(parts[-1], list):
                    parts[-1].append(line)
                else:
                    parts.append([line])
            self._blocks[key] = parts
        return self._blocks[key]


def _flush(bulk: tuple[Written, int, list[int]] | None, lines: WarpLines) -> None:
    """Write a bulk copy whose parts have all come."""
    if bulk is not None:
        lines.access(bulk[0], bulk[1], bulk[2], 0, 0)


class _Alive:
    """The lanes of a warp that have not left: each leaves once, the last ones with the last instruction."""

    def __init__(self, trace: KernelTrace, warp: int) -> None:
        threads = min(32, trace.header.threads_per_block - 32 * warp)
        self._lanes = list(range(threads))
        self._exact = "accelsim" in trace.extra

    def leave(self, count: int, last: bool) -> int:
        """The mask of the `count` highest lanes, which leave; of all lanes with the last instruction of PTX."""
        if last and not self._exact:
            count = len(self._lanes)
        if count > len(self._lanes):  # a trace whose lanes leave twice: any lanes
            return (1 << count) - 1
        gone = self._lanes[max(0, len(self._lanes) - count) :] if count else []
        del self._lanes[len(self._lanes) - len(gone) :]
        return sum(1 << lane for lane in gone)


class _WarpEvents:
    """Reads a warp's events in order."""

    def __init__(self, events: bytes, sectors: list[int]) -> None:
        self._events, self._sectors = iter(events), iter(sectors)

    def next(self, written: Written) -> tuple[list[int], int, int]:
        """Sectors, bank passes and sharing lanes of the next event, which is of this instruction."""
        instruction = written.instruction
        sectors = sum(next(self._events) << 8 * place for place in range(instruction.sector_bytes))
        passes = next(self._events) if instruction.has_degree else 0
        sharing = next(self._events) if instruction.has_sharing else 0
        for _ in range(BARRIER_RECORD.itemsize if instruction.at_barrier else 0):  # the format has no place for it
            next(self._events)
        return list(islice(self._sectors, sectors)), passes, sharing


def _refuse_to_destroy(place: Path, overwrite: bool) -> None:
    try:
        present = {entry.name for entry in place.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise _disk_refuses(place, error) from None
    if present and not present <= {LIST, KERNEL}:
        what = "the folder exists and holds something other than an exported trace"
        raise UsageError(what, place=str(place), remedy="name another folder")
    if present and not overwrite:
        what = "the folder already contains an exported trace"
        raise UsageError(what, place=str(place), remedy="name another folder, or set `overwrite`")


def _disk_refuses(place: Path, error: OSError) -> UsageError:
    what = f"the trace cannot be exported here ({error.strerror or error})"
    return UsageError(what, place=str(place), remedy="name a folder that can be written, with space left")

