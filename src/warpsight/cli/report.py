"""`warpsight report`: one file that shows a kernel, a result or a study, or two of the first two side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json
from warpsight.explore.dossier.modes import MODES

_EXAMPLES = """\
examples:
  warpsight report launch.yaml -o spmv.html
  warpsight report spmv.trace --gpu v100 --model warpsight --referee -o spmv.html --open
  warpsight report old=before.yaml new=after.yaml        # two kernels, differences first
  warpsight report launch.yaml --other-gpu v100          # one kernel on two GPUs
  warpsight report launch.yaml --against ncu.csv         # beside what was measured
  warpsight predict launch.yaml --json > result.json && warpsight report result.json
  warpsight report study.sweep --cost 'sm_count * l1.size'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    options.add_kernel(parser, several=True)
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser)
    parser.add_argument("--other-gpu", metavar="NAME|FILE", help="compare --gpu with this one")
    parser.add_argument("--what-if", choices=MODES, help="designs around the GPU to evaluate for the sliders: quick (at most about "
                        "20 s), full (any SMs with any caches), none (default: quick)")
    parser.add_argument("--against", metavar="CSV", help="what ncu --csv or nvprof --csv measured, or reference cycles, as for "
                        "`warpsight compare`: shown beside the predictions")
    parser.add_argument("--referee", action="store_true", help="simulate the kernel cycle by cycle too, beside the models")
    parser.add_argument("--timeline-cycles", metavar="BEGIN:END", help="which cycles of the referee's timeline are shown (default: "
                        "from 0 on, as many as the report holds)")
    parser.add_argument("--timeline-sm", metavar="N", type=options.whole, help="of which SM (default 0)")
    parser.add_argument("--perfetto", metavar="FILE.json", help="write what that SM did, all of it, for Perfetto too")
    study = parser.add_argument_group("studies (the folder that `warpsight sweep` wrote)")
    study.add_argument("--cost", metavar="EXPR", action="append", help="a front of performance against this, over the designs' "
                       "keys (repeatable; default the axes)")
    study.add_argument("--where", metavar="EXPR", action="append", help="only designs on which this holds (repeatable)")
    study.add_argument("--metric", metavar="NAME", help="performance over several kernels: geomean (default), total, worst, or one "
                       "kernel's")
    parser.add_argument("-o", "--output", metavar="FILE.html", help="the report (default: the input's name with .html, here)")
    parser.add_argument("--open", action="store_true", help="show it in a browser")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the document, draw it, write it."""
    from warpsight.cli.report_inputs import document_of
    from warpsight.explore.dossier.file import write_report
    from warpsight.report.html.page import checked_page
    from warpsight.report.json_text import plain

    document = plain(document_of(arguments))
    path = write_report(arguments.output or _default_name(arguments.paths), checked_page(document, arguments.paths[0]))
    if arguments.json:
        print_json([document])
    else:
        size = f"{path.stat().st_size / 1024:,.0f} KiB"
        print_answer(f"wrote {path}: {document['title']}, {size}, one file that needs no network", _next(arguments, document))
    if arguments.open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
    return 0


def _default_name(paths: list[str]) -> str:
    if "-" in paths:
        raise UsageError("source from stdin gives a report no name", place="-o", remedy="name the report with -o FILE.html")
    return "-".join(Path(path).stem for path in paths) + ".html"


def _next(arguments: argparse.Namespace, document: dict[str, Any]) -> str:
    from warpsight.cli.report_inputs import plain_words
    from warpsight.report.next_step import followed_by, line

    if document["kind"] == "study":
        return line(["sweep", "best", arguments.paths[0]], "the best designs as text")
    if document["kind"] == "kernel" and "code" in document:
        own = ("-o", "--output", "--what-if", "--against", "--timeline-cycles", "--timeline-sm", "--perfetto")
        why, flags = "what would make it faster", ("--referee", "--open", "--json")
        return followed_by("advise", plain_words(arguments), document["model"], why, without=own, flags=flags)
    return line(["models", "show", document["model"]], "what the model assumes")
