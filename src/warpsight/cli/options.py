"""The options that several commands share: kernel, GPU, model and method, output, and executor."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

from warpsight.base import settings
from warpsight.base.errors import UsageError
from warpsight.base.units import parse_share
from warpsight.gpu.default import FALLBACK, VARIABLE
from warpsight.gpu.loader import default_gpu
from warpsight.gpu.steps import ORDERS
from warpsight.jobs.executor import Executor, make_executor
from warpsight.pipeline.request import (
    CACHES,
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    INTERLEAVINGS,
    LEVELS,
    REPRESENTATIVES,
    REQUEST_FIELDS,
    KernelRequest,
    Method,
)

if TYPE_CHECKING:
    from warpsight.intervals.static.loops import StaticHints

loops: Any = lazy.load("warpsight.intervals.static.loops", suppress_warning=True)  # a parser of PTX: not for `--help`

_KERNEL_HELP = ("a .cu, .ptx, .cubin or .fatbin file, a program built by nvcc, a launch file (.yaml, .py), a trace folder, "
                "a trace of another tool (Accel-Sim: a folder, list or kernel-N.traceg.xz; PPT-GPU, AMALI, MDM: a folder), "
                "or - for source on stdin")


def add_kernel(
    parser: argparse.ArgumentParser, *, several: bool = False, studies: bool = False, any_number: bool = False, check: bool = True
) -> None:
    """Declare KERNEL, or with `several` one or more, and the options that say how it is compiled and launched.

    With `any_number` there may be none; with `studies` a study file or nothing may take their place. `check` adds --check.
    """
    if studies:
        parser.add_argument("paths", metavar="STUDY|[NAME=]KERNEL", nargs="*",
                            help=f"a study file, or kernels: each {_KERNEL_HELP}")
    elif any_number:
        parser.add_argument("paths", metavar="[NAME=]KERNEL", nargs="*", help=f"kernels: each {_KERNEL_HELP}")
    elif several:
        parser.add_argument("paths", metavar="[NAME=]KERNEL", nargs="+", help=f"{_KERNEL_HELP}; NAME as in --against, if needed")
    else:
        parser.add_argument("path", metavar="KERNEL", help=_KERNEL_HELP)
    group = parser.add_argument_group("launch (not for a trace folder; these override a launch file)")
    group.add_argument("--kernel", metavar="NAME", help="the kernel in the file, by source name or mangled name")
    group.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks in the grid, for example 128 or 16,16")
    group.add_argument("--block", metavar="X[,Y[,Z]]", help="threads per block, for example 256 or 32,8")
    group.add_argument("--cluster", metavar="X[,Y[,Z]]", help="blocks in a thread block cluster, for example 2 or "
                       "2,2 (default: what the kernel was compiled for)")
    group.add_argument("--shared", metavar="BYTES", help="dynamic shared memory per block")
    group.add_argument("--arg", metavar="ARG", dest="args", action="append", help="one kernel argument, in order or as NAME=VALUE: "
                       "i32:1024, f32:0.5, 'f32[65536]:uniform', 'i32[4096]:randint(0,100)', file.npy")
    group.add_argument("--seed", metavar="N", type=whole, help="seed for random arguments (default 0)")
    group.add_argument("--registers", metavar="N", type=whole, help="registers per thread (default: the assembler's count)")
    group.add_argument("--max-instructions", metavar="N", type=whole, help="stop, with exit code 4, after this many warp "
                       "instructions (default 10,000,000,000)")
    group.add_argument("--heap", metavar="BYTES", help="device heap for malloc in the kernel (default 8Mi)")
    group.add_argument("--stack", metavar="BYTES", type=whole, help="call stack per thread, for recursion and calls through "
                       "pointers (default 8192)")
    add_threads(group)
    group.add_argument("--sample", metavar="N|P%", help="record only N blocks, or P percent of them, chosen at random "
                       "(by --seed); all blocks are executed")
    if check:
        group.add_argument("--check", action="store_true", default=None, help="report wrong accesses, hazards, unwritten memory "
                           "and misused barriers, with exit code 5 (slower; see `warpsight check`)")
    imported = parser.add_argument_group("traces of other tools (Accel-Sim, PPT-GPU, AMALI, MDM)")
    imported.add_argument("--kernels", metavar="NAME[,NAME]", help="only launches of these kernels")
    imported.add_argument("--launches", metavar="N[,N-M]", help="only these launches, numbered from 1, for example 1,3-5")
    imported.add_argument("--isa-file", metavar="FILE.yaml", help="op classes and accesses of SASS opcodes; "
                          "overrides the built-in table")
    compiling = parser.add_argument_group("compiling (CUDA sources)")
    add_level(compiling)
    add_compiling(compiling)
    compiling.add_argument("--constant", metavar="NAME=VALUE", dest="constants", action="append", help="a compile-time value of a "
                           "Triton kernel, or num_warps, num_stages, num_ctas, maxnreg (repeatable)")
    compiling.add_argument("--config", metavar="N|NAME=V,...", help="the configuration of an autotuned Triton kernel: its number "
                           "in the table of `warpsight tune`, or its values: BLOCK=128,num_warps=4")
    compiling.add_argument("--maxrregcount", metavar="N", type=whole, help="the most registers per thread that the assembler takes")
    compiling.add_argument("--opt-level", metavar="0..3", type=whole, help="how far the assembler optimizes (default 3)")


def add_compiling(group: argparse._ActionsContainer) -> None:
    """--arch, --define, --include and --std."""
    group.add_argument("--arch", metavar="ARCH", help="target architecture (default compute_75)")
    group.add_argument("-D", "--define", metavar="NAME[=VALUE]", dest="defines", action="append", help="a macro (repeatable)")
    group.add_argument("-I", "--include", metavar="DIR", dest="include_dirs", action="append", help="an include folder")
    group.add_argument("--std", "-std", metavar="STANDARD", help="the C++ standard, for example c++20 (default c++17)")


def add_threads(group: argparse._ActionsContainer) -> None:
    """--threads."""
    group.add_argument("--threads", metavar="N", type=whole, help="CPU threads that execute the blocks (default: all cores); "
                       "the results and the trace do not depend on it")


def add_level(group: argparse._ActionsContainer) -> None:
    """--level."""
    group.add_argument("--level", choices=LEVELS, help="the instructions that are executed and timed: ptx; sass, the machine code "
                       "that NVIDIA's assembler generates for the GPU; auto (default): sass for a GPU with a compute_capability of "
                       "7.0 or later, else ptx")


def kernel_request(arguments: argparse.Namespace) -> KernelRequest:
    """The values of `add_kernel`'s options; None for those not given."""
    parsed = {each.name: getattr(arguments, each.key) for each in REQUEST_FIELDS}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in parsed.items()}
    # where a program reads stdout, the kernel's own output must go elsewhere
    answer_on_stdout = any(getattr(arguments, name, False) for name in ("json", "csv")) or getattr(arguments, "output", "") == "-"
    return KernelRequest(arguments.path, output=sys.stderr if answer_on_stdout else None, **values)


def kernel_requests(arguments: argparse.Namespace) -> list[KernelRequest]:
    """One request for each kernel of `add_kernel`, all with the same options."""
    return [kernel_request(argparse.Namespace(**vars(arguments), path=path)) for path in arguments.paths]


def add_gpu(parser: argparse.ArgumentParser, default: str | None = None, *, several: bool = False) -> None:
    """--gpu and --set. Without a `default` of the command, `arguments.gpu` is None for the default GPU."""
    metavar, more = ("NAME|FILE[,...]", ", or several") if several else ("NAME|FILE", "")
    shown = default or f"that of {VARIABLE}, else of `warpsight gpus use`, else {FALLBACK}"
    parser.add_argument("--gpu", metavar=metavar, default=default, help="a GPU of the catalogue (`warpsight gpus list`) or a "
                        f"description file{more} (default: {shown})")
    parser.add_argument("--set", metavar="KEY=VALUE", dest="overrides", action="append", default=[],
                        help="change one key of the GPU: sm_count=56, 'dram.bandwidth=960 GB/s' (repeatable)")


def gpu_name(arguments: argparse.Namespace) -> str:
    """The value of --gpu, or the default GPU."""
    return default_gpu() if arguments.gpu is None else str(arguments.gpu)


def gpu_names(arguments: argparse.Namespace) -> list[str]:
    """The GPUs of --gpu NAME,NAME, each once, or the default GPU."""
    text = gpu_name(arguments)
    names = [name.strip() for name in text.split(",")] if "," in text and not os.path.exists(text) else [text]
    if not all(names):
        raise UsageError(f'"{text}" has an empty name', place="--gpu", remedy="write NAME,NAME, as a100,h100-sxm")
    return list(dict.fromkeys(names))


def add_models(parser: argparse.ArgumentParser, *, one: bool = False) -> None:
    """--model: with `one` a single name, else repeatable or a comma list."""
    metavar, what = ("NAME", "model") if one else ("NAME[,NAME]", "models")
    default = f"(default {DEFAULT_MODEL}, or that of `warpsight config model`{'' if one else '; repeatable'})"
    parser.add_argument("--model", metavar=metavar, dest="models", action="append", help=f"the performance {what} {default}")


MODEL_VARIABLE, MODEL_SETTING = "WARPSIGHT_MODEL", "model"


def default_model() -> str:
    """The model of commands that name none: that of `WARPSIGHT_MODEL`, else of `warpsight config model`, else the default one."""
    remedy = "choose another with `warpsight config model NAME`, or forget it with `warpsight config model --clear`"
    return os.environ.get(MODEL_VARIABLE) or settings.kept(MODEL_SETTING, remedy) or DEFAULT_MODEL


def model_names(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The requested models, in order, each once."""
    return tuple(dict.fromkeys(name.strip() for name in ",".join(arguments.models or [default_model()]).split(",")))


def one_model(arguments: argparse.Namespace) -> str:
    """The requested model. Raises UsageError for several."""
    models = model_names(arguments)
    if len(models) > 1:
        raise UsageError("takes one model", place="--model", remedy="run once for each, or use `warpsight compare`")
    return models[0]


ALL = "all"


def add_method(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """--representative, --interleaving, --order, --caches, --caches-before; with `several`, `--representative all` is accepted."""
    choices, every = ((*REPRESENTATIVES, ALL), f"; {ALL}: a row for each way") if several else (REPRESENTATIVES, "")
    parser.add_argument("--representative", choices=choices, default=DEFAULT_METHOD.representative,
                        help=f"how the representative warp is chosen (default {DEFAULT_METHOD.representative}{every})")
    parser.add_argument("--interleaving", choices=INTERLEAVINGS, default=DEFAULT_METHOD.interleaving,
                        help="order of cache accesses: by simulated clocks of SMs and warps, or round-robin as in the papers "
                        f"(default {DEFAULT_METHOD.interleaving})")
    parser.add_argument("--order", choices=ORDERS, default=DEFAULT_METHOD.order,
                        help="timing that orders the cache accesses of a changed GPU: that of the GPU it is derived from, or "
                        f"its own (default {DEFAULT_METHOD.order})")
    parser.add_argument("--caches", choices=CACHES, default=DEFAULT_METHOD.caches,
                        help=f"L1 and L2 simulated exactly, or by the reuse-distance model (default {DEFAULT_METHOD.caches})")
    add_caches_before(parser)


def add_caches_before(parser: argparse.ArgumentParser) -> None:
    """--caches-before."""
    parser.add_argument("--caches-before", metavar="auto|cold|warm|FILE", default=DEFAULT_METHOD.caches_before,
                        help="state of the L2 when the launch begins: cold (empty); warm, as an earlier launch of the same kernel "
                        "leaves it; after the launch of FILE, a trace folder or launch file; auto (default): warm for a GPU with "
                        "a compute_capability of 7.0 or later, else cold")


def add_repeat(parser: argparse.ArgumentParser) -> None:
    """--repeat."""
    parser.add_argument("--repeat", metavar="N", type=whole, help="N launches back to back: a row for the first, which begins with "
                        "the L2 of --caches-before (here cold by default), one for those that follow, which find the L2 as the "
                        "launch itself leaves it, and the total")


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """--accuracy and --exact."""
    group = parser.add_argument_group("long launches", "of independent blocks are predicted from sampled waves")
    group.add_argument("--accuracy", metavar="SHARE", type=share, help="the sample grows until the 95 %% confidence interval of "
                       "the cycles is within this share of them, 0.01 or 1%% (default 2%%)")
    group.add_argument("--exact", action="store_true", help="run every block")


def share(text: str) -> float:
    """A share as 0.02, or in percent as 2%."""
    try:
        return parse_share(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is not a share such as 0.02 or 2%') from None


def method(arguments: argparse.Namespace) -> Method:
    """What `add_method` collected."""
    one = DEFAULT_METHOD.representative if arguments.representative == ALL else arguments.representative
    return Method(one, arguments.interleaving, arguments.caches, arguments.order, arguments.caches_before)


def add_static(parser: argparse.ArgumentParser) -> None:
    """--static and the hints for what the program text leaves open."""
    group = parser.add_argument_group("static analysis (--model mwp-cwp)")
    group.add_argument("--static", action="store_true", help="count instructions and transactions without executing the kernel")
    group.add_argument("--trips", metavar="LABEL=N", action="append", default=[],
                       help="trip count of a loop, if the program text does not determine it (repeatable)")
    group.add_argument("--uncoalesced", metavar="LINE|all", action="append", default=[],
                       help="PTX lines of uncoalesced memory instructions, if the text does not determine it")
    group.add_argument("--coalesced", metavar="LINE|all", action="append", default=[], help="PTX lines of coalesced ones")
    group.add_argument("--both-paths", action="store_true", help="count both sides of data-dependent branches (an upper bound)")


def static_hints(arguments: argparse.Namespace) -> StaticHints | None:
    """The hints of `add_static`; None without --static."""
    hint_options = [option for option in ("trips", "uncoalesced", "coalesced", "both_paths") if getattr(arguments, option)]
    if not arguments.static:
        if hint_options:
            raise UsageError("needs --static", place=f"--{hint_options[0].replace('_', '-')}", remedy="add --static")
        return None
    # options about the execution of a kernel, as --static executes nothing
    of_runs = ("level", "max_instructions", "heap", "stack", "threads", "sample", "check", "warps")
    used = [option for option in of_runs if getattr(arguments, option)]
    used += [name for name in ("representative", "interleaving") if getattr(arguments, name) != getattr(DEFAULT_METHOD, name)]
    if used:
        what = "is about the execution, and --static executes nothing"
        raise UsageError(what, place=f"--{used[0].replace('_', '-')}", remedy="leave out one of the two")
    coalesced, uncoalesced = (loops.parse_lines(getattr(arguments, name), f"--{name}") for name in ("coalesced", "uncoalesced"))
    if coalesced & uncoalesced:
        what = "the same instruction is listed as coalesced and as uncoalesced"
        raise UsageError(what, place="--uncoalesced", remedy="remove it from one of the two")
    hints: StaticHints = loops.StaticHints(loops.parse_trips(arguments.trips), coalesced, uncoalesced, arguments.both_paths)
    return hints


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


def add_executor(parser: argparse.ArgumentParser) -> None:
    """--executor and its options: this process, other processes, or a cluster."""
    group = parser.add_argument_group("execution (docs/reference/executors.md)")
    group.add_argument("--jobs", metavar="N", type=whole, help="processes (default: one per core)")
    group.add_argument("--executor", metavar="NAME", help="inline, processes (the default), dask or slurm")
    group.add_argument("--scheduler", metavar="ADDRESS", help="with dask: a running scheduler (default: a local cluster)")
    group.add_argument("--slurm", metavar="KEY=VALUE", action="append", default=[], help="with slurm: resources of a job: cores, "
                       "memory, workers (jobs), walltime, queue, account, ...")
    group.add_argument("--worker-timeout", metavar="SECONDS", type=whole, help="with dask and slurm: stop if no worker "
                       "is available for this long (default 300; with slurm one day)")


def chosen_executor(arguments: argparse.Namespace) -> Executor:
    """The executor of the options; nothing is started before it is used. Raises UsageError for options that do not fit."""
    settings = {name: getattr(arguments, name) for name in ("jobs", "scheduler", "slurm", "worker_timeout")}
    return make_executor(arguments.executor, **settings)
