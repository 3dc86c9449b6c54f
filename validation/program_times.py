"""Predicts published kernels as their own programs launch them, and compares their rates with those that others measured.

    python validation/program_times.py --programs FOLDER [--traces FOLDER] [--only TEXT] [--write]

It downloads and builds nothing: FOLDER of `--programs` holds a program for each row, which launches the kernel once, as the page
describes, compares the result with the host's, and says CHECK PASS. FOLDER of `--traces` keeps traces, of which one takes minutes.
`--only` predicts the rows whose program has the text. `--write` puts the table into the page.

Rows at even lines of a table are for development, those at odd lines are held out, as in `published_times.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path

import warpsight
from marked_page import put
from programs import execute
from tensor_times import GPUS, PAGE, PARTS, SIMULATED
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.operations import peak_flops
from warpsight.result.prediction import relative_error
from warpsight.traces.schema import KernelTrace

COMMAND = "python validation/program_times.py --programs FOLDER --write"
LONGEST = 3600  # seconds that a program may take


@dataclass(frozen=True)
class Row:
    """A published rate in TFLOPS at `line` of its table, whose head is line 1, and the launch that is predicted.

    `arguments` are those of `program`. `operations` of the launch: two for each multiply-add of its products, of attention with a
    causal mask one half of all. `kernel` is in the name of the kernel, of the several that the program launches. `before`: the
    state of the L2, which the benchmarks of Triton and DeepGEMM overwrite before each launch.
    """

    source: str
    line: int
    gpu: str
    problem: str
    tflops: float
    program: str
    arguments: tuple[int, ...]
    operations: float
    kernel: str = ""
    before: str = "cold"

    @property
    def part(self) -> str:
        """Development or held out."""
        return PARTS[self.line % 2]


# -- Attention, forward. `arguments`: batch, keys, heads, whether there is a causal mask, queries. Of large problems a slice is
# predicted, of fewer heads or fewer keys.

_REFERENCES = "`reference/fa3.txt`"  # of blackwell-tensorcore-kernels
_COMMENT, _STABLE = "issue 307 of `Dao-AILab/flash-attention`", "pull request 1791 of `Dao-AILab/flash-attention`"
TIMES = {2: (1024, 0.241351), 3: (2048, 0.778228)}  # by line of _COMMENT: length, ms of 4 x 32 heads of 128, causal


def attention(source: str, line: int, gpu: str, program: str, tflops: float, length: int, *arguments: int) -> Row:
    """A row for `length`, of which `arguments` is the slice; the width of heads is in the program's name."""
    batch, keys, heads, causal, *queries = arguments
    width = int(program.partition("hdim")[2].partition("_")[0])
    operations = 4.0 * batch * heads * (*queries, keys)[0] * keys * width / (2 if causal else 1)
    problem = f"{program.partition('_')[0]}, heads of {width}, length {length}{', causal' if causal else ''}"
    return Row(source, line, gpu, problem, tflops, program, arguments, operations)


def attentions() -> list[Row]:
    """The rows. Two blocks of FlashAttention-2, and one of FlashAttention-3, fit an SM: slices are whole waves of 264 or 132."""
    causal = [
        attention(
            _COMMENT, line, "A100", "fa2_hdim128_fp16", 2e-9 * 4 * 32 * length**2 * 128 / ms, length, 4096 // length, length, 32, 1
        )
        for line, (length, ms) in TIMES.items()
    ]
    two, three = (1, 2048, 4, 0, 8448), (1, 4224, 2, 0, 8448)
    return [
        *causal,
        attention(_REFERENCES, 35, "H100 SXM", "fa2_hdim128_fp16", 388.3, 8192, *two),
        attention(_STABLE, 2, "H100 SXM", "fa2_hdim128_fp16", 369.9, 8192, *two),
        attention(_REFERENCES, 39, "H100 SXM", "fa3_hdim128_fp16", 756.9, 8192, *three),
        attention(_STABLE, 3, "H100 SXM", "fa3_hdim128_fp16", 659.1, 8192, *three),
    ]


# -- Products. `arguments`: M, N, K. One wave of tiles of 128 x 256 is predicted of the largest.


def products() -> list[Row]:
    """The rows of CUTLASS's kernel, whose benchmark launches it ten times without a pause, and of DeepGEMM's."""
    shapes = {5: (373.94, 2048, (2048, 2048, 2048)), 19: (640.85, 8192, (1536, 2816, 8192))}
    deep = {297: (435, (128, 4096, 7168)), 298: (349, (128, 7168, 2048)), 309: (874, (4096, 7168, 576))}
    return [
        *(
            Row("`reference/deepgemm.txt`", line, "H100 SXM", f"DeepGEMM in FP8, {' x '.join(map(str, shape))}", rate,
                "_".join(map(str, ("deepgemm_fp8", *shape))), shape[:1], 2.0 * prod(shape), "fp8_gemm_1d2d")
            for line, (rate, shape) in deep.items()
        ),
        *(
            Row("`bench_sm90a.csv`", line, "H100 SXM", f"`cutlass_sm90`, {size}", rate, "cutlass_sm90", shape, 2.0 * prod(shape),
                "device_kernel", "warm")
            for line, (rate, size, shape) in shapes.items()
        ),
    ]  # fmt: skip


def trace_of(row: Row, programs: Path, folder: Path) -> KernelTrace:
    """The trace, from `folder` if it is there. Raises AssertionError if the program finds its result wrong."""
    name = GPUS[row.gpu][0]
    place = folder / "_".join(map(str, (name, row.program, *row.arguments)))
    if not place.is_dir():
        command = [sys.executable, "-m", "warpsight", "run", "--gpu", name, "--launches", "1:1", "--kernels", row.kernel or "."]
        command += ["-o", str(place), "--", str(programs / row.program), *map(str, row.arguments)]
        ended = execute(command, programs, LONGEST)
        assert ended and ended[0] == 0 and "CHECK PASS" in ended[1], f"{place.name}: {ended}"
    found = [trace for each in sorted(place.iterdir()) if row.kernel in (trace := warpsight.load_trace(each)).header.kernel]
    assert len(found) == 1, f"{place}: {len(found)} launches of {row.kernel or 'the kernel'}"
    return found[0]


def seconds_of(trace: KernelTrace, row: Row, *changes: str) -> float:
    """Seconds of the launch as `warpsight` predicts them, with further changes of the GPU's description."""
    name, _, known = GPUS[row.gpu]
    return warpsight.predict(trace, gpu=name, overrides=(*known, *changes), caches_before=row.before).seconds


def rates_of(row: Row, programs: Path, folder: Path) -> list[float | None]:
    """TFLOPS by `warpsight` and by the simulator, None where the launch is too large. Raises AssertionError above the peak."""
    trace = trace_of(row, programs, folder)
    name, _, changes = GPUS[row.gpu]
    seconds = [seconds_of(trace, row)]
    if trace.header.warp_instructions <= SIMULATED:
        seconds.append(warpsight.simulate(trace, gpu=name, overrides=changes, caches_before=row.before).seconds)
    rates = [1e-12 * row.operations / each for each in seconds]
    limit = 1e-12 * peak_flops(load_gpu(name, changes), "tensor") * (2 if "FP8" in row.problem else 1)
    assert max(rates) <= limit, f"{row}: above the peak"
    print(row.program, row.arguments, trace.header.warp_instructions, rates, file=sys.stderr, flush=True)
    return [*rates, None][:2]


def table(found: dict[Row, list[float | None]]) -> str:
    """A line for each row."""
    lines = [
        "| source, line | part | GPU | kernel, problem | launch | TFLOPS | `warpsight` | error | simulator | error |",
        "|---|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row, rates in found.items():
        cells = [f"{x:.1f} | {100 * relative_error(x, row.tflops):+.0f} %" if x is not None else " | " for x in rates]
        launch = " ".join(map(str, row.arguments))
        first = f"| {row.source}, {row.line} | {row.part} | {row.gpu} | {row.problem} | {launch} | {row.tflops:.1f} |"
        lines.append(f"{first} {' | '.join(cells)} |")
    return "\n".join(lines)


def cycles(programs: Path, folder: Path) -> str:
    """Cycles of CUTLASS's kernel at 8192 that Nsight Compute counted, at the clock that it locked, and those predicted for it."""
    row, clock, counted = products()[-1], 1.43, 2_743_159
    changes = f"core_clock={clock}GHz", f"noc.bandwidth={5120 * clock:.0f}GB/s"  # 5,120 B a clock, as h100-sxm has
    whole = 8192**3 / prod(row.arguments)
    predicted = seconds_of(trace_of(row, programs, folder), row, *changes) * clock * 1e9 * whole
    error = f"{100 * relative_error(predicted, counted):+.0f} %"
    lines = ["| profile | kernel | clock | cycles | `warpsight` | error |", "|---|---|---:|---:|---:|---:|"]
    return "\n".join(
        [*lines, f"| `ncu_cutlass_8192.txt` | `cutlass_sm90` | {clock} GHz | {counted:,} | {predicted:,.0f} | {error} |"]
    )


def main() -> None:
    """Print the table; with --write also keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="folder of the programs")
    parser.add_argument("--traces", type=Path, help="folder that keeps the traces")
    parser.add_argument("--only", default="", help="predict the rows whose program has this text")
    parser.add_argument("--write", action="store_true", help=f"rewrite the table in {PAGE.name}")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write needs all rows: leave out --only")
    with tempfile.TemporaryDirectory() as scratch:
        folder, programs = (arguments.traces or Path(scratch)).resolve(), arguments.programs.resolve()
        found = {row: rates_of(row, programs, folder) for row in (*attentions(), *products()) if arguments.only in row.program}
        tables = {"programs": table(found)}
        if arguments.only in "cutlass_sm90":
            tables["program cycles"] = cycles(programs, folder)
    print(*tables.values(), sep="\n\n")
    if arguments.write:
        put(PAGE, COMMAND, tables)


if __name__ == "__main__":
    main()
