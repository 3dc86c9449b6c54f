"""`warpsight trace`: run a kernel functionally on this machine and keep what it did."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json
from warpsight.cli.progress import ProgressBar

_EXAMPLES = """\
example:
  warpsight trace saxpy.cu --grid 4096 --block 256 --arg f32:2 --arg 'f32[1048576]:uniform' \\
    --arg 'f32[1048576]:zeros' -o saxpy.trace
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    options.add_kernel(parser)
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to make")
    parser.add_argument("--force", action="store_true", help="replace a trace that is already there")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Trace into the folder and print the summary."""
    from warpsight.explore.store import store_trace
    from warpsight.report.next_step import line
    from warpsight.report.trace_text import trace_text

    with ProgressBar() as bar:
        summary = store_trace(options.kernel_request(arguments), arguments.output, overwrite=arguments.force, watch=bar.watch)
    if arguments.json:
        print_json([summary])
    else:
        print_answer(trace_text(summary), line(["predict", arguments.output], "no need to run the kernel again"))
    return 0
