"""The command `warpsight`: the list of commands, the parsing of one, and its errors as one message and an exit code.

A command's module is imported only when the command is used.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from types import ModuleType
from typing import Any

import lazy_loader as lazy

from warpsight._version import __version__
from warpsight.base import diskcache
from warpsight.base.errors import CheckFault, LimitError, UsageError, WarpsightError, suggestion
from warpsight.base.findings import fold
from warpsight.base.progress import listening
from warpsight.cli.parser import Parser, name_options

native: Any = lazy.load("warpsight.base.compiled", suppress_warning=True)  # it prepares Numba, which most commands do without


@dataclass(frozen=True)
class Command:
    """A command. Its module has `configure(parser)`, `run(arguments) -> exit code`, and `EXAMPLES` if its help shows some.

    `parts` are its subcommands by their second word, for commands that also work without one.
    """

    name: str
    module: str
    summary: str
    parts: Mapping[str, Command] = field(default_factory=dict)


_STUDY = "warpsight.cli.sweep_study"
_ANSWERS = "warpsight.cli.sweep_answers"
_SWEEP_PARTS = (
    Command("status", _STUDY, "show the progress of a study"),
    Command("resume", "warpsight.cli.sweep", "continue a study that was interrupted, or whose code or kernels have changed"),
    Command("collect", _STUDY, "write the table of the results computed so far"),
    Command("best", _ANSWERS, "list the best designs of a study under conditions"),
    Command("pareto", _ANSWERS, "list the designs that are Pareto-optimal in performance and cost"),
    Command("sensitivity", _ANSWERS, "show which axes of a study matter, for each kernel"),
    Command("map", _ANSWERS, "show performance or a CPI-stack component over two axes"),
    Command("speedups", _ANSWERS, "show the speedup of each kernel over a baseline design"),
)

_TRACE_PARTS = (Command("export", "warpsight.cli.trace", "export a trace in Accel-Sim's format"),)

COMMANDS = (
    Command("demo", "warpsight.cli.demo", "predict a loop with stride 1 and 32: the same work, very different times, and why"),
    Command("init", "warpsight.cli.init", "write a launch file for a kernel: its parameters with default values"),
    Command("predict", "warpsight.cli.predict", "predict the cycles, the bottleneck and the CPI stack of a kernel on a GPU"),
    Command("explain", "warpsight.cli.explain", "attribute the predicted cycles to source or PTX lines"),
    Command("ncu", "warpsight.cli.ncu", "print a prediction as Nsight Compute prints a measurement, as text or CSV"),
    Command("advise", "warpsight.cli.advise", "suggest changes that would make a kernel faster, ranked by predicted gain"),
    Command("report", "warpsight.cli.report", "write an HTML report of a kernel, a result or a study"),
    Command("compare", "warpsight.cli.compare",
            "rank GPUs or kernels by time, compare models with each other and with measurements"),
    Command("gate", "warpsight.cli.gate", "compare the kernels of a project with its base branch, for CI: fails if one is slower"),
    Command("tune", "warpsight.cli.tune", "predict and rank configurations of a kernel: block sizes, macros, registers"),
    Command("trace", "warpsight.cli.trace", "execute a kernel on this machine and store its trace for later predictions",
            {part.name: part for part in _TRACE_PARTS}),
    Command("check", "warpsight.cli.check", "find wrong accesses, races, unwritten memory and misused barriers"),
    Command("run", "warpsight.cli.run", "run a whole CUDA program on this machine and predict each kernel launch"),
    Command("simulate", "warpsight.cli.simulate", "simulate a kernel on a GPU cycle by cycle, as a reference for the models"),
    Command("sass", "warpsight.cli.sass", "list the machine code of a kernel for a GPU, with stall cycles and barriers"),
    Command("profile", "warpsight.cli.profile", "show the interval profile of a kernel's representative warp"),
    Command("cache", "warpsight.cli.cache", "model L1 misses by class from reuse distances"),
    Command("model", "warpsight.cli.model", "predict from an interval profile, without a kernel"),
    Command("calibrate", "warpsight.cli.calibrate", "run micro-benchmarks and fit a GPU description to their timings"),
    Command("sweep", "warpsight.cli.sweep", "predict kernels on many GPU designs, and analyze the results",
            {part.name: part for part in _SWEEP_PARTS}),
    Command("dvfs", "warpsight.cli.dvfs", "predict time and energy over core clocks and memory bandwidths"),
    Command("validate", "warpsight.cli.validate", "reproduce the papers' figures with the simulator and the models on a suite"),
    Command("serve", "warpsight.cli.serve", "write kernels and predict them in the browser; list and compare results"),
    Command("gpus", "warpsight.cli.gpus", "list, show, check and import GPU descriptions"),
    Command("config", "warpsight.cli.config", "show and set the default GPU and model, the cache folder and the unit of times"),
    Command("completion", "warpsight.cli.completion", "print a script that completes commands, options and GPUs in your shell"),
    Command("models", "warpsight.cli.models", "list and show the performance models"),
    Command("doctor", "warpsight.cli.doctor", "check this installation: tools, libraries, supported PTX instructions"),
)

_INPUTS = (".cu", ".ptx", ".cubin", ".fatbin", ".yaml", ".yml", ".py", ".trace")
BY_NAME = {command.name: command for command in COMMANDS}


# -- Running a command.

INTERRUPTED, BROKEN_PIPE = 130, 141
DEFECT = 70  # EX_SOFTWARE of sysexits.h

_HELP = """\
warpsight: predict how fast a CUDA kernel runs on any GPU, and where its cycles go

usage: warpsight COMMAND [options]      `warpsight COMMAND --help` shows its options and examples

commands:
{commands}

options:
  --help      show this text
  --version   show the version

example:
  warpsight demo
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    option_names: dict[str, str] = {}
    try:
        _check_streams()
        if not words or words[0] in ("--help", "-h", "help"):
            print(_HELP.format(commands="\n".join(f"  {c.name:<10} {c.summary}" for c in COMMANDS)), end="")
            code = 0 if words else UsageError.exit_code
        elif words[0] == "--version":
            print(f"warpsight {__version__}")
            code = 0
        else:
            module, arguments = parse(words)
            option_names = arguments.option_names
            with _told(arguments.verbose):
                code = module.run(arguments)
        sys.stdout.flush()
        return code
    except WarpsightError as error:
        if option_names:
            name_options(error, option_names, words)
        return _checks_failed(error) if isinstance(error, CheckFault) else _failed(error)
    except SystemExit as leaving:  # argparse after --help
        return leaving.code if isinstance(leaving.code, int) else 0
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe (`| head`)
        _drop_stdout()
        return BROKEN_PIPE
    except MemoryError:
        remedy = "make the launch or the arrays smaller, or use a machine with more memory"
        return _failed(LimitError("the memory of this machine is not enough", remedy=remedy))
    except OSError as error:
        if error.filename is not None or error.errno not in _CANNOT_WRITE:
            return _defect(error, words)
        _drop_stdout()
        what = f"the output cannot be written: {error.strerror}"
        return _failed(UsageError(what, remedy="free space on the disk, or write to another one"))
    except Exception as error:
        return _defect(error, words)


def _began_with_interruption(error: BaseException) -> bool:
    """Whether `error` came of Ctrl-C: an import that ends in the middle leaves modules on which others then fail."""
    context = error.__context__
    return context is not None and (isinstance(context, KeyboardInterrupt) or _began_with_interruption(context))


_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _check_streams() -> None:
    """Let stdout take every name. Raises `UsageError` if it is closed: a file opened later would get its number, and the output."""
    if sys.stderr is None:
        os.open(os.devnull, os.O_WRONLY)
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise UsageError("is closed, so the results would be lost", place="standard output", remedy="write them to a file: > FILE")
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a file name that is not UTF-8, a sign that the locale lacks


@contextmanager
def _told(verbose: bool) -> Iterator[None]:
    """Notes, each once, and with `verbose` the steps with their times go to stderr."""
    told: set[str] = set()
    begin = time.perf_counter()

    def on_note(text: str) -> None:
        if text not in told:
            _say(f"note: {text}")
        told.add(text)

    def on_step(what: str, seconds: float) -> None:
        _say(f"{seconds:8.2f} s  {what}")

    with listening(on_note, on_step if verbose else None):
        yield
    if verbose:
        read, made = native.compilations()
        on_step(f"in all; functions of the simulators: {read} from the cache, {made} compiled; cache {diskcache.folder()}",
                time.perf_counter() - begin)


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # where stderr is full or closed too, the exit code is all that can be given
        print(text, file=sys.stderr, flush=True)


def _failed(error: WarpsightError) -> int:
    _say(f"error: {error}")
    return error.exit_code


def _checks_failed(error: CheckFault) -> int:
    """What checks have found, each in its block of lines; then the error, as for every launch that is wrong."""
    found: Any = importlib.import_module("warpsight.reports.findings")
    _say("\n".join(found.blocks_of([each.to_json() for each in fold(error.findings)], root=os.getcwd())))
    return _failed(error)


def _drop_stdout() -> None:
    """Forget what stdout could not take: Python would try again, and report it again, when it flushes stdout at exit."""
    with suppress(OSError, ValueError):  # a stdout without a file descriptor needs no silencing
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _defect(error: Exception, words: list[str]) -> int:
    """Report a defect of Warpsight in one line; the traceback goes to a file, to be sent."""
    if _began_with_interruption(error):
        _say("interrupted")
        return INTERRUPTED
    text = "".join(traceback.format_exception(error))
    head = f"warpsight {__version__}, Python {platform.python_version()}, {platform.platform()}\nwarpsight {' '.join(words)}\n\n"
    what = (str(error).splitlines() or [""])[0][:200]
    said = f"error: internal error in Warpsight: {type(error).__name__}{': ' if what else ''}{what}"
    try:
        handle, path = tempfile.mkstemp(prefix="warpsight-defect-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(head + text)
    except OSError:
        _say(f"{said}\n       -> please report it with these lines\n{head}{text}")
    else:
        _say(f"{said}\n       -> please report it, with the file {path}")
    return DEFECT


def parse(words: list[str]) -> tuple[ModuleType, argparse.Namespace]:
    """The module of a command line's command, and its checked options. Raises `UsageError`; runs nothing."""
    name = words[0]
    command = BY_NAME.get(name)
    if command is None:
        kind = "an option of warpsight" if name.startswith("-") else "a command"
        known = ["--help", "--version"] if name.startswith("-") else list(BY_NAME)
        is_input = name.endswith(_INPUTS) or os.path.exists(name)
        remedy = f"to predict its time: `warpsight predict {name}`" if is_input else "`warpsight --help` lists the commands"
        raise UsageError(f'"{name}" is not {kind}{suggestion(name, known)}', remedy=remedy)
    rest = words[1:]
    if rest and rest[0] in command.parts:
        name, command, rest = f"{name} {rest[0]}", command.parts[rest[0]], rest[1:]
    module = importlib.import_module(command.module)
    description = f"{command.summary[0].upper()}{command.summary[1:]}."
    parser = Parser(prog=f"warpsight {name}", description=description, epilog=getattr(module, "EXAMPLES", None))
    module.configure(parser)
    parser.add_everywhere("--verbose", action="store_true", help="say on stderr what is compiled, read from the cache and sampled, "
                          "and how long each step takes")
    arguments = parser.parse_strictly(rest)
    arguments.part_of_command = command.name
    if hasattr(arguments, "commands"):  # of `completion`, which needs the list above
        arguments.commands = [(each.name, each.module, each.summary, tuple(each.parts)) for each in COMMANDS]
    arguments.command_line = words  # for `next:` lines
    arguments.option_names = parser.option_names()  # for errors
    return module, arguments
