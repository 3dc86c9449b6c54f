"""One small suite and one results folder for all of these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_kernels import write_tiny_suite

from warpsight.papers.results import Cast, cast_of
from warpsight.papers.validate import chosen_figures, validate
from warpsight.pipeline.suites import load_suite


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite's folder."""
    return write_tiny_suite(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder, filled as tests go."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="session")
def tiny_cast(tiny: Path) -> Cast:
    """Both kernels."""
    return cast_of(load_suite(tiny))


@pytest.fixture(scope="session")
def documents(tiny_cast: Cast, kept: Path) -> dict[str, dict[str, Any]]:
    """Every figure on both kernels, by name."""
    found = validate(tiny_cast, chosen_figures(["all"]), results=kept, jobs=1)
    return {document["figure"]: document for document in found}
