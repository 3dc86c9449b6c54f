"""Is a text with host code that nothing here compiles read for its kernels alone, line for line, and never otherwise changed?"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.base.errors import CompileError
from warpsight.kernels import cuda, device_text
from warpsight.kernels.device_text import without_host_code
from warpsight.kernels.mangling import display_name
from warpsight.kernels.sources import find_kernel, load_source

pytestmark = pytest.mark.unit

PROGRAM = """#include <stdio.h>
#include <vector>
#include <cublas_v2.h>
#include "shared.h"
#define DEVICE __device__ __forceinline__
static cublasHandle_t handle; /* of the { library */
struct Loader { FILE *file; int count; };
struct alignas(16) Four { float v[4]; DEVICE float sum() const { return v[0] + v[1] + v[2] + v[3]; } };
const int WIDTH = 4;
constexpr int up(int n, int to) { return (n + to - 1) / to; }
template <class T> T *copied(const std::vector<T> &from) { T *to; cudaMalloc(&to, from.size()); return to; }
DEVICE float twice(float x) { return 2 * x; }
namespace inner {
void check(cublasStatus_t status) { if (status) { printf("} is %d\\n", status); } }
__global__ void scale(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < up(n, WIDTH)) x[i] = twice(x[i]) + OFFSET;
}
}
int main(int argc, char **argv)
{
    std::vector<float> x(100);
    inner::scale<<<1, 32>>>(copied(x), 100);
    return cublasCreate(&handle);
}
"""
HEADER = """#pragma once
#include <stdint.h>
#define OFFSET 3
void report(FILE *file);
inline double seconds() { struct timespec t; clock_gettime(0, &t); return t.tv_sec; }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "shared.h").write_text(HEADER)
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    return path


def lines_of(text: str, path: str = "x.cu") -> list[str]:
    made = without_host_code(text, path, [], [])
    assert made is not None
    return made.text.split("\n")


def test_device_code_stays_in_its_lines_and_host_code_goes(program: Path) -> None:
    made = without_host_code(PROGRAM, str(program), [], [], frozenset({"FILE"}))
    assert made is not None
    before, after = PROGRAM.split("\n"), made.text.split("\n")
    assert len(before) == len(after)
    gone = {6, 7, 11, 14, *range(21, 27)}
    assert [n for n, line in enumerate(after, 1) if line != before[n - 1]] == sorted(gone)
    assert not any(after[n - 1].strip() for n in gone)
    numbered = f'#line 1 "{program.parent / "shared.h"}"'
    assert made.headers["shared.h"].split("\n")[:5] == [numbered, *HEADER.split("\n")[:3], ""]
    assert "timespec" not in made.headers["shared.h"]
    assert made.left_out == ("stdio.h", "vector", "cublas_v2.h", "stdint.h")


@pytest.mark.parametrize(
    ("item", "stays"),
    [
        ('extern "C" __global__ void k(int *x) { x[0] = 1; }', True),
        ("template __global__ void k<float>(float *);", True),
        ("template <int N> __global__ void __launch_bounds__(N * (2 + 1)) k(float *x) {}", True),
        ("using real = float;", True),
        ("typedef struct { int a; } Pair;", True),
        ("enum class Kind : int { A, B = 2 };", True),
        ("struct Op { __device__ float operator()(float x) const { return x; } };", True),
        ("__constant__ float table[] = {1, 2};", True),
        ("static const int sizes[] = {1, 2, 3};", True),
        ("static_assert(sizeof(int) == 4);", True),
        ("auto square = [] __device__ (float x) { return x * x; };", True),
        ("int counter = 0;", False),
        ("void launch(float *x) { k<<<1, 2>>>(x); }", False),
        ("int *table(void);", False),
        ("using namespace std;", False),
        ("const std::string name = \"k\";", False),
        ("bool operator==(const A &a, const B &b) { return true; }", False),
        ("TEST(Kernel, Works) { EXPECT_EQ(1, 1); }", False),
        ("static float sum(const float *x, int n) { float s = 0; for (int i = 0; i < n; i++) { s += x[i]; } return s; }", False),
    ],
)  # fmt: skip
def test_what_stays_is_device_code_types_names_and_constants(item: str, stays: bool) -> None:
    assert lines_of(f"{item}\nint n;")[0] == (item if stays else "")


@pytest.mark.parametrize("text", ["__global__ void k() {", "}", "void f() { } }"])
def test_text_whose_brackets_do_not_match_is_not_read(text: str) -> None:
    assert without_host_code(text, "x.cu", [], []) is None


def test_header_that_may_have_device_code_is_never_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    path = tmp_path / "k.cu"
    path.write_text('#include <vector>\n#include "mine.h"\n__global__ void k(int *x) { *x = 1; }\n')
    with pytest.raises(CompileError):
        load_source(path)
    path.write_text('#include <vector>\n#if MINE\n#include "mine.h"\n#endif\n__global__ void k(int *x) { *x = 1; }\n')
    assert find_kernel(load_source(path)) == "_Z1kPi"


def test_header_with_two_names_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "one.cuh").write_text("#pragma once\n#include <vector>\n__device__ int one() { return 1; }\n")
    (tmp_path / "lib" / "two.cuh").write_text('#pragma once\n#include "one.cuh"\n')
    path = tmp_path / "k.cu"
    path.write_text('#include "lib/one.cuh"\n#include "lib/two.cuh"\n__global__ void k(int *x) { *x = one(); }\n')
    assert find_kernel(load_source(path)) == "_Z1kPi"


def test_headers_of_a_folder_keep_path_and_lines_and_those_of_device_libraries_their_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of cuRAND's headers under `-I` has brackets that match only after preprocessing."""
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    folder = tmp_path / "a folder"
    folder.mkdir()
    host = "inline int count(std::vector<int> &v) { return 1; }"
    function = "__device__ inline float shrunk(float x)\n{\n    return sqrtf(x);\n}\n"
    (folder / "mine.h").write_text(f"#include <vector>\n{host}\n{function}")
    opens = "#ifdef __CUDACC_RTC__\nnamespace tables {\n#else\nnamespace others {\n#endif\n"
    (folder / "curand_tables.h").write_text(f"{opens}__device__ int table[2] = {{3, 4}};\n}}\n")
    kernel = "__global__ void k(float *x, int i) { x[i] = shrunk(x[i]) + tables::table[i & 1]; }"
    headers = '#include <cublas_v2.h>\n#include "mine.h"\n#include "curand_tables.h"\n'
    (tmp_path / "k.cu").write_text(f"{headers}{kernel}\nint main() {{ cublasCreate(nullptr); }}\n")
    source = load_source(tmp_path / "k.cu", include_dirs=[str(folder)])
    places = {(i.file, i.line) for i in source.module.kernels[find_kernel(source)].instructions}
    assert {(str(folder / "mine.h"), 5), (str(tmp_path / "k.cu"), 4)} <= places


def test_program_without_its_library_compiles_and_says_so(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    source = load_source(program)
    assert find_kernel(source) == "_ZN5inner5scaleEPfi"
    assert source.warnings == "compiled by NVRTC without the host code, which needs cublas_v2.h"
    lines = {i.line for i in source.module.kernels["_ZN5inner5scaleEPfi"].instructions if i.line and i.file.endswith(".cu")}
    assert {17, 18} <= lines


BINDING = """#include <vector>
#include <torch/extension.h>
#define CHECK(call) do {                    \\
        if (call) {                         \\
            /* } or { */ exit(1);           \\
        }                                   \\
    } while (0)
template <int N> __global__ void k(int8_t *x) { static_assert(N > 1); x[threadIdx.x] = int32_t(N); }
torch::Tensor bound(torch::Tensor x) { k<2><<<1, 32>>>(x.data_ptr()); CHECK(0); return x; }
"""


def test_kernel_bound_to_pytorch_has_the_integers_that_its_headers_declare(tmp_path: Path) -> None:
    path = tmp_path / "bound.cu"
    path.write_text(BINDING)
    assert "k<2>" in [display_name(name) for name in load_source(path, kernel_expressions=("k<2>",)).module.kernels]
    with pytest.raises(CompileError, match="static assertion") as caught:  # what is wrong with the kernel, not with the binding
        load_source(path, kernel_expressions=("k<1>",))
    assert "torch/extension.h is missing" in str(caught.value.remedy)


@pytest.mark.skipif(cuda.find_nvcc() is None, reason="needs the headers of nvcc")
def test_headers_of_the_toolkit_are_found_beside_nvcc(tmp_path: Path) -> None:
    path = tmp_path / "wmma.cu"
    path.write_text(
        "#include <mma.h>\n#include <torch/extension.h>\nusing namespace nvcuda;\n__global__ void k(float *x) {\n"
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;\nwmma::fill_fragment(c, 1.0f);\n"
        "wmma::store_matrix_sync(x, c, 16, wmma::mem_row_major); }\nvoid bound(torch::Tensor x);\n"
    )
    assert find_kernel(load_source(path)) == "_Z1kPf"


def test_host_code_needs_no_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    path = tmp_path / "plain.cu"
    path.write_text(
        '#include <cstdio>\n#include <climits>\n__global__ void k(int *x) { *x = INT_MAX; }\nint main() { puts("k"); }\n'
    )
    assert find_kernel(load_source(path)) == "_Z1kPi"
    path.write_text('#include <cstdio>\n__global__ void k(int *x) { *x = rand(); }\nint main() { puts("k"); }\n')
    with pytest.raises(CompileError, match="stdio") as caught:  # the compiler's words on the text as it is
        load_source(path)
    assert "put nvcc on PATH" in str(caught.value.remedy)


def test_constexpr_functions_need_no_annotation() -> None:
    text = "constexpr int up(int n, int to) { return (n + to - 1) / to; }\n__global__ void k(int *x, int n) { *x = up(n, 4); }\n"
    assert find_kernel(load_source(text, name="k.cu")) == "_Z1kPii"


def test_every_host_library_is_known_by_its_headers() -> None:
    assert device_text.host_library("cublasLt.h") == "a CUDA library for the host"
    assert device_text.host_library("torch/extension.h") == "PyTorch"
    assert device_text.host_library("curand_kernel.h") == ""
