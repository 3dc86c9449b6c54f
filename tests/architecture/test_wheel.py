"""Has the wheel every file that the package reads? Where Warpsight is installed from one, as `.ci/run` does and a stranger."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PACKED = {"src/warpsight": "warpsight", "suites/warpsight": "warpsight/pipeline/shipped_suites/warpsight"}


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix()


def test_the_wheel_has_the_files_of_the_package_and_no_others() -> None:
    installed = {
        file.as_posix() for file in metadata.files("warpsight") or () if file.parts[0] == "warpsight" and file.suffix != ".pyc"
    }
    if "warpsight/__init__.py" not in installed:
        pytest.skip("installed from the checkout itself: there is no wheel")
    wanted = {f"{target}/{name}" for source, target in PACKED.items() for name in _files(ROOT / source)}
    assert installed == wanted
    for kind in ("explorer/built/*.js", "gpu/catalog/*.yaml", "reports/html/templates/*.jinja", "py.typed"):  # all kinds are there
        assert any(Path(name).match(f"warpsight/{kind}") for name in installed), kind
