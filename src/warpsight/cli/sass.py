"""`warpsight sass`: the machine code of a kernel for a GPU, with the control words and what can be counted without a run."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.machine_listing import machine_listing
from warpsight.reports.machine_code import listing_text
from warpsight.reports.next_step import line

EXAMPLES = """\
examples:
  warpsight sass saxpy.cu --gpu a100
  warpsight sass gemm.ptx --kernel gemm --arch sm_86 --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    parser.add_argument("--gpu", metavar="NAME|FILE", help="the GPU that the code is assembled for (default: --arch, or sm_75)")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the listing."""
    gpu = None if arguments.gpu is None else load_gpu(arguments.gpu)
    document = machine_listing(options.kernel_request(arguments), gpu)
    if arguments.json:
        print_json([document])
        return 0
    print_answer(listing_text(document), line([*arguments.command_line, "--json"], "all figures of each instruction"))
    return 0
