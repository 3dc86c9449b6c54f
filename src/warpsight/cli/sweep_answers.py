"""`warpsight sweep best`, `pareto`, `sensitivity`, `map` and `speedups`: answers from the results of a study."""

from __future__ import annotations

import argparse
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import print_result, terminal_style
from warpsight.reports.formats import write_text
from warpsight.reports.next_step import line
from warpsight.reports.sweep_answers import answer_text
from warpsight.reports.sweep_pictures import answer_picture
from warpsight.sweeps.axes import parse_axis
from warpsight.sweeps.result import Question, Sweep

_EXAMPLES = {
    "best": "  warpsight sweep best study.sweep --where 'sm_count <= 42' --count 5",
    "pareto": "  warpsight sweep pareto study.sweep --cost 'sm_count * (1 + l1.size / (48*KiB))' --svg front.svg",
    "sensitivity": "  warpsight sweep sensitivity study.sweep --model warpsight",
    "map": "  warpsight sweep map study.sweep sm_count noc.bandwidth --others best",
    "speedups": "  warpsight sweep speedups study.sweep --axis noc.bandwidth --baseline 3",
}
_NEXT = {"best": "sensitivity", "pareto": "best", "sensitivity": "best", "map": "best", "speedups": "sensitivity"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the subcommand of `parser`."""
    part = parser.prog.rpartition(" ")[2]
    parser.epilog = f"example:\n{_EXAMPLES[part]}\n"
    parser.add_argument("folder", metavar="DIR", help="the study's folder (--out of `warpsight sweep`)")
    if part == "best":
        parser.add_argument("--count", metavar="N", type=options.whole, default=10, help="number of designs (default 10)")
    elif part == "pareto":
        parser.add_argument("--cost", metavar="EXPR", action="append", required=True, help="a cost to minimize, over the designs' "
                            "keys, for example 'sm_count * l1.size' (repeatable)")
    elif part == "map":
        parser.add_argument("x", metavar="KEY", help="the horizontal axis")
        parser.add_argument("y", metavar="KEY", help="the vertical axis")
        parser.add_argument("--value", metavar="COLUMN", default="performance", help="performance (default), a results column "
                            "such as cpi_stack.dram, bound_by or class")
        parser.add_argument("--kernel", metavar="NAME", help="show one kernel (default: all)")
        parser.add_argument("--fix", metavar="KEY=VALUE", action="append", default=[],
                            help="fix another axis at a value (repeatable)")
        parser.add_argument("--others", choices=("mean", "best"),
                            help="over designs that differ in other keys: their mean, or the best")
    elif part == "speedups":
        parser.add_argument("--axis", metavar="KEY", help="only designs that differ from the baseline in this key")
        parser.add_argument("--designs", metavar="N,N", help="only these designs")
    _add_question(parser)


def _add_question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", help="the model, or simulator (default: the study's first model)")
    parser.add_argument("--metric", metavar="NAME", default="geomean", help="performance of several kernels: geomean "
                        "(default), total, worst, or the name of one kernel")
    parser.add_argument("--baseline", metavar="N", type=options.whole,
                        help="the baseline design of speedups (default: the first with a result)")
    parser.add_argument("--where", metavar="EXPR", action="append", default=[], help="only designs that satisfy this, over keys "
                        "and columns of the results (repeatable)")
    parser.add_argument("--kernels", metavar="NAME[,NAME]", help="only these kernels")
    parser.add_argument("--svg", metavar="FILE", help="also draw the answer")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answer and print."""
    document = _answer(Sweep.open(arguments.folder), arguments)
    if arguments.svg:
        picture = answer_picture(document)
        if picture is None:
            what = "this answer has no picture"
            raise UsageError(what, place="--svg", remedy="`warpsight sweep pareto`, `map`, `sensitivity` and `speedups` have one")
        write_text(arguments.svg, picture)
    following = line(["sweep", _NEXT[arguments.part_of_command], arguments.folder])
    return print_result(arguments, document, lambda: answer_text(document, terminal_style()), following)


def _answer(sweep: Sweep, arguments: argparse.Namespace) -> dict[str, Any]:
    about, part = _question(arguments), arguments.part_of_command
    if part == "best":
        return sweep.best(arguments.count, about)
    if part == "pareto":
        return sweep.pareto(arguments.cost, about)
    if part == "sensitivity":
        return sweep.sensitivity(about)
    if part == "map":
        return sweep.map(
            arguments.x, arguments.y, value=arguments.value, kernel=arguments.kernel, fixed=_fixed(arguments.fix),
            others=arguments.others, about=about,
        )  # fmt: skip
    designs = None if arguments.designs is None else [_whole(text) for text in arguments.designs.split(",")]
    return sweep.speedups(designs=designs, axis=arguments.axis, about=about)


def _question(arguments: argparse.Namespace) -> Question:
    kernels = None if arguments.kernels is None else tuple(name.strip() for name in arguments.kernels.split(","))
    return Question(arguments.model, arguments.metric, arguments.baseline, tuple(arguments.where), kernels)


def _fixed(texts: list[str]) -> dict[str, float | str]:
    """`KEY=VALUE` with a value as `--set` has it."""
    fixed: dict[str, float | str] = {}
    for text in texts:
        axis = parse_axis(text, f"--fix {text}")
        if len(axis.values) != 1:
            raise UsageError("has several values", place=f"--fix {text}", remedy="give one value")
        value = axis.values[0]
        fixed[axis.key] = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else float(value)
    return fixed


def _whole(text: str) -> int:
    try:
        return options.whole(text.strip())
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error), place="--designs", remedy="give numbers of designs") from None
