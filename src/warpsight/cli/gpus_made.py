"""`warpsight gpus import` and `gpus from-device`: from a simulator's configuration, from a GPU of this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json

if TYPE_CHECKING:
    from warpsight.gpu.importers.yaml_text import Imported


def configure(parts: Any) -> None:
    """Declare the two subcommands among `parts`."""
    imported = parts.add_parser("import", help="a description from a GPGPU-Sim or Accel-Sim configuration")
    imported.add_argument("files", metavar="FILE", nargs="+",
                          help="gpgpusim.config, trace.config and interconnect file, in any order")
    imported.add_argument("--shared-memory", metavar="SIZE", dest="carve_out",
                          help="shared memory of an SM where L1 and shared memory are one (default: the most that there is)")
    imported.add_argument("--policy", choices=("lrr", "gto"), help="the scheduler, in place of one that descriptions do not have")
    imported.add_argument("--pipeline-stages", metavar="N", default="2", dest="stages",
                          help="cycles between dependent instructions beside the latencies of trace.config, which are those of the "
                               "units alone (default: 2, as between 2 of the unit and the 4 measured on Volta and Turing)")
    device = parts.add_parser("from-device", help="a description of a GPU of this machine, from its driver")
    device.add_argument("--device", metavar="N", default="0", help="which GPU (default: 0)")
    for part in (imported, device):
        part.add_argument("-o", "--output", metavar="FILE", help="write the description there (default: to stdout)")
        options.add_json(part)


def _import(arguments: argparse.Namespace) -> int:
    """Read, write, and say what was carried over and what was not."""
    from pathlib import Path

    from warpsight.base.units import SIZE, parse_quantity
    from warpsight.gpu.importers.draft import Choices
    from warpsight.gpu.importers.gpgpusim import import_configuration

    carve_out = None
    if arguments.carve_out is not None:
        carve_out = int(parse_quantity(arguments.carve_out, SIZE, key="the carve-out", place="--shared-memory"))
    choices = Choices(carve_out, arguments.policy, count(arguments.stages, "--pipeline-stages", 64))
    name = Path(arguments.output).stem if arguments.output else ""
    return _answer(arguments, import_configuration(arguments.files, name=name, choices=choices))


def _from_device(arguments: argparse.Namespace) -> int:
    """Ask the driver, write, and say what must be calibrated."""
    from pathlib import Path

    from warpsight.gpu.importers.device import describe_device

    name = Path(arguments.output).stem if arguments.output else ""
    return _answer(arguments, describe_device(count(arguments.device, "--device", 1024), name=name))


def count(text: str, place: str, most: int) -> int:
    """A whole number from 0 to `most`."""
    from warpsight.base.errors import UsageError

    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= most):
        raise UsageError(f'"{text}" is not a whole number from 0 to {most}', place=place, remedy="write a number")
    return int(text)


def _answer(arguments: argparse.Namespace, made: Imported) -> int:
    """The description to its file or to stdout; the answer names every key with its source."""
    from pathlib import Path

    from warpsight.base.errors import UsageError
    from warpsight.gpu.importers.yaml_text import made_yaml
    from warpsight.gpu.values import value_text
    from warpsight.report.gpu_text import made_text
    from warpsight.report.next_step import line

    text = made_yaml(made)
    if arguments.output:
        try:
            Path(arguments.output).write_text(text, "utf-8")
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise UsageError(what, place=arguments.output, remedy="name another file with -o") from None
    rows = {key: {"value": value_text(key, value.content), "source": value.source} for key, value in made.values.items()}
    document = {
        "name": made.name, "description": made.description, "files": list(made.files), "output": arguments.output,
        "like": made.like, "values": rows, "notes": list(made.notes),
    }  # fmt: skip
    if arguments.json:
        print_json([document])
    elif arguments.output:
        print_answer(made_text(document), line(["gpus", "check", arguments.output], "whether the description is sound"))
    else:
        print(f"{text.rstrip()}\n# {line([*arguments.command_line, '-o', 'mine.yaml'], 'keep it as a GPU description')}")
    return 0


PARTS = {"import": _import, "from-device": _from_device}
