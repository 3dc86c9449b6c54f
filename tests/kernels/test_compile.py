from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.base.errors import CompileError, UsageError
from warpsight.kernels import cuda as nvrtc
from warpsight.kernels import toolkit as libraries
from warpsight.kernels.cuda import has_host_code
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import MissingLibraryError, parse_architecture

pytestmark = pytest.mark.unit

ONE = "__global__ void one(int* p) { *p = VALUE; }\n"
HOST = '#include <cstdio>\n__global__ void one(int* p) { *p = 1; }\nint main() { one<<<1, 1>>>(0); printf("done"); }\n'


def _stored_constant(ptx: str) -> int:
    (value,) = [int(line.rpartition(",")[2].strip(" ;")) for line in ptx.splitlines() if "mov.u32" in line or "mov.b32" in line]
    return value


@pytest.fixture
def no_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def _fake_nvcc(folder: Path, script: str) -> None:
    (folder / "nvcc").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "nvcc").chmod(0o755)


@pytest.mark.parametrize(
    ("text", "virtual"),
    [
        ("75", "compute_75"), (75, "compute_75"), ("compute_86", "compute_86"), ("sm_90a", "compute_90a"), ("8.0", "compute_80"),
        ("SM_120", "compute_120"), ("10.0f", "compute_100f"),
    ],
)  # fmt: skip
def test_parse_architecture_in_any_spelling_is_one(text: str | int, virtual: str) -> None:
    assert parse_architecture(text).virtual == virtual
    assert parse_architecture(text).real == virtual.replace("compute", "sm")


@pytest.mark.parametrize("text", ["", "turing", "sm_", "7", "sm75x", "75b", "-75", "7.55"])
def test_parse_architecture_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^arch: .* is not a GPU architecture"):
        parse_architecture(text)


def test_architecture_that_the_compiler_lacks_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match=r"compute_30 is not .* \(75, ") as caught:
        load_source("__global__ void f() {}\n", arch=30)
    assert "use 75" in caught.value.remedy


@pytest.mark.parametrize("arch", ["75", "80", "90a", "120"])
def test_arch_given_is_the_target_of_the_ptx(arch: str) -> None:
    assert load_source("__global__ void f(int* p) { *p = 1; }\n", arch=arch).target == f"sm_{arch}"


def test_error_is_worded_as_the_compiler_does_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "bad.cu").write_text("__global__ void f(int* p) {\n  *p = missing;\n  int 3x;\n}\n")
    with pytest.raises(CompileError) as caught:
        load_source(tmp_path / "bad.cu")
    assert f'{tmp_path}/bad.cu(2): error: identifier "missing" is undefined' in caught.value.what
    assert "bad.cu(3): error:" in caught.value.what
    assert caught.value.exit_code == 2


def test_kernel_expression_that_does_not_exist_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="nothere"):
        load_source(ONE, defines=["VALUE=1"], kernel_expressions=["nothere<float>"])


def test_warning_of_the_compiler_is_kept(tmp_path: Path) -> None:
    text = "__global__ void f(int* p) { int unused = 3; *p = 1; }\n"
    first, again = load_source(text), load_source(text)
    assert "was declared but never referenced" in first.warnings
    assert again.warnings == first.warnings


def test_defines_reach_the_compiler() -> None:
    assert _stored_constant(load_source(ONE, defines=["VALUE=41"]).ptx) == 41
    assert _stored_constant(load_source(ONE, defines=["VALUE=42"]).ptx) == 42


def test_standard_reaches_the_compiler() -> None:
    text = "__global__ void f(int* p) { *p = __cplusplus; }\n"
    found = {std: _stored_constant(load_source(text, std=std).ptx) for std in (None, "c++14", "c++20")}
    assert found == {None: 201703, "c++14": 201402, "c++20": 202002}  # the values in the standards


def test_unknown_standards_and_those_of_compiled_code_are_refused() -> None:
    with pytest.raises(UsageError, match=r'"c\+\+2a" is not a C\+\+ standard') as caught:
        load_source(ONE, defines=["VALUE=1"], std="c++2a")
    assert "c++20" in caught.value.remedy
    with pytest.raises(UsageError, match="PTX, which is compiled already: `std` cannot change it"):
        load_source(load_source(ONE, defines=["VALUE=1"]).ptx, std="c++20")


def test_headers_are_found_beside_the_source_first_and_their_change_is_seen(tmp_path: Path) -> None:
    source, other = tmp_path / "src", tmp_path / "other"
    source.mkdir()
    other.mkdir()
    (source / "k.cu").write_text('#include "outer.h"\n' + ONE)
    (other / "value.h").write_text("#define VALUE 2\n")
    (source / "outer.h").write_text('#include "value.h"\n')
    assert _stored_constant(load_source(source / "k.cu", include_dirs=[str(other)]).ptx) == 2
    (other / "value.h").write_text("#define VALUE 3\n")
    assert _stored_constant(load_source(source / "k.cu", include_dirs=[str(other)]).ptx) == 3
    (source / "value.h").write_text("#define VALUE 4\n")
    assert _stored_constant(load_source(source / "k.cu", include_dirs=[str(other)]).ptx) == 4


def test_header_named_by_a_macro_is_compiled_afresh(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#define H "v.h"\n#include H\n' + ONE)
    for value in (5, 6):
        (tmp_path / "v.h").write_text(f"#define VALUE {value}\n")
        assert _stored_constant(load_source(tmp_path / "k.cu").ptx) == value


def test_second_compilation_starts_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void f(int* p) { *p = 1; }\n")
    code = (
        "import sys\nfrom warpsight.kernels.sources import load_source, find_kernel\n"
        "from warpsight.kernels.registers import register_use\n"
        "from warpsight.kernels import launch_check, launch_file\n"
        "from warpsight.base.compile_budget import Budget\n"
        "started, run = [], Budget.run\n"
        "Budget.run = lambda self, command, *a: (started.append(' '.join(command)), run(self, command, *a))[1]\n"
        "s = load_source(sys.argv[1]); print(register_use(s, find_kernel(s)).registers)\n"
        "print(*(any(name in each for each in started) for name in ('libnvrtc', 'ptxas')))\n"
    )
    environment = {**os.environ, "WARPSIGHT_CACHE": str(tmp_path / "cache")}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "k.cu")], env=environment, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    assert runs[0].stdout.split()[1:] == ["True", "True"]
    assert runs[1].stdout.split()[1:] == ["False", "False"]
    assert runs[0].stdout.split()[0] == runs[1].stdout.split()[0]


def test_cuda_headers_of_the_toolkit_are_there() -> None:
    text = "#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n__global__ void f(half* p) { *p = __hadd(*p, *p); }\n"
    assert len(load_source(text).module.kernels) == 1


@pytest.mark.parametrize(
    ("text", "host"),
    [
        (HOST, True),
        ("#include <vector>\n__global__ void f() {}\n", True),
        ("__global__ void f() {}\nvoid g() { f<<<1, 1>>>(); }\n", True),
        ("void g() { cudaMalloc(0, 1); }\n", True),
        ("#ifndef __CUDACC_RTC__\n" + HOST + "#endif\n", True),
        ('// main() <<<\n/* cudaMalloc( */\n__global__ void f() { const char* s = "main("; }\n', False),
        ("#include <cuda_fp16.h>\n__global__ void f() {}\n", False),
        ('#include "mine.h"\n__global__ void mainly(int cudaX) {}\n', False),
        ("__device__ int g(cuda::std::size_t n);\n", False),
    ],
)
def test_has_host_code_sees_it_guarded_or_not(text: str, host: bool) -> None:
    assert has_host_code(text) is host


def test_host_code_without_nvcc_is_explained(no_nvcc: None) -> None:
    with pytest.raises(CompileError, match="cstdio") as caught:
        load_source(f"{HOST}\n__global__ void two(int *x) {{ *x = rand(); }}\n")
    assert "__CUDACC_RTC__" in caught.value.remedy and "nvcc" in caught.value.remedy


def test_guarded_host_code_needs_no_nvcc(no_nvcc: None) -> None:
    text = HOST.replace("#include <cstdio>", "#ifndef __CUDACC_RTC__\n#include <cstdio>\n#endif")
    text = text.replace("int main", "#ifndef __CUDACC_RTC__\nint main") + "#endif\n"
    assert list(load_source(text).module.kernels) == ["_Z3onePi"]


def test_host_code_goes_through_nvcc_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptx = load_source("__global__ void made_by_nvcc(int* p) { *p = 1; }\n").ptx
    (tmp_path / "made.ptx").write_text(ptx)
    log, source = tmp_path / "log", tmp_path / "k.cu"
    source.write_text(HOST)
    _fake_nvcc(
        tmp_path,
        f'if [ "$1" = --version ]; then echo fake 1; exit; fi\necho "$@" >> {log}\n'
        f'while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done\n/bin/cat {tmp_path}/made.ptx > $out',
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    for _ in range(2):
        compiled = load_source(source, arch="80", defines=["N=3"])
        assert list(compiled.module.kernels) == ["_Z12made_by_nvccPi"]
    (command,) = log.read_text().splitlines()
    for option in ("-ptx", "-O3", "-lineinfo", "-arch=compute_80", "--define-macro=N=3", str(source)):
        assert option in command.split()


def test_instance_that_nvcc_does_not_make_is_made_without_the_host_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.ptx").write_text(load_source("__global__ void other(int* p) { *p = 1; }\n").ptx)
    _fake_nvcc(
        tmp_path,
        '[ "$1" = --version ] && exit\n[ "$1" = --dryrun ] && exit\n'
        f'while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done\n/bin/cat {tmp_path}/made.ptx > $out',
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    text = "#include <iostream>\ntemplate <typename T> __global__ void scale(T* p) { *p *= 2; }\n"
    compiled = load_source(text, kernel_expressions=["scale<float>"])
    assert compiled.mangled_names == {"scale<float>": "_Z5scaleIfEvPT_"}
    assert list(compiled.module.kernels) == ["_Z5scaleIfEvPT_"] and "only the instances" in compiled.warnings


def test_error_of_nvcc_is_worded_as_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_nvcc(tmp_path, '[ "$1" = --version ] && exit\necho "k.cu(3): error: no good" >&2\nexit 2')
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match=r"nvcc refuses it:\nk\.cu\(3\): error: no good"):
        load_source(HOST)


def test_header_that_nvcc_does_not_find_has_a_wrong_name_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "k.cu:2:10: fatal error: nosuch.h: No such file or directory"
    _fake_nvcc(tmp_path, f'[ "$1" = --version ] && exit\necho "{said}" >&2\nexit 2')
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match=r"nvcc refuses it") as caught:
        load_source("#include <nosuch.h>\n" + HOST)
    assert caught.value.remedy.startswith("check the name of nosuch.h, or name the folder that has it with -I")


def test_missing_compiler_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "toolkit_folders", list)
    with pytest.raises(MissingLibraryError, match=r"libnvrtc\.so\.13 is not installed") as caught:
        nvrtc.library_identity()
    assert "pip install" in caught.value.remedy and "nvidia-cuda-nvrtc" in caught.value.remedy


def test_macros_of_math_are_constants_as_with_nvcc(no_nvcc: None) -> None:
    names = {"INFINITY": "f7F800000", "NAN": "f7FC00000", "HUGE_VALF": "f7F800000", "HUGE_VAL": "d7FF0000000000000"}
    kinds = {"f": "float", "d": "double"}
    text = "".join(f"__device__ {kinds[bits[0]]} x{n} = {name};\n" for n, (name, bits) in enumerate(names.items()))
    text += "__device__ double pi = M_PI, root = M_SQRT1_2;\nconstexpr float low = -INFINITY;\n"
    text += 'extern "C" __global__ void f(float* p) { p[0] = low; }\n'
    compiled = nvrtc.compile_cuda(text, "m.cu", nvrtc.CompileOptions(parse_architecture(75)))
    for n, bits in enumerate(names.values()):
        assert f"x{n} = 0{bits};" in compiled.ptx
    assert f"pi = 0d{struct.pack('>d', math.pi).hex().upper()};" in compiled.ptx
    assert f"root = 0d{struct.pack('>d', math.sqrt(0.5)).hex().upper()};" in compiled.ptx
    assert not compiled.warnings


def test_macro_of_math_that_the_user_defines_is_the_users(no_nvcc: None, tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("#pragma once\n#define M_E 5\n")
    text = '#include "mine.h"\n  # define INFINITY 7\n__device__ int x[3] = {INFINITY, NAN, M_E};\n'
    text += 'extern "C" __global__ void f(int* p) { p[0] = x[p[1]]; }\n'
    options = nvrtc.CompileOptions(parse_architecture(75), defines=("NAN=8",))
    compiled = nvrtc.compile_cuda(text, str(tmp_path / "m.cu"), options)
    assert "x[3] = {7, 8, 5};" in compiled.ptx or "x[12] = {7, 0, 0, 0, 8, 0, 0, 0, 5}" in compiled.ptx
    assert not compiled.warnings
