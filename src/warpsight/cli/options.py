"""The options that several commands share: which kernel, GPU and model, how to print, and who computes."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.intervals.static.loops import StaticHints, parse_lines, parse_trips
from warpsight.jobs.executor import Executor, make_executor
from warpsight.pipeline.request import (
    CACHES,
    DEFAULT_GPU,
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    INTERLEAVINGS,
    REPRESENTATIVES,
    REQUEST_FIELDS,
    KernelRequest,
    Method,
)

_KERNEL_HELP = ("a .cu or .ptx file, a launch file (.yaml, .py), a trace folder, a trace of another tool (of Accel-Sim a folder, "
                "list or kernel-N.traceg.xz; of PPT-GPU, AMALI or MDM a folder), or - for source on stdin")


def add_kernel(parser: argparse.ArgumentParser, *, several: bool = False, studies: bool = False,
               any_number: bool = False) -> None:
    """KERNEL, or with `several` one or more, and everything that says how it is compiled and launched.

    With `any_number` there may be none, and with `studies` a study file may stand in their place, or nothing.
    """
    if studies:
        parser.add_argument("paths", metavar="STUDY|[NAME=]KERNEL", nargs="*",
                            help=f"a study file, or kernels: each {_KERNEL_HELP}")
    elif any_number:
        parser.add_argument("paths", metavar="[NAME=]KERNEL", nargs="*", help=f"kernels: each {_KERNEL_HELP}")
    elif several:
        parser.add_argument("paths", metavar="[NAME=]KERNEL", nargs="+", help=f"{_KERNEL_HELP}; NAME as in --against, where needed")
    else:
        parser.add_argument("path", metavar="KERNEL", help=_KERNEL_HELP)
    group = parser.add_argument_group("launch (not for a trace folder; over a launch file these win)")
    group.add_argument("--kernel", metavar="NAME", help="which kernel of the file, by source name or mangled")
    group.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks in the grid, as 128 or 16,16")
    group.add_argument("--block", metavar="X[,Y[,Z]]", help="threads in a block, as 256 or 32,8")
    group.add_argument("--shared", metavar="BYTES", help="dynamic shared memory per block")
    group.add_argument("--arg", metavar="ARG", dest="args", action="append", help="one argument, in order: "
                       "i32:1024, f32:0.5, 'f32[65536]:uniform', 'i32[4096]:randint(0,100)', file.npy")
    group.add_argument("--seed", metavar="N", type=whole, help="seed of the argument rules (default 0)")
    group.add_argument("--registers", metavar="N", type=whole, help="registers per thread, instead of the assembler's count")
    group.add_argument("--max-instructions", metavar="N", type=whole, help="stop, with exit code 4, after this many warp "
                       "instructions (default 10,000,000,000)")
    group.add_argument("--heap", metavar="BYTES", help="device memory for the kernel's own malloc (default 8Mi)")
    group.add_argument("--stack", metavar="BYTES", type=whole, help="call stack per thread, for recursion and calls through "
                       "pointers (default 8192)")
    group.add_argument("--threads", metavar="N", type=whole, help="threads of this machine that run the blocks (default all); "
                       "results and trace are the same")
    group.add_argument("--sample", metavar="N|P%", help="record only so many blocks, or such a share of them, chosen at random "
                       "(--seed); all are executed")
    group.add_argument("--check", action="store_true", default=None, help="stop at reads of shared, local or allocated memory that "
                       "was never written (slower)")
    imported = parser.add_argument_group("traces of other tools (Accel-Sim, PPT-GPU, AMALI, MDM)")
    imported.add_argument("--kernels", metavar="NAME[,NAME]", help="only launches of these kernels")
    imported.add_argument("--launches", metavar="N[,N-M]", help="only these launches, counted from 1, as 1,3-5")
    imported.add_argument("--isa-file", metavar="FILE.yaml", help="op classes and accesses of native opcodes, "
                          "before the table's own")
    compiling = parser.add_argument_group("compiling (CUDA sources)")
    compiling.add_argument("--arch", metavar="ARCH", help="compile for this architecture (default compute_75)")
    compiling.add_argument("-D", "--define", metavar="NAME[=VALUE]", dest="defines", action="append", help="a macro")
    compiling.add_argument("-I", "--include", metavar="DIR", dest="include_dirs", action="append", help="a folder of headers")


def kernel_request(arguments: argparse.Namespace) -> KernelRequest:
    """What `add_kernel` collected; an option that was not given is None."""
    given = {each.name: getattr(arguments, each.key) for each in REQUEST_FIELDS}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return KernelRequest(arguments.path, output=sys.stderr if _answers_on_stdout_for_programs(arguments) else None, **values)


def kernel_requests(arguments: argparse.Namespace) -> list[KernelRequest]:
    """What `add_kernel` collected for several kernels: one request each, with the same options."""
    return [kernel_request(argparse.Namespace(**vars(arguments), path=path)) for path in arguments.paths]


def _answers_on_stdout_for_programs(arguments: argparse.Namespace) -> bool:
    """What a kernel prints must then not stand among the answer."""
    return any(getattr(arguments, name, False) for name in ("json", "csv")) or getattr(arguments, "output", "") == "-"


def add_gpu(parser: argparse.ArgumentParser) -> None:
    """--gpu and --set."""
    parser.add_argument("--gpu", metavar="NAME|FILE", default=DEFAULT_GPU, help=f"the GPU (default {DEFAULT_GPU}); "
                        "`warpsight gpus list` names those known")
    parser.add_argument("--set", metavar="KEY=VALUE", dest="overrides", action="append", default=[],
                        help="change one key of the GPU, as sm_count=56 or 'dram.bandwidth=960 GB/s' (repeatable)")


def add_models(parser: argparse.ArgumentParser) -> None:
    """--model, repeatable or a comma list."""
    parser.add_argument("--model", metavar="NAME[,NAME]", dest="models", action="append",
                        help=f"the performance model (default {DEFAULT_MODEL}; several make several predictions)")


def model_names(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The models asked for, in order, each once."""
    given = ",".join(arguments.models or [DEFAULT_MODEL]).split(",")
    return tuple(dict.fromkeys(name.strip() for name in given))


ALL = "all"


def add_method(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """--representative, --interleaving and --caches; with `several`, all representatives may be asked for."""
    choices, every = ((*REPRESENTATIVES, ALL), f"; {ALL}: a row for each way") if several else (REPRESENTATIVES, "")
    parser.add_argument("--representative", choices=choices, default=DEFAULT_METHOD.representative,
                        help=f"how the representative warp is chosen (default {DEFAULT_METHOD.representative}{every})")
    parser.add_argument("--interleaving", choices=INTERLEAVINGS, default=DEFAULT_METHOD.interleaving,
                        help="accesses in the caches by the clocks of SMs and warps, or in turns as in the papers "
                        f"(default {DEFAULT_METHOD.interleaving})")
    parser.add_argument("--caches", choices=CACHES, default=DEFAULT_METHOD.caches,
                        help=f"L1 and L2 simulated exactly, or by the reuse-distance model (default {DEFAULT_METHOD.caches})")


def method(arguments: argparse.Namespace) -> Method:
    """What `add_method` collected."""
    one = DEFAULT_METHOD.representative if arguments.representative == ALL else arguments.representative
    return Method(one, arguments.interleaving, arguments.caches)


def add_static(parser: argparse.ArgumentParser) -> None:
    """--static and what the program text may leave open."""
    group = parser.add_argument_group("from the program text alone (--model mwp-cwp)")
    group.add_argument("--static", action="store_true", help="count instructions and transactions without running the kernel")
    group.add_argument("--trips", metavar="LABEL=N", action="append", default=[],
                       help="how often the body of a loop runs, where the text does not say (repeatable)")
    group.add_argument("--uncoalesced", metavar="LINE|all", action="append", default=[],
                       help="PTX lines of memory instructions that are uncoalesced, where the text does not say")
    group.add_argument("--coalesced", metavar="LINE|all", action="append", default=[], help="those that are coalesced")
    group.add_argument("--both-paths", action="store_true",
                       help="count both sides of branches that depend on data, an upper bound")


def told(arguments: argparse.Namespace) -> StaticHints | None:
    """What `add_static` collected; None without --static."""
    given = [option for option in ("trips", "uncoalesced", "coalesced", "both_paths") if getattr(arguments, option)]
    if not arguments.static:
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise UsageError("says something about a static analysis", place=option, remedy="add --static")
        return None
    _refuse_executions(arguments)
    coalesced, uncoalesced = (parse_lines(getattr(arguments, name), f"--{name}") for name in ("coalesced", "uncoalesced"))
    if coalesced & uncoalesced:
        what = "the same instruction is said to be coalesced and uncoalesced"
        raise UsageError(what, place="--uncoalesced", remedy="remove it from one of the two")
    return StaticHints(parse_trips(arguments.trips), coalesced, uncoalesced, arguments.both_paths)


def _refuse_executions(arguments: argparse.Namespace) -> None:
    """Nothing that says how a kernel is executed, or what is made of its execution, goes with --static."""
    of_runs = ("max_instructions", "heap", "stack", "threads", "sample", "check", "warps")
    given = [option for option in of_runs if getattr(arguments, option)]
    methods = ("representative", "interleaving")
    given += [option for option in methods if getattr(arguments, option) != getattr(DEFAULT_METHOD, option)]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise UsageError("is of an execution, and --static executes nothing", place=option, remedy="leave out one of the two")


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print the whole result document")


def span(text: str) -> tuple[int, int]:
    """`LEAST:MOST`, or one number for both, for argparse."""
    least, _, most = text.partition(":")
    bounds = whole(least), whole(most or least)
    if not 0 < bounds[0] <= bounds[1]:
        raise argparse.ArgumentTypeError(f'"{text}" is not LEAST:MOST with 1 <= LEAST <= MOST')
    return bounds


def whole(text: str) -> int:
    """A whole number of 0 or more, for argparse; commas and underscores separate digits."""
    digits = text.replace(",", "").replace("_", "")
    if not re.fullmatch(r"\d+", digits):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number of 0 or more')
    return int(digits)


# -- The options of commands that compute much: by whom.

def add_executor(parser: argparse.ArgumentParser) -> None:
    """Who computes: this process, others, or a cluster."""
    group = parser.add_argument_group("who computes (docs/reference/executors.md)")
    group.add_argument("--jobs", metavar="N", type=whole, help="processes (default one for each core)")
    group.add_argument("--executor", metavar="NAME", help="inline, processes (the default), dask or slurm")
    group.add_argument("--scheduler", metavar="ADDRESS", help="with dask: a running scheduler (default a cluster of this machine)")
    group.add_argument("--slurm", metavar="KEY=VALUE", action="append", default=[], help="with slurm: what a job asks for: cores, "
                       "memory, workers (jobs), walltime, queue, account, ...")
    group.add_argument("--worker-timeout", metavar="SECONDS", type=whole, help="with dask and slurm: end when no worker "
                       "was there for so long (default 300, with slurm a day)")


def chosen_executor(arguments: argparse.Namespace) -> Executor:
    """The executor that the options ask for; it starts nothing before it is used. Raises UsageError when they cannot be meant."""
    return make_executor(
        arguments.executor,
        jobs=arguments.jobs,
        scheduler=arguments.scheduler,
        slurm=arguments.slurm,
        worker_timeout=arguments.worker_timeout,
    )
