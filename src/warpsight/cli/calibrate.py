"""`warpsight calibrate`: MWP-CWP's memory parameters of a GPU from timings of micro-benchmarks."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json

_EXAMPLES = """\
examples:
  warpsight calibrate timings.csv --gpu gtx280
  warpsight calibrate timings.csv --gpu mdm-pascal -o mine.yaml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    parser.add_argument("timings", metavar="CSV", help="one micro-benchmark a line: its launch, its instruction counts, its cycles")
    options.add_gpu(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write a GPU description that inherits from --gpu")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fit, print, and write the description."""
    from pathlib import Path

    from warpsight.base.errors import UsageError
    from warpsight.explore.calibration import calibrate, description, read_timings
    from warpsight.gpu.loader import load_gpu
    from warpsight.report.calibration_text import calibration_text
    from warpsight.report.next_step import line

    if arguments.output and arguments.overrides:
        what = "a description that inherits from --gpu would not have what --set changed"
        raise UsageError(what, place="--set", remedy="leave out -o, or put the change into a description of your own")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    document = calibrate(read_timings(arguments.timings), gpu)
    if arguments.output:
        path = Path(arguments.output)
        like = arguments.gpu if not Path(arguments.gpu).exists() else str(Path(arguments.gpu).resolve())
        try:
            path.write_text(description(document, like, path.stem), "utf-8")
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", place=str(path), remedy="name another file with -o") from None
    if arguments.json:
        print_json([document])
    elif arguments.output:
        print_answer(calibration_text(document), line(["gpus", "show", arguments.output], "the description that was written"))
    else:
        print_answer(calibration_text(document), line([*arguments.command_line, "-o", "mine.yaml"], "keep it as a GPU description"))
    return 0
