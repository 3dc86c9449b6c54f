"""The command `warpsight`: the list of commands (name, module, one line of help), and the one that is asked for run.

A module is imported only when its command is used. Errors become one clear message and an exit code.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from warpsight._version import __version__
from warpsight.base.errors import UsageError, WarpsightError, suggestion
from warpsight.cli.parser import Parser, name_options


@dataclass(frozen=True)
class Command:
    """A command. Its module has `configure(parser)` and `run(arguments) -> exit code`.

    `parts` are commands of two words, by the second one, where the first word alone is a command too.
    """

    name: str
    module: str
    summary: str
    parts: Mapping[str, Command] = field(default_factory=dict)


_STUDY = "warpsight.cli.sweep_study"
_ANSWERS = "warpsight.cli.sweep_answers"
_SWEEP_PARTS = (
    Command("status", _STUDY, "how far a study is"),
    Command("resume", _STUDY, "go on with a study that was interrupted, or whose code or kernels have changed"),
    Command("collect", _STUDY, "write the table of what is computed so far"),
    Command("best", _ANSWERS, "the best designs of a study under conditions"),
    Command("pareto", _ANSWERS, "the designs that no other beats in performance and cost"),
    Command("sensitivity", _ANSWERS, "which axis of a study matters, for each kernel"),
    Command("map", _ANSWERS, "performance, or a part of the CPI stack, over two axes"),
    Command("speedups", _ANSWERS, "speed-up of each kernel over a baseline design"),
)

_TRACE_PARTS = (Command("export", "warpsight.cli.trace_export", "write a trace as Accel-Sim reads it"),)

COMMANDS = (
    Command("demo", "warpsight.cli.demo", "one loop at stride 1 and 32: the same work, far apart in time, and why"),
    Command("predict", "warpsight.cli.predict", "cycles, what bounds them and the CPI stack of a kernel on a GPU"),
    Command("explain", "warpsight.cli.explain", "which source or PTX line the cycles of a prediction come from"),
    Command("advise", "warpsight.cli.advise", "what would make a kernel faster, each change evaluated, ranked by its gain"),
    Command("report", "warpsight.cli.report", "one HTML file that shows a kernel, a result or a study: stacks, code, what if"),
    Command("compare", "warpsight.cli.compare", "all models on one or more kernels, beside each other and a reference"),
    Command("trace", "warpsight.cli.trace", "run a kernel on this machine and keep what it did, for later predictions",
            {part.name: part for part in _TRACE_PARTS}),
    Command("run", "warpsight.cli.run", "a whole CUDA program: run it here, each of its launches predicted"),
    Command("simulate", "warpsight.cli.simulate", "a kernel on a GPU cycle by cycle: the reference that models are held against"),
    Command("profile", "warpsight.cli.profile", "the interval profile of a kernel's representative warp"),
    Command("cache", "warpsight.cli.cache", "L1 misses by class from reuse distances, of a kernel, a trace or an access list"),
    Command("model", "warpsight.cli.model", "a prediction from an interval profile, without a kernel"),
    Command("calibrate", "warpsight.cli.calibrate", "a GPU's description from timings of micro-benchmarks, which it has"),
    Command("sweep", "warpsight.cli.sweep", "thousands of designs: kernels over axes of a GPU, and the answers they give",
            {part.name: part for part in _SWEEP_PARTS}),
    Command("dvfs", "warpsight.cli.dvfs", "time, and energy by a power curve, over core clocks and memory speeds"),
    Command("validate", "warpsight.cli.validate", "figures of the papers again, from the simulator and the models on a suite"),
    Command("serve", "warpsight.cli.serve", "a folder of results on localhost, each as its report, shown again when it changes"),
    Command("gpus", "warpsight.cli.gpus", "list, show, check and import GPU descriptions"),
    Command("models", "warpsight.cli.models", "list and show the performance models"),
    Command("doctor", "warpsight.cli.doctor", "what this installation can do: tools, libraries, PTX instructions"),
)

BY_NAME = {command.name: command for command in COMMANDS}


# -- The command `warpsight`: finds the command's module, runs it, and turns errors into one clear message and an exit code.

INTERRUPTED, BROKEN_PIPE = 130, 141

_HELP = """\
warpsight: how fast a CUDA kernel runs on a GPU that you do not have, and where its cycles go

usage: warpsight COMMAND [options]      `warpsight COMMAND --help` explains one and gives an example

commands:
{commands}

options:
  --help      show this text
  --version   show the version

example:
  warpsight demo
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code (DESIGN section 7)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except WarpsightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except SystemExit as leaving:  # argparse after --help
        return leaving.code if isinstance(leaving.code, int) else 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left (`| head`). Python would complain once more when it flushes stdout at exit.
        _silence_stdout()
        return BROKEN_PIPE


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(_HELP.format(commands="\n".join(f"  {c.name:<9} {c.summary}" for c in COMMANDS)), end="")
        return 0 if words else UsageError.exit_code
    if words[0] == "--version":
        print(f"warpsight {__version__}")
        return 0
    module, arguments = parse(words)
    try:
        code: int = module.run(arguments)
    except WarpsightError as error:
        name_options(error, arguments.option_names, words)
        raise
    return code


def parse(words: list[str]) -> tuple[ModuleType, argparse.Namespace]:
    """The module that answers a command line, and its options, checked. Raises `UsageError`; runs nothing."""
    name = words[0]
    command = BY_NAME.get(name)
    if command is None:
        kind = "an option of warpsight" if name.startswith("-") else "a command"
        known = ["--help", "--version"] if name.startswith("-") else list(BY_NAME)
        raise UsageError(f'"{name}" is not {kind}{suggestion(name, known)}', remedy="`warpsight --help` lists the commands")
    rest = words[1:]
    if rest and rest[0] in command.parts:
        name, command, rest = f"{name} {rest[0]}", command.parts[rest[0]], rest[1:]
    module = importlib.import_module(command.module)
    parser = Parser(prog=f"warpsight {name}", description=f"{command.summary[0].upper()}{command.summary[1:]}.")
    module.configure(parser)
    arguments = parser.parse_strictly(rest)
    arguments.part_of_command = command.name
    arguments.command_line = words  # for `next:` lines
    arguments.option_names = parser.option_names()  # for errors
    return module, arguments


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stdout without a file descriptor needs no silencing
        return
