"""Runs the notebooks of the documentation again and stores their real outputs in them.

A notebook is run from an empty folder by a kernel of this interpreter. `--check` only lists those that would print other text than
the stored one (exit code 1). Pictures are stored and not compared. Needs `nbclient` and `ipykernel` of the extra `test`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ("docs/notebooks/first.ipynb", "docs/notebooks/explore.ipynb")

_CELL_SECONDS = 300
_TIMES = re.compile(r"\b\d[\d.,]* s\b")  # of this machine; times of kernels are in ns to ms
_LONG = re.compile(r"\b\d+\.\d{7,}(?:e-?\d+)?")  # numbers with all their digits: the last ones may differ between machines


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
        # files instead of ports: nobody else on this machine can listen, and simultaneous runs do not conflict
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{sockets}/kernel"
        client.execute()
    # the Python version is not part of the notebook
    notebook.metadata.pop("language_info", None)


def texts(notebook: Any) -> list[str]:
    """The output of each code cell as text, without stderr and times of this machine, numbers with six digits."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            parts = [output.text if output.output_type == "stream" else _shown(output) for output in outputs]
            cells.append(_LONG.sub(lambda found: f"{float(found[0]):.6g}", _TIMES.sub("", "".join(parts))))
    return cells


def _shown(output: Any) -> str:
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}\n"
    text: str = output.data.get("text/plain", "")
    return f"{text}\n"


def main() -> int:
    """Refresh or check the notebooks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", metavar="FILE", help="relative to the repository; default: all")
    parser.add_argument("--check", action="store_true", help="change nothing, list the notebooks that would change")
    options = parser.parse_args()
    import nbformat

    stale = []
    for name in options.notebooks or NOTEBOOKS:
        notebook = read(ROOT / name)
        before = texts(notebook)
        with tempfile.TemporaryDirectory() as folder:
            run(notebook, Path(folder))
        if texts(notebook) != before:
            stale.append(name)
        if not options.check:
            nbformat.write(notebook, ROOT / name)
    verdict = "is out of date" if options.check else "refreshed"
    print("\n".join(f"{name}: {verdict}" for name in stale) or "the notebooks are up to date")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
