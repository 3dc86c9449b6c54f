"""Is native code kept where it can be, and made all the same where nothing can be written?"""

from __future__ import annotations

from pathlib import Path

import numba
import pytest
from numba.core import caching

from warpsight.base import compiled

pytestmark = pytest.mark.unit


def _twice(value: int) -> int:
    return 2 * value


def test_where_nothing_can_be_written_it_compiles_without_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="cannot cache function"):
        numba.njit(cache=True)(_twice)
    assert compiled.kept_until_changed()(_twice)(21) == 42
    assert compiled.c_function(_twice, "int64(int64)").ctypes(4) == 8


def test_read_only_installation_keeps_code_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr("os.access", lambda *_: False)
    compiled._introduce_to_numba.__wrapped__()
    assert compiled.compiled_and_kept(_twice)(3) == 6
    assert list((tmp_path / "numba").rglob("*.nbi"))
