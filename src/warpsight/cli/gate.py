"""`warpsight gate`: the kernels of a project file predicted and compared with a base, for CI and before a commit."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsight.analysis.regression import base_seconds, compared, predict_project
from warpsight.analysis.report_data.files import write_report
from warpsight.analysis.report_data.kernel import Parts, advised_report_data
from warpsight.analysis.what_if import NONE
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, terminal_style, write_output
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.checking import check_kernel
from warpsight.pipeline.project_file import NAME, Project, ProjectKernel, read_project
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.findings import findings_sarif, findings_text
from warpsight.reports.formats import json_text, plain
from warpsight.reports.gate import gate_markdown, gate_text
from warpsight.reports.html.page import checked_page
from warpsight.reports.next_step import line

GATE_FAILED = 1

EXAMPLES = """\
examples:
  warpsight gate                                           # the kernels of warpsight.yaml
  warpsight gate --base main -o gate                       # compared with a branch; results.json and summary.md in gate/
  warpsight gate --base gate/results.json --reports --check -o now
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("path", metavar="PROJECT", nargs="?", default=NAME, help=f"the project file (default {NAME})")
    parser.add_argument("--base", metavar="COMMIT|FILE.json", help="compare with a commit, branch or tag of the repository, or "
                        "with the results.json of an earlier run")
    parser.add_argument("-o", "--output", metavar="DIR", help="write results.json and summary.md (a table for a pull request) to "
                        "this folder")
    parser.add_argument("--reports", action="store_true", help="also write an HTML report of each kernel on each GPU to the folder")
    parser.add_argument("--check", action="store_true", help="also check each kernel as `warpsight check`, and fail for "
                        "errors; SARIF goes to the folder, without -o the findings to stderr")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict, compare and print; exit code 1 if a kernel is slower than its limit allows, refused, or wrong."""
    if arguments.reports and not arguments.output:
        raise UsageError("needs a folder for its files", place="--reports", remedy="add -o DIR")
    project = read_project(arguments.path)
    with ProgressBar() as bar:
        before = None if arguments.base is None else base_seconds(arguments.base, project, watch=bar.watch)
        document = compared(predict_project(project, watch=bar.watch), before, arguments.base or "")
        if arguments.check:
            document["check"] = _checked(project.kernels, arguments.output)
            document["passed"] &= not any(row["errors"] for row in document["check"])
        if arguments.reports:
            _write_reports(project, document, arguments.output)
    document = plain(document)
    if arguments.output:
        write_output(_file(arguments.output, "results.json"), json_text(document) + "\n", "-o")
        write_output(_file(arguments.output, "summary.md"), gate_markdown(document), "-o")
    if arguments.json:
        print_json([document])
    else:
        print_answer(gate_text(document, terminal_style()), _next(project, document))
    return 0 if document["passed"] else GATE_FAILED


def _file(folder: str, name: str) -> str:
    """A file's path in the folder, which is made if it is not there. Raises UsageError."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be made: {error.strerror}", place=folder, remedy="name another folder with -o") from None
    return os.path.join(folder, name)


def _checked(kernels: Sequence[ProjectKernel], folder: str | None) -> list[dict[str, Any]]:
    """How many errors and warnings each kernel has. The findings of all go to one SARIF file, or as text to stderr."""
    rows, checked = [], []
    for kernel in kernels:
        row = {"kernel": kernel.name, "errors": 0, "warnings": 0, "refused": ""}
        try:
            found = check_kernel(kernel.request()).document
        except WarpsightError as error:
            rows.append(row | {"refused": str(error).splitlines()[0]})
            continue
        checked.append(found)
        rows.append(row | {name: found["totals"][name] for name in ("errors", "warnings")})
        if not folder and found["findings"]:
            print(findings_text(found, root=os.getcwd()), file=sys.stderr)
    if folder and checked:
        write_output(_file(folder, "check.sarif"), json_text(findings_sarif(checked, os.getcwd())) + "\n", "-o")
    return rows


def _write_reports(project: Project, document: dict[str, Any], folder: str) -> None:
    """An HTML report of each kernel on each GPU that there is a prediction for."""
    for (kernel, name), row in zip(project.pairs(), document["rows"], strict=True):
        if row["seconds"] is not None:
            gpu, request = load_gpu(name), kernel.request()
            trace = obtain_trace(request, gpu=gpu)
            report = advised_report_data(trace, gpu, project.model, parts=Parts(what_if=NONE), request=request)
            write_report(_file(folder, f"{row['kernel']}-{row['gpu']}.html"), checked_page(plain(report), request.path))


def _next(project: Project, document: dict[str, Any]) -> str:
    wrong = [row["kernel"] for row in document.get("check", ()) if row["errors"]]
    if wrong and all(row["verdict"] != "slower" for row in document["rows"]):
        kernel = next(each for each in project.kernels if each.name == wrong[0])
        return line(["check", kernel.launch], f"what is wrong with {kernel.name}")
    rows = zip(project.pairs(), document["rows"], strict=True)
    (kernel, gpu), _ = max(rows, key=lambda each: (each[1]["change"] or 0.0, each[1]["seconds"] or 0.0))
    return line(["explain", kernel.launch, "--gpu", gpu], f"where the cycles of {kernel.name} are")
