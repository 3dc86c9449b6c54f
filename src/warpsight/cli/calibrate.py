"""`warpsight calibrate`: GPU parameters fitted to timings of micro-benchmarks, and the micro-benchmarks themselves."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.inputs import read_input
from warpsight.base.outputs import written_whole
from warpsight.base.progress import stage
from warpsight.cli import options
from warpsight.cli.gpus import count
from warpsight.cli.output import ProgressBar, print_result, write_output
from warpsight.gpu.default import FALLBACK
from warpsight.gpu.importers.device import read_device
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.hardware.device.suite import catalogue_name
from warpsight.hardware.microbenchmarks.fit import description, fit
from warpsight.hardware.microbenchmarks.run import PROGRAM, run_microbenchmarks, save
from warpsight.hardware.microbenchmarks.timings import is_timings, read_timings
from warpsight.hardware.mwp_calibration import calibrate, mwp_description, read_mwp_timings
from warpsight.reports.gpus import calibration_text, microbenchmarks_text
from warpsight.reports.next_step import line

EXAMPLES = """\
examples:
  warpsight calibrate timings.csv --run -o mine.yaml
  warpsight calibrate --kernels microbenchmarks
  warpsight calibrate timings.csv --like mdm-pascal -o mine.yaml
  warpsight calibrate mwp-timings.csv --gpu gtx280
"""
# Writes a description: the document, the name or file to inherit from, and the description's name.
Describe = Callable[[dict[str, Any], str, str], str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("timings", metavar="CSV", nargs="?", help="timings written by the micro-benchmarks; or timings for "
                        "MWP-CWP, one per line: launch, instruction counts, cycles; with --run, the file to create")
    parser.add_argument("--run", action="store_true", help="run the micro-benchmarks on a GPU of this machine first; needs "
                        "the driver, but no toolkit")
    parser.add_argument("--device", metavar="N", help="with --run: the GPU's number (default 0)")
    parser.add_argument("--kernels", metavar="DIR", help="write the CUDA sources of the micro-benchmarks into DIR, to compile "
                        "with nvcc and run on another machine")
    parser.add_argument("--like", metavar="NAME|FILE", help="the GPU description to inherit from for values that are not measured, "
                        "such as the number of SMs and the approximate cache sizes")
    options.add_gpu(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write a GPU description that inherits from --like, or --gpu")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the sources, or fit, print, and write the description."""
    _check_run(arguments)
    if (arguments.timings is None) == (arguments.kernels is None):
        what = "needs either timings to fit, or --kernels DIR to write the micro-benchmarks"
        raise UsageError(what, place="calibrate", remedy="`warpsight calibrate --help` shows examples")
    if arguments.kernels is not None:
        return _save(arguments)
    if arguments.like and arguments.gpu is not None:
        raise UsageError("cannot be combined with --gpu", place="--like", remedy="leave one of them out")
    if arguments.output and arguments.overrides:
        what = "would not be part of the description written with -o"
        raise UsageError(what, place="--set", remedy="leave out -o, or put the change into a description of your own")
    if arguments.run:
        _measure(arguments)
    try:
        text = read_input(arguments.timings).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = ""  # read_mwp_timings reports the error
    return _fit_machine(arguments, text) if is_timings(text) else _fit_mwp(arguments)


def _check_run(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that cannot be combined with --run or --device."""
    if arguments.device is not None and not arguments.run:
        raise UsageError("needs --run", place="--device", remedy="add --run, or leave it out")
    if arguments.run and arguments.timings is None:
        what = "needs a file for the timings"
        raise UsageError(what, place="--run", remedy="name one: warpsight calibrate timings.csv --run -o mine.yaml")
    if arguments.run and arguments.kernels is not None:
        raise UsageError("cannot be combined with --run", place="--kernels", remedy="leave one of them out")
    if arguments.run and Path(arguments.timings).exists():
        what = "exists, and --run would overwrite it"
        raise UsageError(what, place=arguments.timings, remedy="name another file, or leave out --run to fit this one")


def _measure(arguments: argparse.Namespace) -> None:
    """Run the micro-benchmarks, write their timings, and choose the catalogue's description of the GPU unless one is given."""
    number = count(arguments.device or "0", "--device", 1024)
    name = read_device(number).name
    if not arguments.like and arguments.gpu is None:
        arguments.like = catalogue_name(name)
        if not arguments.like:
            remedy = f"`warpsight gpus from-device --device {number} -o base.yaml`, then --like base.yaml"
            raise UsageError(f"the catalogue has no description of {name}", place="--like", remedy=remedy)
    try:
        # begun first, so that an error comes before minutes are spent
        with written_whole(arguments.timings) as temporary, ProgressBar() as bar:
            text = run_microbenchmarks(number, progress=stage(bar.watch, "running the micro-benchmarks"))
            temporary.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=arguments.timings, remedy="name another file") from None


def _save(arguments: argparse.Namespace) -> int:
    paths = save(arguments.kernels)
    program = Path(arguments.kernels) / PROGRAM
    lines = [f"wrote {path}" for path in paths]
    build = f"nvcc -O2 -arch=native -o microbenchmarks {program}"
    lines += ["", " on the machine with the GPU:", f"   {build} && ./microbenchmarks > timings.csv"]
    command = ["calibrate", "timings.csv", "--like", FALLBACK, "-o", "mine.yaml"]
    document = {"files": [str(path) for path in paths]}
    return print_result(arguments, document, lambda: "\n".join(lines), line(command, "then, on any machine"))


def _fit_machine(arguments: argparse.Namespace, text: str) -> int:
    """Fit keys of a GPU description to timings of the micro-benchmarks."""
    if not arguments.like and arguments.gpu is None:
        what = "needs a similar GPU: the timings do not tell the number of SMs and the approximate cache sizes"
        raise UsageError(what, place=arguments.timings, remedy="name a similar GPU, as --like rtx4090")
    return _answer(arguments, fit(read_timings(text, arguments.timings), _gpu(arguments)), description, microbenchmarks_text)


def _fit_mwp(arguments: argparse.Namespace) -> int:
    """Fit Mem_LD and the departure delays of MWP-CWP."""
    return _answer(arguments, calibrate(read_mwp_timings(arguments.timings), _gpu(arguments)), mwp_description, calibration_text)


def _gpu(arguments: argparse.Namespace) -> GpuSpec:
    return load_gpu(arguments.like or arguments.gpu, overrides=arguments.overrides)


def _answer(arguments: argparse.Namespace, document: dict[str, Any], describe: Describe, text_of: Callable[[Any], str]) -> int:
    """Write the description, if requested, and print the document."""
    named = arguments.like or options.gpu_name(arguments)
    if arguments.output:
        like = named if not Path(named).exists() else str(Path(named).resolve())
        write_output(arguments.output, describe(document, like, Path(arguments.output).stem), "-o")
        following = line(["gpus", "show", arguments.output], "show the new description")
    else:
        following = line([*arguments.command_line, "-o", "mine.yaml"], "save it as a GPU description")
    return print_result(arguments, document, lambda: text_of(document), following)
