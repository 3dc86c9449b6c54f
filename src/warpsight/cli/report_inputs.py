"""What the inputs of `warpsight report` are, which options they take, and the document that is made of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import FormatError, UsageError
from warpsight.cli import options
from warpsight.cli.progress import ProgressBar
from warpsight.explore.request import DEFAULT_GPU, DEFAULT_METHOD, OPTIONS

if TYPE_CHECKING:
    from warpsight.explore.request import KernelRequest

_TIMELINE = ("--timeline-cycles", "--timeline-sm", "--perfetto")
# the options that are only for some kinds of input, and what each kind takes of them
_OF_STUDY = ("--cost", "--where", "--metric")
_OF_KERNEL = ("--referee", "--against", *_TIMELINE, "--what-if")
_TAKES = {
    "a study": _OF_STUDY,
    "a kernel": (*_OF_KERNEL, "--other-gpu"),
    "one side of two": ("--referee", "--against", "--other-gpu"),
    "a file of results, which has no kernel": (),
}
_STUDY, _KERNEL, _SIDE, _RESULT = _TAKES


def document_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The dossier of the inputs: of a study, of one kernel or result, or of two of these side by side."""
    from warpsight.explore.compare.comparison import labelled
    from warpsight.explore.dossier.comparison import comparison_dossier
    from warpsight.explore.dossier.results import DAMAGE, is_result
    from warpsight.explore.sweep.folder import is_study

    studies = [path for path in arguments.paths if is_study(path)]
    if studies:
        if len(arguments.paths) > 1:
            raise UsageError("a study is shown alone", place=studies[0], remedy="give the folder of one study")
        _refuse(arguments, _STUDY, studies[0])
        _refuse_making(options.kernel_requests(arguments)[0], arguments, _STUDY)
        return _of_study(arguments)
    labels, requests = zip(*map(labelled, options.kernel_requests(arguments)), strict=True)
    gpus = [arguments.gpu]
    if all(is_result(request.path) for request in requests):
        _refuse_making(requests[0], arguments, _RESULT, ("--model",))
    if arguments.other_gpu:
        gpus.append(arguments.other_gpu)
    if len(requests) * len(gpus) > 2:
        what = f"{len(requests)} inputs on {len(gpus)} GPUs are more than two sides"
        raise UsageError(what, place="report", remedy="give two inputs, or one and --other-gpu; `warpsight compare` takes more")
    side = len(requests) * len(gpus) > 1
    named = list(zip(labels, requests, strict=True))
    sides = [_of_kernel(request, gpu, arguments, label=label, side=side) for label, request in named for gpu in gpus]
    if not side:
        return sides[0]
    try:
        return comparison_dossier(sides[0], sides[1], gpus if len(gpus) > 1 else _names(labels, requests, sides))
    except DAMAGE as error:
        results = [request.path for request in requests if is_result(request.path)]
        if not results:
            raise
        what = f"is no document that can be compared ({type(error).__name__}: {error})"
        raise FormatError(what, place=" or ".join(results), remedy="make it again with `warpsight report --json`") from error


def _refuse(arguments: argparse.Namespace, kind: str, name: str) -> None:
    """Refuse the options that say nothing about an input of that kind."""
    for option in (*_OF_STUDY, *_OF_KERNEL, "--other-gpu"):
        given = getattr(arguments, option[2:].replace("-", "_"))
        if option not in _TAKES[kind] and given not in (None, False):
            remedy = "leave it out"
            if option == "--perfetto":
                remedy = "make that file by `warpsight simulate --timeline`"
            elif option in _OF_STUDY:
                remedy = "leave it out, or give the folder that `warpsight sweep` wrote"
            elif kind != _SIDE:
                remedy = "leave it out, or give a kernel or its trace"
            raise UsageError(f"says nothing about {kind}: {name}", place=option, remedy=remedy)


def _refuse_making(request: KernelRequest, arguments: argparse.Namespace, kind: str, also: tuple[str, ...] = ()) -> None:
    """Refuse the options that say how something is made that is there already."""
    given = {
        "--gpu": arguments.gpu != DEFAULT_GPU,
        "--set": bool(arguments.overrides),
        "--model": "--model" in also and bool(arguments.models),
        **{f"--{name}": getattr(arguments, name) != default for name, default in asdict(DEFAULT_METHOD).items()},
        **{OPTIONS.get(each.name, f"--{each.name}"): getattr(request, each.name) is not None
           for each in fields(request) if each.name not in ("path", "output")},
    }  # fmt: skip
    for option, is_given in given.items():
        if is_given:
            what = f"cannot change {kind}: {request.path}"
            raise UsageError(what, place=option, remedy="leave it out, or give the kernel or its trace")


def _names(labels: Sequence[str], requests: Sequence[KernelRequest], sides: list[dict[str, Any]]) -> Sequence[str]:
    """What the two sides are called: as the user says, else their kernels, else their files, else what they are."""
    if all(labels):
        return labels
    kernels = [side["predictions"][0]["kernel"] for side in sides]
    files = [Path(str(request.path)).name for request in requests]
    return next((names for names in (kernels, files) if names[0] != names[1]), ["before", "after"])


def _of_study(arguments: argparse.Namespace) -> dict[str, Any]:
    from warpsight.explore.dossier.study import study_dossier
    from warpsight.explore.sweep.result import EVERYTHING, Question, Sweep

    models = options.model_names(arguments) if arguments.models else (None,)
    if len(models) > 1:
        raise UsageError("a study is shown by one model", place="--model", remedy="name one of the study's models")
    about = Question(model=models[0], where=tuple(arguments.where or ()), metric=arguments.metric or EVERYTHING.metric)
    return study_dossier(Sweep.open(arguments.paths[0]), about, arguments.cost or ())


def _of_kernel(request: KernelRequest, gpu_name: str, arguments: argparse.Namespace, *, label: str, side: bool) -> dict[str, Any]:
    """The dossier of one kernel or result; a `side` of a comparison without what its page does not show."""
    from warpsight.advice.dossier import advised_dossier
    from warpsight.explore.dossier.kernel import Parts, kernel_dossier
    from warpsight.explore.dossier.modes import NONE, QUICK
    from warpsight.explore.dossier.results import alone_of_file, dossier_of_file, is_result
    from warpsight.explore.pipeline import obtain_trace
    from warpsight.gpu.loader import load_gpu

    if is_result(request.path):
        _refuse(arguments, _RESULT, request.path)
        return alone_of_file(request.path) if side else dossier_of_file(request.path)
    _refuse(arguments, _SIDE if side else _KERNEL, str(request.path))
    window = _window(arguments)
    gpu = load_gpu(gpu_name, overrides=arguments.overrides)
    models = options.model_names(arguments)
    parts = Parts(
        arguments.referee, NONE if side else arguments.what_if or QUICK, ("warpsight", *arguments.command_line), window,
        arguments.perfetto, arguments.against, label,
    )  # fmt: skip
    with ProgressBar() as bar:
        trace = obtain_trace(request, gpu=gpu, watch=bar.watch)
        beside = models[1:] if len(models) > 1 else None
        make, method = kernel_dossier if side else advised_dossier, options.method(arguments)
        found = make(trace, gpu, models[0], method, beside=beside, parts=parts, request=request, watch=bar.watch)
    if side:
        found.pop("timeline", None)  # a comparison shows none
    elif "timeline" in found and request.path != "-":
        found["timeline"]["command"] = _simulate_command(arguments)
    return found


def plain_words(arguments: argparse.Namespace) -> list[str]:
    """The command line for commands that take no names before their inputs."""
    from warpsight.explore.compare.comparison import labelled

    plain = {request.path: labelled(request)[1].path for request in options.kernel_requests(arguments)}
    return [plain.get(word, word) for word in arguments.command_line]


def _window(arguments: argparse.Namespace) -> Any:
    """What is shown of the referee's timeline, checked before minutes are spent."""
    from warpsight.explore.dossier.timeline import window_of

    for option in _TIMELINE:
        if getattr(arguments, option[2:].replace("-", "_")) is not None and not arguments.referee:
            raise UsageError("says what is shown of the referee's run", place=option, remedy="add --referee")
    return window_of(arguments.timeline_cycles, arguments.timeline_sm)


def _simulate_command(arguments: argparse.Namespace) -> str:
    """What writes the same timeline as a file for Perfetto."""
    from warpsight.report.next_step import command_after

    own = ("-o", "--output", "--model", "--representative", "--interleaving", "--caches", "--timeline-cycles", "--perfetto",
           "--against", "--what-if")  # fmt: skip
    added = ("--timeline", arguments.perfetto or Path(arguments.paths[0]).stem + ".timeline.json")
    return command_after("simulate", plain_words(arguments), without=own, flags=("--referee", "--open", "--json"), added=added)
