"""`wgmma`: products of four warps, against NumPy and the scalar definition of a sum, at the level of PTX and as machine code.

Where the sum is not the question, matrices hold small whole numbers, whose sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hopper_launch import hopper, run, run_traced
from matrix_reference import BITS, float_product, integer_product, pattern_of, value
from test_matrix_mma import patterns, sizes
from test_matrix_sparse import CHUNK, _metadata_place
from warp_group import Group, Matrices, Place, products

import warpsight
from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.kernels.launch import KernelSource

pytestmark = pytest.mark.unit

BEHIND = 20 * 1024  # where B begins
WIDE, TURNED = Place(128, False, 16, 1024), Place(128, True, 2048, 1024)
# Any finite numbers: shape, D, A, B.
FLOATS = {
    "f16": Group("m64n16k16", "f16", "f16", "f16"), "f16 into f32": Group("m64n16k16", "f32", "f16", "f16", left=None),
    "bf16": Group("m64n8k16", "f32", "bf16", "bf16", WIDE, Place(128, True, 2048, 1024, BEHIND), signs=(1, -1)),
    "tf32": Group("m64n24k8", "f32", "tf32", "tf32", left=None, signs=(-1, 1)), "e4m3": Group("m64n8k32", "f32", "e4m3", "e5m2"),
    "e5m2": Group("m64n16k32", "f16", "e5m2", "e4m3", left=None),
    "no sum before": Group("m64n8k16", "f32", "f16", "f16", use=False),
    "never a sum": Group("m64n8k16", "f32", "f16", "f16", scale="0"),
}  # fmt: skip
INTEGERS = {
    "s8": Group("m64n8k32", "s32", "s8", "u8", WIDE), "u8": Group("m64n24k32", "s32", "u8", "s8", left=None, words=".satfinite"),
    "b1": Group("m64n8k256", "s32", "b1", "b1", words=".and.popc", scale="1"),
    "b1 in registers": Group("m64n16k256", "s32", "b1", "b1", left=None, words=".and.popc", scale="!%use", use=False),
}  # fmt: skip
SPARSE = {
    "f16": Group("m64n16k32", "f32", "f16", "f16", Place(32, True, 512, 256), Place(64, True, 2048, 1024, BEHIND), selector=0),
    "bf16": Group("m64n16k32", "f32", "bf16", "bf16", left=None, right=Place(128, False, 16, 1024, BEHIND), selector=1),
    "tf32": Group("m64n8k16", "f32", "tf32", "tf32", left=WIDE, selector=1),
    "e4m3": Group("m64n8k64", "f32", "e4m3", "e5m2", selector=0), "s8": Group("m64n8k64", "s32", "s8", "u8", left=None, selector=0),
}  # fmt: skip
WIDEST = {
    "f16": Group("m64n256k16", "f32", "f16", "f16", left=None, right=Place(64, False, 16, 512), signs=(-1, -1)),
    "into f16": Group("m64n200k16", "f16", "f16", "f16", Place(128, True, 2048, 1024), Place(64, True, 512, 8192, 4096)),
    "s8": Group("m64n240k32", "s32", "s8", "s8", left=None, right=Place(32, False, 16, 256)),
}  # fmt: skip
Case = tuple[str, str]
FORMS: dict[Case, Group] = {
    (family, name): group
    for family, forms in (("floats", FLOATS), ("integers", INTEGERS), ("sparse", SPARSE), ("widest", WIDEST))
    for name, group in forms.items()
}


def whole(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    """Patterns of whole numbers from -2 to 2; of integers, any."""
    if kind[0] in "sub" and kind != "bf16":
        return rng.integers(0, 1 << BITS[kind], shape, dtype=np.uint64)
    if kind in ("f16", "f32"):
        known = {x: pattern_of(float(x), kind) for x in range(-2, 3)}
    elif kind in ("bf16", "tf32"):
        known = {x: pattern_of(float(x), "f32") >> (32 - BITS[kind]) for x in range(-2, 3)}
    else:
        known = {int(value(p, kind)): p for p in range(255) if value(p, kind) in range(-2, 3)}
    return np.vectorize(known.__getitem__, otypes=[np.uint64])(rng.integers(-2, 3, shape))


def numbers(matrix: np.ndarray, kind: str) -> np.ndarray:
    """What patterns stand for."""
    return np.vectorize(lambda pattern: float(value(int(pattern), kind)), otypes=[np.float64])(matrix)


def drawn(group: Group, family: str, rng: np.random.Generator) -> Matrices:
    """A, B and C of a product; of a sparse A the held half."""
    _, n, k = sizes(group.shape)
    sides = (((64, k // (2 if group.selector is not None else 1)), group.a), ((k, n), group.b), ((64, n), group.d))
    a, b, c = (patterns(rng, s, t, "finite") if family == "floats" else whole(rng, s, t) for s, t in sides)
    return a, b, c


def expected(group: Group, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What whole numbers give, exactly."""
    sign = group.signs[0] * group.signs[1]
    wanted = sign * (numbers(a, group.a) @ numbers(b, group.b)) + numbers(c, group.d)
    return wanted if group.d != "s32" else (wanted.astype(np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)


def expanded(rng: np.random.Generator, group: Group, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The whole A, with the held elements at random places of their chunks, and the metadata of the 128 threads."""
    assert group.selector is not None
    columns, k = CHUNK.get(group.a, 4), 2 * held.shape[1]
    full, metadata = np.zeros((64, k), np.uint64), rng.integers(0, 1 << 32, 128, dtype=np.uint64)
    for row in range(64):
        for chunk in range(k // columns):
            mine = held[row, chunk * columns // 2 : (chunk + 1) * columns // 2]
            low, high = sorted(rng.choice(4, 2, replace=False))
            if group.a == "tf32":
                place = int(rng.integers(2))
                low, high = ((0, 1), (2, 3))[place]
                full[row, 2 * chunk + place] = mine[0]
            else:
                full[row, 4 * chunk + low], full[row, 4 * chunk + high] = mine
            lane, bit = _metadata_place(group.a, k // columns, group.selector, row % 16, chunk)
            thread = 32 * (row // 16) + lane
            metadata[thread] = (int(metadata[thread]) & ~(15 << bit)) | (low | high << 2) << bit
    return full, metadata.astype(np.uint32)


class Executed:
    """All forms, executed by one kernel at each level: what went in, and what came out."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.matrices = {case: drawn(group, case[0], rng) for case, group in FORMS.items()}
        sparse = {case: expanded(rng, g, self.matrices[case][0]) for case, g in FORMS.items() if g.selector is not None}
        metadata = [sparse[case][1] if case in sparse else np.zeros(128, np.uint32) for case in FORMS]
        given = list(FORMS.values()), list(self.matrices.values()), metadata
        self.found = {level: dict(zip(FORMS, products(*given, level), strict=True)) for level in ("ptx", "sass")}
        self.matrices |= {case: (full, *self.matrices[case][1:]) for case, (full, _) in sparse.items()}


@pytest.fixture(scope="module")
def executed() -> Executed:
    return Executed()


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_summed_as_on_sm_90_bit_by_bit(executed: Executed, name: str) -> None:
    group, (a, b, c) = FLOATS[name], executed.matrices["floats", name]
    c = c if group.use and group.scale != "0" else np.zeros_like(c)
    a = a ^ np.uint64((group.signs[0] != group.signs[1]) << (BITS[group.a] - 1))
    wanted = float_product(a, b, c, (group.a, group.b, group.d), group.d, "sm_90")
    np.testing.assert_array_equal(executed.found["ptx"]["floats", name], wanted)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_and_bits_equal_numpy(executed: Executed, name: str) -> None:
    group = INTEGERS[name]
    how = {"": "", ".satfinite": "satfinite", ".and.popc": "and"}[group.words]
    wanted = integer_product(*executed.matrices["integers", name], (group.a, group.b), how)
    np.testing.assert_array_equal(executed.found["ptx"]["integers", name], wanted)


@pytest.mark.parametrize("case", [case for case in FORMS if case[0] in ("sparse", "widest")], ids=" ".join)
def test_sparse_and_wide_products_equal_numpy(executed: Executed, case: Case) -> None:
    wanted = expected(FORMS[case], *executed.matrices[case])
    np.testing.assert_array_equal(numbers(executed.found["ptx"][case], FORMS[case].d), wanted)


@pytest.mark.parametrize("case", FORMS, ids=" ".join)
def test_machine_code_gives_the_same_bits(executed: Executed, case: Case) -> None:
    np.testing.assert_array_equal(executed.found["sass"][case], executed.found["ptx"][case])


K_MAJOR = [
    Place(0, False, 128, 256), Place(0, False, 1280, 128), Place(32, False, 16, 256), Place(64, False, 16, 512), WIDE,
    Place(128, False, 16, 1024, 32), Place(64, False, 16, 768, 32), Place(128, False, 16, 1024, 384, 3),
    Place(32, False, 16, 256, 128, 1),
]  # fmt: skip
ACROSS = [
    Place(0, True, 128, 256), Place(0, True, 1280, 128), Place(32, True, 512, 256), Place(64, True, 512, 2048), TURNED,
    Place(128, True, 2048, 1024, 128, 1),
]  # fmt: skip


@pytest.mark.parametrize("place", [*K_MAJOR, *ACROSS], ids=str)
def test_matrices_lie_in_shared_memory_as_their_descriptors_say(place: Place) -> None:
    right = replace(place if place in K_MAJOR else WIDE, start=place.start + BEHIND)
    group, rng = Group("m64n72k16", "f32", "f16", "f16", left=place, right=right), np.random.default_rng(2)
    given = drawn(group, "widest", rng)
    (found,) = products([group], [given], [np.zeros(128, np.uint32)])
    np.testing.assert_array_equal(numbers(found, "f32"), expected(group, *given))


def test_product_without_a_group_of_its_own_is_ended_by_an_empty_one() -> None:
    """The assembler makes a product without result of a `commit_group` that follows no product."""
    lines = "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    source = hopper(f"{lines} mov.u64 %q1, 7; st.global.u64 [%out], %q1;", target="sm_90a")
    out = np.zeros(128, np.uint64)
    warpsight.trace(source.ptx, "k", grid=1, block=128, args=[out, np.zeros(1)], gpu="h100-sxm", level="sass")
    assert out.tolist() == [7] * 128


def test_trace_has_the_product_as_a_tensor_instruction_without_access() -> None:
    body = f"{FORM} {D}, %q1, %q1, 0, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;"
    _, trace = run_traced(with_room(body), block=128)
    product = next(i for i in trace.instructions if "mma_async" in i.opcode)
    assert (product.op_class, product.access) == ("tensor", "")
    assert set(product.destinations) < set(product.sources)
    assert next(i for i in trace.instructions if "commit" in i.opcode).op_class == "control"


def with_room(body: str) -> KernelSource:
    """A kernel with 4096 bytes of shared memory, whose address is in %r1."""
    return hopper(f"mov.u32 %r1, room; {body}", declarations=".shared .align 128 .b8 room[4096];", target="sm_90a")


FORM = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
D, A = "{%f0, %f1, %f2, %f3}", "{%r0, %r1, %r2, %r3}"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"{FORM.replace('n8', 'n12')} {D}, %q1, %q1, 1, 1, 1, 0, 0", "shape .m64n12k16"),
        (f"{FORM.replace('k16', 'k8')} {D}, %q1, %q1, 1, 1, 1, 0, 0", "shape .m64n8k8"),
        (f"{FORM} {D}, %q1, %q1, 1, 2, 1, 0, 0", "2 is not one of 1 and -1"),
        (f"{FORM} {D}, %q1, %q1, 1, 1, 1, 0", "8 expected"),
        (f"{FORM} {D}, {A}, {A}, 1, 1, 1, 0", "matrix B"),
        (f"{FORM} {{%f0, %f1}}, {A}, %q1, 1, 1, 1, 0", "a fragment of 2 registers; 4 expected"),
        (f"{FORM.replace('f16.f16', 'f16.bf16')} {D}, {A}, %q1, 1, 1, 1, 0", "a product of .f16 and .bf16"),
        (f"{FORM.replace('f32.f16.f16', 's32.s8.s8').replace('n8k16', 'n40k32')} {A}, {A}, %q1, 1", "shape .m64n40k32"),
        ("wgmma.commit_group.sync.aligned 1", "0 expected"),
        ("wgmma.fence.sync", "needs .sync.aligned"),
        ("setmaxnreg.inc.sync.aligned.u32 100", "100 registers: a multiple of 8"),
        ("griddepcontrol.wait.all", "needs .wait or .launch_dependents"),
    ],
)
def test_form_that_ptx_does_not_have_is_refused(line: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        run(hopper(f"{line};", target="sm_90a"), block=128)


def test_group_of_three_warps_is_a_fault() -> None:
    source = with_room(f"{FORM} {D}, %q1, %q1, 1, 1, 1, 0, 0;")
    with pytest.raises(LaunchFault, match="only some of the 4 warps of a warp group") as caught:
        run(source, block=224)
    assert caught.value.details is not None and caught.value.details.thread == (128, 0, 0)


def test_matrix_past_the_end_of_shared_memory_is_a_fault() -> None:
    source = with_room(f"mov.u64 %q1, 0x0000004000080020; {FORM} {D}, %q1, %q1, 1, 1, 1, 0, 0;")
    with pytest.raises(LaunchFault, match="past the end of shared memory"):
        run(source, block=128)


@pytest.mark.parametrize(
    ("tool", "wait", "left_out", "kinds"),
    [("initcheck", "bar.sync 0;", 128, []), ("initcheck", "bar.sync 0;", 40, ["uninitialised"]),
     ("racecheck", "bar.sync 0;", 128, []), ("racecheck", "", 128, ["read-after-write"])],
)  # fmt: skip
def test_checks_see_what_a_product_reads(tool: str, wait: str, left_out: int, kinds: list[str]) -> None:
    """Each thread writes 32 bytes, a row of A and B; one may write only half of them."""
    body = f"""shl.b32 %r2, %i, 5; add.u32 %r1, %r1, %r2; mov.u32 %r2, 0; setp.ne.u32 %p1, %i, {left_out};
    st.shared.b64 [%r1], %in; st.shared.b64 [%r1 + 8], %in; st.shared.b64 [%r1 + 16], %in; @%p1 st.shared.b64 [%r1 + 24], %in;
    {wait}
    mov.u64 %q1, 0x0000001000080000; {FORM} {D}, %q1, %q1, 0, 1, 1, 0, 0;"""
    out = [np.zeros(128, np.uint64), np.zeros(1)]
    found = warpsight.check(with_room(body).ptx, "k", grid=1, block=128, args=out, tools=tool)
    assert sorted({finding.kind for finding in found}) == kinds


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_warps_of_a_group_wait_for_each_other_before_and_after_a_product(level: str) -> None:
    """Each warp writes rows of A and B that the others read, without a barrier, and overwrites them after the wait."""
    row = "%r1, %r1, %r1, %r1"
    body = f"""shl.b32 %r2, %i, 4; add.u32 %r2, %r2, %r1; bfe.u32 %r4, %r1, 4, 14; cvt.u64.u32 %q2, %r4;
    mov.u64 %q1, 0x0000001000800000; add.u64 %q1, %q1, %q2; mov.u32 %r3, 0;
again: mov.b32 %r1, 0x3c003c00; st.shared.v4.b32 [%r2], {{{row}}}; st.shared.v4.b32 [%r2 + 2048], {{{row}}};
    wgmma.fence.sync.aligned;
    {FORM} {D}, %q1, %q1, 0, 1, 1, 0, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    mov.b32 %r1, 0; st.shared.v4.b32 [%r2], {{{row}}}; st.shared.v4.b32 [%r2 + 2048], {{{row}}};
    add.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %f2; add.f32 %f0, %f0, %f3; mov.b32 %r5, %f0;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3; @%p1 bra again;
    cvt.u64.u32 %q1, %r5; st.global.u64 [%out], %q1;"""
    source, out = with_room(body), np.zeros(128, np.uint64)
    if level == "ptx":
        out = run(source, block=128)[:, 0]
    else:
        warpsight.trace(source.ptx, "k", grid=1, block=128, args=[out, np.zeros(1)], gpu="h100-sxm", level="sass")
    assert out.tolist() == [pattern_of(64.0, "f32")] * 128
    if level == "ptx":
        found = warpsight.check(source.ptx, "k", grid=1, block=128, args=[np.zeros(128, np.uint64), np.zeros(1)], tools="racecheck")
        assert not found
