"""`warpsight simulate`: a kernel on a GPU, cycle by cycle."""

from __future__ import annotations

import argparse

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.simulation import simulate_repeated, simulate_trace, write_timeline
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.formats import predictions_csv
from warpsight.reports.next_step import followed_by
from warpsight.reports.prediction import predictions_text, rows_text

EXAMPLES = """\
examples:
  warpsight simulate saxpy.cu --grid 4096 --block 256 --arg f32:2 --arg 'f32[1048576]:uniform' --arg 'f32[1048576]:zeros'
  warpsight simulate launch.yaml --gpu gpumech --set l1.mshrs=64 --json
  warpsight simulate saxpy.trace --timeline saxpy.json          # open it at https://ui.perfetto.dev
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    options.add_gpu(parser)
    group = parser.add_argument_group("the simulation")
    group.add_argument("--max-cycles", metavar="N", type=options.whole, help="stop, with exit code 4, after this many cycles "
                       "(default 10,000,000,000)")
    options.add_caches_before(parser)
    options.add_repeat(parser)
    group.add_argument("--timeline", metavar="FILE.json", help="write the timeline of an SM's warps, for Perfetto or chrome://tracing")
    group.add_argument("--timeline-sm", metavar="N", type=options.whole, help="the SM of the timeline (default 0)")
    options.add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print one CSV row")


def run(arguments: argparse.Namespace) -> int:
    """Simulate, write the timeline if requested, and print."""
    if arguments.timeline_sm is not None and not arguments.timeline:
        raise UsageError("needs --timeline", place="--timeline-sm", remedy="add --timeline FILE.json")
    if arguments.repeat is not None and arguments.timeline:
        raise UsageError("cannot be combined with --repeat", place="--timeline", remedy="run once for each")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    watch_sm = (arguments.timeline_sm or 0) if arguments.timeline else None
    before, limit = arguments.caches_before, arguments.max_cycles
    with ProgressBar() as bar:
        trace = obtain_trace(options.kernel_request(arguments), gpu=gpu, watch=bar.watch)
        if arguments.repeat is not None:
            repeats = simulate_repeated(trace, gpu, arguments.repeat, max_cycles=limit, caches_before=before, watch=bar.watch)
            documents = [prediction.to_json() for prediction in repeats]
        else:
            simulated = simulate_trace(trace, gpu, max_cycles=limit, watch_sm=watch_sm, caches_before=before, watch=bar.watch)
            documents = [simulated.prediction.to_json()]
            if simulated.simulation.timeline is not None:
                write_timeline(arguments.timeline, trace, simulated.simulation.timeline)
    if arguments.json:
        print_json(documents)
    elif arguments.csv:
        print(predictions_csv(documents))
    else:
        without = ("--max-cycles", "--timeline", "--timeline-sm", "--repeat")
        hint = followed_by("compare", arguments.command_line, "warpsight", "compare the models", without=without)
        print_answer((predictions_text if arguments.repeat is None else rows_text)(documents, terminal_style()), hint)
    return 0
