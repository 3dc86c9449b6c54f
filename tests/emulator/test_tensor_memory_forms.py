"""Forms of `tcgen05` beside dense products: sparse A, `.ws`, copies that unpack, and loads that reduce."""

from __future__ import annotations

import numpy as np
import pytest
from test_tensor_memory import BEHIND, WAIT, Product, multiplied, run, stored
from test_warp_group_products import numbers, whole
from warp_group import Place

pytestmark = pytest.mark.unit

# -- Sparse A, and `.ws`. Matrices hold small whole numbers, whose sums are exact in any order.

DEEP = Place(stride=512, leading=128, start=BEHIND)
SPARSE = {
    "f16": Product("f16", "f16", "f16", right=DEEP, adds=False, form=4, variant=".sp"),
    "tf32": Product("tf32", "tf32", "tf32", right=DEEP, adds=False, form=4, variant=".sp"),
    "i8": Product("i8", "s8", "u8", "s32", right=DEEP, adds=False, form=4, variant=".sp"),
}


@pytest.mark.parametrize("name", SPARSE)
def test_metadata_name_the_elements_that_sparse_a_has(name: str) -> None:
    """Two of four, by two bits each, or of tf32 one of two, by four; where the bits of a row lie, CUTLASS's `tmem_e_frg` says."""
    product, rng = SPARSE[name], np.random.default_rng(5)
    rows, depth = 128, product.depth
    a, b = (whole(rng, shape, kind) for shape, kind in (((rows, depth), product.a), ((2 * depth, 16), product.b)))
    if name == "tf32":
        places = 2 * np.arange(depth) + rng.integers(0, 2, (rows, depth))
        bits = np.where(places % 2, 0b1110, 0b0100)[..., None] >> np.arange(4) & 1
    else:
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])[rng.integers(0, 6, (rows, depth // 2))]
        places = (4 * np.arange(depth // 2)[:, None] + pairs).reshape(rows, depth)
        bits = (places % 4)[..., None] >> np.arange(2) & 1
    bits = bits.reshape(rows, -1).astype(np.uint32)  # in the order of the elements
    metadata = np.zeros((128, 2), np.uint32)
    for row, bit in np.ndindex(bits.shape):
        if bits.shape[1] == 64:
            metadata[row, bit // 32] |= bits[row, bit] << np.uint32(bit % 32)
        else:
            lane = row // 16 * 16 + row % 8 + 8 * (bit // 16)
            metadata[lane, 0] |= bits[row, bit] << np.uint32(16 * (row // 8 % 2) + bit % 16)
    full = np.zeros((rows, 2 * depth))
    np.put_along_axis(full, places, numbers(a, product.a), axis=1)
    found = multiplied(product, a, b, np.zeros((rows, 16), np.uint64), metadata=metadata)
    found = found.view(np.int32 if name == "i8" else np.float32)
    np.testing.assert_array_equal(found, full @ numbers(b, product.b))


@pytest.mark.parametrize("rows", [32, 64])
def test_parts_of_the_columns_follow_each_other_down_the_lanes_of_a_weight_stationary_product(rows: int) -> None:
    product, rng = Product("f16", "f16", "f16", rows=rows, columns=64, adds=False, variant=".ws"), np.random.default_rng(rows)
    a, b = whole(rng, (rows, 16), "f16"), whole(rng, (16, 64), "f16")
    found = multiplied(product, a, b, np.zeros((rows, 64), np.uint64)).view(np.float32)
    part = 64 * rows // 128
    joined = np.concatenate([found[first : first + rows, :part] for first in range(0, 128, rows)], axis=1)
    np.testing.assert_array_equal(joined, numbers(a, "f16") @ numbers(b, "f16"))


# -- Copies and loads.


def test_copies_unpack_elements_of_6_and_4_bits_to_bytes() -> None:
    """16 elements, then 32 or 64 bits that are skipped; the layout in shared memory is that of a copy as it is."""
    rng = np.random.default_rng(2)
    small = rng.integers(0, 64, (2, 128, 16), np.uint64)
    small[1] &= 15
    image = rng.integers(0, 256, (2, 128, 16)).astype(np.uint8)  # in gaps there is anything
    for k, bits in enumerate((6, 4)):
        for row in range(128):
            joined = sum(int(p) << bits * n for n, p in enumerate(small[k, row]))
            image[k, row, : 2 * bits] = np.frombuffer(joined.to_bytes(2 * bits, "little"), np.uint8)
    copies = [
        f"mov.u64 %b, {2048 * k >> 4 | 8 << 16 | 8 << 32 | 1 << 46:#x}; add.u64 %b, %b, %q1; add.u32 %r9, %base, {4 * k};"
        f"@%one tcgen05.cp.cta_group::1.128x128b.b8x16.{source} [%r9], %b;"
        for k, source in enumerate(("b6x16_p32", "b4x16_p64"))
    ]
    body = "mov.u32 %r10, memory; bfe.u32 %r10, %r10, 4, 14; cvt.u64.u32 %q1, %r10;" + "\n".join([*copies, WAIT, stored(8)])
    found = run(body, image, 8).view(np.uint8).reshape(128, 2, 16).transpose(1, 0, 2)
    np.testing.assert_array_equal(found, small)


def test_a_load_reduces_what_each_lane_has_loaded() -> None:
    values = np.array([3.0, -5.0, np.nan, 4.0], np.float32).view(np.uint32)
    columns = "{%d0, %d1, %d2, %d3}"
    body = "".join(f"mov.b32 %d{k}, {word:#x};" for k, word in enumerate(values)) + f"""add.u32 %r9, %base, %r7;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r9], {columns}; tcgen05.wait::st.sync.aligned;
    tcgen05.ld.red.sync.aligned.32x32b.x4.min.f32 {columns}, %d4, [%r9];
    tcgen05.ld.red.sync.aligned.32x32b.x4.max.abs.f32 {columns}, %d5, [%r9];
    tcgen05.ld.red.sync.aligned.32x32b.x4.max.NaN.f32 {columns}, %d6, [%r9];
    tcgen05.ld.red.sync.aligned.32x32b.x4.u32.min {columns}, %d7, [%r9]; mad.wide.u32 %q5, %i, 32, %sums;
""" + "\n".join(f"st.global.b32 [%q5 + {4 * k}], %d{k};" for k in range(8))  # fmt: skip
    found = run(body, np.zeros(1, np.uint8), 8)
    assert (found[:, :4] == values).all()
    assert (found[:, 4:6].view(np.float32) == [-5, 5]).all() and np.isnan(found[:, 6].view(np.float32)).all()
    assert (found[:, 7] == values.min()).all()


# -- Shifts. CUTLASS (`python/CuTeDSL`, `tcgen05_mma`): shifted[r] = A[r + 1], but for r % 32 = 31, which stays.


def shifted(rows: np.ndarray) -> np.ndarray:
    after = np.roll(rows, -1, axis=0)
    after[31::32] = rows[31::32]
    return after


def test_a_shift_moves_eight_columns_of_one_quarter_of_the_lanes() -> None:
    values = 1000 * np.arange(128)[:, None] + np.arange(16)
    filled = "".join(f"mad.lo.u32 %d{k}, %i, 1000, {k};" for k in range(16)) + "add.u32 %r9, %base, %r7;"
    names = ", ".join(f"%d{k}" for k in range(16))
    body = f"""{filled} tcgen05.st.sync.aligned.32x32b.x16.b32 [%r9], {{{names}}}; tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync; bar.sync 0; add.u32 %r9, %base, {0x200000 + 4};
    @%one tcgen05.shift.cta_group::1.down [%r9];
{WAIT} {stored(16)}"""
    expected = values.copy()
    expected[32:64, 4:12] = shifted(values[32:64, 4:12])
    np.testing.assert_array_equal(run(body, np.zeros(1, np.uint8), 16), expected)


def test_a_product_with_ashift_reads_a_as_it_was_and_shifts_it_for_the_next_one() -> None:
    """The second product adds to the first: A + A shifted."""
    product, rng = Product("f16", "f16", "f16", left=None, adds=False), np.random.default_rng(8)
    a, b = whole(rng, (128, 16), "f16"), whole(rng, (16, 16), "f16")

    class Twice(Product):
        def text(self) -> str:
            once = super().text()
            again = "setp.eq.u32 %p, 1, 1;\n" + next(line for line in once.splitlines() if "tcgen05.mma" in line)
            return once.replace("kind::f16", "kind::f16.ashift") + "\n" + again

    found = multiplied(Twice(**vars(product)), a, b, np.zeros((128, 16), np.uint64)).view(np.float32)
    left = numbers(a, "f16")
    np.testing.assert_array_equal(found, (left + shifted(left)) @ numbers(b, "f16"))
