from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import Outcome
from command_line import run as command

import warpsight
from warpsight.base.errors import UsageError
from warpsight.kernels.assembler import assemble
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import parse_architecture

SOURCE = """
extern "C" __global__ void sums(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k = 0; k < 8; k++) s += x[i * 8 + k];
    if (i < n) y[i] = s / 3.0f;
}
"""
LAUNCH = ("--grid", "32", "--block", "128", "--arg", "f32[32768]:uniform", "--arg", "f32[4096]:zeros", "--arg", "4096")


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`warpsight WORDS`, which must end with the exit code `code`."""

    def call(*words: str, code: int = 0) -> Outcome:
        outcome = command(capsys, *words)
        assert outcome.code == code, outcome
        return outcome

    return call


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    path = tmp_path / "sums.cu"
    path.write_text(SOURCE)
    return str(path)


def test_listing_has_control_words_registers_and_lines(run: Run, kernel: str) -> None:
    document = json.loads(run("sass", kernel, "--gpu", "a100", "--json").out)
    loads = [row for row in document["instructions"] if row["text"].startswith("LDG")]
    assert document["target"] == "sm_80" and sum(document["by_class"].values()) == len(document["instructions"])
    # eight loads of one thread: ptxas may merge them, but not lose a byte; each sets a barrier that something waits for
    opcodes = [row["text"].split()[0] for row in loads]
    widths = [16 if ".128" in opcode else 8 if ".64" in opcode else 4 for opcode in opcodes]
    assert sum(widths) == 32 and all(row["line"] == 5 for row in loads)
    waited = {barrier for row in document["instructions"] for barrier in row["waits"]}
    assert {row["write_barrier"] for row in loads} <= waited
    assert 1 <= document["loads_in_flight"] <= len(loads)
    assert document["most_live_registers"] <= document["registers_per_thread"]


def test_prediction_says_whose_machine_code_it_is_of(run: Run, kernel: str) -> None:
    text = run("predict", kernel, *LAUNCH, "--gpu", "rtx2060", "--level", "sass").out
    assert "   sass sm_75, " in text.splitlines()[0]
    document = json.loads(run("predict", kernel, *LAUNCH, "--gpu", "rtx2060", "--level", "sass", "--json").out)
    assert document["provenance"]["launch"]["level"] == "sass"


def test_stored_trace_of_machine_code_is_predicted_as_the_kernel_is(run: Run, kernel: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    run("trace", kernel, *LAUNCH, "--gpu", "a100", "--level", "sass", "-o", folder)
    direct, stored = (
        json.loads(run("predict", *words, "--gpu", "a100", "--json").out)
        for words in ((kernel, *LAUNCH, "--level", "sass"), (folder,))
    )
    assert (direct["cycles"], direct["cpi_stack"]) == (stored["cycles"], stored["cpi_stack"])
    assert direct["warp_instructions"] == stored["warp_instructions"]


def test_gpu_without_machine_code_is_refused_with_the_other_level(run: Run, kernel: str) -> None:
    refused = run("predict", kernel, *LAUNCH, "--gpu", "mdm-pascal", "--level", "sass", code=2)
    assert "mdm-pascal states no compute capability of 7.0 or later" in refused.err and "`ptx`" in refused.err


@pytest.mark.parametrize(("gpu", "level"), [("a100", "sass sm_80"), ("v100", "sass sm_75"), ("gtx1080", "ptx")])
def test_level_follows_the_gpu_unless_it_is_given(run: Run, kernel: str, gpu: str, level: str) -> None:
    first = run("predict", kernel, *LAUNCH, "--gpu", gpu).out.splitlines()[0]
    assert f"   {level}, " in first
    first = run("predict", kernel, *LAUNCH, "--gpu", gpu, "--level", "ptx").out.splitlines()[0]
    assert "   ptx, " in first


def test_ptx_of_a_later_architecture_names_it_and_the_remedies(run: Run, kernel: str) -> None:
    refused = run("predict", kernel, *LAUNCH, "--gpu", "a100", "--arch", "sm_90", code=2)
    assert "is PTX for sm_90, which cannot be assembled for sm_80" in refused.err and "level `ptx`" in refused.err
    assert "   ptx, " in run("predict", kernel, *LAUNCH, "--gpu", "a100", "--arch", "sm_90", "--level", "ptx").out


def test_study_of_several_gpus_traces_once_for_each_architecture(run: Run, kernel: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "s")
    words = ("sweep", kernel, *LAUNCH, "--gpu", "rtx3070,a100,rtx3080,mdm-pascal", "--executor", "inline", "--out", folder)
    document = json.loads(run(*words, "--results", str(tmp_path / "r"), "--json").out)
    assert document["computed"]["traces"] == 3 and document["designs"] == 4 and document["failed_rows"] == 0
    rows = pq.read_table(f"{folder}/results.parquet").to_pylist()
    times = {row["gpu"]: row["seconds"] for row in rows}
    for gpu in ("rtx3080", "mdm-pascal"):
        alone = json.loads(run("predict", kernel, *LAUNCH, "--gpu", gpu, "--json").out)
        assert times[gpu] == pytest.approx(alone["seconds"], rel=1e-12)


def test_study_executes_what_its_level_says(run: Run, kernel: str, tmp_path: Path) -> None:
    instructions = {}
    for level in ("ptx", "sass"):
        words = ("sweep", kernel, *LAUNCH, "--gpu", "a100", "--level", level, "--set", "sm_count=54,108", "--executor", "inline")
        out = str(tmp_path / level)
        run(*words, "--out", out, "--results", str(tmp_path / "r"))
        instructions[level] = pq.read_table(f"{out}/results.parquet")["warp_instructions"].to_pylist()
        alone = json.loads(run("predict", kernel, *LAUNCH, "--gpu", "a100", "--level", level, "--json").out)
        assert instructions[level] == [alone["warp_instructions"]] * 2
    assert instructions["ptx"] != instructions["sass"]


def test_python_has_the_level_too(kernel: str) -> None:
    arguments = {"grid": 32, "block": 128, "args": ["f32[32768]:uniform", "f32[4096]:zeros", 4096]}
    trace = warpsight.trace(kernel, gpu="a100", level="sass", **arguments)
    assert trace.header.level == "sass" and trace.header.target == "sm_80"
    assert any(instruction.stall > 1 for instruction in trace.instructions)
    assert trace.extra["sass"]["0"] == "IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]"
    with pytest.raises(UsageError, match="is not a level of instructions"):
        warpsight.trace(kernel, gpu="a100", level="mica", **arguments)


# -- Options of the assembler.

GREEDY = """
extern "C" __global__ void greedy(float* x, int n) {
    float v[48];
    for (int k = 0; k < 48; k++) v[k] = x[threadIdx.x + k * n];
    for (int r = 0; r < 4; r++) for (int k = 0; k < 48; k++) v[k] = v[k] * v[(k + 7) % 48] + v[(k + 13) % 48];
    for (int k = 0; k < 48; k++) x[threadIdx.x + k * n] = v[k];
}
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_fewer_registers_raise_the_occupancy_at_both_levels(run: Run, tmp_path: Path, level: str) -> None:
    path = tmp_path / "greedy.cu"
    path.write_text(GREEDY)
    words = ("predict", str(path), "--grid", "64", "--block", "128", "--arg", "f32[8192]:uniform", "--arg", "128", "--level", level)
    free, bound = (
        json.loads(run(*words, "--gpu", "a100", "--json", *more).out) for more in ((), ("--maxrregcount", "32"))
    )
    assert free["occupancy"] < bound["occupancy"] and free["occupancy_limiter"] == "registers"
    same = bound["warp_instructions"] == free["warp_instructions"]
    assert same is (level == "ptx")  # machine code spills what does not fit


def test_assembler_that_optimizes_less_makes_more_instructions_with_the_same_results(kernel: str) -> None:
    made = []
    for level in (None, 3, 0):
        y = np.zeros(4096, "f4")
        arguments = ["f32[32768]:uniform", y, 4096]
        trace = warpsight.trace(kernel, grid=32, block=128, args=arguments, gpu="a100", level="sass", opt_level=level)
        made.append((trace.header.warp_instructions, trace.header.kernel_hash, y))
    (usual, _, first), (highest, _, _), (none, _, last) = made
    assert usual == highest < none and np.array_equal(first, last)
    assert made[0][1] != made[2][1]


def test_options_of_the_assembler_in_a_launch_file(run: Run, tmp_path: Path, kernel: str) -> None:
    launch = tmp_path / "launch.yaml"
    launch.write_text(f"source: {kernel}\ngrid: 32\nblock: 128\nargs: ['f32[32768]:uniform', 'f32[4096]:zeros', '4096']\n"
                      "maxrregcount: 16\nopt_level: 0\n")  # fmt: skip
    errors = run("predict", str(launch), "--gpu", "a100", "--level", "sass").out
    assert "the assembler does not keep maxrregcount=16" in errors
    assert "--maxrregcount: 15 is out of range" in run("predict", str(launch), "--maxrregcount", "15", code=2).err
    assert "--opt-level: 4 is out of range" in run("predict", str(launch), "--opt-level", "4", code=2).err


# -- Machine code as input.


@pytest.fixture
def cubin(tmp_path: Path, kernel: str) -> str:
    path = tmp_path / "sums.cubin"
    path.write_bytes(assemble(load_source(kernel).ptx, "sums.ptx", parse_architecture(86)))
    return str(path)


@pytest.mark.parametrize("words", [("trace", "-o", "TRACE"), ("explain",), ("advise",), ("report", "-o", "REPORT")])
def test_cubin_is_an_input_of_commands(run: Run, cubin: str, tmp_path: Path, words: tuple[str, ...]) -> None:
    named = [str(tmp_path / word.lower()) + (".html" if word == "REPORT" else "") if word.isupper() else word for word in words]
    outcome = run(*named, cubin, *LAUNCH, "--gpu", "rtx3080", "--level", "sass")
    assert outcome.out or (tmp_path / "trace").is_dir() or (tmp_path / "report.html").is_file()


def test_cubin_and_its_source_are_predicted_alike(run: Run, cubin: str, kernel: str) -> None:
    found, expected = (
        json.loads(run("predict", each, *LAUNCH, "--gpu", "rtx3080", "--level", "sass", "--json").out) for each in (cubin, kernel)
    )
    assert found["cycles"] == expected["cycles"] and found["warp_instructions"] == expected["warp_instructions"]


def test_cubin_has_nothing_to_count_statically(run: Run, cubin: str) -> None:
    errors = run("predict", cubin, *LAUNCH, "--gpu", "rtx3080", "--static", "--model", "mwp-cwp", code=2).err
    assert "--static: counts the instructions of PTX, and " in errors and "sums.cubin is machine code" in errors


def test_cubin_at_level_ptx_and_for_another_gpu_is_refused(run: Run, cubin: str) -> None:
    assert "only machine code is embedded in it (sm_86)" in run("predict", cubin, *LAUNCH, "--level", "ptx", code=3).err
    assert "is machine code, which is compiled already" in run(
        "predict", cubin, *LAUNCH, "--gpu", "rtx3080", "--level", "sass", "--maxrregcount", "32", code=2
    ).err  # fmt: skip
    errors = run("predict", cubin, *LAUNCH, "--gpu", "a100", "--level", "sass", code=2).err
    assert "has machine code for sm_86, which does not run on sm_80" in errors and "\n       -> " in errors
