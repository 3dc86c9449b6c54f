"""`warpsight predict`: a kernel on a GPU by one model or several."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json, terminal_style
from warpsight.cli.progress import ProgressBar

_EXAMPLES = """\
examples:
  warpsight predict saxpy.cu --grid 4096 --block 256 --arg f32:2 --arg 'f32[1048576]:uniform' --arg 'f32[1048576]:zeros'
  warpsight predict launch.yaml --gpu gpumech --model mdm,gpumech
  warpsight predict launch.yaml --gpu gtx280 --model mwp-cwp --static --trips '$L__BB0_2=16'
  warpsight predict saxpy.trace --set sm_count=56 --set 'dram.bandwidth=960 GB/s' --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    options.add_kernel(parser)
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser)
    options.add_static(parser)
    options.add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print one CSV row per prediction")


def run(arguments: argparse.Namespace) -> int:
    """Predict and print."""
    from warpsight.explore.pipeline import predict_kernel
    from warpsight.gpu.loader import load_gpu

    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    told = options.told(arguments)
    if told is not None:
        from warpsight.explore.static_run import predict_static

        found = predict_static(options.kernel_request(arguments), gpu, options.model_names(arguments), told)
        show([prediction.to_json() for prediction in found], arguments)
        return 0
    with ProgressBar() as bar:
        predictions = predict_kernel(
            options.kernel_request(arguments),
            gpu,
            options.model_names(arguments),
            options.method(arguments),
            watch=bar.watch,
        )
    show([prediction.to_json() for prediction in predictions], arguments)
    return 0


def show(documents: list[dict[str, object]], arguments: argparse.Namespace) -> None:
    """Print predictions as the options say: JSON, CSV, or text with what to try next."""
    from warpsight.report.csv_text import predictions_csv
    from warpsight.report.next_step import after_prediction
    from warpsight.report.prediction_text import predictions_text

    if arguments.json:
        print_json(documents)
    elif arguments.csv:
        print(predictions_csv(documents))
    else:
        print_answer(predictions_text(documents, terminal_style()), after_prediction(documents[0], arguments.command_line))
