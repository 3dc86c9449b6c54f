"""Do loops of matrix multiplies reach the dense peak of each GPU, and chains the published latency, in model and simulator?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from trace_by_hand import Warp, build_trace

import warpsight
from warpsight.base.errors import SpecError
from warpsight.gpu.catalog import catalog_names
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.operations import peak_flops
from warpsight.gpu.spec import KINDS_OF_PRODUCTS
from warpsight.isa.matrix_products import matrix_product
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

MODELS: list[Callable[..., Any]] = [warpsight.predict, warpsight.simulate]


ONE_SM = ["sm_count=1", "dispatch.block_interval=0 ns", "dispatch.block=0 cycles", "dispatch.warp=0 cycles"]


def opcode(shape: str, d: str, a: str = "", b: str = "", c: str = "") -> str:
    return f"mma.sync.aligned.{shape}.row.col.{d}.{a or d}.{b or a or d}.{c or d}"


F16, F32, TF32 = opcode("m16n8k16", "f16"), opcode("m16n8k16", "f32", "bf16"), opcode("m16n8k8", "f32", "tf32")
F64, HALF = opcode("m8n8k4", "f64"), opcode("m16n8k8", "f16")
S8, S4, B1 = opcode("m16n8k32", "s32", "s8"), opcode("m16n8k64", "s32", "s4"), opcode("m16n8k256", "s32", "b1")
E4M3, E4M3_F16 = opcode("m16n8k32", "f32", "e4m3"), opcode("m16n8k32", "f16", "e4m3")
MXF4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
FLOP = {F16: 4096, F32: 4096, TF32: 2048, F64: 512, S8: 8192, S4: 16384, B1: 65536, E4M3: 8192, E4M3_F16: 8192, MXF4: 16384}


def multiplies(op: str, times: int, warps: int, *, chained: bool) -> KernelTrace:
    """Blocks of four warps; eight multiplies a round, of which each needs the one before if chained."""
    code = [f"tensor r{0 if chained else k} <- r{0 if chained else k}" for k in range(8)]
    made = build_trace(["\n".join(code)], [Warp(((0, 32, times),), ())] * warps, 4)
    header = replace(made.header, warp_instructions=8 * times * warps, thread_instructions=256 * times * warps)
    return replace(made, header=header, instructions=tuple(replace(each, opcode=op) for each in made.instructions))


def cycles_of_one(op: str, gpu: str, run: Callable[..., Any], *, warps: int, chained: bool = False) -> float:
    """Cycles for each multiply of a warp scheduler, from the difference of two runs on one SM."""
    schedulers = load_gpu(gpu).sm.schedulers
    short, long = (
        run(multiplies(op, times, warps * schedulers, chained=chained), gpu=gpu, overrides=ONE_SM, caches_before="cold").cycles
        for times in (10, 20)
    )
    return float(long - short) / (8 * 10 * warps)


# TFLOPS or TOPS as NVIDIA states them, dense, at the description's clock unless another is given.
STATED = [
    ("v100", F32, 125, 1.53), ("titan-v", F32, 110, 1.35), ("rtx2080-ti", F16, 107.6, 1.545), ("rtx2080-ti", F32, 53.8, 1.545),
    ("t4", F32, 65, 1.59), ("t4", S8, 130, 1.59), ("t4", S4, 260, 1.59),
    ("a100", F16, 312, 1.41), ("a100", F32, 312, 1.41), ("a100", TF32, 156, 1.41), ("a100", F64, 19.5, 1.41),
    ("a100", S8, 624, 1.41), ("a100", S4, 1248, 1.41), ("a100", B1, 4992, 1.41),
    ("rtx3090", F16, 142, 1.695), ("rtx3090", F32, 71, 1.695), ("rtx3090", TF32, 35.6, 1.695), ("rtx3090", S8, 284, 1.695),
    ("rtx3090", S4, 568, 1.695), ("a6000", F32, 154.8, 1.8), ("a10", F32, 125, 1.695),
    ("rtx4090", F16, 330.3, 2.52), ("rtx4090", F32, 165.2, 2.52), ("rtx4090", TF32, 82.6, 2.52), ("rtx4090", S8, 660.6, 2.52),
    ("rtx4090", E4M3_F16, 660.6, 2.52), ("rtx4090", E4M3, 330.3, 2.52), ("rtx4090", S4, 1321.2, 2.52),
    ("l4", F32, 121, 2.04), ("l40s", F32, 362, 2.49), ("l40s", E4M3, 733, 2.52), ("h100-sxm", F64, 67, 1.98),
    ("rtx5090", F16, 419, 2.407), ("rtx5090", F32, 209.5, 2.407), ("rtx5090", TF32, 104.8, 2.407), ("rtx5090", S8, 838, 2.407),
    ("rtx5090", E4M3, 419, 2.407), ("rtx5090", E4M3_F16, 838, 2.407), ("rtx5090", MXF4, 1676, 2.407),
]  # fmt: skip


@pytest.mark.parametrize(("gpu", "op", "stated", "clock"), STATED)
def test_description_has_the_rate_that_nvidia_states(gpu: str, op: str, stated: float, clock: float) -> None:
    spec = load_gpu(gpu)
    kind, work = matrix_product(op)
    rate = spec.sm_count * spec.sm.schedulers * FLOP[op] / work / spec.initiation_cycles[kind] * clock * 1e-3
    assert rate == pytest.approx(stated, rel=0.02)


@pytest.mark.parametrize(("gpu", "stated", "clock"), [("a100", 312, 1.41), ("h100-sxm", 989, 1.83), ("rtx4090", 330, 2.52)])
def test_peak_of_tensor_cores_is_that_of_the_data_sheet(gpu: str, stated: float, clock: float) -> None:
    """NVIDIA states the H100's at a lower clock than that of its other units."""
    assert peak_flops(load_gpu(gpu, [f"core_clock={clock} GHz"]), "tensor") == pytest.approx(stated * 1e12, rel=0.01)


@pytest.mark.parametrize("run", MODELS)
@pytest.mark.parametrize(
    ("gpu", "op", "cycles"),
    [
        ("v100", F32, 16), ("rtx2060", F32, 32), ("a100", F32, 8), ("a100", F64, 16), ("rtx3070", F32, 32),
        ("rtx4090", E4M3, 32), ("h100-sxm", F32, 6), ("b200", F32, 8), ("rtx5090", MXF4, 16),
        ("a100", HALF, 4), ("h100-sxm", HALF, 4), ("b200", HALF, 8), ("rtx5090", HALF, 16),
    ],
)
def test_independent_multiplies_keep_the_tensor_cores_busy_all_the_time(
    gpu: str, op: str, cycles: int, run: Callable[..., Any]
) -> None:
    """Eight warps on each scheduler hide the latency; no multiply is begun before the tensor cores are free."""
    assert cycles_of_one(op, gpu, run, warps=8) == pytest.approx(cycles, rel=0.01)


@pytest.mark.parametrize("run", MODELS)
@pytest.mark.parametrize(
    ("gpu", "op", "cycles"),
    [
        ("a100", F32, 25), ("a100", opcode("m16n8k8", "f32", "f16"), 17), ("rtx3070", F16, 24), ("rtx3070", F32, 33),
        ("rtx3070", HALF, 16), ("rtx2060", HALF, 14), ("h100-pcie", F32, 24),
        ("h100-pcie", HALF, 16), ("rtx5090", F32, 35), ("v100", "HMMA.884.F32.F32.STEP0", 13),
        ("rtx4090", "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", 65),
    ],
)
def test_multiply_waits_for_the_one_before_it_as_long_as_published(
    gpu: str, op: str, cycles: int, run: Callable[..., Any]
) -> None:
    assert cycles_of_one(op, gpu, run, warps=1, chained=True) == pytest.approx(cycles, rel=0.01)


@pytest.mark.parametrize("gpu", catalog_names())
def test_every_gpu_with_tensor_cores_has_the_types_of_its_generation(gpu: str) -> None:
    spec = load_gpu(gpu)
    capability = 0.0 if spec.compute_capability == "none" else float(spec.compute_capability)
    assert ("tensor" in spec.latency_cycles) == (capability >= 7)
    if capability < 7:
        return
    known = {kind for kind in KINDS_OF_PRODUCTS if kind in spec.latency_cycles}
    assert known == {kind for kind in KINDS_OF_PRODUCTS if kind in spec.initiation_cycles}
    needed = {"tensor", "tensor_fp32acc"} | ({"tensor_int8", "tensor_int4", "tensor_b1"} if capability >= 7.5 else set())
    needed |= {"tensor_tf32", "tensor_fp64"} if capability >= 8 else set()
    needed |= {"tensor_fp8", "tensor_fp8_fp32acc"} if capability >= 8.9 else set()
    needed |= {"tensor_group"} if capability == 9 else {"tensor_fp4"} if capability == 12 else set()
    assert needed <= known


@pytest.mark.parametrize("run", MODELS)
def test_type_that_the_tensor_cores_do_not_have_is_refused(run: Callable[..., Any]) -> None:
    with pytest.raises(SpecError, match="tensor_fp64"):
        run(multiplies(F64, 1, 4, chained=False), gpu="rtx2060", caches_before="cold")
