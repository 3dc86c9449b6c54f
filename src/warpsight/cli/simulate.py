"""`warpsight simulate`: a kernel on a GPU, cycle by cycle."""

from __future__ import annotations

import argparse

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_result, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.simulation import simulate_trace, write_timeline
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.formats import predictions_csv
from warpsight.reports.next_step import followed_by
from warpsight.reports.prediction import predictions_text

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
    group.add_argument("--timeline", metavar="FILE.json", help="write the timeline of an SM's warps, for Perfetto or chrome://tracing")
    group.add_argument("--timeline-sm", metavar="N", type=options.whole, help="the SM of the timeline (default 0)")
    options.add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print one CSV row")


def run(arguments: argparse.Namespace) -> int:
    """Simulate, write the timeline if requested, and print."""
    if arguments.timeline_sm is not None and not arguments.timeline:
        raise UsageError("needs --timeline", place="--timeline-sm", remedy="add --timeline FILE.json")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    watch_sm = (arguments.timeline_sm or 0) if arguments.timeline else None
    with ProgressBar() as bar:
        trace = obtain_trace(options.kernel_request(arguments), gpu=gpu, watch=bar.watch)
        simulated = simulate_trace(
            trace, gpu, max_cycles=arguments.max_cycles, watch_sm=watch_sm, caches_before=arguments.caches_before, watch=bar.watch
        )
    if simulated.simulation.timeline is not None:
        write_timeline(arguments.timeline, trace, simulated.simulation.timeline)
    document = simulated.prediction.to_json()
    if arguments.csv and not arguments.json:
        print(predictions_csv([document]))
        return 0
    without = ("--max-cycles", "--timeline", "--timeline-sm")
    hint = followed_by("compare", arguments.command_line, "warpsight", "compare the models", without=without)
    return print_result(arguments, document, lambda: predictions_text([document], terminal_style()), hint)
