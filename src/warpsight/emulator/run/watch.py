"""The memory of the checks that watch a launch; `codegen/watcher.py` says what native code does with it."""

from __future__ import annotations

import mmap
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError
from warpsight.base.findings import INITCHECK, RACECHECK, SYNCCHECK
from warpsight.emulator.codegen import locks, watcher
from warpsight.emulator.codegen.layout import ARENA_BASE, WARP, Slot
from warpsight.emulator.codegen.meetings import barrier_joins
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function, Instruction
from warpsight.isa.ptx.rules import is_plain_exit, memory_access
from warpsight.kernels.launch import Launch


class LaunchWatch:
    """Which bytes of `arena_bytes` of device memory are written, and who accessed its words last; and what was found in a launch.

    `checks` are of `findings.WATCHING`. `valid` is uint8 [arena_bytes], 255 where a byte is written; empty without initcheck.
    Memory is taken only for what is used. Raises LimitError where so much cannot even be reserved.
    """

    def __init__(self, checks: frozenset[str], arena_bytes: int) -> None:
        self.checks = checks
        self.valid = _reserve(arena_bytes if INITCHECK in checks else 0)
        self._cells = _reserve(-(-arena_bytes // 4) * 8 * watcher.CELL_WORDS if RACECHECK in checks else 0)
        self._next_warp = 0
        self._words: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._tables: dict[int, tuple[Function, list[int], list[int]]] = {}  # of the kernels launched so far, by identity

    def set_written(self, address: int, size: int, written: bool = True) -> None:
        """From now on these bytes of device memory are written, or not."""
        start = address - ARENA_BASE
        if not len(self.valid):
            return
        first, last = (-(-at // mmap.PAGESIZE) * mmap.PAGESIZE for at in (start, start + size - mmap.PAGESIZE + 1))
        if not written and first < last:  # whole pages go back to the system: an allocation may be larger than this machine
            pages = cast(mmap.mmap, cast(memoryview, self.valid.base).obj)
            pages.madvise(mmap.MADV_DONTNEED, first, last - first)
            self.valid[start:first] = 0
            start, size = last, start + size - last
        self.valid[start : start + size] = 255 * written

    def begin(self, function: Function, launch: Launch, graph: ControlFlowGraph, *, lanes_apart: bool) -> None:
        """A launch begins: nothing has been found, and what came before it happened before it.

        `graph` is that of the function as it is executed. `lanes_apart`: do lanes of a warp meet only where an instruction says so?
        Machine code leaves that out where they do anyway.
        """
        traits, blocks = self._tables_of(function, graph)
        warps = launch.blocks * -(-launch.threads_per_block // WARP)
        at = watcher.HEADER + watcher.ROWS * watcher.ROW_WORDS
        fences_end = at + len(traits) + (warps if RACECHECK in self.checks else 0)
        lock_words = warps * locks.ROW_WORDS if RACECHECK in self.checks and _takes_locks(function) else 0
        self._words = np.zeros(fences_end + len(blocks) + lock_words, np.int64)
        self._words[at : at + len(traits)] = traits
        self._words[fences_end : fences_end + len(blocks)] = blocks
        self._words[watcher.LOCKS_AT] = fences_end + len(blocks) if lock_words else 0
        self._words[watcher.BLOCKS_AT] = fences_end if blocks else 0
        self._words[watcher.TRAITS_AT], self._words[watcher.FENCES_AT] = at, at + len(traits)
        self._words[watcher.FIRST_WARP], self._words[watcher.LANES_APART] = self._next_warp, int(lanes_apart)
        self._next_warp += warps
        if self._next_warp >= 1 << 31:
            self._next_warp = warps
            self._words[watcher.FIRST_WARP] = 0
            self._cells = _reserve(len(self._cells))

    def _tables_of(self, function: Function, graph: ControlFlowGraph) -> tuple[list[int], list[int]]:
        """The traits of a kernel's instructions, and with synccheck its basic blocks: made once for all of its launches."""
        if id(function) not in self._tables:
            flags = any("volatile" in function.instructions[pc].modifiers for pc in graph.waits.polls)
            traits = [_traits(instruction, flags) for instruction in function.instructions]
            blocks = _blocks(function, graph) if SYNCCHECK in self.checks else []
            self._tables[id(function)] = function, traits, blocks  # with the function, whose identity stays its own so
        _, traits, blocks = self._tables[id(function)]
        return traits, blocks

    def fill(self, context: npt.NDArray[np.int64], delta: int) -> None:
        """Set the slots of a context; `delta` is host minus device address."""
        context[Slot.WATCH_PTR] = self._words.ctypes.data
        context[Slot.CELLS_PTR] = self._cells.ctypes.data if len(self._cells) else 0
        context[Slot.GLOBAL_SHADOW] = int(self.valid.ctypes.data) - ARENA_BASE - delta if len(self.valid) else 0

    @property
    def found(self) -> int:
        """How many rows there are since `begin`."""
        return int(self._words[watcher.FOUND])

    def rows(self) -> tuple[list[list[int]], int]:
        """What was found since `begin`, as rows in the order in which it was found; and how many findings had no room for one."""
        words = self._words
        at = [watcher.HEADER + k * watcher.ROW_WORDS for k in range(self.found)]
        return [words[k : k + watcher.ROW_WORDS].tolist() for k in at], int(words[watcher.DROPPED])


def _reserve(size: int) -> npt.NDArray[np.uint8]:
    """Zeros that take memory only where they are written: uint8 [size]."""
    if not size:
        return np.zeros(0, np.uint8)
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE), dtype=np.uint8)
    except (OSError, ValueError) as error:
        what = f"{size:,} bytes of address space for the checks are not available: {error}"
        raise LimitError(what, remedy="use fewer checks (`--tool memcheck`), or raise the limit (`ulimit -v`)") from error


NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def _blocks(function: Function, graph: ControlFlowGraph) -> list[int]:
    """The basic blocks as `watcher` wants them."""
    rows = []
    for first, end in pairwise(graph.block_start.tolist()):
        leaves = is_plain_exit(function.instructions[first:end])
        rows.append(first | (watcher.ONLY_LEAVES if leaves else 0))
    for number, block in enumerate(barrier_joins(function, graph), 1):
        if block + 1 < len(rows):
            rows[block + 1] |= number << watcher.BARRIER_SHIFT
    return rows


def _takes_locks(function: Function) -> bool:
    """Does it compare and swap? So locks are taken."""
    words = (set(i.modifiers if i.native is None else i.native.modifiers) for i in function.instructions)
    return any(each & {"cas", "CAS", "CAST"} for each in words)


_STRONG_WORDS = frozenset({"relaxed", "acquire", "release", "acq_rel", "mmio", "STRONG", "CONSTANT"})
_BLOCK_SCOPE = frozenset({"cta", "SM", "CTA"})


def _traits(instruction: Instruction, flags: bool) -> int:
    """How an instruction accesses memory: the bits that `watcher` names.

    A volatile load sees what others fenced. Whether volatile accesses conflict depends on what they are for: not in a kernel that
    waits in a loop of volatile loads (`flags`), which has its flags there, else as other data does.
    """
    native = instruction.native
    words = set(instruction.modifiers) | (set() if native is None else set(native.modifiers))
    access = memory_access(instruction)
    atomic = (access is not None and access.access == "atomic") or instruction.opcode in ("mbarrier", "atom", "red")
    if instruction.opcode == "mbarrier":  # what objects order, `copy_order.py` knows
        return watcher.ATOMIC | watcher.STRONG
    traits = watcher.ATOMIC | watcher.STRONG if atomic else 0
    traits |= watcher.STRONG if words & _STRONG_WORDS or (flags and "volatile" in words) else 0
    traits |= watcher.CTA if words & _BLOCK_SCOPE and "gpu" not in words else 0
    traits |= watcher.RELEASES if words & {"release", "acq_rel"} else 0
    acquires = bool(words & {"acquire", "acq_rel"}) or ("volatile" in words and instruction.opcode == "ld")
    return traits | watcher.ACQUIRES * acquires
