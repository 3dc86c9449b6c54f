"""`warpsight config`: the defaults of all commands: GPU, model, cache folder, unit of times; shown, kept and forgotten."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.base import diskcache, settings
from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import UNIT_SETTING, UNIT_VARIABLE, checked_unit, print_result, time_unit
from warpsight.gpu import default
from warpsight.gpu.catalog import catalog_path
from warpsight.gpu.loader import load_gpu
from warpsight.models.base import get_model
from warpsight.pipeline.request import DEFAULT_MODEL
from warpsight.reports.next_step import line
from warpsight.reports.terminal import Column, aligned

EXAMPLES = """\
examples:
  warpsight config
  warpsight config gpu rtx4090
  warpsight config model mdm
  warpsight config cache /scratch/warpsight
  warpsight config units us                              # every time in microseconds
  warpsight config gpu --clear
"""


def _gpu(text: str) -> str:
    """The name in the catalogue or the whole path, of a description that can be loaded."""
    load_gpu(text)
    known = catalog_path(text)
    return known.stem if known is not None else str(Path(text).resolve())


def _model(text: str) -> str:
    get_model(text)
    return text


def _folder(text: str) -> str:
    path = Path(text).expanduser().resolve()
    if path.exists() and not path.is_dir():
        raise UsageError("is a file, not a folder", place=text, remedy="name a folder")
    return str(path)


@dataclass(frozen=True)
class Setting:
    """A setting: its environment variable, which wins, the value without any choice, what it is, and how a choice is checked."""

    variable: str
    present: Callable[[], str]
    meaning: str
    checked: Callable[[str], str]


SETTINGS = {
    "gpu": Setting(default.VARIABLE, lambda: default.chosen_gpu().gpu, "the GPU of commands without --gpu", _gpu),
    "model": Setting(options.MODEL_VARIABLE, options.default_model, "the model of commands without --model", _model),
    "cache": Setting("WARPSIGHT_CACHE", lambda: str(diskcache.folder()), "the folder of compiled kernels and results", _folder),
    UNIT_SETTING: Setting(UNIT_VARIABLE, time_unit, "the unit of times in text: auto, s, ms, us or ns",
                          lambda text: checked_unit(text, UNIT_SETTING)),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", metavar="SETTING", nargs="?", choices=tuple(SETTINGS),
                        help="gpu, model, cache or units (default: all)")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="the new value: a GPU's name or description file, a model's name "
                        f"(built in: {DEFAULT_MODEL}), a folder, a unit of times (auto, s, ms, us, ns)")
    parser.add_argument("--clear", action="store_true", help="remove the setting")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Keep or forget one setting, then show all, or the named one."""
    if arguments.clear and (arguments.name is None or arguments.value is not None):
        raise UsageError("needs the name of one setting, and no value", place="--clear", remedy="as `warpsight config gpu --clear`")
    if arguments.clear:
        settings.clear(arguments.name)
    elif arguments.value is not None:
        settings.keep(arguments.name, SETTINGS[arguments.name].checked(arguments.value))
    rows = [_row(name) for name in SETTINGS if arguments.name in (None, name)]
    document = {"folder": str(settings.folder()), "settings": rows}

    def text() -> str:
        columns = [Column(key, [str(row[key]) for row in rows], left=True) for key in ("setting", "value", "from", "meaning")]
        return "\n".join(aligned(columns, width=max(120, max(len(row["value"]) for row in rows) + 100)))

    return print_result(arguments, document, text, line(["config", "gpu", "rtx4090"], "keep a GPU as the default"))


def _row(name: str) -> dict[str, Any]:
    setting = SETTINGS[name]
    kept = settings.folder() / name
    source = setting.variable if os.environ.get(setting.variable) else str(kept) if kept.exists() else "built in"
    return {"setting": name, "value": setting.present(), "from": source, "meaning": setting.meaning}
