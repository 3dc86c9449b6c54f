"""`warpsight tune`: the configurations of a kernel, tried in prediction and ranked."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from warpsight.base.errors import UsageError, suggestion
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_rows, refuse_two_tables, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.kernel_input import constants_of
from warpsight.pipeline.request import KernelRequest
from warpsight.reports.formats import plain
from warpsight.reports.next_step import followed_by, line
from warpsight.reports.tuning import tuning_csv, tuning_text
from warpsight.sweeps.axes import axis_of_text
from warpsight.sweeps.configurations import Budget, shown_name
from warpsight.sweeps.launches import defines_of, launched, without_macro
from warpsight.sweeps.run import open_store
from warpsight.sweeps.tuning import Tuning, tune

EXAMPLES = """\
examples:
  warpsight tune launch.yaml --gpu h100-sxm --block 64,128,256 -D TILE=16,32
  warpsight tune gemm.yaml --block 8x8,16x16,32x32 -D TILE=8,16,32 --where 'block.x == TILE'
  warpsight tune launch.yaml --maxrregcount 32,64,128 --opt-level 1,3 -o table.csv
  warpsight tune launch.yaml --block 32:1024:*2 -D UNROLL=1,2,4,8 --budget 20
"""
# Options that take several values here, and an example of these.
_LISTS = {"block": "64,128,256 or 32:1024:*2", "maxrregcount": "32,64,128", "opt_level": "1,3"}
_NAMED = {"defines": "-D", "constants": "--constant"}
_VARIED = ("grid", "cluster", "shared", "registers")  # options with one value, which --vary takes


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    for action in parser._actions:
        example = {**_LISTS, **dict.fromkeys(_NAMED, "TILE=16,32")}.get(action.dest)
        if example:
            action.type = None
            action.metavar = "NAME=V[,V]" if action.dest in _NAMED else "N[,N]"
            action.help = f"{action.help}; several values are tried, for example {example}"
        if action.dest == "block":
            action.help = f"threads per block, for example 256 or 32x8; several values are tried, for example {example}"
        elif action.dest == "path":
            action.help = "a .cu, .ptx, .cubin or .fatbin file, a program built by nvcc, or a launch file (.yaml, .py)"
    group = parser.add_argument_group("configurations")
    group.add_argument("--vary", metavar="NAME=V[,V]", action="append", default=[], help="also try these values of "
                       f"{', '.join(_VARIED)}, for example shared=0,16384 (repeatable)")
    group.add_argument("--where", metavar="EXPR", action="append", default=[], help="only configurations that satisfy this "
                       "condition, for example 'block.x * TILE <= 1024' (repeatable)")
    group.add_argument("--budget", metavar="N[:SEED]", help="try at most N configurations, the default and others drawn at random "
                       "(seed 0)")
    options.add_gpu(parser)
    options.add_models(parser, one=True)
    options.add_method(parser)
    parser.add_argument("-o", "--output", metavar="FILE|-", help="CSV, one row per configuration, to FILE, or to stdout for -")
    parser.add_argument("--results", metavar="DIR", help="the folder of traces and profiles kept between runs (default: in the "
                        "user's cache folder)")
    options.add_executor(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Try the configurations and print the ranking; exit code 1 if none could be predicted."""
    refuse_two_tables(arguments)
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    request, axes = _varied(arguments)
    with options.chosen_executor(arguments) as executor, ProgressBar() as bar:
        tuning = tune(
            request, gpu, axes, executor, open_store(arguments.results), where=arguments.where, budget=_budget(arguments.budget),
            model=options.one_model(arguments), method=options.method(arguments), watch=bar.watch,
        )  # fmt: skip
    document = plain(tuning.to_json())
    print_rows(
        arguments, document, lambda: tuning_csv(document),
        lambda: (tuning_text(document, terminal_style()), _next(arguments, request, tuning)),
    )  # fmt: skip
    return 0 if tuning.best else 1


def _varied(arguments: argparse.Namespace) -> tuple[KernelRequest, dict[str, str]]:
    """The request with everything that has one value, and the axes: what has several, as text, by name."""
    request = options.kernel_request(argparse.Namespace(**vars(arguments) | dict.fromkeys((*_LISTS, *_NAMED))))
    axes: dict[str, str] = {}
    for name, text, option in _given(arguments):
        if name in axes:
            raise UsageError("is given twice", place=option, remedy="give all its values in one list")
        if not text and name.startswith("define."):  # `-D NAME` or `-D NAME=`
            request = replace(request, defines=(*without_macro(defines_of(request), shown_name(name)), option.removeprefix("-D ")))
            continue
        values = axis_of_text(f"launch.{name}", text, option).values
        if len(values) > 1:
            axes[name] = text
        else:
            request = launched(request, ((name, str(values[0])),))
    return request, axes


def _given(arguments: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """What may have several values: its name as an axis has it, the values as text, and the option."""
    for name in _LISTS:
        if getattr(arguments, name) is not None:
            yield name, getattr(arguments, name), arguments.option_names[name]
    for text in arguments.vary:
        name, _, values = text.partition("=")
        if name not in _VARIED or not values:
            what = f'"{text}" is not NAME=V[,V] of {", ".join(_VARIED)}{suggestion(name, _VARIED)}'
            raise UsageError(what, place="--vary", remedy="write for example shared=0,16384")
        yield name, values, f"--vary {name}"
    for kind, option in _NAMED.items():
        for text in getattr(arguments, kind) or ():
            name, _, values = text.partition("=")
            yield f"{kind.removesuffix('s')}.{name}", values, f"{option} {name if values else text}"


def _budget(text: str | None) -> Budget | None:
    """`N[:SEED]`."""
    if text is None:
        return None
    try:
        configurations, seed = [*map(options.whole, text.split(":")), 0][:2]
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error), place="--budget", remedy="give N, or N:SEED") from None
    return Budget(configurations, seed)


def _next(arguments: argparse.Namespace, request: KernelRequest, tuning: Tuning) -> str:
    """Where the time of the best configuration goes."""
    best = tuning.best
    if best is None:
        return line(["tune", "--help"], "the options and examples")
    launch = tuple(f"--{name.replace('_', '-')}" for name in (*_LISTS, *_VARIED))
    own = (*launch, *_NAMED.values(), "--define", "--vary", "--where", "--budget", "-o", "--output", "--results", "--jobs",
           "--executor", "--scheduler", "--slurm", "--worker-timeout")  # fmt: skip
    words = [word for word in arguments.command_line if not (word.startswith("-D") and word != "-D")]
    why = "where the time of the best configuration goes"
    varied = tuning.to_json()["varied"]
    chosen = launched(request, tuple((varied[name], text) for name, text in best["configuration"].items()))
    return followed_by("explain", words, "", why, without=own, added=_launch_options(chosen))


def _launch_options(request: KernelRequest) -> list[str]:
    """The options that say what the request says over its launch file."""
    stated = [(f"--{name.replace('_', '-')}", getattr(request, name)) for name in (*_LISTS, *_VARIED)]
    stated += [("-D", macro) for macro in request.defines or ()]
    stated += [("--constant", f"{name}={value}") for name, value in constants_of(request).items()]
    return [word for option, value in stated if value is not None for word in (option, str(value))]
