"""`warpsight ncu`: a prediction as Nsight Compute's command line prints a measurement."""

from __future__ import annotations

import argparse
import sys

from warpsight.analysis.nsight.documents import LaunchFilter, kernel_documents, program_documents
from warpsight.analysis.nsight.metrics import METRICS, SECTIONS, chosen_metrics, chosen_sections
from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.measurements.ncu_report import report_documents
from warpsight.pipeline.request import AUTO, COLD, KernelRequest, Method
from warpsight.reports.next_step import line
from warpsight.reports.nsight import DETAILS, PAGES, RAW, UNITS, Shown, details_csv, details_text, metrics_text, raw_csv, raw_text

# `ncu`'s sets of sections, as far as a prediction has them.
SETS = {
    "basic": ("SpeedOfLight", "LaunchStats", "Occupancy"),
    "detailed": ("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "LaunchStats", "Occupancy", "SourceCounters"),
    "full": tuple(SECTIONS),
}
ALL, NONE = CACHE_CONTROL = ("all", "none")

EXAMPLES = """\
examples:
  warpsight ncu launch.yaml --gpu a100
  warpsight ncu launch.yaml --section SpeedOfLight --section WarpStateStats
  warpsight ncu launch.yaml --csv --page raw > a100.csv
  warpsight ncu launch.yaml --csv --metrics dram__bytes_read.sum,gpu__time_duration.sum
  warpsight ncu -k regex:gemm -c 1 --gpu h100-sxm -- ./program --its options
  warpsight ncu --import report.ncu-rep --page raw
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = ("warpsight ncu [options] KERNEL\n       warpsight ncu [options] -- PROGRAM [ARGUMENT ...]\n"
                    "       warpsight ncu [options] --import FILE.ncu-rep")
    options.add_kernel(parser, any_number=True)
    options.add_gpu(parser)
    options.add_models(parser, one=True)
    group = parser.add_argument_group("options of ncu")
    group.add_argument("-k", "--kernel-name", metavar="NAME|regex:RE", help="only launches of these kernels; of a file with "
                       "several, the kernel")
    group.add_argument("-s", "--launch-skip", metavar="N", type=options.whole, help="skip the first N launches of a program "
                       "or report")
    group.add_argument("-c", "--launch-count", metavar="N", type=options.whole, help="show at most N launches of a program or "
                       "report")
    group.add_argument("--section", metavar="NAME", dest="sections", action="append", help="a section, such as SpeedOfLight "
                       "(repeatable; default: all that a prediction has); --set basic, detailed or full chooses several")
    group.add_argument("--metrics", metavar="NAME[,NAME]", action="append", help="metrics by name, such as dram__bytes_read.sum "
                       "(repeatable); a name without its roll-up means all its roll-ups")
    group.add_argument("--page", choices=PAGES, default=DETAILS, help="details: sections with their labels (default); raw: all "
                       "metrics by name")
    group.add_argument("--csv", action="store_true", help="print CSV with the columns of `ncu --csv`")
    group.add_argument("--print-units", choices=UNITS, default=UNITS[0], help="units scaled to the value (auto), or "
                       "base units, as in CSV of the raw page")
    group.add_argument("--cache-control", choices=CACHE_CONTROL, help="all: caches are flushed before a launch "
                       "(default); none: the L2 is as --caches-before auto of `predict` leaves it")
    group.add_argument("--import", metavar="FILE.ncu-rep", dest="report", help="show a report of Nsight Compute in place of a "
                       "prediction (needs the package ncu-report)")
    group.add_argument("--query-metrics", action="store_true", help="list the metrics that a prediction has")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict or read, and print; of a program its own exit code."""
    if arguments.query_metrics:
        print(metrics_text())
        return 0
    if arguments.json and arguments.csv:
        raise UsageError("stdout can hold CSV or JSON, not both", place="--csv", remedy="leave out one of them")
    shown, code = _shown(arguments), 0
    words = arguments.command_line
    with ProgressBar() as bar:
        if arguments.report is not None:
            if arguments.paths:
                raise UsageError("is shown alone", place="--import", remedy=f"leave out {arguments.paths[0]}")
            _refuse_others(arguments, _OF_REPORTS, "is for a prediction; a report has been measured")
            documents = _filter(arguments).chosen_documents(report_documents(arguments.report), arguments.report)
        elif "--" in words:
            command = words[words.index("--") + 1 :]
            _refuse_others(arguments, _OF_PROGRAMS, "is for a kernel; a program makes its launches itself")
            if arguments.paths != command:
                remedy = "options come before --, the program and its arguments after"
                raise UsageError(f'unexpected argument "{arguments.paths[0]}"', remedy=remedy)
            documents, code = program_documents(
                command, load_gpu(arguments.gpu, overrides=arguments.overrides),
                options.one_model(arguments), _method(arguments), _filter(arguments), level=arguments.level,
                stdout=sys.stderr if arguments.csv or arguments.json else None, watch=bar.watch,
            )
        else:
            request, gpu = _request(arguments), load_gpu(arguments.gpu, overrides=arguments.overrides)
            documents = kernel_documents(request, gpu, options.one_model(arguments), _method(arguments), watch=bar.watch)
    _print(documents, shown, arguments)
    return code


def _shown(arguments: argparse.Namespace) -> Shown:
    """What is shown. `--set` is both `ncu`'s, a set of sections, and a key of the GPU, which has a `=`."""
    sets = [name for name in arguments.overrides if name in SETS]
    arguments.overrides = [each for each in arguments.overrides if each not in SETS]
    sections = [*(section for name in sets for section in SETS[name]), *chosen_sections(arguments.sections or ())]
    names = [name.strip() for text in arguments.metrics or () for name in text.split(",") if name.strip()]
    if not sections and not names:
        sections = list(SECTIONS)
    return Shown(tuple(each for each in SECTIONS if each in sections), tuple(chosen_metrics(names)), arguments.print_units)


_SHOWING = frozenset({"sections", "metrics", "page", "csv", "print_units", "json", "verbose"})
_OF_REPORTS = _SHOWING | {"report", "kernel_name", "launch_skip", "launch_count"}
_OF_PROGRAMS = _OF_REPORTS | {"gpu", "overrides", "models", "level", "cache_control"}


def _refuse_others(arguments: argparse.Namespace, taken: frozenset[str], what: str) -> None:
    """Raise UsageError for an option that is given and not `taken`."""
    for name, option in arguments.option_names.items():
        if name not in taken and getattr(arguments, name, None) not in (None, False, []):
            raise UsageError(what, place=option, remedy="leave it out")


def _method(arguments: argparse.Namespace) -> Method:
    return Method(caches_before=AUTO if arguments.cache_control == NONE else COLD)


def _filter(arguments: argparse.Namespace) -> LaunchFilter:
    return LaunchFilter(arguments.kernel_name or "", arguments.launch_skip or 0, arguments.launch_count)


def _request(arguments: argparse.Namespace) -> KernelRequest:
    """The one kernel that is named. Raises UsageError for none, several, and options of programs."""
    for option in ("launch_skip", "launch_count"):
        if getattr(arguments, option) is not None:
            remedy = "leave it out, or write the program and its arguments after --"
            raise UsageError("is for the launches of a program", place=arguments.option_names[option], remedy=remedy)
    if len(arguments.paths) != 1:
        what = "is missing" if not arguments.paths else "takes one kernel"
        raise UsageError(what, place="KERNEL", remedy="`warpsight ncu KERNEL`, or `warpsight ncu -- ./program arguments`")
    if arguments.kernel_name is not None:
        if arguments.kernel_name.startswith("regex:"):
            raise UsageError("an expression is for the launches of a program", place="--kernel-name", remedy="name the kernel")
        arguments.kernel = arguments.kernel_name
    return options.kernel_requests(arguments)[0]


def _print(documents: list[dict[str, object]], shown: Shown, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(documents)
    elif arguments.csv:
        print((raw_csv if arguments.page == RAW else details_csv)(documents, shown), end="")
    else:
        text = (raw_text if arguments.page == RAW else details_text)(documents, shown)
        print_answer(text, line(["ncu", "--query-metrics"], f"what each of {len(METRICS)} metrics is computed from"))
