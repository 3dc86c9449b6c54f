"""`warpsight compare`: GPUs or kernels ranked by time, and models compared with each other and with a reference."""

from __future__ import annotations

import argparse
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_rows, refuse_two_tables, terminal_style, write_output
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.comparison import compare
from warpsight.hardware.ranking import rank_gpus
from warpsight.pipeline.request import DEFAULT_MODEL, PAPERS_MODELS
from warpsight.reports.comparison import comparison_csv, comparison_svg, comparison_text, ranking_csv, ranking_text
from warpsight.reports.formats import plain
from warpsight.reports.next_step import followed_by, line

EXAMPLES = """\
examples:
  warpsight compare launch.yaml --gpu a100,h100-sxm,rtx4090              # GPUs, the fastest first
  warpsight compare v1.yaml v2.yaml v3.yaml --gpu a100                   # kernels, the fastest first
  warpsight compare launch.yaml --model all
  warpsight compare saxpy.trace gemm.trace --model mdm,gpumech --against measured.csv --gate mdm:15
  warpsight compare 'stride 1=stride1.yaml' 'stride 32=stride32.yaml' --against measured.csv -o errors.csv
  warpsight compare 'saxpy#3=launch.yaml' --against ncu.csv --plot errors.svg
"""
GATE_FAILED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser, several=True)
    options.add_gpu(parser, several=True)
    parser.add_argument("--model", metavar="NAME[,NAME]", dest="models", action="append",
                        help=f"the performance models; all: every one (default: {DEFAULT_MODEL}, {', '.join(PAPERS_MODELS)}; with "
                        f"several GPUs {DEFAULT_MODEL})")
    options.add_method(parser)
    parser.add_argument("--against", metavar="CSV", help="measurements of ncu --csv or nvprof --csv, a log of Accel-Sim, or "
                        "reference cycles (columns gpu,kernel,cycles, optionally size, grid, block, "
                        "cpi_stack.NAME); - reads stdin")
    parser.add_argument("--gate", metavar="MODEL:PERCENT", dest="gates", action="append", default=[],
                        help="exit with code 1 if the model's MAPE is above this (repeatable)")
    parser.add_argument("-o", "--output", metavar="FILE|-", help="CSV, one row per launch and model, to FILE, or to stdout for -")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw predicted over measured cycles, on logarithmic axes")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; exit code 1 if a gate fails."""
    refuse_two_tables(arguments)
    if arguments.plot and not arguments.against:
        raise UsageError("needs a reference to compare with", place="--plot", remedy="give --against CSV")
    names = options.gpu_names(arguments)
    if len(names) > 1:
        return _rank(arguments, names)
    gpu = load_gpu(names[0], overrides=arguments.overrides)
    models = options.model_names(arguments) if arguments.models else None
    with ProgressBar() as bar:
        comparison = compare(
            options.kernel_requests(arguments), gpu, models, options.method(arguments), against=arguments.against,
            gates=arguments.gates, watch=bar.watch,
        )  # fmt: skip
    document = plain(comparison.to_json())
    if arguments.plot:
        write_output(arguments.plot, comparison_svg(document), "--plot")
    print_rows(
        arguments, document, lambda: comparison_csv(document),
        lambda: (comparison_text(document, terminal_style()), _next(document, arguments)),
    )  # fmt: skip
    return 0 if comparison.passed() else GATE_FAILED


def _rank(arguments: argparse.Namespace, names: list[str]) -> int:
    """Rank GPUs and print."""
    for option in ("against", "gates", "plot"):
        if getattr(arguments, option):
            what = f"is about one GPU, and --gpu names {len(names)}"
            raise UsageError(what, place=arguments.option_names[option], remedy="name one GPU, or leave the option out")
    model = options.one_model(arguments)
    gpus = [load_gpu(name, overrides=arguments.overrides) for name in names]
    with ProgressBar() as bar:
        document = plain(rank_gpus(options.kernel_requests(arguments), gpus, model, options.method(arguments), watch=bar.watch))

    def answer() -> tuple[str, str]:
        rows = document["overall"] or [row for row in document["launches"][0]["rows"] if not row["refused"]]
        best = rows[0]["gpu"]
        other = best if best != gpus[0].name else gpus[1].name
        added = ("--gpu", names[0], "--other-gpu", names[[gpu.name for gpu in gpus].index(other)])
        own = ("--gpu", "-o", "--output")
        if len(document["launches"]) > 1 or not {gpus[0].name, other} <= {row["gpu"] for row in rows}:
            following = line(["gpus", "compare", names[0], added[-1]], "what differs between the GPUs")
        else:
            why = "where the time goes on both"
            following = followed_by("report", arguments.command_line, model, why, without=own, added=added)
        return ranking_text(document, terminal_style()), following

    print_rows(arguments, document, lambda: ranking_csv(document), answer)
    return 0


def _next(document: dict[str, Any], arguments: argparse.Namespace) -> str:
    judged = [row for row in document["summary"] if row["mape"] is not None]
    usual = DEFAULT_MODEL if DEFAULT_MODEL in document["models"] else document["models"][0]
    model = min(judged, key=lambda row: float(row["mape"]))["model"] if judged else usual
    if len(document["launches"]) > 1 or "=" in arguments.paths[0]:
        return line(["models", "show", model], "the model's assumptions")
    own = ("--against", "--gate", "-o", "--output", "--plot", "--model")
    why = "attribute its cycles to lines"
    return followed_by("explain", arguments.command_line, model, why, without=own, added=("--model", model))
