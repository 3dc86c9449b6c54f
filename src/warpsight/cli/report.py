"""`warpsight report`: one file that shows a kernel, a result or a study, or two of the first two side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json
from warpsight.cli.progress import ProgressBar

if TYPE_CHECKING:
    from warpsight.explore.request import KernelRequest

_EXAMPLES = """\
examples:
  warpsight report launch.yaml -o spmv.html
  warpsight report spmv.trace --gpu v100 --model warpsight --referee -o spmv.html --open
  warpsight report before.yaml after.yaml                # two kernels, differences first
  warpsight report launch.yaml --other-gpu v100          # one kernel on two GPUs
  warpsight predict launch.yaml --json > result.json && warpsight report result.json
  warpsight report study.sweep --cost 'sm_count * l1.size'
"""
_KERNEL_OPTIONS = ("--referee", "--against", "--timeline-cycles", "--timeline-sm", "--perfetto", "--other-gpu")
_STUDY_OPTIONS = {"cost": "--cost", "where": "--where", "metric": "--metric"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    options.add_kernel(parser, several=True)
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser)
    parser.add_argument("--other-gpu", metavar="NAME|FILE", help="compare --gpu with this one")
    parser.add_argument("--referee", action="store_true", help="simulate the kernel cycle by cycle too, beside the models")
    parser.add_argument("--against", metavar="CSV", help="what ncu --csv or nvprof --csv measured, or reference cycles, as for "
                        "`warpsight compare`: shown beside the predictions")
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
    from warpsight.explore.dossier.file import write_report
    from warpsight.report.html.page import checked_page
    from warpsight.report.json_text import plain

    document = plain(_document(arguments))
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


def _document(arguments: argparse.Namespace) -> dict[str, Any]:
    """The dossier of what the inputs are."""
    from warpsight.explore.dossier.comparison import comparison_dossier
    from warpsight.explore.sweep.folder import is_study

    studies = [path for path in arguments.paths if is_study(path)]
    if studies:
        if len(arguments.paths) > 1:
            raise UsageError("a study is shown alone", place=studies[0], remedy="give the folder of one study")
        for option in _KERNEL_OPTIONS:
            if getattr(arguments, option[2:].replace("-", "_")) not in (None, False):
                remedy = "leave it out, or give a kernel"
                raise UsageError(f"is about a kernel, and {studies[0]} is a study", place=option, remedy=remedy)
        return _of_study(arguments)
    for name, option in _STUDY_OPTIONS.items():
        if getattr(arguments, name) is not None:
            what = f"is about the designs of a study, and {arguments.paths[0]} is none"
            raise UsageError(what, place=option, remedy="leave it out, or give the folder that `warpsight sweep` wrote")
    requests = options.kernel_requests(arguments)
    _check_timeline(arguments)
    gpus = [arguments.gpu]
    if arguments.other_gpu:
        gpus.append(arguments.other_gpu)
    if len(requests) * len(gpus) > 2:
        what = f"{len(requests)} inputs on {len(gpus)} GPUs are more than two sides"
        raise UsageError(what, place="report", remedy="give two inputs, or one and --other-gpu; `warpsight compare` takes more")
    if arguments.perfetto and len(requests) * len(gpus) > 1:
        what = "holds what an SM did in one run, and a comparison has two"
        raise UsageError(what, place="--perfetto", remedy="make it by `warpsight simulate --timeline`")
    sides = [_of_kernel(request, gpu, arguments) for request in requests for gpu in gpus]
    if len(sides) == 1:
        return sides[0]
    for side in sides:
        side.pop("timeline", None)  # a comparison shows none
    return comparison_dossier(sides[0], sides[1], gpus if len(gpus) > 1 else _names(requests, sides))


def _names(requests: list[KernelRequest], sides: list[dict[str, Any]]) -> list[str]:
    """What the two sides are called: their kernels, else their files, else what they are."""
    kernels = [side["predictions"][0]["kernel"] for side in sides]
    files = [Path(str(request.path)).name for request in requests]
    return next((names for names in (kernels, files) if names[0] != names[1]), ["before", "after"])


def _of_study(arguments: argparse.Namespace) -> dict[str, Any]:
    from warpsight.explore.dossier.study import study_dossier
    from warpsight.explore.sweep.result import Question, Sweep

    models = options.model_names(arguments) if arguments.models else (None,)
    if len(models) > 1:
        raise UsageError("a study is shown by one model", place="--model", remedy="name one of the study's models")
    about = Question(model=models[0], where=tuple(arguments.where or ()))
    if arguments.metric is not None:
        about = Question(model=models[0], where=about.where, metric=arguments.metric)
    return study_dossier(Sweep.open(arguments.paths[0]), about, arguments.cost or ())


def _of_kernel(request: KernelRequest, gpu_name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    from warpsight.explore.dossier.kernel import Parts, kernel_dossier
    from warpsight.explore.dossier.results import dossier_of_file, is_result
    from warpsight.explore.dossier.timeline import window_of
    from warpsight.explore.pipeline import obtain_trace
    from warpsight.gpu.loader import load_gpu

    if is_result(request.path):
        if arguments.against:
            what = f"is compared with a launch, and {request.path} does not hold all of one"
            raise UsageError(what, place="--against", remedy="give the kernel or its trace")
        if arguments.referee:
            remedy = "give the kernel or its trace, or add what `warpsight simulate --json` printed"
            raise UsageError(f"simulates a kernel, and {request.path} has none", place="--referee", remedy=remedy)
        return dossier_of_file(request.path)
    gpu = load_gpu(gpu_name, overrides=arguments.overrides)
    models = options.model_names(arguments)
    with ProgressBar() as bar:
        trace = obtain_trace(request, gpu=gpu, watch=bar.watch)
        beside = models[1:] if len(models) > 1 else None
        window = window_of(arguments.timeline_cycles, arguments.timeline_sm)
        parts = Parts(referee=arguments.referee, window=window, perfetto=arguments.perfetto,
                      against=arguments.against)  # fmt: skip
        method = options.method(arguments)
        found = kernel_dossier(trace, gpu, models[0], method, beside=beside, parts=parts, request=request, watch=bar.watch)
    if "timeline" in found and request.path != "-":
        found["timeline"]["command"] = _simulate_command(arguments)
    return found


def _check_timeline(arguments: argparse.Namespace) -> None:
    """The options of the timeline need the referee, and are checked before minutes are spent. Raises UsageError."""
    from warpsight.explore.dossier.timeline import window_of

    for option in ("--timeline-cycles", "--timeline-sm", "--perfetto"):
        if getattr(arguments, option[2:].replace("-", "_")) is not None and not arguments.referee:
            raise UsageError("says what is shown of the referee's run", place=option, remedy="add --referee")
    window_of(arguments.timeline_cycles, arguments.timeline_sm)


def _simulate_command(arguments: argparse.Namespace) -> str:
    """What writes the same timeline as a file for Perfetto."""
    from warpsight.report.next_step import command_after

    own = ("-o", "--output", "--model", "--representative", "--interleaving", "--caches", "--timeline-cycles", "--perfetto",
           "--against")  # fmt: skip
    added = ("--timeline", arguments.perfetto or Path(arguments.paths[0]).stem + ".timeline.json")
    return command_after("simulate", arguments.command_line, without=own, flags=("--referee", "--open", "--json"), added=added)


def _default_name(paths: list[str]) -> str:
    if "-" in paths:
        raise UsageError("source from stdin gives a report no name", place="-o", remedy="name the report with -o FILE.html")
    return "-".join(Path(path).stem for path in paths) + ".html"


def _next(arguments: argparse.Namespace, document: dict[str, Any]) -> str:
    from warpsight.report.next_step import followed_by, line

    if document["kind"] == "study":
        return line(["sweep", "best", arguments.paths[0]], "the best designs as text")
    if document["kind"] == "kernel" and "code" in document:
        own = ("-o", "--output", "--cost", "--where", "--metric", "--against", "--timeline-cycles", "--timeline-sm", "--perfetto")
        why, flags = "what would make it faster", ("--referee", "--open", "--json")
        return followed_by("advise", arguments.command_line, document["model"], why, without=own, flags=flags)
    return line(["models", "show", document["model"]], "what the model assumes")
