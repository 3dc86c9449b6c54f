from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpsight.base import diskcache

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_put_then_get_gives_the_bytes_back() -> None:
    assert diskcache.get("ptx", "ab12") is None
    assert diskcache.put("ptx", "ab12", b"\0data")
    assert diskcache.get("ptx", "ab12") == b"\0data"
    assert diskcache.get("registers", "ab12") is None


def test_get_of_a_damaged_entry_is_a_miss(cache: Path) -> None:
    diskcache.put("ptx", "ab12", b"x" * 100)
    (entry,) = [path for path in cache.rglob("*") if path.is_file()]
    whole = entry.read_bytes()
    for damaged in (whole[:-1], whole[:10], b"", whole[:-1] + b"y"):
        entry.write_bytes(damaged)
        assert diskcache.get("ptx", "ab12") is None


def test_put_leaves_no_temporary_file_and_replaces_the_entry(cache: Path) -> None:
    for data in (b"first", b"second"):
        diskcache.put("ptx", "ab12", data)
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["ab12"]
    assert diskcache.get("ptx", "ab12") == b"second"


def test_put_in_a_folder_that_cannot_be_made_says_false(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "file" / "cache"))
    assert diskcache.put("ptx", "ab12", b"x") is False
    assert diskcache.get("ptx", "ab12") is None


def test_folder_follows_the_environment_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("WARPSIGHT_CACHE", "/own")
    assert diskcache.folder() == Path("/own")
    monkeypatch.delenv("WARPSIGHT_CACHE")
    assert diskcache.folder() == Path("/xdg/warpsight")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert str(diskcache.folder()) == os.path.join("/home/u", ".cache", "warpsight")


def test_content_key_tells_where_parts_end() -> None:
    assert diskcache.content_key("ab", "c") != diskcache.content_key("a", "bc")
    assert diskcache.content_key("ab") == diskcache.content_key(b"ab")
