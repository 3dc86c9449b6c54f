"""The folders of docs/reference/importing-traces.md: a small kernel, a sum over four rows, as PPT-GPU's and MDM's tools trace it.

`python tests/importers/rowsum_example.py FOLDER` makes `rowsum.ppt` and `rowsum.mdm` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "by_hand"))  # where pptgpu_writer's definitions are, outside pytest

from mdm_writer import NONE, MdmOp, MdmStep, write_mdm
from pptgpu_writer import Op, Step, Written, write

_BLOCKS, _WARPS, _ROWS, _BASE = 32, 4, 4, 0x7F0000000000


def _row(block: int, row: int, warp: int) -> tuple[int, ...]:
    return tuple(_BASE + 4096 * (_ROWS * block + row) + 128 * warp + 4 * lane for lane in range(32))


def _result(block: int, warp: int) -> tuple[int, ...]:
    return tuple(_BASE + (1 << 24) + 1024 * block + 128 * warp + 4 * lane for lane in range(32))


def _pptgpu(block: int, warp: int) -> list[Step]:
    steps = [Step(Op(0, "S2R", ("R0",))), Step(Op(1, "IMAD.WIDE", ("R2", "R0", "R4")))]
    for row in range(_ROWS):
        steps += [
            Step(Op(2, "LDG.E", ("R6", "R2"), True), _row(block, row, warp)), Step(Op(3, "FADD", ("R8", "R8", "R6"))),
            Step(Op(4, "ISETP.NE.AND", ("P0", "P7", "R3", "R255", "P7"))), Step(Op(5, "BRA")),
        ]  # fmt: skip
    return [*steps, Step(Op(6, "STG.E", ("R2", "R8"), True), _result(block, warp)), Step(Op(7, "EXIT"))]


def _mdm(block: int, warp: int) -> list[MdmStep]:
    steps = [MdmStep(MdmOp(0, "S2R", (0, 33, 0, 0))), MdmStep(MdmOp(16, "IMAD.WIDE", (2, 0, 4, 0)))]
    for row in range(_ROWS):
        steps += [
            MdmStep(MdmOp(32, "LDG.E", (6, 2, 0, 0), 1), _row(block, row, warp)), MdmStep(MdmOp(48, "FADD", (8, 8, 6, 0))),
            MdmStep(MdmOp(64, "BRA", (NONE, 0, 0, 0))),
        ]  # fmt: skip
    return [*steps, MdmStep(MdmOp(80, "STG.E", (2, 8, 0, 0), 0), _result(block, warp)), MdmStep(MdmOp(96, "EXIT"))]


def make(folder: Path, blocks: int = _BLOCKS, *, amali: bool = False) -> None:
    """Write both folders."""
    streams = [[_pptgpu(block, warp) for warp in range(_WARPS)] for block in range(blocks)]
    write(folder / "rowsum.ppt", Written(32 * _WARPS, streams, [[0, 1, 2, 3]] * blocks), amali=amali, name="rowsum")
    warps = [_mdm(block, warp) for block in range(blocks) for warp in range(_WARPS)]
    write_mdm(folder / "rowsum.mdm", warps, (blocks, 1, 1), (32 * _WARPS, 1, 1), name="rowsum(float*, float*)")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
