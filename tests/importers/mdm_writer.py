"""A writer of the text traces of MDM's tools, from the description of the format alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LINE = 128
NONE = 10000


@dataclass(frozen=True)
class MdmOp:
    """An instruction: pc, opcode, its four operand fields, and 1 load, 0 store, None no access of the memory trace."""

    pc: int
    opcode: str
    fields: tuple[int, int, int, int] = (NONE, 0, 0, 0)
    load: int | None = None


@dataclass(frozen=True)
class MdmStep:
    """One execution, with the addresses of the lanes that are on."""

    op: MdmOp
    addresses: tuple[int, ...] = ()

    def lines(self) -> list[int]:
        return sorted({address // LINE for address in self.addresses})

    def sectors(self) -> set[int]:
        """All sectors of the lines."""
        return {4 * line + k for line in self.lines() for k in range(4)}


def ids_of(warps: list[list[MdmStep]]) -> dict[str, int]:
    """Opcodes in the order in which they come, as the tool numbers them."""
    ids: dict[str, int] = {}
    for steps in warps:
        for step in steps:
            ids.setdefault(step.op.opcode, len(ids))
    return ids


def write_mdm(
    folder: Path, warps: list[list[MdmStep]], grid: tuple[int, int, int], block: tuple[int, int, int], *, log: bool = True,
    functional: bool = False, number: int = 1, name: str = "saxpy(float*, float)",
) -> Path:  # fmt: skip
    """Write the folder: lines of the warps in turns, as they reach the host."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = ids_of(warps)
    instructions, accesses = [], []
    for k in range(max(len(steps) for steps in warps)):
        for warp, steps in enumerate(warps):
            if k >= len(steps):
                continue
            op = steps[k].op
            instructions.append(",".join(map(str, (warp, op.pc, ids[op.opcode], *op.fields))))
            if op.load is not None and steps[k].addresses:
                lines = "".join(f"{line}," for line in steps[k].lines())
                head = f"{warp},{op.pc},{'RW'[1 - op.load]}," if functional else f"{warp},{warp % 3},{op.pc},{op.load},"
                accesses.append(head + lines)
    (folder / f"instruction_trace_{number}.txt").write_text("".join(f"{line}\n" for line in instructions))
    kind = "memory_access" if functional else "mem_trace"
    (folder / f"{kind}_{number}.txt").write_text("".join(f"{line}\n" for line in accesses))
    if log:
        text = "-" * 100 + "\n" + "".join(f"OPCODE {opcode} MAPS TO ID {k}\n" for opcode, k in ids.items())
        for _ in range(number):
            text += (
                f"Kernel {name} - grid size {','.join(map(str, grid))} - block size {','.join(map(str, block))} - "
                "nregs 20 - shmem 256 - cuda stream id 0\n"
            )
        (folder / "run.log").write_text(text + "done: 3.5 ms\n")
    return folder
