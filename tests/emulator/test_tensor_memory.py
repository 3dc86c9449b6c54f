"""`tcgen05`: tensor memory and products with it, against NumPy and the scalar definition of a sum.

Layouts of matrices in shared memory are those of `warp_group.Place`, with the descriptor of sm_100.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from emulator_launch import launch
from matrix_reference import BITS, float_product, integer_product, pattern_of, value
from test_matrix_mma import patterns
from test_matrix_scaled import _grouped
from test_warp_group_products import numbers, whole
from warp_group import Place

import warpsight
from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.isa.matrix_products import matrix_product
from warpsight.kernels.sources import load_source
from warpsight.traces.events import EventReader
from warpsight.traces.schema import BARRIER_RECORD

pytestmark = pytest.mark.unit

SHARED, BEHIND, SCALES = 100 * 1024, 32 * 1024, 56 * 1024
MODES = {0: 0, 32: 6, 64: 4, 128: 2}


def kernel(body: str, *, target: str = "sm_100a") -> str:
    """Four warps that copy `image` into shared memory, allocate 512 columns, and run `body` with %base, the first of them."""
    return f""".version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 sums)
{{
    .reg .b64 %image, %sums, %q<8>; .reg .b32 %i, %r<32>, %base, %d<256>; .reg .pred %p, %one; .reg .b64 %a, %b;
    .shared .align 1024 .b8 memory[{SHARED}]; .shared .b32 where; .shared .align 8 .b64 done;
    ld.param.u64 %image, [image]; ld.param.u64 %sums, [sums];
    mov.u32 %i, %tid.x; setp.eq.u32 %one, %i, 0; shr.u32 %r8, %i, 5; mul.lo.u32 %r7, %r8, 0x200000;
    @%one mbarrier.init.shared.b64 [done], 1;
    mul.wide.u32 %q0, %i, 4; add.u64 %image, %image, %q0;
    mov.u32 %r2, memory; mad.lo.u32 %r2, %i, 4, %r2; mov.u32 %r4, {SHARED // 512};
again: .pragma "nounroll";
    ld.global.b32 %r5, [%image]; st.shared.b32 [%r2], %r5; add.u64 %image, %image, 512; add.u32 %r2, %r2, 512;
    sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra again;
    setp.ne.u32 %p, %r8, 0; @%p bra allocated;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 512;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
allocated:
    fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    ld.shared.b32 %base, [where]; setp.eq.u32 %one, %i, 0;
{body}
    bar.sync 0;
    setp.ne.u32 %p, %r8, 0; @%p bra ended;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 512;
ended:
    ret;
}}
"""


def run(body: str, image: np.ndarray, words: int) -> np.ndarray:
    """u32 [128, words] that the threads wrote to %sums."""
    memory, sums = np.zeros(SHARED, np.uint8), np.zeros((128, words), np.uint32)
    memory[: image.nbytes] = image.reshape(-1).view(np.uint8)
    launch(load_source(kernel(body), name="tensor.ptx"), "k", 1, 128, [memory, sums])
    return sums


WAIT = """
    @%one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
wait: mbarrier.try_wait.parity.shared.b64 %p, [done], 0; @!%p bra wait;
    tcgen05.fence::after_thread_sync;"""


def stored(count: int) -> str:
    """Each thread writes `count` columns of its lane from %base on, eight at a time."""
    lines = [f"mad.wide.u32 %q5, %i, {4 * count}, %sums; add.u32 %r9, %base, %r7;"]
    for start in range(0, count, 8):
        names = [f"%d{k}" for k in range(start, start + 8)]
        lines.append(f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{', '.join(names)}}}, [%r9 + {start}];")
    lines.append("tcgen05.wait::ld.sync.aligned;")
    return "\n".join(lines + [f"st.global.b32 [%q5 + {4 * k}], %d{k};" for k in range(count)])


# -- Loads and stores. The tensor memory holds 1,000 x lane + column.

SHAPES = {"32x32b": (32, 1), "16x64b": (16, 1), "16x128b": (16, 2), "16x256b": (16, 4), "16x32bx2": (16, 1)}


def place(shape: str, lane: int, register: int) -> tuple[int, int]:
    """Row and column by the figures of the PTX ISA, as CUTLASS's layouts give the bit of a value."""
    if shape == "32x32b":
        return lane, register
    if shape == "16x64b":
        return lane % 2 * 8 + lane // 4, lane // 2 % 2 + 2 * register
    if shape == "16x128b":
        return lane // 4 + 8 * (register % 2), lane % 4 + 4 * (register // 2)
    if shape == "16x256b":
        return lane // 4 + 8 * (register // 2 % 2), lane % 4 * 2 + register % 2 + 8 * (register // 4)
    return lane % 16, register + 32 * (lane // 16)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_load_finds_what_stores_of_whole_lanes_have_written(shape: str) -> None:
    rows, each = SHAPES[shape]
    count = 8 * each
    names = ", ".join(f"%d{k}" for k in range(count))
    split = ", 32" if shape == "16x32bx2" else ""
    half = 0 if rows == 32 else 16
    fill = "\n".join(f"mad.lo.u32 %d{k}, %i, 1000, {k};" for k in range(64))
    body = f"""{fill}
    add.u32 %r9, %base, %r7;
    tcgen05.st.sync.aligned.32x32b.x64.b32 [%r9], {{{", ".join(f"%d{k}" for k in range(64))}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.{shape}.x8.b32 {{{names}}}, [%r9 + {half << 16}]{split};
    tcgen05.wait::ld.sync.aligned; mad.wide.u32 %q5, %i, {4 * count}, %sums;
""" + "\n".join(f"st.global.b32 [%q5 + {4 * k}], %d{k};" for k in range(count))
    found = run(body, np.zeros(1, np.uint8), count)
    for thread in range(128):
        for k in range(count):
            row, column = place(shape, thread % 32, k)
            assert found[thread, k] == 1000 * (thread // 32 * 32 + half + row) + column


def test_packed_halves_fill_two_columns() -> None:
    body = """mov.b32 %d0, 0x11112222; mov.b32 %d1, 0x33334444; add.u32 %r9, %base, %r7;
    tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r9 + 4], {%d0, %d1}; tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.pack::16b.b32 {%d8}, [%r9 + 5];
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%d4, %d5, %d6, %d7}, [%r9 + 4]; mad.wide.u32 %q5, %i, 20, %sums;
""" + "\n".join(f"st.global.b32 [%q5 + {4 * k}], %d{k + 4};" for k in range(5))
    found = run(body, np.zeros(1, np.uint8), 5)
    assert (found == [0x2222, 0x1111, 0x4444, 0x3333, 0x44441111]).all()


# -- Products.


LEFT, RIGHT = Place(stride=256, leading=128), Place(stride=256, leading=128, start=BEHIND)


@dataclass(frozen=True)
class Product:
    """One product: its kind, types and shape, and how A and B lie."""

    kind: str
    a: str
    b: str
    d: str = "f32"
    rows: int = 128
    columns: int = 16
    left: Place | None = LEFT  # None: in tensor memory
    right: Place = RIGHT
    negative: tuple[bool, bool] = (False, False)
    adds: bool = True
    halvings: int = 0
    words: str = ""
    form: int = 0  # further bits of the descriptor
    variant: str = ""  # .ws or .sp, whose metadata are in columns 40 and 41

    @property
    def depth(self) -> int:
        return {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(self.kind, 32)

    def descriptor(self) -> int:
        """The instruction descriptor."""
        types = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5,
                 "e2m1x2": 1}  # fmt: skip
        scaled = self.kind.startswith("mx")
        sums = 0 if scaled else {"f16": 0, "f32": 1, "s32": 2}[self.d] << 4
        majors = (self.left is not None and self.left.across) << 15 | self.right.across << 16
        negative = self.negative[0] << 13 | self.negative[1] << 14
        shape = self.columns // 8 << 17 | self.rows // 16 << 24
        return sums | types[self.a] << 7 | types[self.b] << 10 | negative | majors | shape | self.form

    def text(self) -> str:
        """The instruction, and what sets its operands."""
        left = "[%r12]" if self.left is None else "%a"
        scale = f", {self.halvings}" if self.halvings else ""
        more = ", [%r13], [%r14]" if self.kind.startswith("mx") else ""
        sparse = ", [%r16]" if self.variant == ".sp" else ""
        image = "mov.u32 %r10, memory; bfe.u32 %r10, %r10, 4, 14; cvt.u64.u32 %q1, %r10;"
        lines = [image, "mov.u32 %r11, " + f"{self.descriptor():#x};", "add.u32 %r12, %base, 300; add.u32 %r13, %base, 320;",
                 f"add.u32 %r14, %base, 340; add.u32 %r16, %base, 40; setp.eq.u32 %p, 1, {int(self.adds)};"]  # fmt: skip
        for name, side in (("%a", self.left), ("%b", self.right)):
            if side is not None:
                fields = side.start >> 4 | side.leading >> 4 << 16 | side.stride >> 4 << 32
                fields |= 1 << 46 | side.base << 49 | MODES[side.swizzle] << 61
                lines.append(f"mov.u64 {name}, {fields:#x}; add.u64 {name}, {name}, %q1;")
        operands = f"[%base], {left}, %b{sparse}, %r11{more}, %p{scale}"
        lines.append(f"@%one tcgen05.mma{self.variant}.cta_group::1.kind::{self.kind}{self.words} {operands};")
        return "\n".join(lines)


def lane_of(row: int, rows: int) -> int:
    return row if rows == 128 else row // 16 * 32 + row % 16


def packed(matrix: np.ndarray, bits: int) -> np.ndarray:
    """Rows of patterns as u32 columns."""
    each = 32 // bits
    parts = matrix.reshape(len(matrix), -1, each).astype(np.uint64) << (np.arange(each, dtype=np.uint64) * np.uint64(bits))
    return parts.sum(2).astype(np.uint32)


def fill(image: np.ndarray, where: Place, matrix: np.ndarray, kind: str) -> None:
    """Into shared memory; elements of 6 and 4 bits as tensor copies put them: 16 to a piece, and a gap."""
    if kind not in ("e2m1", "e2m3", "e3m2"):
        where.fill(image, matrix, kind)
        return
    bits = 4 if kind == "e2m1" else 6
    lines = matrix.T if where.across else matrix
    for line, start in np.ndindex(len(lines), -(-lines.shape[1] // 16)):
        piece = lines[line, 16 * start : 16 * start + 16]
        joined = sum((int(p) >> 2 & 15 if bits == 4 else int(p) & 63) << bits * k for k, p in enumerate(piece))
        byte, _ = where.byte(*((16 * start, line) if where.across else (line, 16 * start)), 8)
        image[byte : byte + 16] = np.frombuffer(joined.to_bytes(16, "little"), np.uint8)


def multiplied(
    product: Product, a: np.ndarray, b: np.ndarray, c: np.ndarray, scales: np.ndarray | None = None,
    metadata: np.ndarray | None = None,
) -> np.ndarray:
    """D [rows, columns] as patterns, of A [rows, depth], B [depth, columns] and C; `scales` are those of A, then of B.

    `metadata` u32 [128, 2] of sparse A. Of `.ws` all lanes.
    """
    image = np.zeros(SHARED, np.uint8)
    lanes = [lane_of(row, product.rows) for row in range(product.rows)]
    before = np.zeros((128, 256), np.uint32)
    before[lanes, : product.columns] = c
    if metadata is not None:
        before[:, 40:42] = metadata
    fill(image, product.right, b.T, product.b)
    if product.left is None:
        inside = packed(a, BITS[product.a])
        before[lanes, 200 : 200 + inside.shape[1]] = inside
    else:
        fill(image, product.left, a, product.a)
    image[64 * 1024 :].view(np.uint32)[: 128 * 72].reshape(128, 72)[:, :64] = before[:, np.r_[0:48, 200:216]]
    load = ["mov.u32 %r15, memory; mad.lo.u32 %r15, %i, 288, %r15; add.u32 %r15, %r15, 65536; add.u32 %r9, %base, %r7;"]
    load += [f"ld.shared.b32 %d{k}, [%r15 + {4 * k}];" for k in range(64)]
    for first, count, target in ((0, 16, 0), (16, 16, 16), (32, 16, 32), (48, 16, 300)):
        names = ", ".join(f"%d{k}" for k in range(first, first + count))
        load.append(f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%r9 + {target}], {{{names}}};")
    load.append("tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;")
    if scales is not None:
        image[SCALES : SCALES + scales.size] = scales
        load.append("mov.u32 %r10, memory; bfe.u32 %r10, %r10, 4, 14; cvt.u64.u32 %q1, %r10;")
        for side, target in enumerate((320, 340)):
            start = (SCALES + 512 * side) >> 4
            load += [f"mov.u64 %a, {start | 8 << 16 | 8 << 32 | 1 << 46:#x}; add.u64 %a, %a, %q1; add.u32 %r16, %base, {target};",
                     "@%one tcgen05.cp.cta_group::1.32x128b.warpx4 [%r16], %a;"]  # fmt: skip
    found = run("\n".join([*load, product.text(), WAIT, stored(product.columns)]), image, product.columns)
    return found if product.variant == ".ws" else found[lanes]


WIDE = Place(128, stride=1024)
PRODUCTS = {
    "f16": Product("f16", "f16", "f16"),
    "f16 into f16": Product("f16", "f16", "f16", "f16", left=WIDE, right=Place(64, stride=512, start=BEHIND)),
    "bf16, 64 rows": Product("f16", "bf16", "bf16", rows=64, columns=24, negative=(True, False)),
    "f16 transposed": Product("f16", "f16", "f16", columns=48, left=Place(128, True, 2048, 1024),
                             right=Place(64, True, 512, 1024, BEHIND)),
    "f16 inside": Product("f16", "f16", "f16", left=None, halvings=3),
    "no sum before": Product("f16", "f16", "f16", rows=64, columns=8, adds=False),
    "tf32": Product("tf32", "tf32", "tf32", columns=32, left=Place(32, stride=256)),
    "e4m3": Product("f8f6f4", "e4m3", "e5m2", columns=32, left=WIDE),
    "e3m2 and e2m1": Product("f8f6f4", "e3m2", "e2m1", columns=32),
    "e3m2 and e2m1 transposed": Product("f8f6f4", "e3m2", "e2m1", columns=32, left=Place(128, True, 2048, 1024),
                                       right=Place(128, True, 2048, 1024, BEHIND)),
    "e2m3 and e4m3": Product("f8f6f4", "e2m3", "e4m3", columns=8, rows=64, left=WIDE),
    "e5m2 into f16": Product("f8f6f4", "e5m2", "e4m3", "f16", rows=64, right=Place(128, True, 2048, 1024, BEHIND)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_summed_as_measured(name: str) -> None:
    product = PRODUCTS[name]
    rng = np.random.default_rng(sorted(PRODUCTS).index(name))
    shapes = (((product.rows, product.depth), product.a), ((product.depth, product.columns), product.b))
    a, b = (patterns(rng, shape, kind, "finite") for shape, kind in shapes)
    c = patterns(rng, (product.rows, product.columns), product.d, "finite")
    found = multiplied(product, a, b, c)
    rows, columns = rng.choice(product.rows, 6, replace=False), rng.choice(product.columns, 6, replace=False)
    sign = np.uint64((product.negative[0] != product.negative[1]) << BITS[product.a] - 1)
    before = c[np.ix_(rows, columns)] if product.adds else np.zeros((6, 6), np.uint64)
    if product.halvings:
        before = np.vectorize(lambda p: pattern_of(value(int(p), "f32") / 2**product.halvings, "f32"), otypes=[np.uint64])(before)
    wanted = float_product(a[rows] ^ sign, b[:, columns], before, (product.a, product.b, product.d), product.d, "sm_120")
    np.testing.assert_array_equal(found[np.ix_(rows, columns)], wanted)


SCALED = {
    "mxf8f6f4": Product("mxf8f6f4", "e4m3", "e5m2", words=".block_scale", form=1 << 23 | 2 << 29 | 1 << 4),
    "mxf8f6f4, B across in 4 bits": Product("mxf8f6f4", "e5m2", "e2m1", words=".block_scale", form=1 << 23 | 2 << 29 | 1 << 4,
                                           columns=32, left=WIDE, right=Place(128, True, 2048, 1024, BEHIND)),
    "mxf4": Product("mxf4", "e2m1x2", "e2m1x2", words=".block_scale.scale_vec::2X", form=1 << 23 | 2 << 29),
    "mxf4nvf4": Product("mxf4nvf4", "e2m1x2", "e2m1x2", words=".block_scale.scale_vec::4X", columns=32),
}


@pytest.mark.parametrize("name", SCALED)
def test_scales_lie_in_tensor_memory_where_a_copy_has_put_them(name: str) -> None:
    """Row r of 128 bytes x 4: four bytes for each of the rows r, r + 32, r + 64, r + 96."""
    product, rng = SCALED[name], np.random.default_rng(3)
    parts = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[product.kind]
    kind = "ue4m3" if product.kind == "mxf4nvf4" else "ue8m0"
    sides = (((128, product.depth), product.a), ((product.depth, product.columns), product.b))
    a, b = (patterns(rng, shape, of, "finite") for shape, of in sides)
    c = patterns(rng, (128, product.columns), "f32", "finite")
    scales = rng.integers(*((120, 134) if kind == "ue8m0" else (0, 127)), (2, 128, 4)).astype(np.uint8)
    image = np.concatenate([side.reshape(4, 32, 4).transpose(1, 0, 2).reshape(-1) for side in scales])
    found = multiplied(product, a, b, c, image)
    first = [product.form >> 29 & 3, product.form >> 4 & 3]
    number = np.vectorize(lambda p: value(int(p), "e4m3") if kind == "ue4m3" else 2.0 ** (int(p) - 127), otypes=[np.float64])
    numbers = number(scales)
    rows, columns = rng.choice(128, 5, replace=False), rng.choice(product.columns, 5, replace=False)
    for row, column in zip(rows, columns, strict=True):
        left, right = (numbers[side, place, first[side] : first[side] + parts] for side, place in ((0, row), (1, column)))
        wanted = _scaled_sum(product, a[row], b[:, column], int(c[row, column]), left, right)
        assert int(found[row, column]) == wanted


def _scaled_sum(product: Product, a: np.ndarray, b: np.ndarray, before: int, left: np.ndarray, right: np.ndarray) -> int:
    """One element of D, by the definitions for `mma`."""
    if product.kind == "mxf8f6f4":
        one = np.array([[before]], np.uint64)
        kinds = (product.a, product.b, "f32")
        return int(float_product(a[None], b[:, None], one, kinds, "f32", "sm_120", (left, right))[0, 0])
    return int(_grouped(a[None], b[:, None], np.array([[before]], np.uint64), (left[None], right[None]))[0, 0])


def test_products_of_integers_wrap_or_saturate() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 256, (128, 32), np.uint64), rng.integers(0, 256, (32, 16), np.uint64)
    c = rng.integers(0, 1 << 32, (128, 16), np.uint64)
    for saturates in (False, True):
        product = Product("i8", "s8", "u8", "s32", form=saturates << 3)
        wanted = integer_product(a, b, c, ("s8", "u8"), "satfinite" if saturates else "")
        np.testing.assert_array_equal(multiplied(product, a, b, c), wanted)


# -- Pairs of blocks: each has half of the rows of A and D, and half of the columns of B.


@pytest.mark.parametrize(("rows", "level"), [(128, "ptx"), (256, "sass")])
def test_a_pair_of_blocks_makes_one_product(rows: int, level: str) -> None:
    """Matrices hold small whole numbers, whose sums are exact in any order."""
    rng, columns, half = np.random.default_rng(rows), 32, rows // 2
    a, b = (whole(rng, shape, "f16") for shape in ((rows, 16), (16, columns)))
    images = np.zeros((2, SHARED), np.uint8)
    for block, image in enumerate(images):
        LEFT.fill(image, a[block * half : (block + 1) * half], "f16")
        RIGHT.fill(image, b[:, block * columns // 2 : (block + 1) * columns // 2].T, "f16")
    product = Product("f16", "f16", "f16", rows=rows, columns=columns, adds=False)
    body = "\n".join([product.text(), WAIT, stored(columns)]).replace("@%one tcgen05", "@%first tcgen05").replace(
        "arrive::one.shared::cluster.b64 [done];", "arrive::one.shared::cluster.multicast::cluster.b64 [done], %both;")
    started = ".reg .pred %first; .reg .b16 %both; .reg .b32 %k; mov.b16 %both, 3; mov.u32 %k, %cluster_ctarank;"
    body = f"or.b32 %k, %k, %i; setp.eq.u32 %first, %k, 0;\n{body}"
    text = kernel(body).replace(".reg .b64 %image", f"{started} .reg .b64 %image")
    # Each block has its own image and results, and waits for the other one.
    text = text.replace("mul.wide.u32 %q0, %i, 4;", f"mul.wide.u32 %q0, %k, {SHARED}; add.u64 %image, %image, %q0;"
                        f"mul.wide.u32 %q0, %k, {512 * columns}; add.u64 %sums, %sums, %q0; mul.wide.u32 %q0, %i, 4;")
    text = text.replace("bar.sync 0;", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    text = text.replace("cta_group::1", "cta_group::2")
    sums = np.zeros((2, 128, columns), np.uint32)
    warpsight.trace(text, "k", grid=2, block=128, cluster=2, args=[images, sums], gpu="b200", level=level)
    found = sums.view(np.float32).astype(np.float64)
    if rows == 128:  # the second half of the columns is in lanes 64 to 127
        found = np.concatenate([found[:, :64, : columns // 2], found[:, 64:, : columns // 2]], axis=2)
    np.testing.assert_array_equal(found.reshape(rows, columns), numbers(a, "f16") @ numbers(b, "f16"))


# -- What is wrong, and what is not modelled.


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("add.u32 %r9, %base, 0x100000; @%one tcgen05.shift.cta_group::1.down [%r9];", "tensor memory"),
        ("mov.u64 %b, 0; mov.u32 %r9, 0x4040010; setp.eq.u32 %p, 0, 0;\n"
         "@%one tcgen05.mma.cta_group::1.kind::f16.ashift [%base], [%base], %b, %r9, %p;", "descriptor 0x04040010"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%base];", "lanes that its warp reaches"),
        ("add.u32 %r9, %base, %r7; tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0, %d1}, [%r9 + 511];", "tensor memory"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 32;", "columns 32"),
        ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 48;", "tensor memory"),
        ("mov.u64 %a, 0; mov.u32 %r9, 0x8040010; setp.eq.u32 %p, 0, 0;\n"
         "@%one tcgen05.mma.cta_group::1.kind::tf32 [%base], %a, %a, %r9, %p;", "descriptor 0x08040010"),
        ("mov.u64 %a, 0; mov.u32 %r9, 0x8850480; setp.eq.u32 %p, 0, 0;\n"
         "@%one tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%base], %a, %a, %r9, [%base], [%base], %p;",
         "descriptor 0x08850480"),
        ("mov.u64 %a, 0x3fff; mov.u32 %r9, 0x8040010; setp.eq.u32 %p, 0, 0;\n"
         "@%one tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %a, %r9, %p;", "shared memory"),
    ],
)  # fmt: skip
def test_what_hardware_does_not_have_stops_the_launch(body: str, said: str) -> None:
    with pytest.raises(LaunchFault, match=said):
        run(body, np.zeros(1, np.uint8), 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tcgen05.mma.cta_group::2.kind::f16 [%base], %a, %b, %r9, %p;", "need a launch in clusters"),
        ("tcgen05.mma.ws.cta_group::1.kind::f16 [%base], %a, %b, %r9, %p, %a;", "mask of zero columns"),
        ("tcgen05.mma.sp.cta_group::1.kind::mxf4.block_scale [%base], %a, %b, [%r8], %r9, [%r8], [%r8], %p;", "with scales"),
        ("tcgen05.mma.ws.cta_group::1.kind::f16.ashift [%base], [%r9], %b, %r9, %p;", "neither with .ws"),
        ("tcgen05.cp.cta_group::1.64x128b [%base], %a;", "shape .64x128b"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1}, [%base];", "1 registers; 2 expected"),
    ],
)
def test_forms_that_are_not_modelled_are_refused(text: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        run(text, np.zeros(1, np.uint8), 1)


# -- Time.


def test_the_shape_of_a_product_is_in_the_trace_and_gives_its_time() -> None:
    product = PRODUCTS["f16"]
    memory, sums = np.zeros(SHARED, np.uint8), np.zeros((128, 16), np.uint32)
    trace = launch(load_source(kernel(product.text() + WAIT), name="tensor.ptx"), "k", 1, 128, [memory, sums])
    (row,) = (row for row in trace.instructions if row.opcode.startswith("tcgen05.mma"))
    assert row.opcode.endswith(".kind::f16.m128n16k16")
    assert row.product == ("tensor_group", 128 * 16 * 16 / 2048 / 4), "a quarter on each of four tensor cores"
    with pytest.raises(UnsupportedError, match="several shapes"):
        matrix_product("tcgen05.mma.cta_group::1.kind::f16")
    (chunk,) = trace.chunks
    events = EventReader(trace).read(chunk)
    commits = [k for k, pc in enumerate(events.pc.tolist()) if trace.instructions[pc].opcode.startswith("tcgen05.commit")]
    end = int(events.byte[commits[0]]) + trace.instructions[int(events.pc[commits[0]])].event_bytes
    record = np.frombuffer(chunk.events[end - BARRIER_RECORD.itemsize : end].tobytes(), BARRIER_RECORD)[0]
    assert [int(record[name]) for name in ("amount", "bytes", "expected", "blocks")] == [1, 0, 1, 0]
