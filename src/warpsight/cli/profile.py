"""`warpsight profile`: the interval profile of a kernel's representative warp on a GPU."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.interchange import profile_document, write_profile
from warpsight.pipeline.evaluate import profile_trace
from warpsight.pipeline.files import write_profile_file
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.intermediate import profile_text
from warpsight.reports.next_step import line

EXAMPLES = """\
examples:
  warpsight profile launch.yaml
  warpsight profile saxpy.trace --gpu gpumech --representative max -o saxpy.json
  warpsight profile launch.yaml -o - | warpsight model --profile - --model gpumech
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    options.add_gpu(parser)
    options.add_method(parser)
    parser.add_argument("-o", "--output", metavar="FILE|-", help="write the interchange JSON to FILE, or to stdout for -")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Profile, then print the summary, or write the interchange JSON."""
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    with ProgressBar() as bar:
        trace = obtain_trace(options.kernel_request(arguments), gpu=gpu, watch=bar.watch)
        profile = profile_trace(trace, gpu, options.method(arguments), watch=bar.watch).profile
    if arguments.output and arguments.output != "-":
        write_profile_file(profile, arguments.output)
    if arguments.json or arguments.output == "-":
        print(write_profile(profile), end="")
        return 0
    written = ["model", "--profile", arguments.output, "--gpu", options.gpu_name(arguments)]
    settings = [word for setting in arguments.overrides for word in ("--set", setting)]
    following = [*written, *settings] if arguments.output else [*arguments.command_line, "-o", "profile.json"]
    why = "predict from it" if arguments.output else "save it for `warpsight model`"
    print_answer(profile_text(profile_document(profile), TOOL, gpu.name), line(following, why))
    return 0
