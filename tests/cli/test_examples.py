"""Do the examples run, where the package that they are for is installed? Each checks its own result against NumPy."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*_*.py")))
def test_example_runs_and_says_what_it_predicts(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    package = name.partition("_")[0]
    if package == "numba":
        sys.path.insert(0, str(EXAMPLES.parent / "tests" / "kernels"))
        try:
            samples = pytest.importorskip("numba_samples")
        finally:
            sys.path.pop(0)
        if not samples.compiles():
            pytest.skip("Numba has no NVVM here")
    else:
        pytest.importorskip(package)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert "cycles on mdm-pascal" in capsys.readouterr().out
