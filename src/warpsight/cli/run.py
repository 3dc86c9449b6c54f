"""`warpsight run`: a whole CUDA program, or a script with Triton kernels; kernels are executed and predicted on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from warpsight.base.errors import LaunchFault, UnsupportedError, UsageError
from warpsight.base.findings import WATCHING
from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json, terminal_style, write_output
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.program_run import OUT_OF_BOUNDS, Selection
from warpsight.pipeline.program_run import predict_program as run_program
from warpsight.pipeline.request import DEFAULT_MAX_INSTRUCTIONS
from warpsight.pipeline.sampling import DEFAULT_ACCURACY
from warpsight.pipeline.timeline import trace_events
from warpsight.programs.script import MODULE
from warpsight.reports.findings import findings_text
from warpsight.reports.next_step import line
from warpsight.reports.nsight_systems import tables
from warpsight.reports.prediction import program_text

EXAMPLES = """\
examples:
  nvcc -gencode arch=compute_75,code=compute_75 saxpy.cu -o saxpy
  warpsight run ./saxpy 1000000
  warpsight run --gpu gpumech --kernels 'reduce|scan' --launches 1:10 -o traces -- ./program --its options
  warpsight run --gpu h100-sxm tutorial.py
  warpsight run --gpu h100-sxm -m pytest test_kernels.py
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "warpsight run [options] [--] PROGRAM [ARGUMENT ...]\n       warpsight run [options] -m MODULE [ARGUMENT ...]"
    parser.add_argument("program", metavar="PROGRAM", nargs=argparse.REMAINDER,
                        help="a program built with nvcc, or a Python script (.py) with kernels of Triton, Numba, "
                        "cuda.core or cuTile, and its arguments")
    parser.add_argument("-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="run a Python module, as "
                        "`python -m`: -m pytest test_kernels.py")
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser)
    options.add_level(parser)
    parser.add_argument("--kernels", metavar="REGEX", help="trace and predict only kernels whose name matches")
    parser.add_argument("--launches", metavar="A:B", help="trace and predict only launches A to B of each kernel, "
                        "numbered from 1; the time of the others is extrapolated")
    parser.add_argument("--exact", action="store_true", help="predict every launch from all of its blocks; by default launches "
                        "that repeat are sampled, and the time of the others is extrapolated; of long launches waves are sampled")
    parser.add_argument("--accuracy", metavar="SHARE", type=options.share, help="long launches are predicted from sampled waves, "
                        "so many that the 95 %% confidence interval of the cycles is within this share of them, 0.01 or 1%% "
                        "(default 2%%)")
    parser.add_argument("-o", "--output", metavar="DIR", help="store the trace of each launch in a folder under DIR")
    parser.add_argument("--timeline", metavar="FILE.json", help="write what was on each stream and when, for Perfetto or "
                        "chrome://tracing")
    parser.add_argument("--tables", metavar="DIR", help="write CSV files with the columns of `nsys stats`: kernels, copies, calls "
                        "and ranges of NVTX, and each kernel and copy in order")
    parser.add_argument("--max-instructions", metavar="N", type=options.whole, help="stop a launch (as a time-out) after this "
                        "many warp instructions (default 10,000,000,000)")
    options.add_threads(parser)
    parser.add_argument("--out-of-bounds", choices=OUT_OF_BOUNDS, default="error", help="what a load, store or atomic just past an "
                        "array does: end the launch with an error, or read zeros and write nothing, with a warning for each place "
                        "(warn) or without (ignore); further than the 2 MiB page of an array it is always an error (default error)")
    parser.add_argument("--check", action="store_true", help="report wrong accesses, hazards, unwritten memory, misused barriers, "
                        "leaks and failing calls on stderr, with exit code 5 for errors (slower; see `warpsight check`)")
    parser.add_argument("--strict", action="store_true", help="exit with 5 if a launch failed, whatever the program's exit code")
    options.add_json(parser)


def _folder(name: str) -> Path:
    """The folder for tables, made before the program runs. Raises UsageError."""
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot be made: {error.strerror}"
        raise UsageError(what, place=name, remedy="name another folder with --tables") from None
    return Path(name)


def _following(document: dict[str, Any], arguments: argparse.Namespace, command: list[str]) -> str:
    """The line that names the next command."""
    kept = next((row["trace"] for row in document["launches"] if row.get("trace")), None)
    if kept:
        return line(["predict", kept], "one launch on its own")
    if not document["totals"]["predicted"]:
        return line(["doctor"], "the GPUs, tools and instructions of this installation")
    words, again = (command, command) if arguments.module is not None else (arguments.program, ["--", *command])
    given = arguments.command_line[1 : len(arguments.command_line) - len(words)]  # the options of this command
    return line(["run", *given, "-o", "traces", *again], "keep each launch's trace for other GPUs and models")


def run(arguments: argparse.Namespace) -> int:
    """Run the program, then print the table; the program's exit code, or 3 if it succeeded but a kernel was refused.

    With --strict, 5 if a launch failed; with --check, 5 if checks have found errors.
    """
    command = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if arguments.module is not None:
        command = [MODULE, *arguments.module]
    if not command:
        raise UsageError("is missing", place="PROGRAM", remedy="`warpsight run ./program arguments`")
    if arguments.accuracy is not None and (arguments.exact or arguments.output or arguments.check):
        what = "cannot be combined with --exact, -o or --check, which record every block"
        raise UsageError(what, place="--accuracy", remedy="leave out one of them")
    folder = _folder(arguments.tables) if arguments.tables else None
    document = run_program(
        command,
        load_gpu(arguments.gpu, overrides=arguments.overrides),
        models=options.model_names(arguments),
        method=options.method(arguments),
        selection=Selection.parse(arguments.kernels, arguments.launches),
        exact=arguments.exact,
        folder=Path(arguments.output) if arguments.output else None,
        max_instructions=arguments.max_instructions or DEFAULT_MAX_INSTRUCTIONS,
        level=arguments.level,
        out_of_bounds=arguments.out_of_bounds,
        checks=WATCHING if arguments.check else frozenset(),
        threads=arguments.threads,
        accuracy=DEFAULT_ACCURACY if arguments.accuracy is None else arguments.accuracy,
        # With --json, stdout is the document and nothing else.
        stdout=sys.stderr if arguments.json else None,
    )
    if arguments.json:
        print_json([document])
    else:
        print()
        print_answer(program_text(document, terminal_style()), _following(document, arguments, command))
    if arguments.timeline:
        write_output(arguments.timeline, trace_events(document["timeline"]), "--timeline")
    if folder:
        for name, text in tables(document).items():
            write_output(str(folder / f"{name}.csv"), text, "--tables")
    code = int(document["exit_code"])
    if document["check"]:
        print(findings_text(document["check"], root=os.getcwd()), file=sys.stderr)
        if document["check"]["totals"]["errors"]:
            return LaunchFault.exit_code
    if arguments.strict and document["totals"]["failed"]:
        return LaunchFault.exit_code
    return UnsupportedError.exit_code if code == 0 and document["refused"] else code
