"""`warpsight gpus`: list, show and check GPU descriptions, and make them from what others know."""

from __future__ import annotations

import argparse
import sys

from warpsight.base.errors import SpecError
from warpsight.cli import gpus_made, options
from warpsight.cli.output import print_answer, print_json
from warpsight.cli.parser import Parser

_EXAMPLES = """\
examples:
  warpsight gpus list
  warpsight gpus show mdm-pascal > my-gpu.yaml
  warpsight gpus show mdm-pascal --set sm_count=56
  warpsight gpus check my-gpu.yaml
  warpsight gpus import gpgpusim.config trace.config -o my-gpu.yaml
  warpsight gpus from-device -o my-gpu.yaml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    parser.epilog = _EXAMPLES
    parts = parser.add_subparsers(dest="part", metavar="list|show|check|import|from-device", required=True, parser_class=Parser)
    listing = parts.add_parser("list", help="the catalogue")
    show = parts.add_parser("show", help="every value of one GPU, as the YAML that describes it, with sources")
    show.add_argument("gpu", metavar="NAME|FILE")
    show.add_argument("--set", metavar="KEY=VALUE", dest="overrides", action="append", default=[],
                      help="change one key (repeatable)")
    check = parts.add_parser("check", help="everything that is wrong with a description; exit code 2 if anything is")
    check.add_argument("gpu", metavar="NAME|FILE")
    for part in (listing, show, check):
        options.add_json(part)
    gpus_made.configure(parts)


def run(arguments: argparse.Namespace) -> int:
    """Do the part that was asked for."""
    own = {"list": _list, "show": _show, "check": _check}
    return (own | gpus_made.PARTS)[arguments.part](arguments)


def _list(arguments: argparse.Namespace) -> int:
    from warpsight.gpu.describe import list_gpus
    from warpsight.report.gpu_text import gpu_list_text
    from warpsight.report.json_text import json_text
    from warpsight.report.next_step import line

    documents = [{"name": gpu.name, "description": gpu.description} for gpu in list_gpus()]
    if arguments.json:
        print(json_text(documents))
    else:
        print_answer(gpu_list_text(documents), line(["gpus", "show", documents[0]["name"]], "its values and their sources"))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from warpsight.gpu.describe import dump_yaml, resolved
    from warpsight.gpu.loader import load_gpu
    from warpsight.report.next_step import line

    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    if arguments.json:
        print_json([resolved(gpu)])
    else:
        # the last line is a comment, so that the answer can be kept as a description
        print(f"{dump_yaml(gpu).rstrip()}\n# {line(['demo', '--gpu', arguments.gpu], 'the demonstration on this GPU')}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from warpsight.gpu.loader import check_gpu
    from warpsight.report.gpu_text import problems_text
    from warpsight.report.next_step import line

    problems = [str(problem) for problem in check_gpu(arguments.gpu)]
    if arguments.json:
        print_json([{"gpu": arguments.gpu, "ok": not problems, "problems": problems}])
    elif problems:
        print(problems_text(arguments.gpu, problems), file=sys.stderr)
    else:
        print_answer(f"{arguments.gpu}: no problems", line(["demo", "--gpu", arguments.gpu], "the demonstration on this GPU"))
    return SpecError.exit_code if problems else 0
