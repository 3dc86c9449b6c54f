"""`tcgen05` as machine code: one kernel with all its forms leaves the same bits at both levels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_tensor_memory import SCALED, SCALES, SHARED, WAIT, WIDE, Product, kernel

import warpsight
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

INSIDE = 300  # the column of A where it is in tensor memory
PRODUCTS = {
    "UTCHMMA": Product("f16", "f16", "f16", left=WIDE),
    "UTCHMMA, its lower half disabled": Product("f16", "bf16", "bf16", left=None, halvings=3),
    "UTCHMMA.TF32": Product("tf32", "tf32", "tf32", rows=64),
    "UTCIMMA": Product("i8", "s8", "u8", "s32", form=1 << 3),
    "UTCQMMA": Product("f8f6f4", "e4m3", "e5m2", left=WIDE),
    "UTCQMMA with scales": SCALED["mxf8f6f4"],
    "UTCHMMA of a sparse A": Product("f16", "f16", "f16", form=1 << 2, variant=".sp"),
    "UTCQMMA.WS": Product("f8f6f4", "e5m2", "e4m3", rows=32, columns=64, variant=".ws"),
    "UTCHMMA.ASHIFT": Product("f16", "f16", "f16", left=None),
    "UTCOMMA": SCALED["mxf4"],
    "UTCOMMA.4X": replace(SCALED["mxf4nvf4"], columns=16),
}
COPIES = {
    "32x128b.warpx4": 320, "64x128b.warpx2::02_13": 360, "64x128b.warpx2::01_23": 364, "128x128b": 368, "4x256b": 372,
    "128x256b": 380, "128x128b.b8x16.b6x16_p32": 390, "32x128b.warpx4.b8x16.b4x16_p64": 394,
}  # fmt: skip
LOADS = {
    "16x64b.x2": (2, 360), "16x128b.x1.pack::16b": (2, 364), "16x256b.x1": (4, 372), "16x32bx2.x2": (2, 384), "32x32b.x2": (2, 354),
    "32x32b.x8": (8, 390),
}  # fmt: skip
COLUMNS = 16 * len(PRODUCTS)
WORDS = COLUMNS + sum(count for count, _ in LOADS.values())


def names(first: int, count: int) -> str:
    return "{" + ", ".join(f"%d{k}" for k in range(first, first + count)) + "}"


def body() -> str:
    """Stores and copies into tensor memory, a product of each kind into 16 columns of their own, and loads of what came out."""
    lines = ["mov.u32 %r15, memory; mad.lo.u32 %r15, %i, 64, %r15; add.u32 %r9, %base, %r7;"]
    lines += [f"ld.shared.b32 %d{k}, [%r15 + {4 * k}];" for k in range(16)]
    lines.append(f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%r9 + {INSIDE}], {names(0, 16)};")
    lines.append(f"tcgen05.st.sync.aligned.16x32bx2.x2.unpack::16b.b32 [%r9 + 348], 6, {names(4, 2)};")
    lines.append("tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;")
    lines.append("mov.u32 %r10, memory; bfe.u32 %r10, %r10, 4, 14; cvt.u64.u32 %q1, %r10;")
    lines.append(f"mov.u64 %a, {SCALES >> 4 | 8 << 16 | 8 << 32 | 1 << 46:#x}; add.u64 %a, %a, %q1;")
    for copy, column in [*COPIES.items(), ("32x128b.warpx4", 340)]:
        lines.append(f"add.u32 %r16, %base, {column}; @%one tcgen05.cp.cta_group::1.{copy} [%r16], %a;")
    for k, (name, product) in enumerate(PRODUCTS.items()):
        text = product.text().replace("[%base]", f"[%base + {16 * k}]")
        if name.endswith("disabled"):
            lines.append("mov.u32 %r20, 0xffff; mov.u32 %r21, 0;")
            text = text.replace(", %r11", ", %r11, {%r20, %r20, %r21, %r20}")
        if name.endswith("ASHIFT"):
            text = text.replace("kind::f16", "kind::f16.ashift")
        lines.append(text)
    lines.append("add.u32 %r16, %base, 0x400000; @%one tcgen05.shift.cta_group::1.down [%r16];")
    lines += [WAIT, f"mad.wide.u32 %q5, %i, {4 * WORDS}, %sums;"]
    lines += [f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {names(k, 32)}, [%r9 + {k}];" for k in range(0, COLUMNS, 32)]
    first = COLUMNS
    for load, (count, column) in LOADS.items():
        split = ", 5" if "x2." in load else ""
        lines.append(f"tcgen05.ld.sync.aligned.{load}.b32 {names(first, count)}, [%r9 + {column}]{split};")
        first += count
    lines.append("tcgen05.wait::ld.sync.aligned;")
    return "\n".join(lines + [f"st.global.b32 [%q5 + {4 * k}], %d{k};" for k in range(WORDS)])


def executed(level: str) -> tuple[np.ndarray, KernelTrace]:
    """What the kernel has written, and its trace. Shared memory holds finite floats of all types."""
    rng = np.random.default_rng(5)
    image = (rng.integers(0, 64, SHARED) | rng.integers(0, 2, SHARED) << 7).astype(np.uint8)
    image[SCALES : SCALES + 1024] = rng.integers(118, 127, 1024)
    sums = np.zeros((128, WORDS), np.uint32)
    return sums, warpsight.trace(kernel(body()), "k", grid=1, block=128, args=[image, sums], gpu="b200", level=level)


def test_machine_code_of_all_forms_leaves_the_same_bits() -> None:
    (wanted, ptx), (found, sass) = (executed(level) for level in ("ptx", "sass"))
    np.testing.assert_array_equal(found, wanted)
    for k, name in enumerate(PRODUCTS):
        assert len(np.unique(found[:, 16 * k : 16 * k + 16])) > 500, name
    products = [[row for row in trace.instructions if row.op_class == "tensor"] for trace in (ptx, sass)]
    assert [row.opcode for row in products[1]] == [
        "UTCHMMA.m128n16k16", "UTCHMMA.m128n16k16", "UTCHMMA.TF32.m64n16k8", "UTCIMMA.m128n16k32", "UTCQMMA.m128n16k32",
        "UTCQMMA.m128n16k32", "UTCHMMA.SP.m128n16k32", "UTCQMMA.WS.m32n64k32", "UTCHMMA.ASHIFT.m128n16k16",
        "UTCOMMA.m128n16k64", "UTCOMMA.4X.m128n16k64",
    ]  # fmt: skip
    assert [row.product for row in products[1]] == [row.product for row in products[0]]
