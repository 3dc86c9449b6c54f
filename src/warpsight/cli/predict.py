"""`warpsight predict`: a kernel on a GPU by one model or several."""

from __future__ import annotations

import argparse
from typing import Any

import lazy_loader as lazy

from warpsight.analysis.summary import summary
from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, terminal_size, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.compiling_ahead import compile_ahead
from warpsight.pipeline.evaluate import known_models, predict_profiled, predict_trace, profile_trace
from warpsight.pipeline.predict import over_repeats, over_representatives, over_warps, predict_launches
from warpsight.pipeline.request import PAPERS_MODELS, Method
from warpsight.pipeline.sampling import DEFAULT_ACCURACY, trace_to_predict
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.tracing import launches_of, obtain_trace
from warpsight.reports.first_screen import first_screen
from warpsight.reports.formats import predictions_csv
from warpsight.reports.next_step import after_prediction
from warpsight.reports.prediction import notes_of, predictions_text, rows_text
from warpsight.traces.schema import KernelTrace

static: Any = lazy.load("warpsight.pipeline.static_prediction", suppress_warning=True)  # the parser of PTX: for --static alone

_AROUND = 4  # lines of a terminal for the command itself, the next one and the prompt

EXAMPLES = """\
examples:
  warpsight predict saxpy.cu --grid 4096 --block 256 --arg f32:2 --arg 'f32[1048576]:uniform' --arg 'f32[1048576]:zeros'
  warpsight predict launch.yaml --gpu gpumech --model mdm,gpumech
  warpsight predict launch.yaml --gpu gtx280 --model mwp-cwp --static --trips '$L__BB0_2=16'
  warpsight predict saxpy.trace --set sm_count=56 --set 'dram.bandwidth=960 GB/s' --json
  warpsight predict launch.yaml --simulator                              # also the simulator's time
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
    options.add_sampling(parser)
    options.add_static(parser)
    options.add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print one CSV row per prediction")
    parser.add_argument("--cpi-stack", action="store_true", help="show the CPI stack even if the terminal has too few lines")
    parser.add_argument("--simulator", action="store_true", help="also simulate the launch cycle by cycle, and show the difference")


def run(arguments: argparse.Namespace) -> int:
    """Predict and print: with --warps, --representative all or several launches, one prediction per model and row."""
    _refuse_contradictions(arguments)
    varied = _varied(arguments)
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    request, models, method = options.kernel_request(arguments), options.model_names(arguments), options.method(arguments)
    hints = options.static_hints(arguments)
    if request.is_trace and (arguments.exact or arguments.accuracy is not None):
        place = "--exact" if arguments.exact else "--accuracy"
        raise UsageError("applies to a kernel, and this is a trace", place=place, remedy="leave it out, or give the kernel")
    known_models(models)
    with ProgressBar() as bar:
        if hints is not None:
            predictions = static.predict_static(request, gpu, models, hints)
        elif request.is_foreign and not varied and len(launches_of(request)) > 1:  # a row for each launch
            if arguments.simulator:
                what = "simulates one launch, and this trace has several"
                raise UsageError(what, place="--simulator", remedy="choose one with --launches N")
            predictions = predict_launches(request, gpu, models, method, watch=bar.watch)
        else:
            if varied or arguments.exact or arguments.simulator:
                trace = obtain_trace(request, gpu=gpu, watch=bar.watch)
            else:
                compile_ahead(request.threads)
                accuracy = DEFAULT_ACCURACY if arguments.accuracy is None else arguments.accuracy
                trace = trace_to_predict(request, gpu, models[0], method, accuracy, watch=bar.watch)
            if arguments.repeat is not None:
                predictions = over_repeats(trace, gpu, models, arguments.repeat, method, watch=bar.watch)
            elif arguments.warps:
                predictions = over_warps(trace, gpu, models, arguments.warps, method, watch=bar.watch)
            elif arguments.representative == options.ALL:
                predictions = over_representatives(trace, gpu, models, method, watch=bar.watch)
            elif arguments.csv:
                predictions = predict_trace(trace, gpu, models, method, watch=bar.watch)
            else:
                show(_with_summaries(trace, gpu, models, method, arguments, bar.watch), arguments)
                return 0
    show([prediction.to_json() for prediction in predictions], arguments)
    return 0


def _varied(arguments: argparse.Namespace) -> bool:
    """Whether one launch gets several rows."""
    return bool(arguments.warps) or arguments.representative == options.ALL or arguments.repeat is not None


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that exclude each other."""
    if arguments.json and arguments.csv:
        raise UsageError("stdout can hold CSV or JSON, not both", place="--csv", remedy="leave out one of them")
    if arguments.warps and arguments.representative == options.ALL:
        raise UsageError("cannot be combined with --representative all", place="--warps", remedy="run once for each")
    if arguments.repeat is not None and (arguments.warps or arguments.representative == options.ALL or arguments.static):
        what = "cannot be combined with --warps, --representative all or --static"
        raise UsageError(what, place="--repeat", remedy="run once for each")
    if arguments.accuracy is not None and (arguments.exact or arguments.simulator or _varied(arguments)):
        what = "cannot be combined with --exact, --simulator, --warps, --representative all or --repeat, which run every block"
        raise UsageError(what, place="--accuracy", remedy="leave out one of them")
    if arguments.simulator and (_varied(arguments) or arguments.static or arguments.csv):
        what = "cannot be combined with --warps, --representative all, --repeat, --static or --csv"
        raise UsageError(what, place="--simulator", remedy="leave out one of them")


def _with_summaries(
    trace: KernelTrace, gpu: GpuSpec, models: tuple[str, ...], method: Method, arguments: argparse.Namespace, watch: Watch | None
) -> list[dict[str, Any]]:
    """The documents of the models' predictions, each with its summary; beside the default model those of the papers."""
    profiled = profile_trace(trace, gpu, method, watch=watch)
    predictions = predict_profiled(profiled, gpu, models)
    others = [] if arguments.models else predict_profiled(profiled, gpu, PAPERS_MODELS)
    simulated = None
    if arguments.simulator:
        simulated = simulate_trace(trace, gpu, caches_before=method.caches_before, watch=watch).prediction
    return [each.to_json() | {"summary": summary(profiled, gpu, each, others, simulated)} for each in predictions]


def show(documents: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Print predictions as JSON, CSV, or text with the next command."""
    if arguments.json:
        print_json(documents)
    elif arguments.csv:
        print(predictions_csv(documents))
    else:
        longest = max(documents, key=_launch_cycles)
        print_answer(_text(documents, arguments), after_prediction(longest, arguments.command_line))


def _launch_cycles(document: dict[str, Any]) -> float:
    """The cycles of a row that is one launch; 0 of any other document."""
    numbered = isinstance(document["provenance"].get("varied", {}).get("launch"), int)
    return float(document["cycles"]) if numbered else 0.0


def _text(documents: list[dict[str, Any]], arguments: argparse.Namespace) -> str:
    """A row or block for each prediction; with summaries, a screen for each."""
    style, (width, lines) = terminal_style(), terminal_size()
    if "varied" in documents[0]["provenance"]:
        return rows_text(documents, style)
    if "summary" not in documents[0]:
        return predictions_text(documents, style)
    room = (lines - _AROUND) // len(documents) if lines else 0
    screens = [
        first_screen(each, style, width=width, lines=room, stack=arguments.cpi_stack, said=notes_of(documents[:number]))
        for number, each in enumerate(documents)
    ]
    return "\n\n".join(screens)
