"""`warpsight doctor`: what this installation can do."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json
from warpsight.cli.parser import Parser

_EXAMPLES = """\
examples:
  warpsight doctor
  warpsight doctor --isa
"""


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    parser.add_argument("--isa", action="store_true", help="every PTX opcode: executed or not, op class, and why not")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table of instructions, or what was found on this machine."""
    from warpsight.explore.doctor import environment, instruction_table
    from warpsight.report.doctor_text import environment_text, instructions_text
    from warpsight.report.json_text import json_text
    from warpsight.report.next_step import line

    if arguments.isa:
        rows = instruction_table()
        if arguments.json:
            print(json_text(rows))
        else:
            print_answer(instructions_text(rows), line(["demo"], "a kernel on this machine"))
        return 0
    found = environment()
    if arguments.json:
        print_json([found])
    else:
        print_answer(environment_text(found), line(["doctor", "--isa"], "the PTX instructions that are executed"))
    return 0
