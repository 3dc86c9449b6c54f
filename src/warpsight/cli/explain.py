"""`warpsight explain`: the predicted cycles by source line, PTX line, basic block or instruction of machine code."""

from __future__ import annotations

import argparse

from warpsight.analysis.explanation import explain_kernel
from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_result, terminal_size, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.reports.explanation import explanation_text
from warpsight.reports.formats import plain
from warpsight.reports.next_step import followed_by

_VIEWS = ("line", "source", "block", "sass")
EXAMPLES = """\
examples:
  warpsight explain launch.yaml                                          # source lines, those with most cycles first
  warpsight explain launch.yaml --listing                                # the same in the order of the file
  warpsight explain saxpy.trace --by line --gpu gpumech --model gpumech
  warpsight explain launch.yaml --gpu a100 --by sass
  warpsight explain launch.yaml --by block --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    options.add_gpu(parser)
    options.add_models(parser, one=True)
    options.add_method(parser)
    parser.add_argument("--by", choices=_VIEWS, help="one row per PTX line (line), source line (source), basic block (block) or, "
                        "where machine code is executed, instruction of it (sass); default: source, or line for a kernel without "
                        "source lines")
    parser.add_argument("--listing", action="store_true", help="source lines in the order of their files, with the lines between "
                        "them, instead of those with most cycles first")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain and print."""
    if arguments.listing and arguments.by not in (None, "source"):
        what = f"is of source lines, and --by {arguments.by} has another view, which is in the order of the code"
        raise UsageError(what, place="--listing", remedy="leave out one of them")
    model = options.one_model(arguments)
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    with ProgressBar() as bar:
        request, method = options.kernel_request(arguments), options.method(arguments)
        document = explain_kernel(request, gpu, model, arguments.by, method, watch=bar.watch).to_json()
    following = followed_by(
        "advise", arguments.command_line, model, "what would change it, and by how much", without=("--by",), flags=("--listing",)
    )

    def text() -> str:
        return explanation_text(plain(document), terminal_style(), width=terminal_size()[0], listing=arguments.listing)

    return print_result(arguments, document, text, following)
