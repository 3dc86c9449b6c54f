"""`warpsight trace export`: a trace in Accel-Sim's format."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_result
from warpsight.pipeline.files import export_trace
from warpsight.reports.intermediate import export_text
from warpsight.reports.next_step import line

_EXAMPLES = """\
example:
  warpsight trace export saxpy.trace -o saxpy.accelsim
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    options.add_kernel(parser)
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to create, with kernelslist.g and "
                        "kernel-1.traceg")
    parser.add_argument("--force", action="store_true", help="replace an existing exported trace")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the folder and print its contents."""
    with ProgressBar() as bar:
        document = export_trace(options.kernel_request(arguments), arguments.output, overwrite=arguments.force, watch=bar.watch)
    following = line(["predict", arguments.output], "predict from the exported trace")
    return print_result(arguments, document, lambda: export_text(document), following)
