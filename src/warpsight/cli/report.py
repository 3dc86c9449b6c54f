"""`warpsight report`: an HTML file with a kernel, a result, a program or a study, or with two kernels or results side by side."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from warpsight.analysis.report_data.comparison import comparison_report_data, names_of_sides
from warpsight.analysis.report_data.files import DAMAGE, alone_of_file, is_result, report_data_of_file, report_place, write_report
from warpsight.analysis.report_data.kernel import Parts, advised_report_data, kernel_report_data
from warpsight.analysis.report_data.study import study_report_data
from warpsight.analysis.report_data.timeline import window_of
from warpsight.analysis.what_if import MODES, NONE, QUICK
from warpsight.base.errors import FormatError, UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.comparison import labelled
from warpsight.hardware.references import read_against
from warpsight.pipeline.request import DEFAULT_METHOD, KernelRequest
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.formats import plain
from warpsight.reports.html.page import checked_page
from warpsight.reports.next_step import command_after, followed_by, line
from warpsight.sweeps.folder import is_study
from warpsight.sweeps.result import EVERYTHING, Question, Sweep

_TIMELINE = ("--timeline-cycles", "--timeline-sm", "--perfetto")
# The options for some kinds of input only, and those that each kind accepts.
_OF_STUDY = ("--cost", "--where", "--metric")
_OF_KERNEL = ("--simulator", "--against", *_TIMELINE, "--what-if")
_TAKES = {
    "a study": _OF_STUDY,
    "a kernel": (*_OF_KERNEL, "--other-gpu"),
    "one side of two": ("--simulator", "--against", "--other-gpu"),
    "a file of results, which has no kernel": (),
}
_STUDY, _KERNEL, _SIDE, _RESULT = _TAKES


def document_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The report data of the inputs: a study, one kernel or result, or two of these side by side."""
    studies = [path for path in arguments.paths if is_study(path)]
    if studies:
        if len(arguments.paths) > 1:
            raise UsageError("a study must be the only input", place=studies[0], remedy="give the folder of one study")
        _refuse(arguments, _STUDY, studies[0])
        _refuse_making(options.kernel_requests(arguments)[0], arguments, _STUDY)
        return _of_study(arguments)
    labels, requests = zip(*map(labelled, options.kernel_requests(arguments)), strict=True)
    gpus = [arguments.gpu or "", *([arguments.other_gpu] if arguments.other_gpu else [])]
    if all(is_result(request.path) for request in requests):
        _refuse_making(requests[0], arguments, _RESULT, ("--model",))
    else:
        gpus[0] = options.gpu_name(arguments)
    if len(requests) * len(gpus) > 2:
        what = f"{len(requests)} inputs on {len(gpus)} GPUs are more than two results"
        raise UsageError(what, place="report", remedy="give two inputs, or one and --other-gpu; `warpsight compare` takes more")
    side = len(requests) * len(gpus) > 1
    sides = [
        _of_kernel(request, gpu, arguments, label=label, side=side)
        for label, request in zip(labels, requests, strict=True) for gpu in gpus
    ]  # fmt: skip
    if not side:
        return sides[0]
    try:
        return comparison_report_data(sides[0], sides[1], _names(labels, requests, sides, gpus))
    except DAMAGE as error:
        results = [request.path for request in requests if is_result(request.path)]
        if not results:
            raise
        what = f"is not report data that can be compared ({type(error).__name__}: {error})"
        raise FormatError(what, place=" or ".join(results), remedy="create it again with `warpsight report --json`") from error


def _refuse(arguments: argparse.Namespace, kind: str, name: str) -> None:
    """Raise UsageError for options that do not apply to an input of that kind."""
    for option in (*_OF_STUDY, *_OF_KERNEL, "--other-gpu"):
        value = getattr(arguments, option[2:].replace("-", "_"))
        if option not in _TAKES[kind] and value not in (None, False):
            remedy = "leave it out" if kind == _SIDE else "leave it out, or give a kernel or its trace"
            if option == "--perfetto":
                remedy = "create that file with `warpsight simulate --timeline`"
            elif option in _OF_STUDY:
                remedy = "leave it out, or give the folder that `warpsight sweep` wrote"
            raise UsageError(f"does not apply to {kind}: {name}", place=option, remedy=remedy)


def _refuse_making(request: KernelRequest, arguments: argparse.Namespace, kind: str, also: tuple[str, ...] = ()) -> None:
    """Raise UsageError for options that say how a result is computed, if the input is a result."""
    changed = {
        "--gpu": arguments.gpu is not None,
        "--set": bool(arguments.overrides),
        "--model": "--model" in also and bool(arguments.models),
        **{f"--{name}": getattr(arguments, name) != default for name, default in asdict(DEFAULT_METHOD).items()},
        **{each.name: getattr(request, each.name) is not None for each in fields(request) if each.name not in ("path", "output")},
    }
    for option, is_given in changed.items():
        if is_given:
            what = f"cannot change {kind}: {request.path}"
            raise UsageError(what, place=option, remedy="leave it out, or give the kernel or its trace")


def _names(
    labels: Sequence[str], requests: Sequence[KernelRequest], sides: list[dict[str, Any]], gpus: Sequence[str]
) -> Sequence[str]:
    """The names of the two sides: the user's, else those of `names_of_sides`, with their files or the GPUs as given last."""
    if len(requests) > 1 and all(labels):
        return labels
    return names_of_sides(sides, [Path(str(request.path)).name for request in requests] if len(requests) > 1 else gpus)


def _of_study(arguments: argparse.Namespace) -> dict[str, Any]:
    models = options.model_names(arguments) if arguments.models else (None,)
    if len(models) > 1:
        raise UsageError("takes one model for a study", place="--model", remedy="name one of the study's models")
    about = Question(model=models[0], where=tuple(arguments.where or ()), metric=arguments.metric or EVERYTHING.metric)
    return study_report_data(Sweep.open(arguments.paths[0]), about, arguments.cost or ())


def _of_kernel(request: KernelRequest, gpu_name: str, arguments: argparse.Namespace, *, label: str, side: bool) -> dict[str, Any]:
    """The report data of one kernel or result; a `side` of a comparison without the parts that its page does not show."""
    if is_result(request.path):
        _refuse(arguments, _RESULT, request.path)
        return alone_of_file(request.path) if side else report_data_of_file(request.path)
    _refuse(arguments, _SIDE if side else _KERNEL, str(request.path))
    window = _window(arguments)
    gpu = load_gpu(gpu_name, overrides=arguments.overrides)
    models = options.model_names(arguments)
    with ProgressBar() as bar:
        trace = obtain_trace(request, gpu=gpu, watch=bar.watch)
        measured = read_against(arguments.against).match(gpu.name, trace.header, label) if arguments.against else None
        parts = Parts(
            arguments.simulator, NONE if side else arguments.what_if or QUICK, ("warpsight", *arguments.command_line), window,
            arguments.perfetto, measured,
        )  # fmt: skip
        beside = models[1:] if len(models) > 1 else None
        make, method = kernel_report_data if side else advised_report_data, options.method(arguments)
        document = make(trace, gpu, models[0], method, beside=beside, parts=parts, request=request, watch=bar.watch)
    if side:
        document.pop("timeline", None)  # a comparison shows none
    elif "timeline" in document and request.path != "-":
        document["timeline"]["command"] = _simulate_command(arguments)
    return document


def plain_words(arguments: argparse.Namespace) -> list[str]:
    """The command line for commands whose inputs have no names."""
    plain = {request.path: labelled(request)[1].path for request in options.kernel_requests(arguments)}
    return [plain.get(word, word) for word in arguments.command_line]


def _window(arguments: argparse.Namespace) -> Any:
    """What is shown of the simulator's timeline, checked before minutes are spent."""
    for option in _TIMELINE:
        if getattr(arguments, option[2:].replace("-", "_")) is not None and not arguments.simulator:
            raise UsageError("needs --simulator", place=option, remedy="add --simulator")
    return window_of(arguments.timeline_cycles, arguments.timeline_sm)


def _simulate_command(arguments: argparse.Namespace) -> str:
    """The command that writes the same timeline as a file for Perfetto."""
    own = ("-o", "--output", "--model", "--representative", "--interleaving", "--caches", "--timeline-cycles", "--perfetto",
           "--against", "--what-if")  # fmt: skip
    added = ("--timeline", arguments.perfetto or Path(arguments.paths[0]).stem + ".timeline.json")
    return command_after("simulate", plain_words(arguments), without=own, flags=("--simulator", "--open", "--json"), added=added)


# -- The command.

EXAMPLES = """\
examples:
  warpsight report launch.yaml -o spmv.html
  warpsight report spmv.trace --gpu v100 --model warpsight --simulator -o spmv.html --open
  warpsight report old=before.yaml new=after.yaml        # compare two kernels
  warpsight report launch.yaml --other-gpu v100          # one kernel on two GPUs
  warpsight report launch.yaml --against ncu.csv         # compare with measurements
  warpsight predict launch.yaml --json > result.json && warpsight report result.json
  warpsight run --json -- ./program > run.json && warpsight report run.json        # the timeline of a program
  warpsight report study.sweep --cost 'sm_count * l1.size'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser, several=True)
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_method(parser)
    parser.add_argument("--other-gpu", metavar="NAME|FILE", help="compare --gpu with this GPU")
    parser.add_argument("--what-if", choices=MODES, help="similar GPU designs to evaluate for the sliders: quick (at most about "
                        "20 s), full (all combinations of SMs and caches), none (default: quick)")
    parser.add_argument("--against", metavar="CSV", help="measurements of ncu --csv or nvprof --csv, or reference cycles, as for "
                        "`warpsight compare`, to show with the predictions")
    parser.add_argument("--simulator", action="store_true", help="also simulate the kernel cycle by cycle")
    parser.add_argument("--timeline-cycles", metavar="BEGIN:END", help="the cycles of the simulator's timeline to show (default: "
                        "where the SM is full for long, as many as fit)")
    parser.add_argument("--timeline-sm", metavar="N", type=options.whole, help="the SM of the timeline (default 0)")
    parser.add_argument("--perfetto", metavar="FILE.json", help="also write the whole timeline of that SM for Perfetto")
    study = parser.add_argument_group("studies (a folder of `warpsight sweep`)")
    study.add_argument("--cost", metavar="EXPR", action="append", help="show a Pareto front of performance over this expression of "
                       "keys (repeatable; default: the axes)")
    study.add_argument("--where", metavar="EXPR", action="append", help="only designs that satisfy this condition (repeatable)")
    study.add_argument("--metric", metavar="NAME", help="performance of several kernels: geomean (default), total, worst, or the "
                       "name of one kernel")
    parser.add_argument("-o", "--output", metavar="FILE.html", help="the report (default: the input's name with .html)")
    parser.add_argument("--open", action="store_true", help="open it in a browser")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compute the report data, render them, write the file."""
    output = report_place(arguments.output or _default_name(arguments.paths))
    document = plain(document_of(arguments))
    path = write_report(output, checked_page(document, arguments.paths[0]))
    if arguments.json:
        print_json([document])
    else:
        size = f"{path.stat().st_size / 1024:,.0f} KiB"
        print_answer(f"wrote {path}: {document['title']}, {size}, self-contained", _next(arguments, document))
    if arguments.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def _default_name(paths: list[str]) -> str:
    if "-" in paths:
        raise UsageError("is needed for source from stdin", place="-o", remedy="name the report with -o FILE.html")
    return "-".join(Path(path).stem for path in paths) + ".html"


def _next(arguments: argparse.Namespace, document: dict[str, Any]) -> str:
    if document["kind"] == "study":
        return line(["sweep", "best", arguments.paths[0]], "the best designs as text")
    requests = [labelled(request)[1] for request in options.kernel_requests(arguments)]
    words, sides = plain_words(arguments), document.get("sides", [document])
    if any(is_result(request.path) for request in requests) or not all("code" in side for side in sides):
        return line(["models", "show", document["model"]], "the model's assumptions")
    if document["kind"] == "kernel":
        return _advise(arguments, words, document["model"], "what would make it faster")
    times = next(row for row in document["figures"] if row["name"] == "seconds")
    slower = int(times["after"] > times["before"])
    why = f"what would make {document['names'][slower]} faster, the slower of the two"
    if arguments.other_gpu:
        gpu = (options.gpu_name(arguments), arguments.other_gpu)[slower]
        return _advise(arguments, words, document["model"], why, gpu=gpu)
    other = words.index(str(requests[1 - slower].path), 1)
    return _advise(arguments, [*words[:other], *words[other + 1 :]], document["model"], why)


def _advise(arguments: argparse.Namespace, words: Sequence[str], model: str, why: str, *, gpu: str = "") -> str:
    """The line with `advise` for the kernel of a command: with one model, and on `gpu`, where that is given."""
    changed = {"--gpu": gpu, "--model": model if len(options.model_names(arguments)) > 1 else ""}
    added = [word for option, value in changed.items() if value for word in (option, value)]
    own = ("-o", "--output", "--what-if", "--against", "--timeline-cycles", "--timeline-sm", "--perfetto", "--other-gpu")
    flags = ("--simulator", "--open", "--json")
    return followed_by("advise", words, model, why, without=(*own, *added[::2]), flags=flags, added=added)
