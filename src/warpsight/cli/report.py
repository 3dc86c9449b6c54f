"""`warpsight report`: one file that shows a kernel, a result or a study."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json
from warpsight.cli.progress import ProgressBar

_EXAMPLES = """\
examples:
  warpsight report launch.yaml -o spmv.html
  warpsight report spmv.trace --gpu v100 --model warpsight --referee -o spmv.html --open
  warpsight predict launch.yaml --json > result.json && warpsight report result.json -o result.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    options.add_kernel(parser)
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser)
    parser.add_argument("-o", "--output", metavar="FILE.html", help="the report (default: the input's name with .html, here)")
    parser.add_argument("--referee", action="store_true", help="simulate the kernel cycle by cycle too, beside the models")
    parser.add_argument("--timeline-cycles", metavar="BEGIN:END", help="which cycles of the referee's timeline are shown (default: "
                        "from 0 on, as many as the report holds)")
    parser.add_argument("--timeline-sm", metavar="N", type=options.whole, help="of which SM (default 0)")
    parser.add_argument("--perfetto", metavar="FILE.json", help="write what that SM did, all of it, for Perfetto too")
    parser.add_argument("--open", action="store_true", help="show it in a browser")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the document, draw it, write it."""
    from warpsight.explore.dossier.file import write_report
    from warpsight.report.html.page import page
    from warpsight.report.next_step import line

    document = _document(arguments)
    path = write_report(arguments.output or _default_name(arguments.path), page(document))
    if arguments.json:
        print_json([document])
    else:
        size = f"{path.stat().st_size / 1024:,.0f} KiB"
        print_answer(f"wrote {path}: {document['title']}, {size}, one file that needs no network", line(_next(arguments)))
    if arguments.open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
    return 0


def _document(arguments: argparse.Namespace) -> dict[str, Any]:
    """The dossier of what the input is."""
    from warpsight.explore.dossier.kernel import Parts, kernel_dossier, result_dossier
    from warpsight.explore.dossier.results import is_result, read_results
    from warpsight.explore.dossier.timeline import window_of
    from warpsight.explore.pipeline import obtain_trace
    from warpsight.gpu.loader import load_gpu

    window = window_of(arguments.timeline_cycles, arguments.timeline_sm)
    _refuse_without_referee(arguments)
    if is_result(arguments.path):
        return result_dossier(read_results(arguments.path))
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    models = options.model_names(arguments)
    with ProgressBar() as bar:
        trace = obtain_trace(options.kernel_request(arguments), gpu=gpu, watch=bar.watch)
        beside = models[1:] if len(models) > 1 else None
        parts = Parts(referee=arguments.referee, window=window, perfetto=arguments.perfetto)
        document = kernel_dossier(trace, gpu, models[0], options.method(arguments), beside=beside, parts=parts, watch=bar.watch)
    if arguments.referee and arguments.path != "-":
        document["timeline"]["command"] = _simulate_command(arguments)
    return document


def _refuse_without_referee(arguments: argparse.Namespace) -> None:
    """The options of the timeline need the referee, and the referee needs a kernel. Raises UsageError."""
    from warpsight.explore.dossier.results import is_result

    for option in ("--timeline-cycles", "--timeline-sm", "--perfetto"):
        if getattr(arguments, option[2:].replace("-", "_")) is not None and not arguments.referee:
            raise UsageError("says what is shown of the referee's run", place=option, remedy="add --referee")
    if arguments.referee and is_result(arguments.path):
        what = "simulates a kernel, and a file of results has none"
        remedy = "give the kernel or its trace, or add what `warpsight simulate --json` printed"
        raise UsageError(what, place="--referee", remedy=remedy)


def _simulate_command(arguments: argparse.Namespace) -> str:
    """What writes the same timeline as a file for Perfetto."""
    from warpsight.report.next_step import command_after

    own = ("-o", "--output", "--model", "--representative", "--interleaving", "--caches", "--timeline-cycles", "--perfetto")
    added = ("--timeline", arguments.perfetto or Path(arguments.path).stem + ".timeline.json")
    return command_after("simulate", arguments.command_line, without=own, flags=("--referee", "--open", "--json"), added=added)


def _default_name(path: str) -> str:
    if path == "-":
        raise UsageError("source from stdin gives a report no name", place="-o", remedy="name the report with -o FILE.html")
    return Path(path).stem + ".html"


def _next(arguments: argparse.Namespace) -> list[str]:
    return ["explain", arguments.path] if arguments.path != "-" else ["report", "--help"]
