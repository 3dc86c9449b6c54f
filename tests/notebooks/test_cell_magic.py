"""`%%cuda`: does a cell run on the notebook's arrays, and show its prediction?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from IPython.testing.globalipapp import start_ipython

pytestmark = pytest.mark.unit

CELL = """__global__ void scale(float factor, const float* from, float* to, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = factor * from[i];
}"""


@pytest.fixture(scope="module")
def shell() -> Any:
    shell = start_ipython()
    shell.run_line_magic("load_ext", "warpsight")
    return shell


def test_cell_runs_on_variables_called_like_its_parameters_and_writes_their_arrays(shell: Any) -> None:
    start = np.arange(300, dtype=np.float32)
    shell.user_ns.update(factor=2.0, to=np.zeros(300, np.float32), n=300)
    shell.user_ns["from"] = start
    answer = shell.run_cell_magic("cuda", "--grid 'ceil(n / block.x)' --block 128 --gpu a100", CELL)
    assert np.array_equal(shell.user_ns["to"], 2 * start)
    assert set(answer.arrays) == {"from", "to"}
    assert answer.trace.header.grid == (3, 1, 1)
    assert answer.prediction.cycles > 0
    assert f"({answer.prediction.cycles:,.0f} cycles)" in repr(answer)
    widget = answer.explore()
    assert widget.shown["answer"]["document"]["predictions"][0]["cycles"] == answer.prediction.cycles
    assert [line["text"] for line in widget.shown["lines"]] == CELL.splitlines()


def test_arguments_are_expressions_of_the_notebook(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_MODEL", "mdm")  # as for `warpsight predict`
    shell.user_ns.update(x=np.ones(64, np.float32), y=np.zeros(64, np.float32))
    answer = shell.run_cell_magic("cuda", "--grid 1 --block 64 --gpu a100 --args '3, x, y, max(len(x) // 2, 1)'", CELL)
    assert shell.user_ns["y"].sum() == 96
    assert set(answer.arrays) == {"x", "y"}
    assert answer.prediction.model == "mdm"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("--grid 1 --block 64 --gpu a100 --args 'missing, 1'", "argument missing: NameError"),
     ("--block 64", "%%cuda: needs --grid\n"),
     ("--grd 1 --block 64", 'did you mean "--grid"?\n       -> `%cuda --help` shows'),
     ("--grid 1 --block 64 --gpu no-such-gpu", "no-such-gpu"), ("--grid '1 --block 64", "no closing quotation"),
     ("--grid 1 --block 64 --gpu a100 --args 'x] + [y'", "not a list of expressions")],
)
def test_what_is_wrong_is_one_message(shell: Any, capsys: pytest.CaptureFixture[str], line: str, complaint: str) -> None:
    assert shell.run_cell_magic("cuda", line, CELL) is None
    said = "".join(capsys.readouterr())
    assert said.startswith("error: ") and complaint in said and "Traceback" not in said


def test_fault_is_told_at_the_line_of_the_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.user_ns.update(factor=1.0, to=np.zeros(8, np.float32), n=9)
    shell.user_ns["from"] = np.zeros(9, np.float32)
    assert shell.run_cell_magic("cuda", "--grid 1 --block 32 --gpu a100", CELL) is None
    assert "".join(capsys.readouterr()).startswith("error: <text>:3: kernel scale: access out of bounds")


def test_array_of_other_elements_than_the_kernel_declares_is_noted(shell: Any) -> None:
    shell.user_ns.update(factor=1.0, to=np.zeros(64), n=64)  # float64, which is NumPy's default
    shell.user_ns["from"] = np.zeros(64, np.float32)
    answer = shell.run_cell_magic("cuda", "--grid 1 --block 64 --gpu a100", CELL)
    note = "argument 3: its elements are f64, and the kernel declares float* to; it takes their bytes as they are"
    assert note in answer.trace.notes
    assert note in repr(answer)


def test_help_needs_no_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("--help", ""):
        shell.run_line_magic("cuda", line)
        assert "usage: %%cuda" in capsys.readouterr().out
    assert shell.run_cell_magic("cuda", "--help", CELL) is None
    assert "example: %%cuda --grid" in capsys.readouterr().out
