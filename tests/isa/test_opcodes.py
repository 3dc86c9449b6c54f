"""Op classes, memory accesses and types: by the words of the PTX ISA."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from ptx_samples import kernel

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.emulator.ptx.instruction_set import HANDLERS
from warpsight.isa.op_classes import OP_CLASSES
from warpsight.isa.ptx.constants import pack_float, type_bits
from warpsight.isa.ptx.opcodes import CONTROL, OPCODES
from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.ptx.rules import MemoryAccess, memory_access, op_class
from warpsight.isa.sass.opcodes import SassTable

pytestmark = pytest.mark.unit


def instruction(text: str) -> Instruction:
    (found,) = parse_module(kernel(f"{text}\nEND:")).kernels["k"].instructions
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.s32 %r1, %r2, %r3;", "int"), ("mad.wide.u32 %rd1, %r1, %r2, %rd2;", "int"), ("setp.lt.s32 %p1, %r1, 2;", "int"),
        ("selp.f32 %f1, %f2, %f3, %p1;", "int"), ("cvt.rn.f32.s32 %f1, %r1;", "int"), ("mov.f32 %f1, %f2;", "int"),
        ("mov.u32 %r1, %tid.x;", "int"), ("lop3.b32 %r1, %r2, %r3, %r4, 0x96;", "int"), ("vote.sync.any.pred %p1, %p2, -1;", "int"),
        ("ld.param.u64 %rd1, [p];", "int"), ("ld.const.f32 %f1, [%rd1];", "int"),
        ("fma.rn.ftz.f32 %f1, %f2, %f3, %f1;", "fp32"), ("setp.gt.f32 %p1, %f1, %f2;", "fp32"), ("max.f32 %f1, %f2, %f3;", "fp32"),
        ("set.lt.u32.f32 %r1, %f1, %f2;", "fp32"), ("neg.f32 %f1, %f2;", "fp32"),
        ("fma.rn.f64 %fd1, %fd2, %fd3, %fd1;", "fp64"), ("setp.gt.f64 %p1, %fd1, %fd2;", "fp64"),
        ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", "fp16"), ("add.bf16 %rs1, %rs2, %rs3;", "fp16"),
        ("div.rn.f32 %f1, %f2, %f3;", "sfu"), ("rem.u32 %r1, %r2, %r3;", "sfu"), ("rsqrt.approx.f32 %f1, %f2;", "sfu"),
        ("ex2.approx.ftz.f32 %f1, %f2;", "sfu"), ("sqrt.rn.f64 %fd1, %fd2;", "sfu"),
        ("ld.shared.f32 %f1, [%r1];", "shared"), ("atom.shared.add.u32 %r1, [%rd1], 1;", "shared"),
        ("shfl.sync.up.b32 %r1, %r2, 1, 0, -1;", "shared"), ("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", "shared"),
        ("ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%rd1];", "shared"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared::cta.f16 {%r1}, [%r2];", "shared"),
        ("ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", "memory"), ("st.local.u32 [%rd1], %r1;", "memory"),
        ("ld.u32 %r1, [%rd1];", "memory"), ("red.global.add.f32 [%rd1], %f1;", "memory"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];", "memory"), ("txq.width.b32 %r1, [%rd1];", "int"),
        ("sust.b.1d.b32.trap [%rd1, {%r1}], {%r2};", "memory"), ("sured.b.add.1d.u32.trap [%rd1, {%r1}], %r2;", "memory"),
        ("bra.uni END;", "branch"), ("ret;", "branch"), ("trap;", "branch"),
        ("bar.sync 0;", "barrier"), ("barrier.sync.aligned 0;", "barrier"), ("membar.gl;", "barrier"),
        ("fence.acq_rel.gpu;", "barrier"),
        ("bar.warp.sync -1;", "control"), ("nanosleep.u32 40;", "control"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1,%fd2}, {%fd3}, {%fd4}, {%fd1,%fd2};", "tensor"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor"),
    ],
)  # fmt: skip
def test_op_class_of_an_instruction(text: str, expected: str) -> None:
    assert op_class(instruction(text)) == expected and expected in OP_CLASSES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", MemoryAccess("global", "load", 16)),
        ("st.volatile.shared::cta.v2.u64 [%rd1], {%rd2, %rd3};", MemoryAccess("shared", "store", 16)),
        ("ld.u8 %rs1, [%rd1];", MemoryAccess("generic", "load", 1)),
        ("tex.1d.v4.f16.s32 {%rs1, %rs2, %rs3, %rs4}, [%rd1, {%r1}];", MemoryAccess("global", "load", 8)),
        ("tld4.r.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%f1, %f2}];", MemoryAccess("global", "load", 16)),
        ("suld.b.2d.v2.b16.zero {%rs1, %rs2}, [%rd1, {%r1, %r2}];", MemoryAccess("global", "load", 4)),
        ("sust.p.2d.v4.b32.trap [%rd1, {%r1, %r2}], {%r1, %r2, %r3, %r4};", MemoryAccess("global", "store", 16)),
        ("sured.b.min.1d.s64.trap [%rd1, {%r1}], %rd2;", MemoryAccess("global", "atomic", 8)),
        ("st.local.f64 [%rd1], %fd1;", MemoryAccess("local", "store", 8)),
        ("ld.param.b16 %rs1, [p];", MemoryAccess("param", "load", 2)),
        ("ld.const.f32 %f1, [%rd1];", MemoryAccess("const", "load", 4)),
        ("atom.relaxed.gpu.global.cas.b64 %rd1, [%rd2], %rd3, %rd4;", MemoryAccess("global", "atomic", 8)),
        ("red.shared.add.noftz.f16x2 [%rd1], %r1;", MemoryAccess("shared", "atomic", 4)),
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1], %r9;",
         MemoryAccess("global", "load", 32)),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];", MemoryAccess("shared", "load", 8)),
        ("ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];", MemoryAccess("global", "load", 32)),
        ("atom.global.add.noftz.v4.bf16x2 {%r1,%r2,%r3,%r4}, [%rd1], {%r1,%r2,%r3,%r4};", MemoryAccess("global", "atomic", 16)),
        ("cp.async.ca.shared.global [%r1], [%rd1], 8, %r2;", MemoryAccess("global", "load", 8)),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];",
         MemoryAccess("global", "load", 8160)),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;", MemoryAccess("global", "store", 64)),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 64;", MemoryAccess("global", "atomic", 64)),
        ("cp.async.bulk.wait_group.read 0;", None), ("cp.async.bulk.prefetch.L2.global [%rd1], 64;", None),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", MemoryAccess("shared", "atomic", 8)),
        ("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;", MemoryAccess("shared", "load", 8)),
        ("mbarrier.pending_count.b64 %r1, %rd1;", None),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r1], {%r2, %r3}, [%r4];",
         MemoryAccess("shared", "store", 8)),
        ("clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];",
         MemoryAccess("shared", "atomic", 8)),
        ("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rd1;", None),
        ("prefetch.global.L2 [%rd1];", None), ("add.s32 %r1, %r2, %r3;", None), ("bar.sync 0;", None),
    ],
)  # fmt: skip
def test_memory_access_of_an_instruction(text: str, expected: MemoryAccess | None) -> None:
    assert memory_access(instruction(text)) == expected


@pytest.mark.parametrize(
    "text", ["multimem.red.add.u32 [%rd1], %r1;", "cp.async.bulk.tensor.1d.L2.global.tile [%rd1];",
    "st.async.global.u32 [%rd1], %r1;", "ad.s32 %r1, %r2, %r3;"]
)
def test_opcode_that_is_not_in_the_table_is_refused_with_its_line(text: str) -> None:
    for ask in (op_class, memory_access):
        with pytest.raises(UnsupportedError, match=text.split(maxsplit=1)[0].rstrip(";")) as caught:
            ask(instruction(text))
        assert caught.value.place == "ptx:5" and caught.value.remedy and caught.value.exit_code == 3


def test_rows_of_the_table_are_complete() -> None:
    rules = {*OP_CLASSES, "arithmetic", "access", "bar", "matrix", "group", "copy", "mbarrier", "tensor_memory"}
    for name, row in OPCODES.items():
        assert name == row.name and row.rule in rules and row.what and row.access in {"", "load", "store", "atomic"}
    assert not any(row.writes for row in OPCODES.values() if row.access == "store" or row.rule in {"barrier", "control"})


def test_every_row_names_a_handler_and_a_native_opcode_that_exist() -> None:
    for name, row in OPCODES.items():
        assert (name in HANDLERS) == (row.handler not in ("", CONTROL))
        native = row.sass.split()
        assert len(native) in (0, 1, 4)
        assert all(SassTable().meaning(opcode).known for opcode in native), (name, native)


def test_opcodes_of_the_reference_kernels_are_all_in_the_table(reference_ptx: str) -> None:
    functions = parse_module(reference_ptx).functions.values()
    classes = {op_class(i) for f in functions for i in f.instructions}
    assert classes <= set(OP_CLASSES) and {"int", "fp32", "memory", "shared", "branch", "barrier"} <= classes


@pytest.mark.parametrize(
    ("name", "bits"),
    [("u8", 8), ("s64", 64), ("b128", 128), ("f16x2", 32), ("pred", 1), (".v4.f32", 128), ("v8.b32", 256), ("bf16", 16)],
)
def test_bits_of_a_type(name: str, bits: int) -> None:
    assert type_bits(name) == bits


def test_type_that_does_not_exist_is_refused_with_a_suggestion() -> None:
    with pytest.raises(FormatError, match="did you mean"):
        type_bits("f33")


def test_constants_are_rounded_to_nearest_even_in_each_format() -> None:
    for value in (0.1, -1.0, 65504.0, 3.14159, 1e-7, 0.0):
        assert pack_float("f16", value) == np.float16(value).tobytes()
        assert pack_float("f32", value) == np.float32(value).tobytes()
        near = [(int(np.float32(value).view(np.uint32)) >> 16) + step for step in (0, 1)]
        away = [abs(struct.unpack("<f", struct.pack("<I", bits << 16))[0] - float(np.float32(value))) for bits in near]
        _, _, nearest = min((distance, bits & 1, bits) for distance, bits in zip(away, near, strict=True))
        assert pack_float("bf16", value) == struct.pack("<H", nearest)
