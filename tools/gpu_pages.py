"""Writes docs/gpus/ from the catalogue's descriptions: a page for each GPU, and the list of them.

Usage: python tools/gpu_pages.py [--check]

`--check` only tells which pages would change (exit code 1). A page without a GPU is removed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from warpsight.gpu.catalog import catalog_names
from warpsight.gpu.loader import load_gpu
from warpsight.reports.gpus import gpu_page, index_page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gpus"
COMMAND = "python tools/gpu_pages.py"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    gpus = [load_gpu(name) for name in catalog_names()]
    return {"README.md": index_page(gpus, COMMAND)} | {f"{gpu.name}.md": gpu_page(gpu, COMMAND) for gpu in gpus}


def stale(folder: Path) -> list[str]:
    """The names of pages in `folder` that are missing, different or without a GPU."""
    wanted = pages()
    there = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(words: list[str]) -> int:
    """Write or check the pages."""
    changed = stale(FOLDER)
    if "--check" in words:
        print(f"out of date: {', '.join(changed)}: run {COMMAND}" if changed else "the pages are up to date")
        return 1 if changed else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for name in changed:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], "utf-8")
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
