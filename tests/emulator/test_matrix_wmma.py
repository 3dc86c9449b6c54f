"""`wmma`: load, multiply and store of every shape, type and layout, in each space; checks and trace."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx, whole
from matrix_reference import BITS, float_product, integer_product
from test_matrix_mma import patterns, sizes

from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
_LIST = ".param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 unused"
_COUNTS = {  # registers of A and of B, by type and shape: the tables of "Matrix Fragments for WMMA"
    "bf16": {"m16n16k16": (4, 4), "m8n32k16": (2, 8), "m32n8k16": (8, 2)}, "tf32": {"m16n16k8": (4, 4)},
    "f16": {"m16n16k16": (8, 8), "m8n32k16": (8, 8), "m32n8k16": (8, 8)}, "f64": {"m8n8k4": (1, 1)},
    "s8": {"m16n16k16": (2, 2), "m8n32k16": (1, 4), "m32n8k16": (4, 1)}, "s4": {"m8n8k32": (1, 1)}, "b1": {"m8n8k128": (1, 1)},
}  # fmt: skip


def _counts(kind: str, shape: str) -> tuple[int, int]:
    return _COUNTS[{"u8": "s8", "u4": "s4"}.get(kind, kind)][shape]


def in_memory(matrix: np.ndarray, kind: str, layout: str, stride: int) -> np.ndarray:
    """A matrix of patterns as bytes, its lines `stride` elements apart, with other bits between them."""
    lines = matrix if layout == "row" else matrix.T
    bits = BITS[kind]
    if bits >= 8:
        whole_lines = np.full((len(lines), stride), 0x5A, f"u{bits // 8}")
        whole_lines[:, : lines.shape[1]] = lines
        return whole_lines.view(np.uint8).reshape(-1)
    each = np.ones((len(lines), stride, bits), np.uint8)
    each[:, : lines.shape[1]] = (lines[:, :, None] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(each.reshape(-1), bitorder="little")


def _vector(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{k}" for k in range(count)) + "}"


def run(
    shape: str, kinds: tuple[str, str, str], layouts: tuple[str, str, str, str], given: list[np.ndarray], strides: list[int],
    middle: str = "", types: str = "", order: str = "",
) -> tuple[np.ndarray, KernelTrace]:  # fmt: skip
    """Load A, B and C from device memory, multiply, store D. `kinds` are those of the multiplicands, C and D."""
    kind, c, d = kinds
    m, n, _ = sizes(shape)
    of_a, of_b = _counts(kind, shape)
    of_c, of_d = ((4 if t == "f16" else 2 if shape.startswith("m8n8") else 8) for t in (c, d))
    word = "b64" if kind == "f64" else "b32"
    lines = [f"ld.param.u64 %q{k}, [{name}];" for k, name in enumerate(["a", "b", "c", "out"])]
    for k, (name, count, element) in enumerate((("a", of_a, kind), ("b", of_b, kind), ("c", of_c, c))):
        stride = f", {strides[k]}" if strides[k] else ""
        form = f"{layouts[k]}.{shape}.global.{element}"
        lines.append(f"wmma.load.{name}.sync.aligned.{form} {_vector('f' + name, count)}, [%q{k}]{stride};")
    types = types or f"{d}.{kind}.{kind}.{c}"
    vectors = ", ".join((_vector("fd", of_d), _vector("fa", of_a), _vector("fb", of_b), _vector("fc", of_c)))
    lines.append(f"wmma.mma{order}.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}{middle}.{types} {vectors};")
    stride = f", {strides[3]}" if strides[3] else ""
    lines.append(f"wmma.store.d.sync.aligned.{layouts[3]}.{shape}.global.{d} [%q3], {_vector('fd', of_d)}{stride};\nret;")
    declared = "\n".join(f".reg .{word} %f{name}<8>;" for name in "abcd")
    bytes_d = BITS[d] // 8
    length = {"row": m, "col": n}[layouts[3]] * (strides[3] or {"row": n, "col": m}[layouts[3]])
    out = np.zeros(length * bytes_d, np.uint8)
    trace = launch(ptx("\n".join(lines), _LIST, declared), "k", 1, 32, [out, *given, np.zeros(1)])
    return out, trace


def _check(
    shape: str, kinds: tuple[str, str, str], layouts: tuple[str, str, str, str], padding: int, manner: str, how: str = "",
    **more: str,
) -> None:  # fmt: skip
    kind, c, d = kinds
    m, n, k = sizes(shape)
    rng = np.random.default_rng(10)
    sides = [(m, k), (k, n), (m, n)]
    matrices = [patterns(rng, s, t, manner) for s, t in zip(sides, (kind, kind, c), strict=True)]
    strides = [0 if not padding else {"row": s[1], "col": s[0]}[layout] + padding * 128 // BITS[t]
               for s, t, layout in zip([*sides, (m, n)], (kind, kind, c, d), layouts, strict=True)]  # fmt: skip
    given = [
        in_memory(matrix, t, layout, stride or matrix.shape[1 if layout == "row" else 0])
        for matrix, t, layout, stride in zip(matrices, (kind, kind, c), layouts, strides, strict=False)
    ]
    out, _ = run(shape, kinds, layouts, given, strides, **more)
    got = out.view(f"u{BITS[d] // 8}").reshape(m if layouts[3] == "row" else n, -1)[:, : n if layouts[3] == "row" else m]
    wanted = integer_product(*matrices, (kind, kind), how) if d == "s32" else float_product(*matrices, (kind, kind, c), d)
    np.testing.assert_array_equal(got if layouts[3] == "row" else got.T, wanted)


LAYOUTS = [("row", "col", "row", "row"), ("col", "row", "col", "col"), ("row", "row", "col", "row"), ("col", "col", "row", "col")]
SHAPES16 = ["m16n16k16", "m8n32k16", "m32n8k16"]
FLOATS = [
    *((shape, "f16", c, d) for shape in SHAPES16 for c in ("f16", "f32") for d in ("f16", "f32")),
    *((shape, "bf16", "f32", "f32") for shape in SHAPES16), ("m16n16k8", "tf32", "f32", "f32"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(2 * len(FLOATS)))
def test_wmma_of_floats_equals_the_scalar_sum(number: int) -> None:
    """Each form in two of the layouts, once with the default stride."""
    shape, kind, c, d = FLOATS[number // 2]
    layouts = LAYOUTS[(number + number // 8) % 4]
    types = f"{d}.{c}" if kind == "f16" else ""
    _check(shape, (kind, c, d), layouts, LAYOUTS.index(layouts) % 2, "near", types=types)


@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("kind", ["s8", "u8"])
@pytest.mark.parametrize("shape", SHAPES16)
def test_wmma_of_bytes_equals_numpy(shape: str, kind: str, layouts: tuple[str, str, str, str]) -> None:
    how = "satfinite" if LAYOUTS.index(layouts) % 2 else ""
    types = f"s32.{kind}.{kind}.s32{'.satfinite' if how else ''}"
    _check(shape, (kind, "s32", "s32"), layouts, LAYOUTS.index(layouts) // 2, "any", how, types=types)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(
    ("shape", "kind", "how"),
    [("m8n8k32", "s4", ""), ("m8n8k32", "u4", "satfinite"), ("m8n8k128", "b1", "xor"), ("m8n8k128", "b1", "and")],
)
def test_wmma_of_less_than_a_byte_equals_numpy(shape: str, kind: str, how: str, padding: int) -> None:
    order = f".{how}.popc" if kind == "b1" else ""
    types = f"s32.{kind}.{kind}.s32{'.satfinite' if how == 'satfinite' else ''}"
    _check(shape, (kind, "s32", "s32"), ("row", "col", "col", "row"), padding, "any", how, types=types, order=order)


@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
def test_wmma_of_doubles_equals_exact_sums(layouts: tuple[str, str, str, str]) -> None:
    rng = np.random.default_rng(11)
    a, b, c = (rng.integers(-99, 99, s).astype(np.float64) for s in ((8, 4), (4, 8), (8, 8)))
    given = [
        in_memory(x.view(np.uint64), "f64", layout, x.shape[layout == "row"]) for x, layout in zip((a, b, c), layouts, strict=False)
    ]
    out, _ = run("m8n8k4", ("f64", "f64", "f64"), layouts, given, [0] * 4, middle=".rn")
    got = out.view(np.float64).reshape(8, 8)
    np.testing.assert_array_equal(got if layouts[3] == "row" else got.T, a @ b + c)


# -- memory ------------------------------------------------------------------------------------------------------------------

_COPY = """
.shared .align 32 .b8 tile[4096];
.reg .b32 %x<8>;
mov.u32 %r9, tile;
cvt.u64.u32 %q6, %r9;
cvta.shared.u64 %q5, %q6;
ld.param.u64 %q1, [a];
ld.param.u64 %q2, [out];
wmma.load.c.sync.aligned.row.m16n16k16{load}.f32 {{%x0,%x1,%x2,%x3,%x4,%x5,%x6,%x7}}, [{source}], {stride};
wmma.store.d.sync.aligned.col.m16n16k16{store}.f32 [{target}], {{%x0,%x1,%x2,%x3,%x4,%x5,%x6,%x7}}, {stride};
wmma.load.c.sync.aligned.col.m16n16k16{again}.f32 {{%x0,%x1,%x2,%x3,%x4,%x5,%x6,%x7}}, [{target}], {stride};
wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%q2], {{%x0,%x1,%x2,%x3,%x4,%x5,%x6,%x7}}, 16;
ret;
"""


def _copy(**words: str | int) -> tuple[np.ndarray, list[int], np.ndarray]:
    given = np.arange(16 * 20, dtype=np.float32).reshape(16, 20)
    out = np.zeros((16, 16), np.float32)
    source = ptx(_COPY.format(**words), ".param .u64 out, .param .u64 a")
    chunk = whole(launch(source, "k", 1, 32, [out, given]))
    stride = int(words["stride"])
    np.testing.assert_array_equal(out, np.lib.stride_tricks.as_strided(given, (16, 16), (4 * stride, 4)))
    return out, list(chunk.events), chunk.sectors


@pytest.mark.parametrize(("stride", "sectors", "passes"), [(16, 32, 32), (20, 40, 8)])
def test_shared_matrix_is_recorded_as_passes_through_the_banks(stride: int, sectors: int, passes: int) -> None:
    """Of 16 lines of 64 bytes, 8 pass at a time, 16 bytes of each; 64 bytes apart, four of them meet in a bank."""
    words = {"load": ".global", "store": ".shared", "again": ".shared", "source": "%q1", "target": "%r9", "stride": stride}
    _, events, numbers = _copy(**words)
    assert events == [sectors, passes, passes, 32]
    assert len(numbers) == sectors + 32 and np.all(np.diff(numbers[:sectors].astype(np.int64)) == 1)


def test_generic_address_reaches_shared_memory() -> None:
    words = {"load": "", "store": "", "again": "", "source": "%q1", "target": "%q5", "stride": 20}
    _, events, _ = _copy(**words)
    assert events == [40, 0, 0, 8, 0, 8, 32]


_SINGLE = "wmma.load.c.sync.aligned.row.m16n16k16{space}.f32 {{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}}, [{at}], {stride};\nret;"


@pytest.mark.parametrize(
    ("space", "setup", "at", "stride", "message"),
    [
        (".global", "", "%out", 16, r"out of bounds .*wmma\.load.*thread \(8,0,0\).*past the end of the array"),
        (".global", "add.u64 %q1, %out, 8;", "%q1", 16, r"misaligned access"),
        (".global", "", "%out", 17, r"misaligned access .*thread \(1,0,0\)"),
        (".shared", "mov.u32 %r1, 0;", "%r1", 16, r"past the end of shared memory"),
        ("", "mov.u64 %q1, 16;", "%q1", 16, r"out of bounds"),
    ],
)
def test_each_line_of_a_matrix_is_checked(space: str, setup: str, at: str, stride: int, message: str) -> None:
    body = "\n".join(["mov.u32 %i, 0;", "ld.param.u64 %out, [out];", setup, _SINGLE.format(space=space, at=at, stride=stride)])
    with pytest.raises(LaunchFault, match=message):
        launch(ptx(body), "k", 1, 32, [np.zeros(8 * 16, np.float32)])


def test_store_to_constant_memory_is_a_fault() -> None:
    store = "wmma.store.d.sync.aligned.row.m16n16k16.f32 [%q1], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8};"
    body = f"mov.u64 %q1, c; cvta.const.u64 %q1, %q1;\n{store}\nret;"
    source = ptx(body, registers=".const .align 32 .b8 c[1024];")
    with pytest.raises(LaunchFault, match="write to constant memory"):
        launch(source, "k", 1, 32, [np.zeros(32)])


def test_load_under_a_guard_that_no_lane_passes_touches_nothing() -> None:
    body = "setp.gt.u32 %p1, %i, 99; mov.u64 %q1, 4;\n@%p1 " + _SINGLE.format(space=".global", at="%q1", stride=16)
    chunk = whole(launch(ptx(body), "k", 1, 32, [np.zeros(32)]))
    assert list(chunk.events) == [0] and not len(chunk.sectors)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k8.f16 {%r1}, [%out];", "shape .m16n16k8 with .f16"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.s4 {%r1}, [%out];", "layout .col"),
        ("wmma.load.c.sync.aligned.row.m16n16k16.global.L1::no_allocate.f32 {%r1}, [%out];", "no_allocate"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.local.f16 {%r1}, [%out];", "local"),
        ("wmma.load.b.sync.aligned.row.m16n16k16.s8 {%r1, %r2, %r3}, [%out];", "3 registers; 2 expected"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 {%r1}, {%r1}, {%r1}, {%r1};", "s8 and .u8"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite {%f1}, {%r1}, {%r1}, {%f1};", "satfinite"),
    ],
)
def test_form_that_is_not_modelled_is_refused_by_name(line: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        launch(ptx(f"{line}\nret;"), "k", 1, 32, [np.zeros(64)])
