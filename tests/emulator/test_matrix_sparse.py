"""`mma.sp`: the product with a matrix A of which two elements in four, or one in two, are held."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx
from matrix_reference import BITS, Place, collect, float_product, integer_product, result, spread
from test_matrix_mma import patterns, registers, sizes

from warpsight.base.errors import UnsupportedError

pytestmark = pytest.mark.unit
FORMS = [
    ("m16n8k16", "f16"), ("m16n8k32", "f16"), ("m16n8k16", "bf16"), ("m16n8k32", "bf16"), ("m16n8k8", "tf32"), ("m16n8k16", "tf32"),
    ("m16n8k32", "s8"), ("m16n8k64", "s8"), ("m16n8k64", "u8"), ("m16n8k64", "s4"), ("m16n8k128", "s4"), ("m16n8k64", "e4m3"),
]  # fmt: skip
CHUNK = {"tf32": 2, "s4": 8, "u4": 8}


def _left(kind: str) -> Place:
    """Of the held half: rows by the manual's "a0 and a1 ...", columns in units of half a chunk."""
    e = 32 // BITS[kind]
    return lambda lane, i: (lane // 4 + (8 if i // e % 2 else 0), lane % 4 * e + i % e + (4 * e if i >= 2 * e else 0))


def _right(kind: str) -> Place:
    e = 32 // BITS[kind]
    return lambda lane, i: (lane % 4 * e + i % e + 4 * e * (i // e), lane // 4)


def _metadata_place(kind: str, chunks: int, selector: int, row: int, chunk: int) -> tuple[int, int]:
    """Lane and first bit of the four bits of a chunk."""
    if BITS[kind] >= 16:
        lane = {4: selector, 8: 2 * selector + chunk // 4}[chunks]
        return row % 8 * 4 + lane, chunk % 4 * 4 + (16 if row >= 8 else 0)
    lane = {8: 2 * selector, 16: chunk // 8 * 2}[chunks] + (1 if row >= 8 else 0)
    return row % 8 * 4 + lane, chunk % 8 * 4


def _sparse(rng: np.random.Generator, held: np.ndarray, kind: str, k: int, selector: int) -> tuple[np.ndarray, np.ndarray]:
    """The whole A, with the held elements at random places of their chunks, and the metadata of the 32 lanes; others hold junk."""
    columns = CHUNK.get(kind, 4)
    whole = np.zeros((16, k), np.uint64)
    metadata = rng.integers(0, 1 << 32, 32, dtype=np.uint64)
    for row in range(16):
        for chunk in range(k // columns):
            mine = held[row, chunk * columns // 2 : (chunk + 1) * columns // 2]
            low, high = sorted(rng.choice(4, 2, replace=False))
            if kind == "tf32":
                at = int(rng.integers(2))
                low, high = ((0, 1), (2, 3))[at]
                whole[row, 2 * chunk + at] = mine[0]
            elif columns == 8:
                whole[row, 8 * chunk + 2 * low : 8 * chunk + 2 * low + 2] = mine[:2]
                whole[row, 8 * chunk + 2 * high : 8 * chunk + 2 * high + 2] = mine[2:]
            else:
                whole[row, 4 * chunk + low], whole[row, 4 * chunk + high] = mine
            lane, bit = _metadata_place(kind, k // columns, selector, row, chunk)
            metadata[lane] = (int(metadata[lane]) & ~(15 << bit)) | (low | high << 2) << bit
    return whole, metadata.astype(np.uint32)


def _run(opcode: str, fragments: list[np.ndarray], metadata: np.ndarray, selector: int, results: int) -> np.ndarray:
    lines, vectors = [], ["{" + ", ".join(f"%fd{k}" for k in range(results)) + "}"]
    for name, words in zip("abce", [*fragments, metadata.reshape(32, 1)], strict=True):
        count = words.shape[1]
        lines += [f"ld.param.u64 %q1, [{name}];", f"mad.wide.u32 %q1, %i, {4 * count}, %q1;"]
        lines += [f"ld.global.b32 %f{name}{k}, [%q1+{4 * k}];" for k in range(count)]
        vectors.append("{" + ", ".join(f"%f{name}{k}" for k in range(count)) + "}" if name != "e" else "%fe0")
    lines += [f"{opcode} {', '.join(vectors)}, {selector};", "ld.param.u64 %q1, [out];"]
    lines.append(f"mad.wide.u32 %q1, %i, {4 * results}, %q1;")
    lines += [f"st.global.b32 [%q1+{4 * k}], %fd{k};" for k in range(results)]
    parameters = ", ".join(f".param .u64 {name}" for name in ("out", "a", "b", "c", "e"))
    out = np.zeros((32, results), np.uint32)
    declared = "\n".join(f".reg .b32 %f{name}<8>;" for name in "abcde")
    launch(ptx("\n".join([*lines, "ret;"]), parameters, declared), "k", 1, 32, [out, *fragments, metadata])
    return out


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=".".join)
def test_sparse_product_equals_the_dense_one_with_zeros(form: tuple[str, str], last: bool) -> None:
    shape, kind = form
    m, n, k = sizes(shape)
    is_float = kind in ("f16", "bf16", "tf32", "e4m3")
    d = "f32" if is_float else "s32"
    chunks = k // CHUNK.get(kind, 4)
    selector = 4 // (chunks // 4) - 1 if last else 0
    rng = np.random.default_rng(14)
    held, b, c = (patterns(rng, s, t, "near" if is_float else "any") for s, t in (((m, k // 2), kind), ((k, n), kind), ((m, n), d)))
    whole, metadata = _sparse(rng, held, kind, k, selector)
    place = result("m16n8k16")
    words = [spread(x, where, t, registers(x.shape, t)) for x, where, t in
             ((held, _left(kind), kind), (b, _right(kind), kind), (c, place, d))]  # fmt: skip
    word = "mma.sp::ordered_metadata" if last else "mma.sp"
    opcode = f"{word}.sync.aligned.{shape}.row.col.{d}.{kind}.{kind}.{d}"
    got = collect(_run(opcode, words, metadata, selector, 4), place, d, (m, n))
    wanted = float_product(whole, b, c, (kind, kind, d), d) if is_float else integer_product(whole, b, c, (kind, kind), "")
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r1,%r2,%r3,%r4}, "
         "{%f1,%f2,%f3,%f4}, %r5, 2;", "selector of 2"),
        ("mma.sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r1}, {%f1,%f2,%f3,%f4}, %r5, 0;",
         "shape .m16n8k8"),
    ],
)  # fmt: skip
def test_sparse_form_that_is_not_defined_is_refused(line: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        launch(ptx(f"{line}\nret;"), "k", 1, 32, [np.zeros(64)])
