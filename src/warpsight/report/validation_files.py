"""The files of figures: data, picture and page, each written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.report.json_text import json_text
from warpsight.report.validation_page import figure_page, figure_svg, index_page

INDEX = "README.md"


def ready_folder(out: str) -> Path:
    """The folder `out`, made if need be. Raises UsageError when nothing can be written there, before hours are spent."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        raise _refused(folder, error) from None
    return folder


def write_figures(folder: Path, documents: Sequence[dict[str, Any]]) -> list[Path]:
    """NAME.json, NAME.svg and NAME.md for each document, and an index of all figures in the folder. The pages, in order."""
    pages = []
    for document in documents:
        name = document["figure"]
        _write(folder / f"{name}.json", document_text(document))
        _write(folder / f"{name}.svg", figure_svg(document))
        _write(folder / f"{name}.md", figure_page(document))
        pages.append(folder / f"{name}.md")
    _write(folder / INDEX, index_page(read_figures(folder)))
    return pages


def document_text(document: dict[str, Any]) -> str:
    """The document as JSON, one row of data a line: quick to read through, and small in a repository."""
    rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in document["rows"])
    head = json_text({**document, "rows": []})
    return head.replace('"rows": []', f'"rows": [\n  {rows}\n ]' if rows else '"rows": []', 1) + "\n"


def read_figures(folder: Path) -> list[dict[str, Any]]:
    """The documents in the folder, in the order of the list of figures."""
    from warpsight.explore.validation.figures.registry import figure_names

    found = []
    for name in figure_names():
        with suppress(OSError, ValueError):
            found.append(json.loads((folder / f"{name}.json").read_text("utf-8")))
    return found


def _write(path: Path, text: str) -> None:
    try:
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _refused(path, error) from None


def _umask() -> int:
    """The process's; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _refused(path: Path, error: OSError | ValueError) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"cannot be written: {reason}", place=str(path), remedy="name a folder of yours with --out")
