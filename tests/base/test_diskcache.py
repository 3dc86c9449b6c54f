from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warpsight.base import diskcache
from warpsight.base.errors import UsageError

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(diskcache, "_reported", set())
    return tmp_path / "cache"


def _entry(cache: Path) -> Path:
    (entry,) = [path for path in cache.rglob("*") if path.is_file()]
    return entry


def test_put_then_get_gives_the_bytes_back() -> None:
    assert diskcache.get("ptx", "ab12") is None
    assert diskcache.put("ptx", "ab12", b"\0data")
    assert diskcache.get("ptx", "ab12") == b"\0data"
    assert diskcache.get("registers", "ab12") is None


def test_get_of_a_damaged_entry_is_a_miss(cache: Path) -> None:
    diskcache.put("ptx", "ab12", b"x" * 100)
    entry = _entry(cache)
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


# -- Whose it is: machine code is loaded from it.

def test_folders_and_entries_are_the_users_alone(cache: Path) -> None:
    before = os.umask(0)
    try:
        diskcache.put("native", "ab12", b"x")
        diskcache.put_library("runtime", "ab12", "lib.so", b"x")
    finally:
        os.umask(before)
    for path in (cache, *cache.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o1777])
def test_folder_that_others_can_write_is_refused(mode: int, cache: Path) -> None:
    cache.mkdir()
    cache.chmod(mode)
    for use in (lambda: diskcache.get("native", "ab12"), lambda: diskcache.put("native", "ab12", b"x"), diskcache.own_folder):
        with pytest.raises(UsageError, match=r"cache: the cache folder can be written by .*\n.*chmod go-w .*WARPSIGHT_CACHE"):
            use()
    cache.chmod(0o755)
    assert diskcache.put("native", "ab12", b"x")
    assert cache.stat().st_mode & 0o777 == 0o755, "a folder that the user has named stays as it is"


def test_folder_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by root, who could read and write it."""
    diskcache.put("native", "ab12", b"x")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(UsageError, match=rf"belongs to another user \(number {mine}\).*\n.*set WARPSIGHT_CACHE"):
        diskcache.get("native", "ab12")


def test_folder_in_one_that_everybody_can_rename_in_is_refused_but_not_in_a_sticky_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all").mkdir()
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "all" / "cache"))
    (tmp_path / "all").chmod(0o777)
    with pytest.raises(UsageError, match=r"lies in .*all, where all users can replace it.*\n.*chmod \+t .*all"):
        diskcache.put("native", "ab12", b"x")
    (tmp_path / "all").chmod(0o1777)
    assert diskcache.put("native", "ab12", b"x")


def test_link_is_followed_unless_another_user_made_it(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir(0o700)
    cache.symlink_to(tmp_path / "scratch")
    assert diskcache.put("native", "ab12", b"x")
    assert diskcache.get("native", "ab12") == b"x"
    real = Path.lstat

    def made_by_another(path: Path) -> os.stat_result:
        status = real(path)
        return os.stat_result((*status[:4], status.st_uid + 1, *status[5:10])) if path == cache else status

    monkeypatch.setattr(Path, "lstat", made_by_another)
    with pytest.raises(UsageError, match="is a link of another user"):
        diskcache.get("native", "ab12")


def test_default_folder_of_earlier_versions_is_closed_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WARPSIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "warpsight").mkdir(0o755)
    assert diskcache.put("native", "ab12", b"x")
    assert (tmp_path / "warpsight").stat().st_mode & 0o777 == 0o700


def test_entry_that_others_can_write_is_not_used_and_replaced(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diskcache.put("native", "ab12", b"x")
    entry = _entry(cache)
    for mode in (0o666, 0o620):
        entry.chmod(mode)
        assert diskcache.get("native", "ab12") is None
        assert diskcache.put("native", "ab12", b"y")
        assert diskcache.get("native", "ab12") == b"y"
    warnings = capsys.readouterr().err
    assert warnings.startswith(f"warning: {entry}: is another user's, or can be written by others")
    assert len(warnings.splitlines()) == 1, "once is enough"


def test_entry_in_a_folder_that_others_can_write_is_not_used_and_the_folder_closed(cache: Path) -> None:
    diskcache.put("native", "ab12", b"x")
    for folder in (cache / "native", cache / "native" / "ab"):
        folder.chmod(0o770)
        assert diskcache.get("native", "ab12") is None
        assert diskcache.put("native", "ab12", b"x")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert diskcache.get("native", "ab12") == b"x"


def test_entry_does_not_take_the_place_of_another(cache: Path) -> None:
    diskcache.put("native", "ab12", b"x")
    diskcache.put("native", "ab34", b"y")
    (cache / "native" / "ab" / "ab34").replace(cache / "native" / "ab" / "ab12")
    assert diskcache.get("native", "ab12") is None


def test_entry_that_is_a_link_or_a_pipe_is_replaced(cache: Path, tmp_path: Path) -> None:
    diskcache.put("native", "ab12", b"x")
    entry = _entry(cache)
    whole = entry.read_bytes()
    (tmp_path / "elsewhere").write_bytes(whole)
    for make in (lambda: entry.symlink_to(tmp_path / "elsewhere"), lambda: os.mkfifo(entry)):
        entry.unlink()
        make()
        assert diskcache.get("native", "ab12") is None
        assert diskcache.put("native", "ab12", b"y")
        assert diskcache.get("native", "ab12") == b"y"
    assert (tmp_path / "elsewhere").read_bytes() == whole


def test_damaged_library_is_not_given(cache: Path) -> None:
    assert diskcache.library("runtime", "ab12", "lib.so") is None
    diskcache.put_library("runtime", "ab12", "lib.so", b"code" * 100)
    path = diskcache.library("runtime", "ab12", "lib.so")
    assert path is not None
    assert path.name == "lib.so"
    whole = path.read_bytes()
    assert whole.startswith(b"code" * 100)
    for damaged in (whole[:-1], whole[:20], b"", b"edoc" + whole[4:]):
        path.write_bytes(damaged)
        assert diskcache.library("runtime", "ab12", "lib.so") is None


def test_full_disk_is_one_warning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(diskcache, "write_whole", full)
    assert not diskcache.put("native", "ab12", b"x")
    assert not diskcache.put_library("runtime", "ab12", "lib.so", b"x")
    assert capsys.readouterr().err == (
        f"warning: {cache}: cannot be written (No space left on device): results are not kept; free space, or set WARPSIGHT_CACHE "
        "to a folder of your own\n"
    )


# -- What takes long is made by one process.

_OTHER = """
import sys
from warpsight.base import diskcache
diskcache.take_turn("numba", "ab" * 32)
print("begun", flush=True)
ends = sys.stdin.readline().strip()
if ends == "stores":
    diskcache.put("numba", "ab" * 32, b"of the other")
    diskcache.made()
"""


@pytest.mark.parametrize(("ends", "found"), [("stores", b"of the other"), ("dies", None)])
def test_process_waits_for_another_that_makes_the_same_entry(cache: Path, ends: str, found: bytes | None) -> None:
    with subprocess.Popen([sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "begun\n"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(diskcache.take_turn, "numba", "ab" * 32)
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
            other.stdin.write(f"{ends}\n")
            other.stdin.flush()
            waiting.result(30)
    assert diskcache.get("numba", "ab" * 32) == found
    diskcache.made()
    assert not list(cache.rglob("*.lock"))


def test_entry_that_nobody_makes_is_not_waited_for(cache: Path) -> None:
    begin = time.monotonic()
    for _ in range(2):  # the second time this process has failed to make it
        diskcache.take_turn("numba", "cd" * 32)
    assert time.monotonic() - begin < 55  # `take_turn` waits up to 60 s for another process
    diskcache.made()
    assert not list(cache.rglob("*.lock"))
