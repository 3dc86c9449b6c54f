"""`warpsight validate`: reproduces figures of the papers, with the simulator and the models."""

from __future__ import annotations

import argparse
import sys

from warpsight.cli import options
from warpsight.cli.options import add_executor, chosen_executor
from warpsight.cli.output import ProgressBar, print_answer, print_json, print_result
from warpsight.papers.results import cast_of
from warpsight.papers.validate import chosen_figures, figure_list, validate
from warpsight.pipeline.suites import load_suite
from warpsight.reports.next_step import line
from warpsight.reports.paper_figures import figures_text, list_text, ready_folder, write_figures

EXAMPLES = """\
examples:
  warpsight validate --list
  warpsight validate --suite warpsight --figure mdm-5
  warpsight validate --suite mine --figure mdm-6,mdm-7 --kernels bfs,spmv --jobs 4 --out pictures
  warpsight validate --suite warpsight --figure all --out docs/validation
"""
_OUT = "warpsight-figures"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--list", action="store_true", help="list the figures, and do nothing else")
    parser.add_argument("--suite", metavar="NAME|DIR", default="warpsight", help="a suite shipped with Warpsight, or a "
                        "folder of kernels (default warpsight)")
    parser.add_argument("--figure", metavar="NAME[,NAME]", dest="figures", action="append", default=[],
                        help="the figures to reproduce, or all")
    parser.add_argument("--kernels", metavar="NAME[,NAME]", action="append", default=[], help="only these kernels of the suite")
    parser.add_argument("--out", metavar="DIR", help=f"folder of NAME.json, NAME.svg, NAME.md (default {_OUT}; none with --json)")
    parser.add_argument("--results", metavar="DIR", help="folder of kept results (default: in the user's cache folder)")
    options.add_json(parser)
    add_executor(parser)


def run(arguments: argparse.Namespace) -> int:
    """List, or compute and write."""
    if arguments.list:
        following = line(["validate", "--figure", "mdm-5"], "the models' errors at the baseline")
        return print_result(arguments, figure_list(), lambda: list_text(figure_list()), following)
    executor = chosen_executor(arguments)
    figures = chosen_figures(_names(arguments.figures))
    cast = cast_of(load_suite(arguments.suite), _names(arguments.kernels))
    out = arguments.out if arguments.out or arguments.json else _OUT
    folder = ready_folder(out) if out else None
    try:
        with ProgressBar() as bar, executor:
            documents = validate(cast, figures, results=arguments.results, executor=executor, watch=bar.watch)
    except KeyboardInterrupt:
        print("the results so far are kept; run the same command again to continue", file=sys.stderr)
        raise
    written = write_figures(folder, documents) if folder else []
    if arguments.json:
        print_json(documents)
    else:
        print_answer(figures_text(documents, written), line(["validate", "--list"], "the other figures"))
    return 0


def _names(lists: list[str]) -> list[str]:
    return [name.strip() for each in lists for name in each.split(",") if name.strip()]
