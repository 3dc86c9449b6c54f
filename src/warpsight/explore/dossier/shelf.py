"""The results of a folder, for a server that shows them: prediction files, dossiers, studies. They are read, never written."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.explore.dossier.results import dossier_of_file
from warpsight.explore.dossier.study import study_dossier
from warpsight.explore.sweep.folder import RESULTS, STUDY, is_study
from warpsight.explore.sweep.result import Sweep
from warpsight.trace.store_schema import HEADER as TRACE_HEADER

RESULT, STUDY_KIND = "result", "study"
_DEEPEST = 6


@dataclass(frozen=True)
class Item:
    """A result: `ident` for addresses, `name` within the folder, `kind` (result or study), `stamp` that changes when it does."""

    ident: str
    name: str
    kind: str
    stamp: str


class Shelf:
    """The results below `folder`. Raises UsageError when it is none."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise UsageError("is no folder", place=str(folder), remedy="give the folder with your results")

    def items(self) -> list[Item]:
        """What is there now, by name. Files that are no JSON of results are found too: their page says what is wrong."""
        found = []
        for path, kind in self._paths():
            name = path.relative_to(self.folder).as_posix()
            ident = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
            found.append(Item(ident, name, kind, _stamp(path, kind)))
        return sorted(found, key=lambda item: item.name)

    def item(self, ident: str) -> Item | None:
        """The result of that ident; None when there is none (any more)."""
        return next((item for item in self.items() if item.ident == ident), None)

    def dossier(self, item: Item) -> dict[str, Any]:
        """The document of a result. Raises UsageError and FormatError for one that cannot be read."""
        path = self.folder / item.name
        return study_dossier(Sweep.open(path)) if item.kind == STUDY_KIND else dossier_of_file(str(path))

    def _paths(self) -> Iterator[tuple[Path, str]]:
        """Studies and JSON files; not those within studies, traces and hidden folders, and no links, which may lead out."""
        for at, folders, files in os.walk(self.folder):
            here = Path(at)
            if is_study(here):
                folders.clear()
                yield here, STUDY_KIND
                continue
            if TRACE_HEADER in files:
                folders.clear()
                continue
            deep = len(here.relative_to(self.folder).parts) >= _DEEPEST
            folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
            yield from ((here / name, RESULT) for name in files if name.endswith(".json") and _is_own_file(here / name))


def _is_own_file(path: Path) -> bool:
    """No link, and nothing that waits for a writer, as a pipe does."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # it has gone meanwhile
        return False


def _stamp(path: Path, kind: str) -> str:
    """Changes whenever a file of the result is written."""
    parts = [path / STUDY, path / RESULTS] if kind == STUDY_KIND else [path]
    told = []
    for part in parts:
        try:
            status = part.stat()
        except OSError:
            continue
        told.append(f"{status.st_mtime_ns}-{status.st_size}")
    return ".".join(told)
