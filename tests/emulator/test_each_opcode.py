"""Does every opcode that the random kernels draw from, alone and on special values, give what the interpreter gives?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scalar_interpreter
from random_kernels import COMPARISONS, DIVISIONS, HEAD, OPCODES, random_words

import warpsight

pytestmark = pytest.mark.property
SOURCES = {
    "r": ("%r0", "%r1", "%r4"), "f": ("%f0", "%f1", "%f2"), "p": ("%p0", "%p1", "%p2"),
    "q": ("%q0", "%q1"), "d": ("%d0", "%d1"),
}
TARGETS = {"r": "%r2", "f": "%f3", "q": "%q2", "d": "%d2", "p": "%p3"}
STORES = {"r": "u32", "f": "f32", "q": "u64", "d": "f64"}
THREADS = 128


def _plain() -> Iterator[tuple[str, str, list[str]]]:
    """Each opcode on registers: its name, the kind of its result, its lines."""
    for opcode, (result, kinds) in sorted(OPCODES.items()):
        pools = {kind: iter(names * 3) for kind, names in SOURCES.items()}
        lines: list[str] = []
        sources: list[str] = []
        for kind in kinds:
            if kind == "b":  # a place in a bit field, of at most 255
                lines.append(f"and.b32 %b{len(lines)}, {next(pools['r'])}, 255;")
                sources.append(f"%b{len(lines) - 1}")
            else:
                sources.append("150" if kind == "8" else next(pools["r" if kind == "B" else kind.lower()]))
        yield opcode, result, [*lines, f"{opcode} {TARGETS[result]}, {', '.join(sources)};"]


def _comparisons() -> Iterator[tuple[str, str, list[str]]]:
    for kind, names in COMPARISONS.items():
        a, b = SOURCES[{"f32": "f", "f64": "d"}.get(kind, "r" if kind.endswith("32") else "q")][:2]
        for name in names:
            yield f"setp.{name}.{kind}", "p", [f"setp.{name}.{kind} %p3, {a}, {b};"]
            yield f"setp.{name}.xor.{kind} pair", "p", [f"setp.{name}.xor.{kind} %p1|%p3, {b}, {a}, %p0;"]


def _divisions() -> Iterator[tuple[str, str, list[str]]]:
    for opcode in DIVISIONS:
        kind = "r" if opcode.endswith("32") else "q"
        (a, b, *_), divisor, bits = SOURCES[kind], f"%t{kind}", opcode[-2:]
        defined = [f"and.b{bits} {divisor}, {b}, 65535;", f"or.b{bits} {divisor}, {divisor}, 2;"]
        yield opcode, kind, [*defined, f"{opcode} {TARGETS[kind]}, {a}, {divisor};"]


CASES = [*_plain(), *_comparisons(), *_divisions()]


def _kernel(cases: list[tuple[str, str, list[str]]]) -> str:
    """All cases after each other; thread i stores the result of case c in 8 bytes at (i * cases + c)."""
    lines = [HEAD.replace("STRIDE", str(8 * len(cases)))]
    for at, (_, result, operation) in enumerate(cases):
        lines += operation
        if result == "p":
            lines += ["selp.u32 %r2, 1, 0, %p3;"]
        stored = "r" if result == "p" else result
        lines.append(f"st.global.{STORES[stored]} [%out+{8 * at}], {TARGETS[stored]};")
    return "\n".join([*lines, "ret;", "}"])


def _same_nan(out: np.ndarray, results: list[str]) -> np.ndarray:
    """Make every NaN the same one: PTX does not say which NaN an operation gives."""
    for column, result in enumerate(results):
        if result in "fd":
            values = out[:, column].astype(np.uint32).view(np.float32) if result == "f" else out[:, column].copy().view(np.float64)
            out[np.isnan(values), column] = 0xFFFFFFFF
    return out


@pytest.mark.parametrize("result", sorted(TARGETS))
def test_each_opcode_on_special_values_equals_the_interpreter(result: str) -> None:
    cases = [case for case in CASES if case[1] == result]
    text, words = _kernel(cases), random_words(np.random.default_rng(11), THREADS)
    wanted, got = (np.zeros((THREADS, len(cases)), np.uint64) for _ in range(2))
    scalar_interpreter.run(text, "k", grid=(2,), block=(64,), args=[words.copy(), wanted, np.uint32(77)])
    warpsight.trace(text, kernel="k", grid=(2,), block=(64,), args=[words.copy(), got, np.uint32(77)])
    results = [case[1] for case in cases]
    wanted, got = _same_nan(wanted, results), _same_nan(got, results)
    different = {
        cases[column][0]: f"thread {thread}: {wanted[thread, column]:#x} wanted, {got[thread, column]:#x} got"
        for thread, column in np.argwhere(wanted != got)
    }
    assert different == {}
