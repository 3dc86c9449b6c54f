"""`warpsight models`: list and show the performance models."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_result
from warpsight.cli.parser import Parser
from warpsight.pipeline.installation import describe_model, list_models
from warpsight.reports.catalogue import model_list_text, model_text
from warpsight.reports.formats import json_text
from warpsight.reports.next_step import line

EXAMPLES = """\
examples:
  warpsight models list
  warpsight models show mdm
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    parts = parser.add_subparsers(dest="part", metavar="list|show", required=True, parser_class=Parser)
    listing = parts.add_parser("list", help="list all models, including plug-ins")
    show = parts.add_parser("show", help="show a model: equations, inputs, assumptions and limitations")
    show.add_argument("model", metavar="NAME")
    for part in (listing, show):
        options.add_json(part)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    if arguments.part == "list":
        documents = list_models()
        if arguments.json:
            print(json_text(documents))
        else:
            print_answer(model_list_text(documents), line(["models", "show", documents[0]["name"]], "its equations and inputs"))
        return 0
    document = describe_model(arguments.model)
    following = line(["demo", "--model", arguments.model], "its predictions for two access patterns")
    return print_result(arguments, document, lambda: model_text(document), following)
