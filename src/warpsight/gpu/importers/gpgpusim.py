"""A configuration of GPGPU-Sim and Accel-Sim as a GPU description (`warpsight gpus import`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.gpu.importers.booksim import looks_like_network, read_network
from warpsight.gpu.importers.checks import check_sizes
from warpsight.gpu.importers.draft import Choices, Draft
from warpsight.gpu.importers.issue_options import check_warps, put_ops, put_sms
from warpsight.gpu.importers.memory_options import put_dram, put_l1, put_l2, put_noc
from warpsight.gpu.importers.not_carried import rest
from warpsight.gpu.importers.option_files import Option, Options, read_options, read_text
from warpsight.gpu.importers.yaml_text import Imported
from warpsight.gpu.keys import KEYS


def import_configuration(paths: Sequence[str | Path], *, name: str = "", choices: Choices | None = None) -> Imported:
    """Reads `gpgpusim.config`, `trace.config` and interconnect files, in any order, told apart by what is in them.

    Of `-network_mode 1` the interconnect file that the configuration names is read from beside it, if it is there and none is
    given. Latencies and times are in core cycles; how each number follows from which line is its source. `name` is by default that
    of the folder of the first file. Raises UsageError (no file, cannot be read), FormatError (`file:line`: damaged, or something is
    missing), SpecError (a number that no description can have, sizes that do not fit together).
    """
    if not paths:
        raise UsageError("no configuration", remedy="name gpgpusim.config, and trace.config with it if there is one")
    options, network = _read([Path(path) for path in paths])
    draft = Draft(options, choices or Choices())
    put_sms(draft)
    check_warps(draft)
    put_ops(draft)
    put_l1(draft)
    put_l2(draft)
    put_noc(draft, network)
    put_dram(draft)
    check_sizes(draft.values)
    first = Path(paths[0])
    folder = first.resolve().parent.name or first.stem
    values = {key: draft.values[key] for key in KEYS if key in draft.values}
    files = tuple(options.files)
    title = f"imported from the GPGPU-Sim configuration {folder}"
    notes = tuple(dict.fromkeys((*draft.notes, *rest(options))))
    return Imported(name or re.sub(r"[^a-z0-9.]+", "-", folder.lower()), title, files, values, notes)


def _read(paths: list[Path]) -> tuple[Options, dict[str, Option]]:
    """Options and the settings of the network of all files."""
    options, network = Options([str(path) for path in paths]), dict[str, Option]()
    for path in paths:
        text = read_text(path)
        if looks_like_network(text):
            network |= read_network(path, text)
        else:
            read_options(path, text, options)
    named = options.get("-inter_config_file")
    if not network and named is not None and options.default("1", "-network_mode").value == "1":
        beside = Path(named.place.rpartition(":")[0]).parent / named.value
        if beside.is_file():
            options.files.append(str(beside))
            network = read_network(beside, read_text(beside))
    return options, network

