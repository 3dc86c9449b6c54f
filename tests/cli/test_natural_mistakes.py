"""Mistakes that people make: does the answer name the cause and the remedy?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import LAUNCH, run

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]

FILES = {
    "template.cu": "template <typename T> __global__ void scale(T* x) { x[threadIdx.x] *= 2; }\n",
    "counted.cu": "template <class T, int N = 4, bool B> __global__ void scale(T* x) { x[threadIdx.x] *= B ? N : 2; }\n",
    "semicolon.cu": "__global__ void k(float* x) { x[0] = 1 }\n",
    "device.cu": "static __device__ float f(float x) { return x; }\n",
    "host.cu": "#include <vector>\n__global__ void k(int* x) { x[0] = rand(); }\nint main() { std::vector<int> a; }\n",
    "torch.cu": "#include <torch/extension.h>\n__global__ void k(float* x) { x[0] = C10_X; }\n",
    "cublas.cu": "#include <cublas_v2.h>\n__global__ void k(float* x) { x[0] = CUBLAS_OP_T; }\n",
    "own.cu": '#include "common.h"\n__global__ void k(float* x) { x[0] = 1; }\n',
    "cutlass.cu": "#include <cutlass/gemm.h>\n__global__ void k(float* x) { x[0] = 1; }\n",
    "dynamic.cu": "__global__ void k(float* x) { extern __shared__ float s[]; s[0] = x[0]; __syncthreads(); x[0] = s[1]; }\n",
    "key.yaml": "source: saxpy.cu\nkernel: saxpy\ngrid: 8\nblok: 256\n",
    "missing.yaml": "source: saxpi.cu\nkernel: saxpy\ngrid: 8\nblock: 256\n",
    "unquoted.yaml": "source: saxpy.cu\nkernel: saxpy\ngrid: 8\nblock: 256\nargs: [2.0, f32[2048]:uniform]\n",
    "text.yaml": "source saxpy.cu\n",
    "one.yaml": "source: saxpy.cu\nkernel: saxpy\ngrid: 8\nblock: 256\nargs: 2048\n",
    "notes.txt": "hello\n",
    "empty.py": "def f(): pass\n",
    "gpu.yaml": "name: mine\nlike: a100\nsms: 80\n",
}
PREDICT = ("predict", "saxpy.cu", *LAUNCH)
SHAPE = ("predict", "saxpy.cu", "--kernel", "saxpy", "--grid", "8", "--block", "256")


def _arguments(*texts: str) -> tuple[str, ...]:
    return (*SHAPE, *(word for text in texts for word in ("--arg", text)))


@pytest.fixture
def folder(launch_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files above beside a kernel and its launch file, as the current folder, without nvcc on PATH."""
    for name, text in FILES.items():
        (launch_file.parent / name).write_text(text)
    monkeypatch.chdir(launch_file.parent)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    return launch_file.parent


MISTAKES: list[tuple[tuple[str, ...], str, str]] = [
    # the command line
    (("predit", "saxpy.cu"), '"predit" is not a command; did you mean "predict"?', "warpsight --help"),
    (("saxpy.cu",), '"saxpy.cu" is not a command', "`warpsight predict saxpy.cu`"),
    (("predict",), "the following arguments are required: KERNEL", "warpsight predict --help"),
    ((*PREDICT, "--gpus", "a100"), '--gpus: is not an option of `warpsight predict`; did you mean "--gpu"?', "predict --help"),
    ((*PREDICT, "-gpu", "a100"), 'did you mean "--gpu"?', "predict --help"),
    ((*PREDICT, "--gpu"), "--gpu: expected one argument", "predict --help"),
    ((*PREDICT, "--gpu", "rtx", "4090"), 'unexpected argument "4090"', 'quote a value that has spaces, as --gpu "rtx 4090"'),
    (("predict", "launch.yaml", "other.yaml"), 'unexpected argument "other.yaml"', "predict --help"),
    ((*PREDICT, "--json", "--csv"), "--csv: stdout can hold CSV or JSON, not both", "leave out one"),
    ((*PREDICT, "--level", "cubin"), '"cubin" is not one of auto, ptx, sass', "predict --help"),
    (("explain", "launch.yaml", "--by", "sources"), 'did you mean "source"?', "explain --help"),
    # files
    (("predict", "saxpi.cu", *LAUNCH), 'saxpi.cu: no such file; did you mean "saxpy.cu"?', "give a .cu"),
    (("predict", "notes.txt"), "notes.txt: is neither PTX", "give a .cu"),
    (("predict", "."), "there is no trace here", "warpsight trace"),
    (("predict", "empty.py"), "neither launch() nor source is defined", "define launch()"),
    (("run", "saxpy.cu"), "saxpy.cu: is not an executable file", "build it with nvcc first, or use `warpsight predict`"),
    (("gate",), "warpsight.yaml: does not exist", "write one"),
    # the kernel
    (SHAPE[:2], "--grid: is missing", "`warpsight init saxpy.cu` writes one"),
    (SHAPE[:6], "--block: is missing", "`warpsight init saxpy.cu` writes one"),
    (("predict", "saxpy.cu", "--grid", "8", "--block", "256"), "there are 2 kernels in it: saxpy, spin", "--kernel NAME"),
    ((*SHAPE, "--kernel", "saxy"), 'there is no kernel "saxy"; did you mean "saxpy"?', "the kernels are: saxpy, spin"),
    (("predict", "template.cu", *SHAPE[4:]), "its kernels are templates, and none is instantiated: scale", "--kernel scale<float>"),
    (("predict", "counted.cu", *SHAPE[4:]), "its kernels are templates", "--kernel scale<float, 4, true>"),
    (("predict", "device.cu", *SHAPE[4:]), "it contains no kernel", "mark one `__global__`"),
    (("init", "saxpy.cu"), "there are 2 kernels in it", "--kernel NAME"),
    (("init", "saxpy.cu", "--kernel", "z*"), 'there is no kernel "z*"', "the kernels are: saxpy, spin"),
    (("init", "launch.yaml"), "launch.yaml: is a launch file already", "`warpsight predict launch.yaml`"),
    # the launch
    (("predict", "launch.yaml", "--grid", "0"), "has 0 in x: nothing would run", "write e.g. 128"),
    (("predict", "launch.yaml", "--block", "2048"), "above CUDA's limit of 1,024", "more blocks"),
    (("predict", "launch.yaml", "--grid", "8,8,8,8"), "has 4 dimensions, not 1 to 3", "16x64"),
    (SHAPE, "saxpy takes 4 argument(s), 0 given", "`warpsight init saxpy.cu` writes a launch file"),
    (_arguments("2.0", "f32[9]:zeros"), "saxpy takes 4 argument(s), 2 given", "(float a, const float* x, float* y, int n)"),
    (_arguments("a=2.0", "z=i32:9"), "argument 2 (z=i32:9): the kernel has no parameter z", "its parameters are a, x, y, n"),
    (_arguments("n=9", "x=f32[9]:zeros", "a=2.0"), "no value is given for y", "give it as the others: y=..."),
    (_arguments("n=9", "f32[9]:zeros"), "argument 2 (f32[9]:zeros): follows an argument that is given by name", "NAME=VALUE"),
    (_arguments("2.0", "a=3.0"), "argument 2 (a=3.0): a has a value already", "give each parameter once"),
    (_arguments("a=2.0", "x=f32[9]:zeros", "y=f32[9]:zeros", "n=abc"), "argument 4 (abc): is not an argument", "write a scalar"),
    ((*_arguments("2.0", "f32[9]:zeros", "f32[9]:zeros", "abc"), "--grid", "ceil(n / 256)"), "argument 4 (abc): is not an argument",
     "write a scalar"),
    (("predict", "launch.yaml", "--shared", "48K"), "'48K' is not a whole number", "write 48Ki, which is 49,152, or 48000"),
    (_arguments("2.0", "f32[2048]", "f32[2048]:zeros", "2048"), "the array has no rule that fills it", "f32[2048]:zeros"),
    (_arguments("2.0", "float[9]:uniform", "f32[9]:zeros", "9"), '"float" is not a type', "i32 u32 i64 u64 f16 f32"),
    (_arguments("2.0", "f32[9]:random", "f32[9]:zeros", "9"), '"random" is not a rule for an array', "uniform(low,high)"),
    (_arguments("f32[9]:zeros", "2.0", "f32[9]:zeros", "9"), "an array is given, and the parameter is f32", "give a scalar"),
    (_arguments("2.0", "x.npy", "f32[9]:zeros", "9"), "there is no file x.npy", "numpy.save"),
    (_arguments("2.0", "x", "f32[9]:zeros", "9"), "argument 2 (x): is not an argument", "write a scalar"),
    (("predict", "key.yaml"), 'key.yaml:4: blok is not a known key; did you mean "block"?', "the keys are: "),
    (("predict", "missing.yaml"), 'saxpi.cu: no such file; did you mean "saxpy.cu"?', "give a .cu"),
    (("predict", "unquoted.yaml"), "unquoted.yaml:5: is not YAML", "quote texts that have brackets"),
    (("predict", "text.yaml"), "text.yaml:1: is not a mapping", "key: value"),
    (("predict", "one.yaml"), "one.yaml:5: args is not a list", "write args: [...]"),
    # compiling
    (("predict", "semicolon.cu", *SHAPE[4:]), "semicolon.cu(1): error: expected a", "x[0] = 1 }"),
    (("predict", "host.cu", *SHAPE[4:]), 'cannot open source file "vector"', "or put nvcc on PATH"),
    (("predict", "torch.cu", *SHAPE[4:]), 'identifier "C10_X" is undefined', "left out, as torch/extension.h is missing"),
    (("predict", "cublas.cu", *SHAPE[4:]), 'identifier "CUBLAS_OP_T" is undefined', "left out, as cublas_v2.h is missing"),
    (("predict", "own.cu", *SHAPE[4:]), '"common.h"', "name the folder that has common.h with -I"),
    (("predict", "cutlass.cu", *SHAPE[4:]), '"cutlass/gemm.h"', "is of CUTLASS: name the folder of its headers with -I"),
    ((*PREDICT, "--arch", "sm_9x"), "is not a GPU architecture", "write 75, compute_75 or sm_75"),
    ((*PREDICT, "--arch", "sm_52"), "compute_52 is not an architecture that this NVRTC compiles for", "use 75"),
    # the GPU
    ((*PREDICT, "--gpu", "8800"), 'did you mean "8800gt" or "8800gtx"?', "8800gtx, the GeForce 8800 GTX of MWP-CWP"),
    ((*PREDICT, "--gpu", "rtx4900"), 'did you mean "rtx4090"?', "name one: rtx4090"),
    ((*PREDICT, "--gpu", "mi300"), '"mi300" is neither a GPU of the catalogue nor a file', "the catalogue has: 8800gt"),
    ((*PREDICT, "--gpu", "nothere.yaml"), '"nothere.yaml" is neither', "check the path"),
    ((*PREDICT, "--gpu", "gpu.yaml"), 'gpu.yaml:3: sms is not a known key; did you mean "sm_count"?', "known here: core_clock"),
    (("compare", "launch.yaml", "--gpu", "a100,"), '"a100," has an empty name', "write NAME,NAME"),
    ((*PREDICT, "--set", "sms=80"), 'sms is not a known key; did you mean "sm_count"?', "known here: core_clock, sm_count"),
    ((*PREDICT, "--set", "sm_count"), "is not key=value", "--set l1.ways=4"),
    ((*PREDICT, "--set", "sm_count=0"), "sm_count is 0, and must be at least 1", "check the unit"),
    ((*PREDICT, "--set", "dram.bandwidth=900"), 'dram.bandwidth has no unit: "900"', "GB/s"),
    # the rest
    ((*PREDICT, "--model", "mdn"), 'did you mean "mdm"?', "known: bottleneck"),
    (("config", "modle"), 'did you mean "model"?', "config --help"),
    (("completion", "tcsh"), '"tcsh" is not one of bash, zsh, fish', "completion --help"),
    (("gpus", "show"), "the following arguments are required: NAME|FILE", "gpus show --help"),
    (("serve", "nothere"), "nothere: is not a folder", "make it with mkdir"),
    (("run", "./nothere"), "./nothere: no such program", "as you would start it"),
]


@pytest.mark.parametrize(("words", "cause", "remedy"), MISTAKES, ids=[" ".join(words)[:60] for words, _, _ in MISTAKES])
def test_the_answer_names_cause_and_remedy(words: tuple[str, ...], cause: str, remedy: str, folder: Path, capsys: Capture) -> None:
    outcome = run(capsys, *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert cause in outcome.err
    assert remedy in outcome.err


def test_shared_memory_that_is_not_given_is_named(folder: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", "dynamic.cu", "--grid", "1", "--block", "32", "--arg", "f32[32]:zeros")
    assert outcome.code == 5
    assert "past the end of shared memory" in outcome.err
    assert "give more dynamic shared memory with --shared" in outcome.err


def test_an_include_that_is_hidden_is_no_mistake(folder: Path, capsys: Capture) -> None:
    include = "#include <torch/extension.h>"
    text = FILES["torch.cu"].replace("C10_X", "1")
    (folder / "hidden.cu").write_text(text.replace(include, f"#ifndef __CUDACC_RTC__\n{include}\n#endif"))
    assert run(capsys, "init", "hidden.cu", "-o", "-").code == 0
