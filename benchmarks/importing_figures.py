"""Figures of imported traces for `measure.py`; each function runs in a process of its own.

The traces are written here, in the plain form of grouped files, large enough that a run takes seconds.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

_HEAD = """-kernel name = _Z4testPf
-kernel id = 1
-grid dim = ({blocks},1,1)
-block dim = (256,1,1)
-shmem = 0
-nregs = 24
-binary version = 80
-cuda stream id = 0
-shmem base_addr = 0x00007fb139000000
-local mem base_addr = 0x00007fb137000000
-nvbit version = 1.7
-accelsim tracer version = 5
-enable lineinfo = 0

#traces format = [line_num] PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width [mem_addresses] immediate

"""
_WARPS = 8


def lines_per_second(*, scattered: bool, megabytes: int = 100) -> float:
    """Million lines of a plain `.traceg` imported per second of process time, by one core.

    Of each loop body of 20 lines 4 are loads and stores: of one stride, or `scattered`, 32 lanes anywhere in 64 KiB.
    """
    from warpsight.traces.importers.accelsim.importer import import_accelsim

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel-1.traceg"
        lines = _write(path, scattered, megabytes << 20)
        best = 0.0
        for _ in range(3):
            start = time.process_time()
            import_accelsim(path)[0].trace()
            best = max(best, lines / (time.process_time() - start) / 1e6)
    return best


def _write(path: Path, scattered: bool, size: int) -> int:
    """Write blocks until the file has about `size` bytes; gives its lines."""
    bodies = [_body(scattered, k) for k in range(32)]
    loops = ["".join(bodies[(k + w) % 32] for k in range(32)) for w in range(_WARPS)]
    warps = [f"\nwarp = {w}\ninsts = {20 * 32 + 1}\n{loop}0200 ffffffff 0 EXIT 0 0 0\n" for w, loop in enumerate(loops)]
    block = "".join(warps)
    blocks = max(1, size // len(block))
    with path.open("w") as file:
        file.write(_HEAD.format(blocks=blocks))
        for number in range(blocks):
            file.write(f"\n#BEGIN_TB\n\nthread block = {number},0,0\n{block}\n#END_TB\n")
    return blocks * (block.count("\n") + 6)


def _body(scattered: bool, turn: int) -> str:
    """Twenty lines, the last of them the branch back."""
    lines = []
    for k in range(20):
        pc = f"{16 * k:04x} ffffffff"
        if k % 5 == 2:
            address = 0x7FB0FC430E00 + 4096 * turn
            deltas = [(37 * (lane + turn) * (k + 3)) % 509 * 128 - 32512 for lane in range(31)]
            form = " ".join([f"2 {address:#x}", *map(str, deltas)]) if scattered else f"1 {address:#x} 4"
            lines.append(f"{pc} 1 R{k} LDG.E 1 R4 4 {form} 0" if k % 10 == 2 else f"{pc} 0 STG.E 2 R4 R{k} 4 {form} 0")
        else:
            lines.append(f"{pc} 0 BRA 0 0 0" if k == 19 else f"{pc} 1 R{k} IMAD 3 R4 R5 R6 0 0")
    return "\n".join(lines) + "\n"
