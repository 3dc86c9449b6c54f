"""`warpsight predict`: a kernel on a GPU by one model or several."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import lazy_loader as lazy

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import known_models, predict_trace
from warpsight.pipeline.predict import over_repeats, over_representatives, over_warps, predict_launches
from warpsight.pipeline.request import PAPERS_MODELS
from warpsight.pipeline.tracing import launches_of, obtain_trace
from warpsight.reports.formats import predictions_csv
from warpsight.reports.next_step import after_prediction
from warpsight.reports.prediction import predictions_text, rows_text

static: Any = lazy.load("warpsight.pipeline.static_prediction", suppress_warning=True)  # the parser of PTX: for --static alone

EXAMPLES = """\
examples:
  warpsight predict saxpy.cu --grid 4096 --block 256 --arg f32:2 --arg 'f32[1048576]:uniform' --arg 'f32[1048576]:zeros'
  warpsight predict launch.yaml --gpu gpumech --model mdm,gpumech
  warpsight predict launch.yaml --gpu gtx280 --model mwp-cwp --static --trips '$L__BB0_2=16'
  warpsight predict saxpy.trace --set sm_count=56 --set 'dram.bandwidth=960 GB/s' --json
  warpsight predict launch.yaml --warps 1:64
  warpsight predict launch.yaml --gpu a100 --repeat 100                  # back to back: the first, the others, the total
  warpsight predict traces/bfs --kernels Kernel --launches 1-10          # a trace folder of Accel-Sim
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser, several=True)
    parser.add_argument("--warps", metavar="LEAST:MOST", type=options.span, help="a row for each number of resident blocks in "
                        "this range of warps per SM; caches are simulated again for each")
    options.add_repeat(parser)
    options.add_static(parser)
    options.add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print one CSV row per prediction")


def run(arguments: argparse.Namespace) -> int:
    """Predict and print: with --warps, --representative all or several launches, one prediction per model and row."""
    if arguments.json and arguments.csv:
        raise UsageError("stdout can hold CSV or JSON, not both", place="--csv", remedy="leave out one of them")
    varied = arguments.warps or arguments.representative == options.ALL or arguments.repeat is not None
    if arguments.warps and arguments.representative == options.ALL:
        raise UsageError("cannot be combined with --representative all", place="--warps", remedy="run once for each")
    if arguments.repeat is not None and (arguments.warps or arguments.representative == options.ALL or arguments.static):
        what = "cannot be combined with --warps, --representative all or --static"
        raise UsageError(what, place="--repeat", remedy="run once for each")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    request, models, method = options.kernel_request(arguments), options.model_names(arguments), options.method(arguments)
    hints = options.static_hints(arguments)
    papers = () if arguments.repeat is not None or arguments.models or arguments.json or arguments.csv else PAPERS_MODELS
    known_models(models)
    with ProgressBar() as bar:
        if hints is not None:
            predictions = static.predict_static(request, gpu, models, hints)
        elif request.is_foreign and not varied and len(launches_of(request)) > 1:  # a row for each launch
            predictions = predict_launches(request, gpu, models, method, watch=bar.watch)
        else:
            trace = obtain_trace(request, gpu=gpu, watch=bar.watch)
            if arguments.repeat is not None:
                predictions = over_repeats(trace, gpu, models, arguments.repeat, method, watch=bar.watch)
            elif arguments.warps:
                predictions = over_warps(trace, gpu, models, arguments.warps, method, watch=bar.watch)
            elif arguments.representative == options.ALL:
                predictions = over_representatives(trace, gpu, models, method, watch=bar.watch)
            else:
                predictions = predict_trace(trace, gpu, [*models, *papers], method, watch=bar.watch)
    documents = [prediction.to_json() for prediction in predictions]
    beside = [document for document in documents if document["model"] in papers]
    show([document for document in documents if document not in beside], arguments, beside)
    return 0


def show(documents: list[dict[str, Any]], arguments: argparse.Namespace, papers: Sequence[dict[str, Any]] = ()) -> None:
    """Print predictions as JSON, CSV, or text with a line for those of `papers` and the next command."""
    if arguments.json:
        print_json(documents)
    elif arguments.csv:
        print(predictions_csv(documents))
    else:
        rows = "varied" in documents[0]["provenance"]
        text = rows_text(documents, terminal_style()) if rows else predictions_text(documents, terminal_style(), papers)
        print_answer(text, after_prediction(documents[0], arguments.command_line))
