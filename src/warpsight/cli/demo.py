"""`warpsight demo`: a loop at two strides, side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_answer, print_json, print_result, terminal_style
from warpsight.gpu.default import STUDY_GPU
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.demo.run import LAUNCHES, predictions, save
from warpsight.reports.next_step import line
from warpsight.reports.prediction import demo_text

EXAMPLES = """\
examples:
  warpsight demo
  warpsight demo --gpu gpumech --json
  warpsight demo --save my-demo && warpsight predict my-demo/stride32.yaml
"""
_MODEL = "mdm"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_gpu(parser, STUDY_GPU)
    parser.add_argument("--model", metavar="NAME", default=_MODEL, help=f"the performance model (default {_MODEL}, that of the "
                        "paper)")
    parser.add_argument("--save", metavar="DIR", help="write the kernel and its launch files into DIR instead of running them")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the demonstration, or save its files."""
    if arguments.save:
        paths = [str(path) for path in save(arguments.save)]
        following = line(["predict", str(Path(arguments.save) / "stride32.yaml"), "--model", arguments.model])
        return print_result(arguments, {"files": paths}, lambda: "\n".join(f"wrote {path}" for path in paths), following)
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    with ProgressBar() as bar:
        documents = [answer.to_json() for answer in predictions(gpu, [arguments.model], watch=bar.watch)]
    if arguments.json:
        print_json(documents)
    else:
        following = line(["demo", "--save", "my-demo"], "save the kernel and its launch files, to change and predict")
        print_answer(demo_text(documents, list(LAUNCHES), terminal_style()), following)
    return 0
