"""The interconnect file of GPGPU-Sim (BookSim 2): `name = value;` lines with `//` comments."""

from __future__ import annotations

import re
from pathlib import Path

from warpsight.base.errors import FormatError
from warpsight.gpu.importers.option_files import Option

_ENTRY = re.compile(r"(\w+)\s*=\s*(.+?)\s*;?", re.DOTALL | re.ASCII)


def looks_like_network(text: str) -> bool:
    """Whether the first thing in `text` that is no comment is `name = ...`."""
    for raw in text.split("\n"):
        line = raw.partition("//")[0].partition("#")[0].strip()
        if line:
            return re.match(r"\w+\s*=", line, re.ASCII) is not None
    return False


def read_network(path: Path, text: str) -> dict[str, Option]:
    """The settings by name. Raises FormatError, with the line, for a line that is no setting."""
    settings: dict[str, Option] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        for part in raw.partition("//")[0].split(";"):
            if not part.strip():
                continue
            found = _ENTRY.fullmatch(part.strip())
            if found is None:
                what = f'"{part.strip()[:60]}" is not a setting of a network'
                raise FormatError(what, place=f"{path}:{number}", remedy="write `name = value;`, comments after //")
            settings[found[1]] = Option(found[1], found[2], f"{path}:{number}", f"{path.name}:{number} {found[1]}")
    return settings
