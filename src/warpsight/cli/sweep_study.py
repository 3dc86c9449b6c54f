"""`warpsight sweep status`, `resume` and `collect`: work on a study's folder."""

from __future__ import annotations

import argparse

from warpsight.cli import options, sweep
from warpsight.cli.output import print_answer, print_json, terminal_style
from warpsight.reports.next_step import line
from warpsight.reports.sweep_plan import collected_text, plan_text
from warpsight.sweeps.folder import open_folder
from warpsight.sweeps.plan import plan_document, plan_sweep
from warpsight.sweeps.run import collected_document, open_store, with_known_failures, write_results


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", metavar="DIR", help="the study's folder (--out of `warpsight sweep`)")
    if parser.prog.endswith(" resume"):
        sweep.add_running(parser, results=False)
    else:
        options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    folder = open_folder(arguments.folder)
    if arguments.part_of_command == "resume":
        return sweep.compute(folder, arguments)
    plan = plan_sweep(folder.study, open_store(folder.results))
    refused = any(launch.refused for launch in plan.launches)
    complete = not (refused or plan.trace_tasks() or plan.row_tasks() or plan.simulator_tasks())
    if arguments.part_of_command == "status":
        document, text = plan_document(plan), plan_text
    else:
        write_results(with_known_failures(plan), folder)
        document, text = collected_document(folder), collected_text
    if arguments.json:
        print_json([document])
    else:
        following = ("best", "the best designs") if complete else ("resume", "compute the missing results")
        print_answer(text(document, terminal_style()), line(["sweep", following[0], str(folder.path)], following[1]))
    return 0
