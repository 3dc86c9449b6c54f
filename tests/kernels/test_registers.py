from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from warpsight.base.errors import CompileError, FormatError, UsageError
from warpsight.kernels import toolkit as libraries
from warpsight.kernels.assembler import assemble
from warpsight.kernels.cubin import Cubin, read_cubin
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.mangling import display_name
from warpsight.kernels.registers import declared_shared_bytes, most_live_registers, register_use
from warpsight.kernels.sources import find_kernel, load_source
from warpsight.kernels.toolkit import parse_architecture

pytestmark = pytest.mark.unit

# `ptxas -arch=sm_75 -v` of CUDA 13.0 on the PTX that nvcc 13.0 makes of the reference kernels (-O3, compute_75). block_sum and
# histogram are left out: nvcc addresses shared memory with 32 bits and NVRTC with 64, which costs one or two registers.
PTXAS = {
    "vector_add": 12, "grid_stride": 41, "gather": 10, "spmv_csr": 55, "bfs_level": 14, "kmeans_assign": 53, "transpose_naive": 8,
    "matmul_naive": 49, "matmul_tiled": 64, "stencil5": 16, "row_sum": 42, "fma_chain": 8, "scatter": 10,
}  # fmt: skip
STATIC_SHARED = {"matmul_tiled": 2048, "block_sum": 1024, "histogram": 1024}

LIVE = """\
.version 9.0
.target sm_75
.address_size 64
.visible .entry live(.param .u64 p)
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
	ld.global.u32 %r2, [%rd1+4];
	ld.global.u32 %r3, [%rd1+8];
	setp.eq.s32 %p1, %r1, 0;
	@%p1 bra $done;
	add.s32 %r1, %r1, %r2;
$done:
	add.s32 %r4, %r1, %r3;
	st.global.u32 [%rd1], %r4;
	ret;
}
"""


def test_register_use_of_the_reference_kernels_equals_ptxas(reference: KernelSource) -> None:
    uses = {display_name(kernel): register_use(reference, kernel) for kernel in reference.module.kernels}
    assert {use.origin for use in uses.values()} == {"assembler"}
    assert {name: use.registers for name, use in uses.items() if name in PTXAS} == PTXAS
    assert {name: use.static_shared_bytes for name, use in uses.items() if use.static_shared_bytes} == STATIC_SHARED


@pytest.mark.oracle
def test_register_use_gives_the_residency_that_the_simulator_reports(reference: KernelSource, shared: Path) -> None:
    rows = list(csv.DictReader((shared / "reference" / "cycles.csv").open()))
    assert len(rows) > 20
    for row in rows:
        use = register_use(reference, find_kernel(reference, row["kernel"]))
        threads = math.prod(int(size) for size in row["block"].split("x"))
        registers, warps, shared_memory = (65536, 64, 96 << 10) if row["gpu"] == "mdm-pascal" else (32768, 32, 48 << 10)
        limits = {"regs": registers // (-(-use.registers // 8) * 8 * threads), "threads": warps * 32 // threads}
        if use.static_shared_bytes:
            limits["shared"] = shared_memory // use.static_shared_bytes
        assert min(limits.values()) == int(row["blocks_per_sm"]), row
        assert limits[row["limiter"]] == min(limits.values()), row


@pytest.mark.parametrize("arch", ["75", "80", "90", "100", "120"])
def test_read_cubin_of_every_generation_has_registers_and_shared_memory(small: KernelSource, arch: str) -> None:
    text = "__global__ void f(int* p) { __shared__ int a[300]; a[threadIdx.x] = *p; __syncthreads(); *p = a[threadIdx.x ^ 1]; }\n"
    source = load_source(text, arch=arch)
    cubin = assemble(source.ptx, "f", parse_architecture(arch))
    (kernel,) = read_cubin(cubin).values()
    assert kernel.static_shared_bytes == 1200
    assert 4 <= kernel.registers <= 32
    if int(arch) < 90:
        # Before sm_90 the `sh_info` of a code section says it too.
        code = {s.name: s.info >> 24 for s in Cubin(cubin).sections if s.name.startswith(".text.")}
        assert code == {".text._Z1fPi": kernel.registers}


def test_read_cubin_of_a_stack_frame_has_its_bytes() -> None:
    loop = "for (int i = 0; i < p[64]; i++) a[p[i]] += a[p[i + 65]];"
    text = f"__global__ void f(int* p) {{ int a[64]; for (int i = 0; i < 64; i++) a[i] = p[i] * p[i + 3]; {loop} *p = a[p[2]]; }}\n"
    source = load_source(text)
    assert register_use(source, find_kernel(source)).local_bytes >= 256


def test_read_cubin_that_is_damaged_is_refused(small: KernelSource) -> None:
    cubin = assemble(small.ptx, "f", parse_architecture(75))
    with pytest.raises(FormatError, match="not a 64-bit ELF"):
        read_cubin(b"hello")
    for cut in (64, 200, len(cubin) // 2):
        with pytest.raises(FormatError, match="damaged"):
            read_cubin(cubin[:cut])


def test_register_use_with_override_keeps_the_shared_memory_and_says_so(reference: KernelSource) -> None:
    use = register_use(reference, find_kernel(reference, "matmul_tiled"), 32)
    assert (use.registers, use.origin, use.static_shared_bytes) == (32, "override", 2048)
    assert "64" in use.note
    for wrong in (0, -1, 256):
        with pytest.raises(UsageError, match=r"^registers:"):
            register_use(reference, find_kernel(reference, "gather"), wrong)


def test_register_use_of_an_old_target_says_which_machine_was_assembled_for(small: KernelSource) -> None:
    old = load_source(small.ptx.replace(".target sm_75", ".target sm_50"))
    use = register_use(old, find_kernel(old, "saxpy"))
    assert use.origin == "assembler"
    assert "sm_75" in use.note and "sm_50" in use.note
    assert use.registers == register_use(small, find_kernel(small, "saxpy")).registers


def test_register_use_without_the_assembler_is_an_estimate_that_says_so(
    reference: KernelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "toolkit_folders", list)
    for name, shared_bytes in STATIC_SHARED.items():
        use = register_use(reference, find_kernel(reference, name))
        assert (use.origin, use.static_shared_bytes) == ("estimate", shared_bytes)
        assert "nvidia-cuda-nvcc" in use.note


def test_register_use_of_ptx_that_the_assembler_refuses_gives_its_reason(small: KernelSource) -> None:
    broken = load_source(small.ptx.replace(".version 9.0", ".version 9.9"))
    use = register_use(broken, find_kernel(broken, "saxpy"))
    assert use.origin == "estimate"
    assert "9.9" in use.note
    with pytest.raises(CompileError, match="ptxas"):
        assemble(broken.ptx, "broken.ptx", parse_architecture(75))


# The assembler ends with a segmentation fault on the offset.
CRASHES_THE_ASSEMBLER = """.version 7.5
.target sm_75
.address_size 64
.func f(.param .b32 x) { ret; }
.visible .entry k()
{
    .reg .b32 %r<2>;
    mov.u32 %r1, 1;
    {
    .param .b32 param0;
    st.param.b32 [param0+0xffffffff], %r1;
    call.uni f, (param0);
    }
    ret;
}
"""


def test_ptx_that_breaks_the_assembler_is_an_error_and_not_the_end_of_the_process() -> None:
    with pytest.raises(CompileError, match="crashes on it"):
        assemble(CRASHES_THE_ASSEMBLER, "k.ptx", parse_architecture(75))


def test_most_live_registers_of_a_branch_counted_by_hand() -> None:
    # Before the add both sides of the branch still need %rd1 (2), %r1 and %r3; the add's side also %r2.
    assert most_live_registers(load_source(LIVE).module.kernels["live"]) == 5


def test_declared_shared_bytes_counts_alignment_and_not_dynamic_memory() -> None:
    text = (
        "extern __shared__ float dynamic[];\n__global__ void f(int* p) { __shared__ char a[3]; __shared__ double b[2];"
        " a[threadIdx.x % 3] = *p; b[threadIdx.x % 2] = *p; dynamic[threadIdx.x] = *p; __syncthreads();"
        " *p = a[*p] + b[*p & 1] + dynamic[*p]; }\n"
    )
    source = load_source(text)
    kernel = find_kernel(source)
    assert 19 <= declared_shared_bytes(source.module, source.module.kernels[kernel]) <= 24
    # The assembler starts the dynamic memory at a multiple of 16.
    assert register_use(source, kernel).static_shared_bytes == 32
