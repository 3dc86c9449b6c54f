"""The command `warpsight`: finds the command's module, runs it, and turns errors into one clear message and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from warpsight._version import __version__
from warpsight.base.errors import UsageError, WarpsightError, suggestion
from warpsight.cli.commands import BY_NAME, COMMANDS
from warpsight.cli.parser import Parser

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
    code: int = module.run(arguments)
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
    return module, arguments


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stdout without a file descriptor needs no silencing
        return
