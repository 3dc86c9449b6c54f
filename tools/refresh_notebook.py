"""Runs the notebooks of the documentation again and stores their real outputs in them.

Usage: python tools/refresh_notebook.py [--check] [FILE ...]

A notebook is run from an empty folder by a kernel of this interpreter. `--check` only tells which ones would print other text than
what is stored (exit code 1). Pictures are stored and not compared. Needs `nbclient` and `ipykernel`, of the extra `test`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ("docs/notebooks/explore.ipynb",)

_CELL_SECONDS = 300
_TIMES = re.compile(r"\b\d[\d.,]* s\b")  # of this machine; times of kernels are in ns to ms


def read(path: Path) -> Any:
    """The notebook in `path`, of nbformat 4."""
    import nbformat

    return nbformat.read(path, as_version=4)


def run(notebook: Any, folder: Path) -> None:
    """Execute all cells in `folder`; their outputs go into `notebook`. Raises nbclient's CellExecutionError for one that fails."""
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, kernel_name="python3", timeout=_CELL_SECONDS, record_timing=False, resources=resources)
    with tempfile.TemporaryDirectory() as sockets:
        # files in place of ports: nobody else on this machine can listen, and two runs at once never meet
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{sockets}/kernel"
        client.execute()
    # which Python ran it is no part of the notebook
    notebook.metadata.pop("language_info", None)


def texts(notebook: Any) -> list[str]:
    """What each code cell printed and showed as text, times of this machine and what went to stderr left out."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            there = [output for output in cell.outputs if output.get("name") != "stderr"]
            parts = [output.text if output.output_type == "stream" else _shown(output) for output in there]
            found.append(_TIMES.sub("", "".join(parts)))
    return found


def _shown(output: Any) -> str:
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}\n"
    text: str = output.data.get("text/plain", "")
    return f"{text}\n"


def main(words: list[str]) -> int:
    """Refresh or check the notebooks named, all without a name."""
    import nbformat

    check, names = "--check" in words, [word for word in words if word != "--check"]
    stale = []
    for name in names or NOTEBOOKS:
        notebook = read(ROOT / name)
        before = texts(notebook)
        with tempfile.TemporaryDirectory() as folder:
            run(notebook, Path(folder))
        if texts(notebook) != before:
            stale.append(name)
        if not check:
            nbformat.write(notebook, ROOT / name)
    print("\n".join(f"{name}: {'is out of date' if check else 'refreshed'}" for name in stale) or "the notebooks are up to date")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
