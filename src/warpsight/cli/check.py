"""`warpsight check`: what is wrong with a kernel, or with a whole CUDA program."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import Any

from warpsight.base.errors import LaunchFault, UnsupportedError, UsageError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, terminal_style, write_output
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.checking import ALL, check_kernel, check_program, parse_tools
from warpsight.pipeline.request import DEFAULT_MAX_INSTRUCTIONS
from warpsight.reports.findings import findings_sarif, findings_text
from warpsight.reports.formats import json_text
from warpsight.reports.terminal import PLAIN

TEXT, JSON, SARIF = FORMATS = ("text", "json", "sarif")

EXAMPLES = """\
examples:
  warpsight check reduce.cu --grid 64 --block 256 --arg 'f32[16384]:uniform' --arg 'f32[64]:zeros'
  warpsight check launch.yaml --tool racecheck,memcheck --format sarif -o findings.sarif
  warpsight check launch.yaml --order 20                       # are the results the same in 20 other orders?
  warpsight check -- ./program --its options                   # a program built with nvcc
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "warpsight check [options] KERNEL\n       warpsight check [options] -- PROGRAM [ARGUMENT ...]"
    options.add_kernel(parser, check=False)
    parser.add_argument("more", metavar="ARGUMENT", nargs="*", help="after `-- PROGRAM`: the program's own arguments")
    parser.add_argument("--tool", metavar="NAME[,NAME]", default=ALL, help="memcheck, racecheck, initcheck, synccheck, or all "
                        "(default)")
    parser.add_argument("--order", metavar="N", type=options.whole, default=0, help="compare the results with those of N other "
                        "orders of blocks, warps and lanes")
    parser.add_argument("--gpu", metavar="NAME|FILE", help="the GPU that a program sees, and whose machine code is executed (see "
                        "--level)")
    parser.add_argument("--format", choices=FORMATS, default=TEXT, help="text as of compute-sanitizer (default), the result "
                        "document, or SARIF 2.1.0 for code scanning and editors")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="write the report to FILE (default: stdout)")
    parser.add_argument("--strict", action="store_true", help="exit with 5 for warnings too")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check, and print the report: 5 if errors are found, else for a program its own exit code, or 3 if something of it is not
    modelled.
    """
    tools = parse_tools(arguments.tool)
    form = JSON if arguments.json else arguments.format
    words = arguments.command_line
    to_file = arguments.output != "-"
    if "--" in words:
        stdout = None if to_file or form == TEXT else sys.stderr
        document = _check_program(arguments, tools, words[words.index("--") + 1 :], stdout)
    else:
        _refuse_program(arguments)
        arguments.check = True
        request = options.kernel_request(arguments)
        with ProgressBar() as bar:
            gpu = None if arguments.gpu is None else load_gpu(arguments.gpu)
            document = check_kernel(request, tools, gpu=gpu, orders=arguments.order, watch=bar.watch).document
    _write(arguments, document, form)
    totals = document["totals"]
    if totals["errors"] or (arguments.strict and totals["warnings"]):
        return LaunchFault.exit_code
    code = int(document["exit_code"])
    return UnsupportedError.exit_code if code == 0 and document.get("refused") else code


def _refuse_program(arguments: argparse.Namespace) -> None:
    """Raise UsageError where a program was meant, and `--` forgotten."""
    whole = shlex.join(["warpsight", "check", "--", arguments.path, *arguments.more])
    if arguments.more:
        raise UsageError(f'unexpected argument "{arguments.more[0]}"', remedy=f"a program comes after --: {whole}")
    path = arguments.path
    is_program = os.path.isfile(path) and os.access(path, os.X_OK) and not path.endswith((".py", ".yaml", ".yml", ".cu", ".ptx"))
    if is_program and arguments.grid is None:
        remedy = f"for the whole program: {whole}; for a kernel of it give --kernel, --grid and --block"
        raise UsageError("is a program, and no launch of one of its kernels is given", place=path, remedy=remedy)


_OF_PROGRAMS = ("tool", "order", "gpu", "format", "output", "strict", "json", "level", "max_instructions", "verbose")


def _check_program(arguments: argparse.Namespace, tools: frozenset[str], command: list[str], stdout: Any) -> dict[str, Any]:
    """The result document of a program. Raises UsageError for options that say how a kernel is compiled or launched."""
    if not command:
        raise UsageError("is missing", place="PROGRAM", remedy="`warpsight check -- ./program arguments`")
    for name, option in arguments.option_names.items():
        if name not in _OF_PROGRAMS and getattr(arguments, name, None) is not None:
            raise UsageError("is for a kernel; a program makes its launches itself", place=option, remedy="leave it out")
    if arguments.path != command[0]:
        remedy = "options come before --, the program and its arguments after"
        raise UsageError(f'unexpected argument "{arguments.path}"', remedy=remedy)
    return check_program(
        command, load_gpu(arguments.gpu), tools, level=arguments.level, orders=arguments.order,
        max_instructions=arguments.max_instructions or DEFAULT_MAX_INSTRUCTIONS, stdout=stdout,
    ).document


def _write(arguments: argparse.Namespace, document: dict[str, Any], form: str) -> None:
    to_file = arguments.output != "-"
    if form == TEXT:
        text = findings_text(document, PLAIN if to_file else terminal_style(), os.getcwd())
    else:
        text = json_text(document if form == JSON else findings_sarif([document], os.getcwd()))
    if to_file:
        write_output(arguments.output, text + "\n", "-o")
    else:
        print(text)
