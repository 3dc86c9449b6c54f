"""`warpsight doctor`: what this installation can do."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_result
from warpsight.cli.parser import Parser
from warpsight.pipeline.installation import environment, instruction_table, native_table
from warpsight.reports.catalogue import environment_text, instructions_text, native_rows_text, native_text
from warpsight.reports.formats import json_text
from warpsight.reports.next_step import line

EXAMPLES = """\
examples:
  warpsight doctor
  warpsight doctor --isa
  warpsight doctor --isa sass
"""


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--isa", nargs="?", const="ptx", choices=("ptx", "sass"), help="list all PTX opcodes: supported or not, op "
                        "class, and why not; with sass those of machine code")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table of instructions, or the tools found on this machine."""
    if arguments.isa:
        native = native_table()
        rows = native if arguments.isa == "sass" else instruction_table()
        if arguments.json:
            print(json_text(rows))
        else:
            text = native_rows_text(native) if arguments.isa == "sass" else instructions_text(rows)
            print_answer(f"{text}\n\n{native_text(native)}", line(["demo"], "run a kernel on this machine"))
        return 0
    document = environment()
    following = line(["doctor", "--isa"], "list the supported PTX instructions")
    return print_result(arguments, document, lambda: environment_text(document), following)
