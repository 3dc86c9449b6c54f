"""`warpsight gpus`: list, show, compare and check GPU descriptions, choose the default GPU, and import descriptions.

They come from a simulator's configuration or from a local GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpsight.base import settings
from warpsight.base.errors import SpecError, UsageError
from warpsight.base.units import SIZE, parse_quantity
from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json, print_result, terminal_style, write_output
from warpsight.cli.parser import Parser
from warpsight.gpu.catalog import catalog_path
from warpsight.gpu.comparison import compared
from warpsight.gpu.default import FALLBACK, SETTING, VARIABLE, choice_file, chosen_gpu
from warpsight.gpu.describe import Imported, dump_yaml, list_gpus, made_yaml, resolved
from warpsight.gpu.document import value_text
from warpsight.gpu.importers.device import describe_device
from warpsight.gpu.importers.gpgpusim import import_configuration
from warpsight.gpu.importers.gpgpusim_sm import Choices
from warpsight.gpu.loader import check_gpu, load_gpu
from warpsight.reports.formats import json_text
from warpsight.reports.gpus import default_gpu_text, gpu_comparison_text, gpu_list_text, made_text, problems_text
from warpsight.reports.next_step import line


def _import(arguments: argparse.Namespace) -> int:
    """Import, write, and list what was and what was not carried over."""
    carve_out = None
    if arguments.carve_out is not None:
        carve_out = int(parse_quantity(arguments.carve_out, SIZE, key="the carve-out", place="--shared-memory"))
    choices = Choices(carve_out, arguments.policy, count(arguments.stages, "--pipeline-stages", 64))
    name = Path(arguments.output).stem if arguments.output else ""
    return _answer_import(arguments, import_configuration(arguments.files, name=name, choices=choices))


def _from_device(arguments: argparse.Namespace) -> int:
    """Query the driver, write, and list what must be calibrated."""
    name = Path(arguments.output).stem if arguments.output else ""
    return _answer_import(arguments, describe_device(count(arguments.device, "--device", 1024), name=name))


def count(text: str, place: str, most: int) -> int:
    """A whole number from 0 to `most`."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= most):
        raise UsageError(f'"{text}" is not a whole number from 0 to {most}', place=place, remedy="write a number")
    return int(text)


def _answer_import(arguments: argparse.Namespace, made: Imported) -> int:
    """Write the description to its file or to stdout; the answer lists every key with its source."""
    text = made_yaml(made)
    if arguments.output:
        write_output(arguments.output, text, "-o")
    rows = {key: {"value": value_text(key, value.content), "source": value.source} for key, value in made.values.items()}
    document = {
        "name": made.name, "description": made.description, "files": list(made.files), "output": arguments.output,
        "like": made.like, "values": rows, "notes": list(made.notes),
    }  # fmt: skip
    if arguments.json:
        print_json([document])
    elif arguments.output:
        print_answer(made_text(document), line(["gpus", "check", arguments.output], "check the description"))
    else:
        print(f"{text.rstrip()}\n# {line([*arguments.command_line, '-o', 'mine.yaml'], 'save it as a GPU description')}")
    return 0


# -- The command and its other subcommands.

EXAMPLES = """\
examples:
  warpsight gpus list
  warpsight gpus show mdm-pascal > my-gpu.yaml
  warpsight gpus show mdm-pascal --set sm_count=56
  warpsight gpus compare a100 h100-sxm b200
  warpsight gpus use rtx4090
  warpsight gpus use --clear
  warpsight gpus check my-gpu.yaml
  warpsight gpus import gpgpusim.config trace.config -o my-gpu.yaml
  warpsight gpus from-device -o my-gpu.yaml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    metavar = "list|show|compare|use|check|import|from-device"
    parts = parser.add_subparsers(dest="part", metavar=metavar, required=True, parser_class=Parser)
    listing = parts.add_parser("list", help="list the catalogue")
    show = parts.add_parser("show", help="print a GPU's description as YAML: every value with its source")
    show.add_argument("gpu", metavar="NAME|FILE")
    show.add_argument("--set", metavar="KEY=VALUE", dest="overrides", action="append", default=[],
                      help="change one key (repeatable)")
    compare = parts.add_parser("compare", help="GPUs side by side: peak rates, sizes, limits, latencies, and the keys that differ")
    compare.add_argument("gpus", metavar="NAME|FILE", nargs="+", help="two GPUs or more; ratios are to the first")
    use = parts.add_parser("use", help="set the default GPU, or show it",
                           description=f"The GPU of a command is that of --gpu, else that of {VARIABLE}, else the one chosen here, "
                           f"else {FALLBACK}. The choice is kept in ~/.config/warpsight/gpu; XDG_CONFIG_HOME or WARPSIGHT_CONFIG "
                           "move that folder.")
    use.add_argument("gpu", metavar="NAME|FILE", nargs="?", help="the new default GPU (without it, the current one is shown)")
    use.add_argument("--clear", action="store_true", help="remove the setting")
    check = parts.add_parser("check", help="list all errors of a description; exit code 2 if there are any")
    check.add_argument("gpu", metavar="NAME|FILE")
    for part in (listing, show, compare, use, check):
        options.add_json(part)
    imported = parts.add_parser("import", help="import a GPGPU-Sim or Accel-Sim configuration")
    imported.add_argument("files", metavar="FILE", nargs="+",
                          help="gpgpusim.config, trace.config and interconnect file, in any order")
    imported.add_argument("--shared-memory", metavar="SIZE", dest="carve_out",
                          help="shared memory of an SM with a unified L1 and shared memory (default: the maximum)")
    imported.add_argument("--policy", choices=("lrr", "gto"), help="the warp scheduler, if the configuration's is not supported")
    imported.add_argument("--pipeline-stages", metavar="N", default="2", dest="stages",
                          help="cycles between dependent instructions in addition to the unit latencies of trace.config "
                               "(default: 2; 2 of the unit plus 2 are the 4 measured on Volta and Turing)")
    device = parts.add_parser("from-device", help="describe a GPU of this machine, from its driver")
    device.add_argument("--device", metavar="N", default="0", help="the GPU's number (default: 0)")
    for part in (imported, device):
        part.add_argument("-o", "--output", metavar="FILE", help="write the description to FILE (default: stdout)")
        options.add_json(part)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    parts = {"list": _list, "show": _show, "compare": _compare, "use": _use, "check": _check, "import": _import,
             "from-device": _from_device}  # fmt: skip
    return parts[arguments.part](arguments)


def _list(arguments: argparse.Namespace) -> int:
    documents = [{"name": gpu.name, "description": gpu.description} for gpu in list_gpus()]
    if arguments.json:
        print(json_text(documents))
    else:
        print_answer(gpu_list_text(documents), line(["gpus", "show", documents[0]["name"]], "its values and their sources"))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    if arguments.json:
        print_json([resolved(gpu)])
    else:
        # the last line is a comment, so that the answer can be kept as a description
        print(f"{dump_yaml(gpu).rstrip()}\n# {line(['demo', '--gpu', arguments.gpu], 'the demonstration on this GPU')}")
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    if len(arguments.gpus) < 2:
        raise UsageError("needs two GPUs or more", place="gpus compare", remedy="as `warpsight gpus compare a100 h100-sxm`")
    document = compared([load_gpu(gpu) for gpu in arguments.gpus])
    following = line(["gpus", "show", arguments.gpus[-1]], "where its values come from")
    return print_result(arguments, document, lambda: gpu_comparison_text(document, terminal_style()), following)


def _use(arguments: argparse.Namespace) -> int:
    """Keep or clear the choice, then say which GPU is the default now, and why."""
    if arguments.clear and arguments.gpu is not None:
        raise UsageError("cannot be combined with a GPU", place="--clear", remedy="leave one of them out")
    if arguments.clear:
        settings.clear(SETTING)
    elif arguments.gpu is not None:
        load_gpu(arguments.gpu)  # what does not load is not kept
        known = catalog_path(arguments.gpu)
        settings.keep(SETTING, known.stem if known is not None else str(Path(arguments.gpu).resolve()))
    chosen = chosen_gpu()
    gpu = load_gpu(None)
    other = arguments.gpu is not None and chosen.place == VARIABLE
    document = {
        "gpu": chosen.gpu, "name": gpu.name, "description": gpu.description, "from": chosen.place or None,
        "file": str(choice_file()), "kept": arguments.gpu if other else None,
    }  # fmt: skip
    return print_result(arguments, document, lambda: default_gpu_text(document), line(["gpus", "show", chosen.gpu], "its values"))


def _check(arguments: argparse.Namespace) -> int:
    problems = [str(problem) for problem in check_gpu(arguments.gpu)]
    if arguments.json:
        print_json([{"gpu": arguments.gpu, "ok": not problems, "problems": problems}])
    elif problems:
        print(problems_text(arguments.gpu, problems), file=sys.stderr)
    else:
        print_answer(f"{arguments.gpu}: no problems", line(["demo", "--gpu", arguments.gpu], "the demonstration on this GPU"))
    return SpecError.exit_code if problems else 0
