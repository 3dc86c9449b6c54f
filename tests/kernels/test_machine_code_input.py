"""Kernels that are given as machine code: cubins, fat binaries, and programs that embed them."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fatbin_by_hand import LZ4, container, entry, program

import warpsight
from warpsight.base.errors import CompileError, FormatError, UnsupportedError, UsageError, WarpsightError
from warpsight.kernels import assembler
from warpsight.kernels import toolkit as libraries
from warpsight.kernels.assembler import assemble
from warpsight.kernels.cubin import Cubin, kernel_image, read_cubin, read_module
from warpsight.kernels.elf import Symbol
from warpsight.kernels.fatbin import Entry, best_code, modules_in, runs_on
from warpsight.kernels.machine_code import machine_code
from warpsight.kernels.sources import find_kernel, load_source
from warpsight.kernels.toolkit import Architecture, MissingLibraryError, parse_architecture

pytestmark = pytest.mark.unit
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")

SOURCE = """
struct Pair { int first; double second; };
__device__ int counter = 7;
__device__ float table[64];
__device__ int* pointer = &counter;
__constant__ float factors[4] = {1, 2, 3, 4};
__global__ void mix(const float* x, float* y, int n, Pair pair) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = x[i] * factors[i & 3] + (float)pair.second + table[i & 63] + pair.first;
    table[i & 63] = y[i];
    atomicAdd(pointer, 1);
    if (i == 0) y[0] = *pointer > 0;
}
template <class T> __global__ void __launch_bounds__(128) swap(T* p) {
    __shared__ T block[128];
    block[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = block[127 - threadIdx.x];
}
template __global__ void swap<float>(float*);
template __global__ void swap<double>(double*);
"""
PAIR = struct.pack("<i4xd", 3, 2.5)


@pytest.fixture(scope="module")
def ptx() -> str:
    return load_source(SOURCE, name="mix.cu", kernel_expressions=("swap<float>", "swap<double>")).ptx


@pytest.fixture(scope="module")
def cubin(ptx: str) -> bytes:
    return assemble(ptx, "mix.ptx", parse_architecture(80))


@pytest.fixture
def path(cubin: bytes, tmp_path: Path) -> str:
    file = tmp_path / "mix.cubin"
    file.write_bytes(cubin)
    return str(file)


def results(source: str, **settings: object) -> tuple[np.ndarray, warpsight.KernelTrace]:
    y = np.zeros(256, "f4")
    arguments = [np.arange(256, dtype="f4"), y, 250, PAIR]
    trace = warpsight.trace(source, kernel="mix", grid=2, block=128, args=arguments, **settings)
    return y, trace


@pytest.mark.parametrize(("architecture", "gpu"), [("75", "rtx2060"), ("80", "a100"), ("90", "h100-sxm")])
def test_cubin_writes_what_its_ptx_writes(architecture: str, gpu: str, ptx: str, tmp_path: Path) -> None:
    file = tmp_path / "mix.cubin"
    file.write_bytes(assemble(ptx, "mix.ptx", parse_architecture(architecture)))
    expected, _ = results(ptx)
    found, trace = results(str(file), gpu=gpu, level="sass")
    assert np.array_equal(found, expected) and found[1:].any()
    assert (trace.header.target, trace.header.level) == (f"sm_{architecture}", "sass")
    assert trace.header.registers_per_thread == read_cubin(file.read_bytes())[trace.header.mangled].registers


KEPT = """.version 8.7
.target sm_{target}
.address_size 64
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<5>; .reg .b64 %rd<3>;
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; ld.param.u64 %rd2, [out]; add.u64 %rd2, %rd2, %rd1;
    ld.global.u32 %r2, [%rd2]; xor.b32 %r3, %r2, 0x12345678; add.u32 %r4, %r3, 0x7654321; st.global.u32 [%rd2], %r4;
    ret;
}}
"""


@pytest.mark.parametrize(
    ("target", "gpu", "half"), [(75, "rtx2060", 0), (90, "h100-sxm", 1), (100, "b200", 0), (120, "rtx5090", 1)]
)
def test_return_address_that_code_moves_by_hand_holds_a_word_of_each_lane(target: int, gpu: str, half: int, tmp_path: Path) -> None:
    """The two operations between load and store become `RPCMOV.32 Rpc.LO, R` and back (or `.HI`), as nvdisasm reads them."""
    code = bytearray(assemble(KEPT.format(target=target), "kept.ptx", parse_architecture(str(target))))
    for constant, opcode in ((0x12345678, 0x352), (0x7654321, 0x353)):
        at = code.index(constant.to_bytes(4, "little")) - 4
        low, high = struct.unpack_from("<QQ", code, at)
        moved = (low >> 24 & 255) << 32 if opcode == 0x352 else low & 255 << 16
        struct.pack_into("<QQ", code, at, opcode | 7 << 12 | half << 31 | moved, high >> 41 << 41)
    (tmp_path / "kept.cubin").write_bytes(code)
    out = np.arange(32, dtype=np.uint32) * 7 + 5
    trace = warpsight.trace(str(tmp_path / "kept.cubin"), "k", grid=1, block=32, args=[out], gpu=gpu, level="sass")
    assert out.tolist() == [7 * lane + 5 for lane in range(32)]
    moves = [row.opcode for row in trace.instructions if row.opcode.startswith("RPCMOV")]
    assert moves == ["RPCMOV.32"] * 2


def test_cubin_without_a_gpu_is_executed_as_what_it_was_assembled_for(path: str) -> None:
    assert results(path, level="sass")[1].header.target == "sm_80"
    assert results(path, level="sass", arch="sm_86")[1].header.target == "sm_80"


def test_cubin_has_its_kernels_parameters_and_variables(path: str) -> None:
    source = load_source(path, native=Architecture(80))
    module = source.module
    names = {find_kernel(source, name): name for name in ("mix", "swap<float>", "swap<double>")}
    assert set(module.kernels) == set(names)
    mix = next(function for name, function in module.kernels.items() if names[name] == "mix")
    assert [(p.size, p.type) for p in mix.parameters] == [(8, "b64"), (8, "b64"), (4, "b32"), (16, "b8")]
    swap = next(function for name, function in module.kernels.items() if names[name] == "swap<float>")
    assert swap.max_threads == (128, 1, 1) and mix.max_threads is None
    assert {name: variable.size for name, variable in module.variables.items()} == {"counter": 4, "table": 256, "pointer": 8}
    assert module.variables["counter"].initial == (7).to_bytes(4, "little")
    assert module.variables["pointer"].initial_symbols == ((0, "counter", 0),)


def test_parameters_that_the_driver_makes_are_the_last_ones(cubin: bytes) -> None:
    """Kernels of CUDA Tile list what a launch states in attribute 0x45; what the driver adds is only in the size of 0x0a."""
    def stated(record: re.Match[bytes]) -> bytes:
        return b"\x04\x45\x0c\x00" + record[1] + struct.pack("<HH", struct.unpack("<I", record[2])[0] >> 18, 0)

    listed = re.sub(rb"\x04\x17\x0c\x00(.{8})(.{4})", stated, cubin, flags=re.DOTALL)
    sizes = {name: [each.size for each in f.parameters] for name, f in read_module(cubin, Architecture(80), "a").kernels.items()}
    assert listed != cubin and sorted(map(len, sizes.values())) == [1, 1, 4]
    assert sizes == {n: [each.size for each in f.parameters] for n, f in read_module(listed, Architecture(80), "b").kernels.items()}
    larger = re.sub(rb"(\x04\x0a\x08\x00.{6})(..)", lambda m: m[1] + struct.pack("<H", 512), listed, flags=re.DOTALL)
    for function in read_module(larger, Architecture(80), "tiles.cubin").kernels.values():
        assert function.made_bytes == function.parameters[-1].size == 512 - {1: 8, 4: 40}[len(sizes[function.name])]


@pytest.mark.parametrize(
    ("code", "gpu", "runs"),
    [("80", "80", True), ("80", "86", True), ("86", "80", False), ("80", "90", False), ("75", "80", False), ("90a", "90", True),
     ("100a", "103", False), ("100f", "100", True), ("89", "89", True), ("80", "89", True)],
)  # fmt: skip
def test_code_runs_on_gpus_of_its_major_version_and_at_least_its_minor_one(code: str, gpu: str, runs: bool) -> None:
    assert runs_on(parse_architecture(code), parse_architecture(gpu)) is runs


def test_of_several_architectures_the_nearest_below_is_chosen() -> None:
    entries = [Entry("elf", parse_architecture(each), each.encode()) for each in ("75", "80", "86", "90", "90a")]
    chosen = {gpu: best_code(entries, parse_architecture(gpu)) for gpu in ("75", "80", "86", "89", "90", "100")}
    assert best_code([Entry("elf", parse_architecture("70"), b"")], parse_architecture("75")) is None  # nothing lists it
    data = {gpu: None if each is None else each.data.decode() for gpu, each in chosen.items()}
    assert data == {"75": "75", "80": "80", "86": "86", "89": "86", "90": "90a", "100": None}


def test_fat_binary_without_code_for_the_gpu_has_its_ptx_assembled(cubin: bytes, ptx: str, tmp_path: Path) -> None:
    file = tmp_path / "mix.fatbin"
    file.write_bytes(container(entry(2, 80, cubin), entry(1, 75, ptx.encode())))
    assert load_source(file, native=Architecture(86)).cubin == cubin
    later = load_source(file, native=Architecture(90))
    assert not later.cubin and later.ptx == ptx
    assert load_source(file).ptx == ptx  # level ptx
    y, trace = results(str(file), gpu="h100-sxm", level="sass")
    assert trace.header.target == "sm_90" and np.array_equal(y, results(ptx)[0])


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [("__nv_reservedSMEM_tmem_allocation_pipeline_mbarrier", 0x58, 0x58), ("__nv_reservedSMEM_tcgen05_partition", 0x40, 0x48),
     ("__nv_reservedSMEM_allocation_mask", 0x50, 0)], ids=["CUDA 12.9", "CUDA 13.0", "none"],
)  # fmt: skip
def test_object_of_pairs_of_blocks_lies_where_the_assembler_has_put_it(name: str, value: int, place: int, cubin: bytes) -> None:
    """Values from `readelf -s` of a cubin for sm_100a; the code of both waits at the place."""
    image = Cubin(cubin)
    image.symbols.append(Symbol(name, 15, value, 8, 1, 0))
    assert image.pair_object == place


def test_program_has_the_kernels_of_all_of_its_modules(cubin: bytes, tmp_path: Path) -> None:
    other = assemble(load_source("extern \"C\" __global__ void other(int* p) { *p = 1; }\n").ptx, "o.ptx", parse_architecture(80))
    packed = entry(2, 80, pa.Codec("lz4_raw").compress(other).to_pybytes(), LZ4, len(other))
    file = tmp_path / "app"
    file.write_bytes(program(container() + container(entry(2, 80, cubin)) + container(packed)))
    sources = {name: load_source(file, native=Architecture(80), kernel_expressions=(name,)) for name in ("mix", "other")}
    assert sources["mix"].cubin == cubin and sources["other"].cubin == other
    with pytest.raises(UsageError, match="there are 4 kernels in it"):
        load_source(file, native=Architecture(80))
    with pytest.raises(UsageError, match=r'there is no kernel "mixx"; did you mean "mix"'):
        load_source(file, native=Architecture(80), kernel_expressions=("mixx",))
    file.write_bytes(program(container(entry(2, 80, cubin)) + container(entry(2, 80, cubin))))
    with pytest.raises(UsageError, match="2 of its modules have a kernel mix"):
        load_source(file, native=Architecture(80), kernel_expressions=("mix",))


@pytest.mark.parametrize("architecture", ["75", "90"])
def test_kernel_without_parameters_is_executed(architecture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "#include <cstdio>\nextern \"C\" __global__ void hello() { printf(\"%d\\n\", threadIdx.x + blockDim.x); }\n"
    file = tmp_path / "hello.cubin"
    file.write_bytes(assemble(load_source(text).ptx, "hello.ptx", parse_architecture(architecture)))
    warpsight.trace(str(file), grid=1, block=2)
    assert capsys.readouterr().out == "2\n3\n"


# -- What cannot be run.


def test_cubin_cut_anywhere_is_one_error(cubin: bytes, tmp_path: Path) -> None:
    file = tmp_path / "cut.cubin"
    for keep in (*range(4, 70, 11), *(len(cubin) * k // 16 for k in range(1, 16)), len(cubin) - 1):
        file.write_bytes(cubin[:keep])
        with pytest.raises(FormatError, match=r"is damaged|is not a 64-bit ELF file") as caught:
            load_source(file, native=Architecture(80))
        assert caught.value.place == str(file) and caught.value.remedy


def test_cubin_with_wrong_bytes_never_fails_otherwise(cubin: bytes) -> None:
    chooser = random.Random(3)
    for _ in range(200):
        broken = bytearray(cubin)
        for _ in range(3):
            broken[chooser.randrange(len(broken))] = chooser.randrange(256)
        for read in (read_cubin, lambda data: read_module(data, Architecture(80), "k"), lambda data: kernel_image(data, "")):
            with suppress(WarpsightError):
                read(bytes(broken))


def test_cubin_of_another_architecture_names_both_and_the_remedy(path: str) -> None:
    with pytest.raises(UsageError, match=r"has machine code for sm_80, which does not run on sm_90\n.*arch=compute_90,code=sm_90"):
        results(path, gpu="h100-sxm", level="sass")
    with pytest.raises(UsageError, match="does not run on sm_75"):
        results(path, arch="sm_75", level="sass")


def test_code_that_is_too_old_for_the_disassembler_says_so(ptx: str, tmp_path: Path) -> None:
    file = tmp_path / "old.fatbin"
    file.write_bytes(container(entry(2, 70, b"")))
    with pytest.raises(UsageError, match=r"machine code for sm_70, and NVIDIA's disassembler reads that of sm_75 and later"):
        load_source(file, native=Architecture(75))
    file.write_bytes(container(entry(2, 70, b""), entry(1, 70, ptx.replace("sm_75", "sm_70").encode())))
    assert load_source(file, native=Architecture(75)).target == "sm_70"


def test_ptx_for_a_newer_gpu_is_named_in_the_refusal(ptx: str, tmp_path: Path) -> None:
    file = tmp_path / "new.fatbin"
    file.write_bytes(container(entry(1, 80, ptx.replace("sm_75", "sm_80").encode())))
    with pytest.raises(UsageError, match=r"has PTX for compute_80, which does not run on sm_75\n.*arch=compute_75,code=sm_75"):
        load_source(file, native=Architecture(75))
    file.write_bytes(container(entry(2, 90, b""), entry(1, 80, ptx.replace("sm_75", "sm_80").encode())))
    with pytest.raises(UsageError, match=r"has machine code for sm_90 and PTX for compute_80, which does not run on sm_75"):
        load_source(file, native=Architecture(75))


def test_cubin_has_no_ptx_to_execute(path: str) -> None:
    with pytest.raises(UnsupportedError, match=r"only machine code is embedded in it \(sm_80\), no PTX\n.*level `sass`"):
        results(path, gpu="a100", level="ptx")


def test_cubin_is_compiled_already(path: str) -> None:
    with pytest.raises(UsageError, match="is machine code, which is compiled already: `defines` cannot change it"):
        results(path, gpu="a100", level="sass", defines=("N=1",))
    with pytest.raises(UsageError, match="`arch` cannot change it"):
        results(path, gpu="a100", level="sass", arch="sm_86")


@pytest.mark.parametrize(
    ("argument", "place", "complaint"),
    [("f64:1", 2, "f64 has 8 bytes, and the parameter (b32) has 4"), ("f32[8]:zeros", 2, "holds no address"),
     ("hex:00ff", 3, "2 bytes are given, and the parameter (16-byte struct) has 16"), ("i32:5", 0, "has 8")],
)  # fmt: skip
def test_arguments_are_checked_against_the_sizes(argument: str, place: int, complaint: str, path: str) -> None:
    arguments = ["f32[256]:uniform", "f32[256]:zeros", "i32:5", "hex:" + PAIR.hex()]
    arguments[place] = argument
    with pytest.raises(UsageError) as caught:
        warpsight.trace(path, kernel="mix", grid=1, block=32, args=arguments, gpu="a100", level="sass")
    assert f"argument {place + 1}" in str(caught.value) and complaint in str(caught.value)


def test_elf_file_without_kernels_says_so(tmp_path: Path) -> None:
    file = tmp_path / "app"
    file.write_bytes(program(b"text", ".text"))
    with pytest.raises(FormatError, match=r"app: is a program or library without kernels"):
        load_source(file, native=Architecture(80))
    file.write_bytes(program(b"text", "__nv_relfatbin"))
    with pytest.raises(UnsupportedError, match=r"has yet to be linked"):
        load_source(file, native=Architecture(80))


def test_fat_binary_that_is_damaged_is_one_error(cubin: bytes, tmp_path: Path) -> None:
    whole = container(entry(2, 80, cubin))
    file = tmp_path / "app"
    for keep in range(20, len(whole), len(whole) // 8):
        for wrapped in (whole[:keep], program(whole[:keep])):
            file.write_bytes(wrapped)
            with pytest.raises(FormatError, match="the fat binary cannot be read"):
                load_source(file, native=Architecture(80))


def test_several_architectures_without_a_gpu_ask_for_one(cubin: bytes, ptx: str, tmp_path: Path) -> None:
    file = tmp_path / "mix.fatbin"
    file.write_bytes(container(entry(2, 80, cubin), entry(2, 90, assemble(ptx, "mix.ptx", parse_architecture(90)))))
    with pytest.raises(UsageError, match=r"has machine code for sm_80, sm_90, and no GPU is given\n.*`gpu=` or `arch=`"):
        results(str(file), level="sass")
    assert results(str(file), level="sass", arch="sm_90")[1].header.target == "sm_90"


def test_missing_disassembler_names_its_package(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = load_source(path, native=Architecture(80))
    monkeypatch.setattr(libraries, "toolkit_folders", list)
    with pytest.raises(MissingLibraryError, match=r"nvdisasm.*is not installed\n.*pip install"):
        machine_code(source, Architecture(80))


@pytest.mark.parametrize(
    ("script", "complaint"), [("echo broken >&2; exit 1", "refuses it: broken"), ("kill -SEGV $$", "it crashes")]
)
def test_failing_disassembler_is_one_error(
    script: str, complaint: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "nvdisasm"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(assembler, "disassembler_path", lambda: fake)
    with pytest.raises(CompileError, match=complaint):
        machine_code(load_source(path, native=Architecture(80)), Architecture(80))


# -- What nvcc makes.

TALKING = """
#include <cstdio>
__device__ int counter = 7;
__global__ void talk(int* p) {
    int* own = (int*)malloc(4 + 4 * threadIdx.x);
    own[threadIdx.x] = p[threadIdx.x];
    printf("%d of %d\\n", own[threadIdx.x], counter);
    p[threadIdx.x] = own[threadIdx.x] + 1;
    free(own);
}
"""


@needs_nvcc
@pytest.mark.parametrize("architecture", ["75", "90"])
def test_cubin_of_nvcc_calls_the_runtime_and_knows_its_lines(
    architecture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "talk.cu").write_text(TALKING)
    command = ["nvcc", "-cubin", "-lineinfo", f"-arch=sm_{architecture}", "-o", str(tmp_path / "talk.cubin")]
    subprocess.run([*command, str(tmp_path / "talk.cu")], check=True, capture_output=True)
    p = np.arange(3, dtype="i4")
    trace = warpsight.trace(str(tmp_path / "talk.cubin"), grid=1, block=3, args=[p], level="sass")
    assert p.tolist() == [1, 2, 3]
    assert capsys.readouterr().out.splitlines() == ["0 of 7", "1 of 7", "2 of 7"]
    lines = {i.line for i in trace.instructions if i.file.endswith("talk.cu")}
    assert lines and lines <= set(range(4, 11)) and 6 in lines


@needs_nvcc
def test_object_that_is_not_linked_is_refused(tmp_path: Path) -> None:
    (tmp_path / "talk.cu").write_text(TALKING)
    for option, name in (("-dc", "talk.o"), ("-cubin", "talk.cubin")):
        command = ["nvcc", option, *(["-rdc=true"] if option == "-cubin" else []), "-arch=sm_80", "-o", str(tmp_path / name)]
        subprocess.run([*command, str(tmp_path / "talk.cu")], check=True, capture_output=True)
        with pytest.raises(UnsupportedError, match="has yet to be linked"):
            modules_in((tmp_path / name).read_bytes(), name)


@needs_nvcc
def test_linked_machine_code_that_launches_kernels_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(
        "__global__ void child(int* a) { a[threadIdx.x] += 1; }\n"
        "__global__ void parent(int* a) { child<<<1, 32>>>(a); }\nint main() {}\n"
    )
    command = ["nvcc", "-rdc=true", "-cudart", "shared", "-arch=sm_80", "-o", str(tmp_path / "app"), str(tmp_path / "a.cu")]
    subprocess.run([*command, "-lcudadevrt"], check=True, capture_output=True)
    with pytest.raises(UnsupportedError, match=r"device runtime \(kernels that start kernels\), which is not.*\n.*from the host"):
        warpsight.trace(str(tmp_path / "app"), kernel="parent", grid=1, block=32, args=[np.zeros(32, "i4")], gpu="a100")


@needs_nvcc
def test_program_linked_of_several_objects_calls_across_them(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(
        "typedef float (*F)(float);\nextern __device__ F table[2];\n"
        "__global__ void pick(float* p) { p[threadIdx.x] = table[threadIdx.x % 2](p[threadIdx.x]); }\nint main() {}\n"
    )
    (tmp_path / "b.cu").write_text(
        "typedef float (*F)(float);\n__device__ __noinline__ float twice(float x) { return 2 * x; }\n"
        "__device__ __noinline__ float more(float x) { return x + 3; }\n__device__ F table[2] = {twice, more};\n"
    )
    command = ["nvcc", "-rdc=true", "-cudart", "shared", "-arch=sm_80", "-o", str(tmp_path / "app")]
    subprocess.run([*command, str(tmp_path / "a.cu"), str(tmp_path / "b.cu")], check=True, capture_output=True)
    p = np.arange(32, dtype="f4")
    warpsight.trace(str(tmp_path / "app"), kernel="pick", grid=1, block=32, args=[p], gpu="a100")
    x = np.arange(32)
    assert np.array_equal(p, np.where(x % 2, x + 3, 2 * x))
