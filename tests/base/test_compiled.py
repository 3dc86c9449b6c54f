"""Is native code kept in the cache folder, verified when it is loaded, and made all the same where nothing can be written?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numba
import pytest

from warpsight.base import compiled, diskcache

pytestmark = pytest.mark.unit


def _twice(value: int) -> int:
    return 2 * value


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def _hits(made: Any) -> int:
    assert made(21) == 42
    return sum(made.dispatcher.stats.cache_hits.values())


def test_code_is_kept_and_loaded_until_its_file_or_what_it_calls_changes(cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    text = "def twice(value):\n    return 2 * value\n"

    def loaded() -> int:
        names: dict[str, Any] = {"__name__": __name__}
        exec(compile(text, str(source), "exec"), names)
        return _hits(compiled.compiled_and_kept(names["twice"]))

    source.write_text(text)
    assert [loaded(), loaded()] == [0, 1]
    (kept,) = _files(cache)
    before = kept.read_bytes()
    os.utime(source, (1e9, 1e9))
    assert [loaded(), loaded()] == [0, 1]
    assert _files(cache) == [kept], "it takes the place of what it replaces"
    assert kept.read_bytes() != before
    source.unlink()
    assert [loaded(), loaded()] == [0, 0], "changes would not be seen"


def test_sources_of_callees_are_part_of_what_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_source_hash", lambda _: "one")
    assert _hits(compiled.kept_until_changed()(_twice)) == 0
    assert _hits(compiled.kept_until_changed()(_twice)) == 1
    monkeypatch.setattr(compiled, "_source_hash", lambda _: "another")
    assert _hits(compiled.kept_until_changed()(_twice)) == 0


def test_signature_given_is_the_only_one(cache: Path) -> None:
    for hits in (0, 1):
        made = compiled.jit("int64(int64)", cache=True)(_twice)
        assert _hits(made) == hits
        assert len(_files(cache)) == 1
        with pytest.raises(TypeError, match="No matching definition"):
            made("text")


def test_damaged_code_is_not_loaded_but_made_again(cache: Path) -> None:
    assert _hits(compiled.compiled_and_kept(_twice)) == 0
    (kept,) = _files(cache)
    whole = kept.read_bytes()
    for damaged in (whole[:-1], whole[:40], b"", whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        kept.write_bytes(damaged)
        assert _hits(compiled.compiled_and_kept(_twice)) == 0
        assert _hits(compiled.compiled_and_kept(_twice)) == 1


def test_code_for_c_is_kept_too(cache: Path) -> None:
    for hits in (0, 1):
        made = compiled.c_function(_twice, "int64(int64)")
        assert made.ctypes(4) == 8
        assert made.cache_hits == hits
    assert len(_files(cache)) == 1


def test_where_nothing_can_be_written_it_compiles_without_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", f"{os.devnull}/none")
    assert _hits(compiled.kept_until_changed()(_twice)) == 0
    assert compiled.c_function(_twice, "int64(int64)").ctypes(4) == 8


def test_numbas_own_functions_stay_where_numba_keeps_them(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    assert numba.njit(cache=True)(_twice)(3) == 6
    assert list((tmp_path / "numba").rglob("*.nbi"))
    assert diskcache.folder() == cache
    assert not cache.exists()
