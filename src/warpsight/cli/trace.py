"""`warpsight trace`: executes a kernel on this machine and stores its trace, or converts or exports a trace."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, print_result
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.files import convert_traces, export_trace, store_trace
from warpsight.reports.intermediate import export_text, trace_text
from warpsight.reports.next_step import line

EXAMPLES = """\
examples:
  warpsight trace saxpy.cu --grid 4096 --block 256 --arg f32:2 --arg 'f32[1048576]:uniform' \\
    --arg 'f32[1048576]:zeros' -o saxpy.trace
  warpsight trace traces/bfs/kernel-1.traceg.xz -o bfs-1.trace       # convert a trace of Accel-Sim
  warpsight trace export saxpy.trace -o saxpy.accelsim               # export a trace for Accel-Sim
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `trace`, or of `trace export`."""
    options.add_kernel(parser)
    folder, trace = "the folder to create", "trace"
    if parser.prog.endswith(" export"):
        parser.epilog = "example:\n  warpsight trace export saxpy.trace -o saxpy.accelsim\n"
        folder, trace = "the folder to create, with kernelslist.g and kernel-1.traceg", "exported trace"
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help=folder)
    if trace == "trace":
        parser.add_argument("--gpu", metavar="NAME|FILE", help="the GPU whose machine code is executed (see --level); "
                            "without it, PTX is executed")
    parser.add_argument("--force", action="store_true", help=f"replace an existing {trace}")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Trace or export into the folder, and print the summary."""
    request = options.kernel_request(arguments)
    with ProgressBar() as bar:
        if arguments.part_of_command == "export":
            document = export_trace(request, arguments.output, overwrite=arguments.force, watch=bar.watch)
            following = line(["predict", arguments.output], "predict from the exported trace")
            return print_result(arguments, document, lambda: export_text(document), following)
        if request.is_foreign:
            summaries = convert_traces(request, arguments.output, overwrite=arguments.force, watch=bar.watch)
        else:
            gpu = None if arguments.gpu is None else load_gpu(arguments.gpu)
            summaries = [store_trace(request, arguments.output, gpu=gpu, overwrite=arguments.force, watch=bar.watch)]
    if arguments.json:
        print_json(summaries)
    else:
        text = "\n\n".join(trace_text(summary) for summary in summaries)
        print_answer(text, line(["predict", summaries[0]["folder"]], "predict without executing the kernel again"))
    return 0
