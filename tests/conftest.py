"""What every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The first example of a property may have to wait for a compiler, and tests share the machine.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels of the tests stay out of the user's cache, and theirs out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference figures beside the repository. Only where somebody has the repository alone are its tests skipped."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"the reference figures are not at {folder}")
    return folder
