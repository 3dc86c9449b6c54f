"""`warpsight explain`: the predicted cycles by source or PTX line."""

from __future__ import annotations

import argparse

from warpsight.analysis.explanation import explain_kernel
from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.reports.explanation import explanation_text
from warpsight.reports.formats import plain
from warpsight.reports.next_step import followed_by

_VIEWS = ("line", "source", "block")
_EXAMPLES = """\
examples:
  warpsight explain launch.yaml
  warpsight explain saxpy.trace --by line --gpu gpumech --model gpumech
  warpsight explain launch.yaml --by block --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    options.add_kernel(parser)
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser)
    parser.add_argument("--by", choices=_VIEWS, help="one row per PTX line (line), source line (source) or basic block "
                        "(block); default: source, or line for a kernel without source lines")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain and print."""
    models = options.model_names(arguments)
    if len(models) > 1:
        raise UsageError("takes one model", place="--model", remedy="run once for each, or use `warpsight compare`")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    with ProgressBar() as bar:
        request, method = options.kernel_request(arguments), options.method(arguments)
        document = explain_kernel(request, gpu, models[0], arguments.by, method, watch=bar.watch).to_json()
    if arguments.json:
        print_json([document])
    else:
        following = followed_by("advise", arguments.command_line, models[0], "what would change it, and by how much",
                                without=("--by",))
        print_answer(explanation_text(plain(document), terminal_style()), following)
    return 0
