"""Every form of an instruction, opcode x types x modifiers, run on edge and random values and compared with a scalar definition.

A form is the instruction's text, the registers that it takes, and a rule: a function of the operands' bit patterns that gives the
result's bits, or a function that judges them. Letters say what an operand holds, the result's first:

    h r q    integers of 16, 32, 64 bits       s    a shift amount or position in 32 bits
    f d      singles and doubles               p    a predicate
    H B      f16 and bf16 in 16 bits           X Y  two f16, two bf16 in 32 bits
    v w      two and four integers in 32 bits

A text may have several instructions, with registers %p6, %r6, %c1 to %c4 (8 bits), %o1 and %o2 (128 bits) between them.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from emulator_launch import launch

from warpsight.kernels.sources import load_source

Judge = Callable[[int], bool]
THREADS, BLOCK = 384, 128
_WIDTHS = {**dict.fromkeys("hHB", 16), **dict.fromkeys("rsfXYvwp", 32), **dict.fromkeys("qd", 64)}
_MOVE = {16: "b16", 32: "b32", 64: "b64"}
_REGISTERS = {
    "pred": "p", "b16": "hHB", "b32": "rsXYvw", "b64": "q", "f32": "f", "f64": "d",
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """`text` has {d} for the result and {0}, {1}, ... for the operands."""

    text: str
    kinds: str
    rule: Callable[..., int | Judge]


def form(opcode: str, kinds: str, rule: Callable[..., int | Judge]) -> Form:
    """A form whose operands stand in order."""
    return Form(f"{opcode} {{d}}, {', '.join(f'{{{k}}}' for k in range(len(kinds) - 1))}", kinds, rule)


def words(*choices: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """All ways to choose one word of each group; an empty word is left out of the result."""
    if not choices:
        yield ()
        return
    first, *rest = (list(c) for c in choices)
    for word in first:
        for others in words(*rest):
            yield (*([word] if word else []), *others)


# -- values ------------------------------------------------------------------------------------------------------------------


def _float_edges(bits: int, fraction: int) -> list[int]:
    """Zeros, denormals, the ends of the normal range, ones, halves, NaNs quiet and not, infinities; of both signs."""
    one = ((1 << (bits - 2 - fraction)) - 1) << fraction
    infinity = ((1 << (bits - 1 - fraction)) - 1) << fraction
    least = 1 << fraction
    some = [
        0, 1, 2, 3, least - 1, least, least + 1, one, one + 1, one - 1, one + (least >> 1), one + least, one + 2 * least - 1,
        infinity - 1, infinity - 2, infinity - least, infinity, infinity + 1, infinity + (least >> 1), infinity + least - 1,
        one // 2, one + (infinity - one) // 2, one - (fraction + 1) * least, one - fraction * least - 1, one + fraction * least + 1,
    ]  # fmt: skip
    return some + [x | 1 << (bits - 1) for x in some]


def _integer_edges(bits: int) -> list[int]:
    top = 1 << bits
    return [
        0,
        1,
        2,
        5,
        top - 1,
        top - 2,
        top // 2,
        top // 2 - 1,
        top // 2 + 1,
        0x5555555555555555 % top,
        0xFFFF % top,
        0x10000 % top,
    ]


_EDGES = {
    "h": _integer_edges(16), "r": _integer_edges(32), "q": _integer_edges(64),
    "s": [*range(0, 72, 3), 1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1 << 31, (1 << 32) - 1, 0x76543210, 0xFEDC],
    "f": _float_edges(32, 23), "d": _float_edges(64, 52), "H": _float_edges(16, 10), "B": _float_edges(16, 7), "p": [0, 1],
}  # fmt: skip
_PARTS = {"X": ("H", 2), "Y": ("B", 2), "v": ("h", 2), "w": ("r", 4)}


def _value(letter: str, rng: np.random.Generator) -> int:
    if letter in _PARTS:
        part, count = _PARTS[letter]
        width = 32 // count
        return sum((_value(part, rng) & ((1 << width) - 1)) << width * k for k in range(count))
    width, how = _WIDTHS[letter], rng.random()
    if letter == "p" or how < 0.6:
        return int(rng.choice(np.array(_EDGES[letter], np.uint64)))
    if letter == "s":
        return int(rng.integers(0, 70))
    if letter in "fdHB" and how < 0.85:  # near one, where sums do not just lose an operand
        number = float(rng.normal()) * 2.0 ** float(rng.integers(-12, 13))
        if letter == "B":
            return int.from_bytes(struct.pack("<f", number), "little") >> 16
        return int.from_bytes(struct.pack({"f": "<f", "d": "<d", "H": "<e"}[letter], number), "little")
    if letter in "hrq" and how < 0.8:
        return int(rng.integers(-100, 100)) % (1 << width)
    return int(rng.integers(0, 1 << 64, dtype=np.uint64)) & ((1 << width) - 1)


@functools.cache
def operand_values(letter: str, position: int) -> list[int]:
    """What each thread has in the operand of that letter and number. Every fourth is related to the one before it."""
    rng = np.random.default_rng([ord(letter), position])
    values = [_value(letter, rng) for _ in range(THREADS)]
    if position and letter not in "ps":
        before = operand_values(letter, position - 1)
        for thread in range(0, THREADS, 4):
            values[thread] = before[thread] ^ (rng.integers(0, 2).item() << (_WIDTHS[letter] - 1))
    return values


# -- running -----------------------------------------------------------------------------------------------------------------


def _kernel(forms: list[Form], slots: dict[str, int]) -> str:
    registers = [f".reg .{kind} {', '.join(f'%{letter}<10>' for letter in letters)};" for kind, letters in _REGISTERS.items()]
    registers += [".reg .b8 %c<5>;", ".reg .b128 %o<3>;"]
    body = [
        "mov.u32 %r8, %ctaid.x;", "mov.u32 %r9, %ntid.x;", "mul.lo.u32 %r8, %r8, %r9;", "mov.u32 %r9, %tid.x;",
        "add.u32 %r8, %r8, %r9;", "ld.param.u64 %q8, [in];", "mad.wide.u32 %q8, %r8, 8, %q8;", "ld.param.u64 %q9, [out];",
        "mad.wide.u32 %q9, %r8, 8, %q9;",
    ]  # fmt: skip
    for name, slot in slots.items():
        width, target = _WIDTHS[name[1]], "%r9" if name[1] == "p" else name
        body.append(f"ld.global.{_MOVE[width]} {target}, [%q8+{8 * THREADS * slot}];")
        if name[1] == "p":
            body.append(f"setp.ne.u32 {name}, %r9, 0;")
    for number, one in enumerate(forms):
        target = f"%{one.kinds[0]}7"
        body.append(f"{one.text.format(*operand_names(one.kinds), d=target)};")
        if one.kinds[0] == "p":
            body.append(f"selp.u32 %r9, 1, 0, {target};")
            target = "%r9"
        body.append(f"st.global.{_MOVE[_WIDTHS[one.kinds[0]]]} [%q9+{8 * THREADS * number}], {target};")
    head = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
    return head + "\n".join([*registers, *body, "ret;", "}"])


def operand_names(kinds: str) -> list[str]:
    """Registers of the operands: `%f0`, `%f1`, ... for each letter on its own."""
    seen: dict[str, int] = {}
    names = []
    for letter in kinds[1:]:
        names.append(f"%{letter}{seen.get(letter, 0)}")
        seen[letter] = seen.get(letter, 0) + 1
    return names


def check_forms(forms: list[Form]) -> None:
    """Run all forms in one kernel on all threads' operands, and compare each result with its rule."""
    assert forms
    used = dict.fromkeys(name for one in forms for name in operand_names(one.kinds))
    slots = {name: k for k, name in enumerate(used)}
    given = {name: operand_values(name[1], int(name[2:])) for name in slots}
    memory = np.array([given[name] for name in slots] or [[0]], np.uint64)
    out = np.zeros((len(forms), THREADS), np.uint64)
    launch(load_source(_kernel(forms, slots), name="forms.ptx"), "k", THREADS // BLOCK, BLOCK, [memory, out])
    wrong = []
    for one, row in zip(forms, out, strict=True):
        sources = [given[name] for name in operand_names(one.kinds)]
        failed = _first_failure(one, sources, row)
        if failed:
            wrong.append(failed)
    assert not wrong, f"{len(wrong)} of {len(forms)} forms:\n" + "\n".join(wrong[:20])


def _first_failure(one: Form, sources: list[list[int]], row: Any) -> str:
    for thread, got in enumerate(map(int, row)):
        operands = [values[thread] for values in sources]
        wanted = one.rule(*operands)
        if wanted(got) if callable(wanted) else wanted == got:
            continue
        shown = "something else" if callable(wanted) else f"{wanted:#x}"
        return f"{one.text} of {', '.join(map(hex, operands))}: {got:#x}, not {shown}"
    return ""


def near(exact: float, absolute: float, relative: float, unpack: Callable[[int], float]) -> Judge:
    """Within an absolute or a relative error of a finite value."""

    def judge(got: int) -> bool:
        value = unpack(got)
        return not math.isnan(value) and abs(value - exact) <= max(absolute, relative * abs(exact))

    return judge
