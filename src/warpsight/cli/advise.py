"""`warpsight advise`: changes that would make a kernel faster, and by how much."""

from __future__ import annotations

import argparse
from typing import Any

from warpsight.analysis.advice.advise import LEAST_SHOWN, advise_kernel
from warpsight.base.errors import UsageError
from warpsight.base.units import percent
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, terminal_size, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.reports.explanation import advice_text
from warpsight.reports.formats import plain
from warpsight.reports.next_step import followed_by

EXAMPLES = """\
examples:
  warpsight advise launch.yaml
  warpsight advise saxpy.trace --gpu gpumech --model gpumech --top 3
  warpsight advise launch.yaml --json
"""
_TOP = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    options.add_gpu(parser)
    options.add_models(parser, one=True)
    options.add_method(parser)
    parser.add_argument("--top", metavar="N", type=options.whole, help=f"show the N changes with the largest gain (default {_TOP}; "
                        "with --json: all)")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Advise and print."""
    model = options.one_model(arguments)
    if arguments.top == 0:
        raise UsageError("must be at least 1", place="--top", remedy="give 1 or more, or leave it out")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    with ProgressBar() as bar:
        request, method = options.kernel_request(arguments), options.method(arguments)
        advice = advise_kernel(request, gpu, model, method, watch=bar.watch)
    if arguments.json:
        print_json([advice.to_json(arguments.top)])
        return 0
    document = plain(advice.to_json(arguments.top or _TOP))
    print_answer(advice_text(document, terminal_style(), width=terminal_size()[0]), _next(document, arguments))
    return 0


def _next(document: dict[str, Any], arguments: argparse.Namespace) -> str:
    """An explanation, if a change of the programmer gains as much as `predict` shows; else a prediction for the GPU with the
    change of the architect that does; else an explanation."""
    large = [change for change in document["advice"] if change["gain"] >= LEAST_SHOWN]
    if large and all(change["setting"] for change in large):
        why, added = f"saves {percent(large[0]['gain'])} of the cycles", ("--set", large[0]["setting"])
        return followed_by("predict", arguments.command_line, document["model"], why, without=("--top",), added=added)
    return followed_by("explain", arguments.command_line, document["model"], "where the cycles are", without=("--top",))
