"""Is the kind of a matrix multiply read from its opcode, and its work counted against 16 rows, 8 columns and 256 bits of depth?"""

from __future__ import annotations

import pytest

from warpsight.isa.matrix_products import matrix_product

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("opcode", "kind", "work"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "tensor", 1),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "tensor_fp32acc", 1 / 2),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "tensor_fp32acc", 1),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", "tensor_fp32acc", 1 / 2),  # four products at a time
        ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", "tensor_tf32", 1 / 2),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "tensor_fp64", 1 / 2),
        ("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", "tensor_fp64", 4),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", "tensor_int8", 1),
        ("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32", "tensor_int8", 1 / 4),
        ("mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32", "tensor_int4", 1),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "tensor_b1", 1),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", "tensor_fp8_fp32acc", 1),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16.e2m1.e2m1.f16", "tensor_fp8", 1),
        ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", "tensor_fp4", 1),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "tensor_fp32acc", 1),  # half of the products are left out
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16", "tensor", 1),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16", "tensor_fp32acc", 2),
        ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", "tensor_tf32", 2),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", "tensor_group", 32),
        ("HMMA.16816.F16", "tensor", 1), ("HMMA.1688.F32", "tensor_fp32acc", 1 / 2), ("HMMA.16816.F32.BF16", "tensor_fp32acc", 1),
        ("HMMA.1688.F32.TF32", "tensor_tf32", 1), ("HMMA.884.F32.F32.STEP2", "tensor_fp32acc", 1 / 8),
        ("HMMA.884.F16.F16.STEP1", "tensor", 1 / 4), ("HMMA.SP.16832.F32", "tensor_fp32acc", 1), ("HMMA", "tensor", 1),
        ("IMMA.16832.S8.S8", "tensor_int8", 1), ("IMMA.16864.S4.S4", "tensor_int4", 1), ("BMMA.168256.AND.POPC", "tensor_b1", 1),
        ("DMMA.884", "tensor_fp64", 1 / 2), ("DMMA.16x8x16", "tensor_fp64", 4), ("QMMA.16832.F16.E4M3.E4M3", "tensor_fp8", 1),
        ("OMMA.SF.16864.F32.E2M1.E2M1.UE8", "tensor_fp4", 1), ("HGMMA.64x128x16.F32", "tensor_group", 16),
        ("QGMMA.64x128x32.F32.E4M3.E4M3", "tensor_group", 16), ("HGMMA.64x64x8.F32.TF32", "tensor_group", 8),
    ],
)  # fmt: skip
def test_kind_and_work_of_a_multiply(opcode: str, kind: str, work: float) -> None:
    assert matrix_product(opcode) == (kind, work)
