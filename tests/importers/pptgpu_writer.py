"""A writer of folders as PPT-GPU's and AMALI's tracers make them, from the description of the format alone.

A kernel is plain data: for each block and warp the steps that it executed. Steps of the warps of a block are mixed by `turns`, as
hardware does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lane_definitions import sectors_of_lanes


@dataclass(frozen=True)
class Op:
    """An instruction: where it stands in the program, and its text. `recorded`: the tracer writes its addresses."""

    place: int
    opcode: str
    operands: tuple[str, ...] = ()
    recorded: bool = False
    width: int = 4


@dataclass(frozen=True)
class Step:
    """One execution, with the address of each active lane."""

    op: Op
    addresses: tuple[int, ...] = ()

    def sectors(self) -> tuple[int, ...]:
        return tuple(sectors_of_lanes([a for a in self.addresses if a], self.op.width)) if self.op.recorded else ()


Warp = list[Step]


@dataclass(frozen=True)
class Written:
    """What a folder is made of: blocks[b][w] are the steps of a warp; `first` is the block that PPT-GPU writes; `turns[b]` the warp
    whose turn it is, again and again.
    """

    threads: int
    blocks: list[list[Warp]]
    turns: list[list[int]]
    grid: tuple[int, int, int] = (0, 1, 1)
    first: int = 0
    slots: tuple[int, ...] = ()

    def slot(self, warp: int) -> int:
        """The SM's slot that a warp sits in."""
        return self.slots[warp] if self.slots else 8 + 2 * warp


def mixed(warps: list[Warp], turns: list[int]) -> list[tuple[int, Step]]:
    """(warp, step) of a block in the order of its turns."""
    left = [list(steps) for steps in warps]
    order: list[tuple[int, Step]] = []
    k = 0
    while any(left):
        warp = turns[k % len(turns)] % len(left)
        k += 1
        while not left[warp]:
            warp = (warp + 1) % len(left)
        order.append((warp, left[warp].pop(0)))
    return order


def write(folder: Path, kernel: Written, *, amali: bool, name: str = "_Z3addPf", cluster: int = 0) -> Path:
    """Write the folder."""
    (folder / "sass_traces").mkdir(parents=True)
    (folder / "memory_traces").mkdir()
    extra = f'\t"cluster_size"\t\t\t: {cluster},\n' if cluster else ""
    (folder / "app_config.py").write_text(
        f'kernel_1 = {{\n\n\t"kernel_name"\t\t\t: "{name}",\n\t"num_registers"\t\t\t: 24,\n\t"shared_mem_bytes"\t\t: 512,\n'
        f'\t"grid_size"\t\t\t: {len(kernel.blocks)},\n\t"block_size"\t\t\t: {kernel.threads},\n{extra}'
        '\t"cuda_stream_id"\t\t: 0\n}\n\napp_kernels_id = [1]'
    )
    lines: list[str] = []
    per_block = []
    for block, warps in enumerate(kernel.blocks):
        order = mixed(warps, kernel.turns[block])
        x = kernel.grid[0] or len(kernel.blocks)
        y = kernel.grid[1]
        prefix = f"{block % 4} {block % x} {block // x % y} {block // (x * y)} " if amali else ""
        written = [
            prefix + " ".join([str(kernel.slot(warp)), step.op.opcode, *step.op.operands, ""]) for warp, step in order
        ]
        if amali:
            per_block.append(written)
        elif block == kernel.first:
            lines = written
        records = [_record(step, amali) for _, step in order if step.op.recorded]
        if records:
            (folder / "memory_traces" / f"kernel_1_block_{block}.mem").write_text("".join(records))
    if amali:  # lines of blocks stand between each other
        while any(per_block):
            for part in per_block:
                lines += part[:3]
                del part[:3]
    (folder / "sass_traces" / "kernel_1.sass").write_text("".join(f"{line}\n" for line in lines))
    return folder


def _record(step: Step, amali: bool) -> str:
    addresses = "".join(f"{address:#x} " for address in step.addresses if address)
    return ("\n" if amali else "\n=====\n") + f"{step.op.opcode} {addresses}"
