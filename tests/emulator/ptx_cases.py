"""Single PTX instructions with operands and the result worked out by hand, and a kernel that runs a list of them.

A case is the instruction with its modifiers, the operands' bit patterns, and the pattern of the result. Letters say which registers
it takes, destination first: h b16, r 32 bits, q 64 bits, f f32, d f64, p predicate.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from emulator_launch import launch, ptx

ONES, LOWEST, HIGHEST = 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF
ONES64, LOWEST64 = (1 << 64) - 1, 1 << 63
NAN32, NAN64 = "nan32", "nan64"  # any NaN will do
_PREFIX = {"h": "%h", "r": "%r", "q": "%q", "f": "%f", "d": "%d", "p": "%p"}
_MOVE = {"h": "b16", "r": "b32", "q": "b64", "f": "f32", "d": "f64"}


@dataclass(frozen=True)
class Case:
    """`opcode` on `operands` must give `result`; `kinds` are the registers, destination first."""

    opcode: str
    kinds: str
    operands: tuple[int, ...]
    result: int | str

    def __str__(self) -> str:
        return f"{self.opcode} {', '.join(hex(o) for o in self.operands)}"


def f32(value: float) -> int:
    """Bit pattern of a single."""
    return int.from_bytes(struct.pack("<f", value), "little")


def f64(value: float) -> int:
    """Bit pattern of a double."""
    return int.from_bytes(struct.pack("<d", value), "little")


def cases(kinds: str, *rows: tuple[object, ...]) -> list[Case]:
    """Rows of (opcode, operands..., result) that take the same registers."""
    return [Case(str(opcode), kinds, tuple(operands), result) for opcode, *operands, result in rows]  # type: ignore[arg-type]


def _lines(case: Case, number: int, at: int) -> list[str]:
    """Take the operands from a parameter, so that nothing is known when the kernel is compiled; run; store."""
    lines, names = [], []
    for k, kind in enumerate(case.kinds[1:]):
        name = f"{_PREFIX[kind]}{k + 1}"
        if kind == "p":
            lines += [f"ld.param.b32 %r9, [in+{8 * (at + k)}];", f"setp.ne.b32 {name}, %r9, 0;"]
        else:
            lines.append(f"ld.param.{_MOVE[kind]} {name}, [in+{8 * (at + k)}];")
        names.append(name)
    target = f"{_PREFIX[case.kinds[0]]}7"
    lines.append(
        f"{case.opcode.format(*names, d=target)};" if "{" in case.opcode else f"{case.opcode} {', '.join([target, *names])};"
    )
    if case.kinds[0] == "p":
        lines.append("selp.b32 %r7, 1, 0, %p7;")
        target = "%r7"
    kind = target[1]
    return [*lines, f"st.global.{_MOVE[kind]} [%out+{8 * number}], {target};"]


def check_cases(cases: list[Case]) -> None:
    """Run all cases in one kernel and compare each."""
    operands: list[int] = []
    lines: list[str] = []
    for number, case in enumerate(cases):
        lines += _lines(case, number, len(operands))
        operands += case.operands
    given = np.array(operands or [0], np.uint64).tobytes()
    source = ptx("\n".join([*lines, "ret;"]), f".param .u64 out, .param .align 8 .b8 in[{len(given)}]")
    out = np.zeros(len(cases), np.uint64)
    launch(source, "k", 1, 1, [out, given])
    wrong = [
        f"{case}: {got:#x}, not {case.result}" for case, got in zip(cases, map(int, out), strict=True) if not _right(case, got)
    ]
    assert not wrong, "\n".join(wrong)


def _right(case: Case, got: int) -> bool:
    if case.result == NAN32:
        return (got & 0x7FFFFFFF) > 0x7F800000
    if case.result == NAN64:
        return (got & (1 << 63) - 1) > 0x7FF << 52
    return got == case.result
