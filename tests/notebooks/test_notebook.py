"""Do the notebooks of the documentation run, and print what is stored in them?"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

import refresh_notebook

pytestmark = pytest.mark.golden

_MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:tmp|home|root|Users|var)/|[A-Z]:\\\\")


@pytest.mark.parametrize("name", refresh_notebook.NOTEBOOKS)
def test_notebook_runs_and_prints_what_is_stored(name: str, root: Path, tmp_path: Path) -> None:
    stored = refresh_notebook.read(root / name)
    notebook = copy.deepcopy(stored)
    refresh_notebook.run(notebook, tmp_path)  # a cell that fails raises
    assert refresh_notebook.texts(notebook) == refresh_notebook.texts(stored)
    for before, after in zip(stored.cells, notebook.cells, strict=True):
        assert _kinds_shown(after) == _kinds_shown(before)


def _kinds_shown(cell: Any) -> list[list[str]]:
    """The formats of what a cell shows. What it prints may come in several pieces, as the machine has it."""
    return [sorted(output.data) for output in cell.get("outputs", ()) if output.output_type != "stream"]


@pytest.mark.parametrize("name", refresh_notebook.NOTEBOOKS)
def test_notebook_is_stored_with_outputs_and_without_paths_of_a_machine(name: str, root: Path) -> None:
    notebook = refresh_notebook.read(root / name)
    printing = [cell for cell in notebook.cells if cell.cell_type == "code" and "print(" in cell.source]
    assert printing
    assert all(cell.outputs for cell in printing)
    assert all(output.output_type != "error" for cell in notebook.cells for output in cell.get("outputs", ()))
    assert not any("stderr" in output.get("name", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    assert not _MACHINE_PATHS.search((root / name).read_text("utf-8"))


def test_texts_of_a_notebook_leave_out_times_of_this_machine() -> None:
    from nbformat import v4

    stream = v4.new_output("stream", name="stdout", text="1,000 designs in 2.4 s, 19.4 us each\n")
    shown = v4.new_output("execute_result", data={"text/plain": "5"})
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("7 s"), v4.new_code_cell("x", outputs=[stream, shown])])
    assert refresh_notebook.texts(notebook) == ["1,000 designs in , 19.4 us each\n5\n"]
    stream.text = "cycles=14338.93734473228, seconds=1.0169459109739206e-05, 0.25"
    assert refresh_notebook.texts(notebook) == ["cycles=14338.9, seconds=1.01695e-05, 0.255\n"]
