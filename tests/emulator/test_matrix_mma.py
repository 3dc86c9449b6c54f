"""`mma.sync` of every dense shape and type: layouts, sums bit by bit, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx
from matrix_reference import BITS, collect, float_product, integer_product, left, pattern_of, result, right, spread, value

pytestmark = pytest.mark.unit

def registers(shape: tuple[int, int], kind: str) -> int:
    """Registers of a fragment of a matrix that is spread once over the warp."""
    return shape[0] * shape[1] * BITS[kind] // 32 // max(32, BITS[kind])


def sizes(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    return int(m), int(rest.split("k")[0]), int(rest.split("k")[1])


def _vector(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{k}" for k in range(count)) + "}"


def run(opcode: str, fragments: list[np.ndarray], results: int) -> np.ndarray:
    """Run one instruction `opcode d, a, b, c` in each warp: registers [lane, register] in and out, 32 lanes after another."""
    double = fragments[0].dtype == np.uint64
    word, size = ("b64", 8) if double else ("b32", 4)
    lines, declared = [], [f".reg .{word} %fd<{results}>;"]
    for name, words in zip("abc", fragments, strict=True):
        count = words.shape[1]
        declared.append(f".reg .{word} %f{name}<{count}>;")
        lines += [f"ld.param.u64 %q1, [{name}];", f"mad.wide.u32 %q1, %i, {size * count}, %q1;"]
        lines += [f"ld.global.{word} %f{name}{k}, [%q1+{size * k}];" for k in range(count)]
    vectors = [_vector("fd", results), *(_vector("f" + n, w.shape[1]) for n, w in zip("abc", fragments, strict=True))]
    lines += [f"{opcode} {', '.join(vectors)};", "ld.param.u64 %q1, [out];", f"mad.wide.u32 %q1, %i, {size * results}, %q1;"]
    lines += [f"st.global.{word} [%q1+{size * k}], %fd{k};" for k in range(results)]
    parameters = ".param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c"
    warps = len(fragments[0]) // 32
    out = np.zeros((32 * warps, results), fragments[0].dtype)
    launch(ptx("\n".join([*lines, "ret;"]), parameters, "\n".join(declared)), "k", warps, 32, [out, *fragments])
    return out


def patterns(rng: np.random.Generator, shape: tuple[int, int], kind: str, manner: str) -> np.ndarray:
    """Random patterns: `any`, all there are, with NaNs and infinities; `finite`, any exponent; `near`, normally distributed."""
    bits = BITS[kind]
    if manner == "near":
        values = rng.normal(0, 1, shape)
        if kind in ("f16", "f32", "f64"):
            return np.vectorize(lambda x: pattern_of(x, kind), otypes=[np.uint64])(values)
        single = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        if kind in ("bf16", "tf32"):
            return single >> np.uint64(32 - bits)
        half = values.astype(np.float16).view(np.uint16).astype(np.uint64)
        return half >> np.uint64(8) if kind == "e5m2" else rng.integers(0x20, 0x48, shape).astype(np.uint64)
    found = rng.integers(0, 1 << bits, shape, dtype=np.uint64) if bits < 64 else rng.integers(0, 1 << 64, shape, dtype=np.uint64)
    if manner == "finite":
        bad = np.vectorize(lambda p: not np.isfinite(value(int(p), kind)))(found)
        found[bad] = 0
    if kind == "f32" and manner == "finite":  # of the size of products of halves, so that they meet
        found &= np.uint64(0x807FFFFF)
        found |= rng.integers(90, 150, shape).astype(np.uint64) << np.uint64(23)
    return found


def check(opcode: str, shape: str, kinds: tuple[str, str, str, str], manners: list[str], seed: int, how: str = "") -> None:
    """Products of random matrices, one in each manner, placed by the manual's layout, against the scalar definition."""
    d, a, b, c = kinds
    m, n, k = sizes(shape)
    rng = np.random.default_rng(seed)
    sides = (((m, k), a, left(shape, a)), ((k, n), b, right(shape, b)), ((m, n), c, result(shape)))
    matrices = [[patterns(rng, side, kind, manner) for side, kind, _ in sides] for manner in manners]
    words = [
        np.concatenate([spread(of[which], place, kind, registers(side, kind)) for of in matrices])
        for which, (side, kind, place) in enumerate(sides)
    ]
    out = run(opcode, words, registers((m, n), d))
    for number, (manner, of) in enumerate(zip(manners, matrices, strict=True)):
        got = collect(out[32 * number : 32 * number + 32], result(shape), d, (m, n))
        wanted = integer_product(*of, (a, b), how) if d == "s32" else float_product(*of, (a, b, c), d)
        different = np.argwhere(wanted != got)
        assert not len(different), (manner, [(tuple(at), hex(wanted[tuple(at)]), hex(got[tuple(at)])) for at in different[:4]])


FLOATS = [
    *((shape, t, "f16", "f16", t) for shape in ("m16n8k8", "m16n8k16") for t in ("f16", "f32")),
    *((shape, "f32", "bf16", "bf16", "f32") for shape in ("m16n8k8", "m16n8k16")),
    *((shape, "f32", "tf32", "tf32", "f32") for shape in ("m16n8k4", "m16n8k8")),
    *(("m16n8k32", t, a, b, t) for t in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    ("m16n8k16", "f32", "e4m3", "e5m2", "f32"), ("m16n8k16", "f16", "e5m2", "e5m2", "f16"),
]  # fmt: skip
INTEGERS = [
    *((shape, a, b) for shape in ("m8n8k16", "m16n8k16", "m16n8k32") for a in ("s8", "u8") for b in ("s8", "u8")),
    *((shape, a, b) for shape in ("m8n8k32", "m16n8k32", "m16n8k64") for a in ("s4", "u4") for b in ("s4", "u4")),
]


@pytest.mark.parametrize("form", FLOATS, ids=".".join)
def test_mma_of_floats_equals_the_scalar_sum_bit_by_bit(form: tuple[str, str, str, str, str]) -> None:
    shape, d, a, b, c = form
    check(f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{c}", shape, (d, a, b, c), ["near", "finite", "any"], 1)


@pytest.mark.parametrize("how", ["", "satfinite"])
@pytest.mark.parametrize("form", INTEGERS, ids=".".join)
def test_mma_of_integers_equals_numpy(form: tuple[str, str, str], how: str) -> None:
    shape, a, b = form
    saturate = ".satfinite" if how else ""
    check(f"mma.sync.aligned.{shape}.row.col{saturate}.s32.{a}.{b}.s32", shape, ("s32", a, b, "s32"), ["any"], 2, how)


@pytest.mark.parametrize("how", ["xor", "and"])
@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
def test_mma_of_bits_counts_them(shape: str, how: str) -> None:
    check(f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{how}.popc", shape, ("s32", "b1", "b1", "s32"), ["any"], 3, how)
