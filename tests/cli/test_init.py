"""Does `init` write launch files that run, with every parameter as the source declares it?"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_one_error, run

from warpsight.kernels.launch_file import prepare, read_launch_file

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]

KERNELS = """\
#include <cuda_fp16.h>
typedef double real;
struct Foo { int a; float b; };
namespace ns {
template <typename T, int N> __global__ void scale(T* __restrict__ x, const T *y, size_t n) {
  extern __shared__ double s[];  // one for each thread
  s[threadIdx.x] = y[threadIdx.x];
  if (threadIdx.x < n) x[threadIdx.x] = (T)(s[threadIdx.x] * N);
}
template __global__ void scale<float, 3>(float*, const float*, size_t);
}
__global__ void __launch_bounds__(128) gemm(const real* A, const half *B /* (K, N) */, float4 *C, int M, int N, int K, real alpha,
                                            const Foo f, bool flag, unsigned char c, const int* index) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = threadIdx.y;
  if (i < M && j < N && flag) C[i] = make_float4(A[i] * alpha, f.b, c + K, index[j] + __half2float(B[j]));
}
__global__ void nothing() {}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CUDA file with three kernels in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kernels.cu"
    path.write_text(KERNELS)
    return path


def _document(capsys: Capture, *words: str) -> dict[str, Any]:
    outcome = run(capsys, "init", "kernels.cu", *words, "--json")
    assert outcome.code == 0, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_grid_follows_the_block_where_one_parameter_counts_the_elements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2;"
    Path("twice.cu").write_text(f"__global__ void twice(float* x, int n) {{ {body} }}")
    assert run(capsys, "init", "twice.cu").code == 0
    text = Path("twice.yaml").read_text()
    assert prepare(read_launch_file("twice.yaml"))[1].grid == (4096, 1, 1)  # a million elements
    Path("twice.yaml").write_text(text.replace("block: 256", "block: 96"))
    assert prepare(read_launch_file("twice.yaml"))[1].grid == (10923, 1, 1)  # 2**20 / 96, rounded up


def test_parameters_have_names_types_and_values_that_fit(source: Path, capsys: Capture) -> None:
    document = _document(capsys, "--kernel", "gemm")
    count = 64 * 64 * 256
    assert [(each["name"], each["type"], each["value"]) for each in document["parameters"]] == [
        ("A", "const real*", f"f64[{count}]:uniform"), ("B", "const half*", f"f16[{count}]:uniform"),
        ("C", "float4*", f"f32[{4 * count}]:zeros"), ("M", "int", "i32:1024"), ("N", "int", "i32:1024"), ("K", "int", "i32:1024"),
        ("alpha", "real", "f64:1.0"), ("f", "const Foo", "hex:" + 16 * "0"), ("flag", "bool", "bool:true"),
        ("c", "unsigned char", "u8:1"), ("index", "const int*", f"i32[{count}]:randint({count})"),
    ]  # fmt: skip
    assert (document["grid"], document["block"]) == ([64, 64, 1], [8, 16, 1])  # two axes; 128 threads by the launch bounds
    launch = prepare(read_launch_file("gemm.yaml"))[1]
    assert len(launch.arguments) == 11


def test_groups_of_threads_read_all_axes_but_the_launch_has_those_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sum.cu").write_text(
        "#include <cooperative_groups.h>\n#include <cuda_fp16.h>\nnamespace cg = cooperative_groups;\n"
        "__global__ void sum(const half2* x, int* out) {\n"
        "  int at = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (cg::this_thread_block().thread_rank() == 0) out[blockIdx.x] = __half2int_rz(__low2half(x[at]));\n}\n"
    )
    assert run(capsys, "init", "sum.cu").code == 0
    text = Path("sum.yaml").read_text()
    assert prepare(read_launch_file("sum.yaml"))[1].block == (256, 1, 1)
    assert "f16[2097152]:uniform" in text  # two halves for each of a million threads


def test_template_arguments_and_dynamic_shared_memory_are_known(source: Path, capsys: Capture) -> None:
    document = _document(capsys, "--kernel", "sc*")
    assert document["kernel"] == "ns::scale<float, 3>"
    assert [(each["type"], each["value"]) for each in document["parameters"]] == [
        ("float*", "f32[1048576]:zeros"), ("const float*", "f32[1048576]:uniform"), ("size_t", "u64:1048576"),
    ]  # fmt: skip
    assert document["shared"] == 256 * 8


def test_what_is_written_is_shown_and_predicted(source: Path, capsys: Capture) -> None:
    outcome = run(capsys, "init", "kernels.cu", "--kernel", "nothing")
    assert (outcome.code, Path("nothing.yaml").read_text().rstrip() in outcome.out) == (0, True)
    assert run(capsys, "predict", "nothing.yaml").code == 0


def test_an_existing_file_is_kept_unless_forced(source: Path, capsys: Capture) -> None:
    Path("nothing.yaml").write_text("mine")
    words = ("init", "kernels.cu", "--kernel", "nothing")
    assert_one_error(run(capsys, *words), 2, "nothing.yaml: exists already", "--force")
    assert Path("nothing.yaml").read_text() == "mine"
    assert run(capsys, *words, "--force").code == 0


def test_source_and_folders_are_seen_from_the_file(source: Path, capsys: Capture) -> None:
    (source.parent / "headers").mkdir()
    (source.parent / "headers" / "size.h").write_text("#define SIZE 4\n")
    (source.parent / "one.cu").write_text('#include "size.h"\n__global__ void one(float* x) { x[threadIdx.x] = SIZE * FACTOR; }\n')
    (source.parent / "below").mkdir()
    outcome = run(capsys, "init", "one.cu", "-I", "headers", "-D", "FACTOR=2", "-std=c++20", "-o", "below/one.yaml")
    assert outcome.code == 0, outcome.err
    spec = read_launch_file("below/one.yaml")
    expected = (source.parent / "one.cu").resolve(), ("FACTOR=2",), "c++20"
    assert (Path(spec.source).resolve(), spec.defines, spec.std) == expected
    assert len(prepare(spec)[1].arguments) == 1


def test_kernels_of_a_large_file_are_listed_and_chosen_by_pattern(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "many.cu"
    path.write_text("".join(f"__global__ void kernel{n}(float* x) {{ x[0] = {n}; }}\n" for n in range(213)))
    listed = json.loads(run(capsys, "init", path, "--list", "--json").out)
    assert [row["kernel"] for row in listed] == [f"kernel{n}" for n in range(213)]
    assert [row["kernel"] for row in json.loads(run(capsys, "init", path, "--list", "--kernel", "*l21?", "--json").out)] == [
        "kernel210", "kernel211", "kernel212",
    ]  # fmt: skip
    assert_one_error(run(capsys, "init", path), 2, "there are 213 kernels in it", "and 193 more", "--list` lists all")
    assert_one_error(run(capsys, "init", path, "--kernel", "*l21?"), 2, "may mean 3 kernels: kernel210, kernel211, kernel212")
    words = ("predict", path, "--kernel", "*212", "--grid", "1", "--block", "1", "--arg", "f32[1]:zeros", "--json")
    assert json.loads(run(capsys, *words).out)["kernel"] == "kernel212"


def test_command_after_a_list_compiles_as_the_list_did(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "one.cu"
    path.write_text("template <int n> concept small = n < 9;\n__global__ void one(float* x) { x[0] = small<SIZE>; }\n")
    options = ("-DSIZE=4", "-std=c++20", "-I", str(tmp_path))
    last = run(capsys, "init", path, "--list", *options).out.rstrip().splitlines()[-1]
    words = shlex.split(last.removeprefix("next: warpsight "), comments=True)
    assert words == ["init", str(path), *options, "--kernel", "one"]
    assert run(capsys, *words, "-o", str(tmp_path / "one.yaml")).code == 0


def test_ptx_has_types_without_names(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 a, .param .f32 b, .param .u32 c)\n{ ret; }\n"
    )
    document = json.loads(run(capsys, "init", path, "-o", "-", "--json").out)
    assert [each["value"] for each in document["parameters"]] == ["f32[1048576]:zeros", "1.0", "1"]
