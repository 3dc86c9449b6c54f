"""What the micro-benchmarks run on a GPU of so many SMs and so large an L2: the loops of `sources/microbenchmarks.cu` as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ALIGN, LINE, RUNS, MISS_RUNS, MOST_MISSES = 1 << 20, 128, 5, 3, 512
THREADS = (256, 512, 1024)
_SLOTS = 2048  # threads that an SM has room for


@dataclass(frozen=True)
class Machine:
    """What sizes depend on: SMs, and bytes of the L2."""

    sms: int
    l2: int

    @property
    def room(self) -> int:
        """Bytes that the kernels read."""
        return 8 * self.l2 + (256 << 20)

    @property
    def flushed(self) -> int:
        """Bytes that are written so that the L2 holds nothing else."""
        return 4 * self.l2


@dataclass(frozen=True)
class Chase:
    """A ring of `lines` places `stride` bytes apart, gone round for `warm` steps and, timed, `steps`."""

    stride: int
    lines: int

    @property
    def warm(self) -> int:
        """A multiple of 8, once round at least."""
        return -(-self.lines // 8) * 8

    @property
    def steps(self) -> int:
        """Whole rounds, a multiple of 8, so many that starting and ending count for nothing; of a long ring a part."""
        if self.lines > 1 << 16:
            return 1 << 14
        rounds = -(-2048 // self.lines)
        while rounds * self.lines % 8:
            rounds += 1
        return rounds * self.lines


def chases(machine: Machine) -> Iterator[Chase]:
    """Lines side by side, finely around the sizes of L1s and by quarters up to four L2s; then lines that may meet in a set."""
    sizes = [*range(2048, 8193, 2048), *range(12 << 10, (320 << 10) + 1, 4 << 10)]
    size = 384 << 10
    while size <= 4 * machine.l2:
        sizes.append(size)
        size += size // 4 // LINE * LINE
    found = [Chase(LINE, size // LINE) for size in sizes]
    for apart in (2, 4, 8, 16, 32, 64, 128):
        for stride in ((apart - 1) * LINE, apart * LINE, (apart + 1) * LINE):
            if stride == LINE or (stride == 3 * LINE and apart == 2):
                continue
            lines = 1
            while lines * stride <= ALIGN and lines <= 1024:
                found.append(Chase(stride, lines))
                lines += 1 if lines < 32 else lines // 16
    return (chase for chase in found if ALIGN + chase.lines * chase.stride <= machine.room)


def streams(machine: Machine) -> Iterator[tuple[int, int, int]]:
    """Blocks, threads of a block, and bytes that all of them read together, once."""
    for threads in THREADS:
        blocks = machine.sms
        while blocks <= 8 * machine.sms and blocks * threads <= machine.sms * _SLOTS:
            piece = 64 * blocks * threads  # of one round of all threads
            for part in (1, 2, 3, 4):
                rounds = machine.room * part // 4 // piece
                if rounds:
                    yield blocks, threads, rounds * piece
            blocks *= 2


def residents(machine: Machine) -> Iterator[tuple[int, int, int]]:
    """Threads of a block, bytes that each block reads, and how often; a block an SM."""
    footprint = min(machine.l2 // 4, 1 << 20)
    for threads in THREADS:
        for passes in (8, 16, 24, 32):
            yield threads, footprint // (64 * threads) * (64 * threads), passes
