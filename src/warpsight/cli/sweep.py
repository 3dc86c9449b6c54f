"""`warpsight sweep`: predictions of kernels on many GPU designs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from warpsight.base.errors import UsageError, suggestion
from warpsight.cli import options
from warpsight.cli.options import add_executor, chosen_executor
from warpsight.cli.output import ProgressBar, print_result, terminal_style
from warpsight.cli.parser import Parser
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.sampling import DEFAULT_ACCURACY
from warpsight.reports.next_step import line
from warpsight.reports.sweep_plan import outcome_text, plan_text
from warpsight.sweeps.folder import make_folder, open_folder
from warpsight.sweeps.launches import refuse_standard_input
from warpsight.sweeps.plan import plan_document, plan_sweep
from warpsight.sweeps.run import open_store, outcome_document, run_sweep, write_results
from warpsight.sweeps.study import GRID, LATIN_HYPERCUBE, RANDOM, Sampling, SimulatorRuns, Study, StudyKernel
from warpsight.sweeps.study_arguments import study_of_options
from warpsight.sweeps.study_file import is_study_file, read_study

_EXAMPLES = """\
examples:
  warpsight sweep study.yaml --plan
  warpsight sweep study.yaml --out study.sweep
  warpsight sweep --suite warpsight --set sm_count=14:56:14 --set noc.bandwidth=525GB/s,1050GB/s,2100GB/s --model mdm,warpsight
  warpsight sweep launch.yaml --set core_clock=1GHz..2GHz --set l1.mshrs=32..256 --sampling latin-hypercube:500
  warpsight sweep best study.sweep --where 'sm_count <= 42'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `sweep`, or of `sweep resume`, which takes the folder of a study."""
    if parser.prog.endswith(" resume"):
        parser.add_argument("folder", metavar="DIR", help="the study's folder (--out of `warpsight sweep`)")
        add_running(parser, results=False)
        return
    parser.epilog = _EXAMPLES + "\non a study's folder: status, resume, collect, best, pareto, sensitivity, map, speedups\n" \
                                "(`warpsight sweep best --help`)"
    options.add_kernel(parser, studies=True)
    parser.add_argument("--suite", metavar="NAME|DIR", help="all kernels of a suite (for example warpsight)")
    options.add_gpu(parser)
    for action in parser._actions:
        if "--set" in action.option_strings:
            action.help = ("one value: a key of all designs; several values: an axis, such as sm_count=15:80:5, "
                           "noc.bandwidth=525GB/s,1050GB/s, l1.size=16KiB:64KiB:*2, core_clock=1GHz..2GHz (samples only), "
                           "launch.block=128,256 (repeatable)")  # fmt: skip
    parser.add_argument("--where", metavar="EXPR", action="append", default=[], help="only designs that satisfy this condition, as "
                        "'sm_count * l1.size <= 4*MiB' (repeatable)")
    parser.add_argument("--sampling", metavar="KIND[:N[:SEED]]", default="grid", help="grid (all combinations, default), or "
                        "N designs chosen by random:N or latin-hypercube:N, with a seed")
    options.add_models(parser)
    options.add_method(parser)
    options.add_sampling(parser)
    parser.add_argument("--simulator", metavar="N[:SEED]", help="also simulate N designs cycle by cycle (0: all)")
    parser.add_argument("--out", "-o", metavar="DIR", help="the study's folder, for its description and results.parquet "
                        "(default NAME.sweep)")
    parser.add_argument("--plan", action="store_true", help="print what would be computed, and compute nothing")
    add_running(parser)


def add_running(parser: argparse.ArgumentParser, *, results: bool = True) -> None:
    """--results (with `results`), the executor and --json."""
    if results:
        parser.add_argument("--results", metavar="DIR", help="the folder of traces, profiles and rows kept between runs "
                            "(default: in the user's cache folder)")
    add_executor(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan; or compute the missing results, write the table and print a summary: then 1 if nothing could be computed."""
    if arguments.part_of_command == "resume":
        folder = open_folder(arguments.folder)
    else:
        study = _study_of(arguments)
        store = open_store(arguments.results)
        if arguments.plan:
            document = plan_document(plan_sweep(study, store))
            words = [word for word in arguments.command_line if word != "--plan"]
            following = line(words, "compute the missing results")
            return print_result(arguments, document, lambda: plan_text(document, terminal_style()), following)
        folder = make_folder(arguments.out or f"{study.name}.sweep", study, str(store.folder))
    try:
        with chosen_executor(arguments) as executor, ProgressBar() as bar:
            outcome = run_sweep(folder.study, executor, results=folder.results, watch=bar.watch)
            write_results(outcome.plan, folder)
    except KeyboardInterrupt:
        print(f"the results so far are kept; `warpsight sweep resume {folder.path}` continues", file=sys.stderr)
        raise
    result = outcome_document(outcome, folder)
    computed = result["rows"] > result["failed_rows"]
    part, why = ("best", "the best designs") if computed else ("resume", "try again")
    print_result(arguments, result, lambda: outcome_text(result, terminal_style()), line(["sweep", part, str(folder.path)], why))
    return 0 if computed else 1


def _study_of(arguments: argparse.Namespace) -> Study:
    """The study of a study file, or of kernels and options. Raises UsageError for both, or neither."""
    studies = [path for path in arguments.paths if is_study_file(path)]
    if studies:
        _refuse_what_the_file_says(arguments, studies[0])
        return read_study(studies[0])
    if not arguments.paths and arguments.suite is None:
        raise UsageError("is missing", place="KERNEL", remedy="give a study file, kernels, or --suite warpsight")
    several = "," in (arguments.gpu or "") and not os.path.exists(arguments.gpu)
    gpus = [f"gpu={arguments.gpu}"] if several else []
    return study_of_options(
        named_kernels(arguments), suite=arguments.suite, gpu=None if several else arguments.gpu,
        settings=[*gpus, *arguments.overrides],
        constraints=arguments.where, models=options.model_names(arguments), sampling=_sampling(arguments.sampling),
        method=options.method(arguments), simulator=_simulator(arguments.simulator), accuracy=_accuracy(arguments),
    )  # fmt: skip


def _refuse_what_the_file_says(arguments: argparse.Namespace, path: str) -> None:
    """Raise UsageError for an option that a study file also determines."""
    blank = Parser(prog="warpsight sweep")
    configure(blank)
    kept = ("paths", "out", "plan", "results", "jobs", "executor", "scheduler", "slurm", "worker_timeout", "json")
    for action in blank._actions:
        if action.dest not in (*kept, "help") and getattr(arguments, action.dest) != action.default:
            what = f"cannot be combined with the study file {path}, which determines it"
            remedy = "write it in the file, or give kernels instead of the file"
            raise UsageError(what, place=action.option_strings[-1], remedy=remedy)
    if len(arguments.paths) > 1:
        raise UsageError("a study file must be the only input", place=path, remedy="name the kernels in the study file")


def named_kernels(arguments: argparse.Namespace) -> list[StudyKernel | KernelRequest]:
    """The kernels of `options.add_kernel`, with their names (`NAME=KERNEL`)."""
    kernels: list[StudyKernel | KernelRequest] = []
    for word in arguments.paths:
        name, equals, path = word.partition("=")
        if not equals or "/" in name:
            name, path = "", word
        _check_exists(path)
        request = options.kernel_request(argparse.Namespace(**vars(arguments) | {"path": path}))
        kernels.append(StudyKernel(name, request) if path != word else request)
    return kernels


def _check_exists(path: str) -> None:
    """Raise UsageError for a missing file before anything is computed or written."""
    refuse_standard_input(path)
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        near = suggestion(name, [each.name for each in Path(folder).glob("*")]) if os.path.isdir(folder or ".") else ""
        remedy = "give a .cu, .ptx or launch file, a manifest, a trace folder, or a study file"
        raise UsageError(f"does not exist{near}", place=path, remedy=remedy)


def _sampling(text: str) -> Sampling:
    """`grid`, `random:N[:SEED]` or `latin-hypercube:N[:SEED]`."""
    kind, *numbers = text.split(":")
    if kind not in (GRID, RANDOM, LATIN_HYPERCUBE) or len(numbers) > 2 or (kind == GRID and numbers):
        what = f'"{text}" is not a sampling'
        remedy = f"give {GRID}, {RANDOM}:N or {LATIN_HYPERCUBE}:N, with a seed as {RANDOM}:N:1"
        raise UsageError(what, place="--sampling", remedy=remedy)
    return Sampling(kind, *_wholes(numbers, "--sampling"))


def _simulator(text: str | None) -> SimulatorRuns | None:
    """`N[:SEED]`."""
    if text is None:
        return None
    numbers = text.split(":")
    if len(numbers) > 2:
        raise UsageError(f'"{text}" is not a number of designs', place="--simulator", remedy="give N, or N:SEED")
    designs, seed = [*_wholes(numbers, "--simulator"), 0][:2]
    return SimulatorRuns(designs, seed)


def _accuracy(arguments: argparse.Namespace) -> float | None:
    """The accuracy of sampled launches; None: every block runs. Raises UsageError for options that exclude each other."""
    if arguments.accuracy is not None and (arguments.exact or arguments.simulator is not None):
        what = "cannot be combined with --exact or --simulator, which run every block"
        raise UsageError(what, place="--accuracy", remedy="leave out one of them")
    return None if arguments.exact else DEFAULT_ACCURACY if arguments.accuracy is None else arguments.accuracy


def _wholes(texts: list[str], place: str) -> list[int]:
    try:
        return [options.whole(text) for text in texts]
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error), place=place, remedy="give whole numbers") from None
