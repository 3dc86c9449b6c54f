"""`warpsight sweep status` and `collect`: the progress of a study, and the table of what is computed."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_result, terminal_style
from warpsight.reports.next_step import line
from warpsight.reports.sweep_plan import collected_text, plan_text
from warpsight.sweeps.folder import open_folder
from warpsight.sweeps.plan import plan_document, plan_sweep
from warpsight.sweeps.run import collected_document, open_store, with_known_failures, write_results


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", metavar="DIR", help="the study's folder (--out of `warpsight sweep`)")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    folder = open_folder(arguments.folder)
    plan = plan_sweep(folder.study, open_store(folder.results))
    refused = any(launch.refused for launch in plan.launches)
    complete = not (refused or plan.trace_tasks() or plan.row_tasks() or plan.simulator_tasks())
    if arguments.part_of_command == "status":
        document, text = plan_document(plan), plan_text
    else:
        write_results(with_known_failures(plan), folder)
        document, text = collected_document(folder), collected_text
    part, why = ("best", "the best designs") if complete else ("resume", "compute the missing results")
    return print_result(arguments, document, lambda: text(document, terminal_style()), line(["sweep", part, str(folder.path)], why))
