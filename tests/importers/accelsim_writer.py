"""A writer of traces in all dialects of Accel-Sim's tracer, made from the format's description alone, and what a reader must find
in them.

A kernel is plain data: for each block and warp the lines that it executed. `expected` works out instructions, sectors, bank
passes and
shared addresses straight from every lane's address, by the rules of the trace's schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from lane_definitions import bank_passes, sectors_of_lanes

SHARED_BASE, LOCAL_BASE = 0x7F1300000000, 0x7F12A5000000


@dataclass(frozen=True)
class Op:
    """An instruction of the program: what stands in its line, and what kind of access it is ("" none)."""

    pc: int
    opcode: str
    destinations: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    space: str = ""
    access: str = ""
    width: int = 0
    line: int = 0


@dataclass(frozen=True)
class Step:
    """One execution: the instruction, the active mask, and the address of each active lane."""

    op: Op
    mask: int
    addresses: tuple[int, ...] = ()

    @property
    def lanes(self) -> list[int]:
        return [lane for lane in range(32) if self.mask >> lane & 1]


@dataclass(frozen=True)
class Kernel:
    """A launch: streams[block][warp] is a list of steps; a block that is None is missing."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    streams: list[list[list[Step]] | None]

    @property
    def warps(self) -> int:
        return -(-self.block[0] * self.block[1] * self.block[2] // 32)


@dataclass(frozen=True)
class Dialect:
    """How a tracer writes. `raw`: not grouped; `form` of addresses: 0 list, 1 stride where possible, 2 deltas; `tail` after the
    memory fields; `lineinfo`, `cluster`: lines that some versions have. `prefix`: numbers before each line of a raw file.
    """

    version: int
    tail: tuple[str, ...] = ()
    form: int = 1
    raw: bool = False
    lineinfo: bool = False
    cluster: bool = False
    prefix: int = 4
    order: tuple[int, ...] = field(default=())

    def text(self, kernel: Kernel) -> str:
        lines = [
            "-kernel name = _Z4testPf", "-kernel id = 1", f"-grid dim = ({','.join(map(str, kernel.grid))})",
            f"-block dim = ({','.join(map(str, kernel.block))})", "-shmem = 1024", "-nregs = 24", "-binary version = 80",
            "-cuda stream id = 0", f"-shmem base_addr = {SHARED_BASE:#018x}", f"-local mem base_addr = {LOCAL_BASE:#018x}",
            "-nvbit version = 1.7", f"-accelsim tracer version = {self.version}",
        ]  # fmt: skip
        if self.version >= 5 or self.lineinfo:
            lines.append(f"-enable lineinfo = {int(self.lineinfo)}")
        lines += ["", "#traces format = whatever", ""]
        return "\n".join([*lines, *(self._raw(kernel) if self.raw else self._grouped(kernel))]) + "\n"

    def _grouped(self, kernel: Kernel) -> list[str]:
        lines = []
        numbers = range(len(kernel.streams))
        for number in sorted(numbers, key=lambda n: self.order[n % len(self.order)] if self.order else n):
            block = kernel.streams[number]
            if block is None:
                continue
            place = where(number, kernel.grid)
            lines += ["", "#BEGIN_TB", "", f"thread block = {place[0]},{place[1]},{place[2]}"]
            if self.cluster:
                lines += ["cluster id = 0,0,0", "cluster cta = 0,0,0", "cluster rank = 0"]
            for warp, steps in enumerate(block):
                prefix = f"{place[0]} {place[1]} {place[2]} {warp} " if self.version < 3 else ""
                lines += ["", f"warp = {warp}", f"insts = {len(steps)}", *(prefix + self.line(step) for step in steps)]
            lines += ["", "#END_TB"]
        return lines

    def _raw(self, kernel: Kernel) -> list[str]:
        """The lines of all warps in turns."""
        queues = []
        for number, block in enumerate(kernel.streams):
            place = where(number, kernel.grid)
            for warp, steps in enumerate(block or []):
                head = [*place, warp, *[0] * (self.prefix - 4)]
                queues.append([f"{' '.join(map(str, head))} {self.line(step)}" for step in steps])
        lines = []
        turn = 0
        while any(queues):
            queue = queues[(turn * 7) % len(queues)] if turn % 3 else next(q for q in queues if q)
            turn += 1
            if queue:
                lines.append(queue.pop(0))
        return lines

    def line(self, step: Step) -> str:
        op = step.op
        words = [str(op.line)] if self.lineinfo else []
        words += [
            f"{op.pc:04x}",
            f"{step.mask:08x}",
            str(len(op.destinations)),
            *op.destinations,
            op.opcode,
            str(len(op.sources)),
            *op.sources,
        ]
        words.append(str(op.width))
        if op.width:
            words.append(packed(step, self.form))
        return " ".join([*words, *self.tail]) + (" " if not self.tail else "")


def where(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])


def packed(step: Step, form: int) -> str:
    """Addresses in one of the three forms; stride only where lanes follow each other without a gap."""
    addresses = step.addresses
    if not addresses:
        return "0" if form == 0 else "1 0x0 0"
    if form == 0:
        return " ".join(["0", *map(hex, addresses)])
    steps = [b - a for a, b in pairwise(addresses)]
    lanes = step.lanes
    if form == 1 and len(addresses) > 1 and lanes == list(range(lanes[0], lanes[0] + len(lanes))) and len(set(steps)) == 1:
        return f"1 {addresses[0]:#x} {steps[0]}"
    return " ".join([f"2 {addresses[0]:#x}", *map(str, steps)])


def expected_event(step: Step) -> tuple[list[int], int, int]:
    """(sectors as byte addresses // 32 in device memory, bank passes, lanes that share an address) of a step; local memory
    left out.
    """
    op, size = step.op, step.op.width
    if not size:
        return [], 0, 0
    passes = 0
    found: list[int] = []
    inside = {lane: address for lane, address in zip(step.lanes, step.addresses, strict=True) if is_shared(op, address)}
    if inside:
        lanes = [inside.get(lane, 0) for lane in range(32)]
        passes = bank_passes(lanes, [lane in inside for lane in range(32)], size, loads=op.access == "load")
    if op.space in ("global", "generic"):
        outside = [address for address in step.addresses if not is_shared(op, address) and not is_local(op, address)]
        found = sectors_of_lanes(outside, size)
    sharing = max((step.addresses.count(address) for address in step.addresses), default=0) if op.access == "atomic" else 0
    return found, passes, sharing


def is_shared(op: Op, address: int) -> bool:
    return op.space == "shared" or (op.space == "generic" and SHARED_BASE <= address < SHARED_BASE + (1 << 24))


def is_local(op: Op, address: int) -> bool:
    return op.space == "local" or (op.space == "generic" and LOCAL_BASE <= address < LOCAL_BASE + (1 << 24))
