"""Is what was computed kept whole, and found again?"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.base.errors import UsageError
from warpsight.jobs.store import NotKept, ResultStore

pytestmark = pytest.mark.unit


def _store(folder: Path) -> ResultStore:
    return ResultStore(folder)


def test_document_put_is_got_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.put("simulator", "abcd", {"cycles": 1.5, "stack": {"base": 0.1}})
    assert store.get("simulator", "abcd") == {"cycles": 1.5, "stack": {"base": 0.1}}
    assert store.get("profile", "abcd") is None
    place = next(tmp_path.glob("simulator/*/*.json"))
    whole = place.read_bytes()
    for damaged in (whole[:-3], b"", whole.replace(b"1.5", b"2.5"), b"\xff\xfe"):
        place.write_bytes(damaged)
        assert store.get("simulator", "abcd") is None


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    store = _store(tmp_path)

    def half(place: Path) -> None:
        place.mkdir()
        (place / "a").write_text("half")
        raise UsageError("stopped")

    with pytest.raises(UsageError, match="stopped"):
        store.make_folder("feed", half)
    assert not store.folder_of("feed").exists()
    assert list((tmp_path / ".new").iterdir()) == []
    made = store.make_folder("feed", lambda place: place.mkdir())
    assert store.make_folder("feed", half) == made


def test_folder_that_cannot_be_written_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="give a folder that you can write to"):
        ResultStore(tmp_path / "file")


@pytest.mark.property
@given(data=st.binary(max_size=300), cut=st.integers(0, 400), at=st.integers(0, 400), bit=st.integers(0, 7))
def test_bytes_put_are_got_and_any_damage_reads_as_absent(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int, at: int, bit: int
) -> None:
    store = _store(tmp_path_factory.mktemp("store"))
    store.put_bytes("rows", "abcd", data, ".parquet")
    assert store.get_bytes("rows", "abcd", ".parquet") == data
    assert store.get_bytes("rows", "abcd", ".bin") is None
    place = store.folder / "rows" / "ab" / "abcd.parquet"
    whole = place.read_bytes()
    damaged = bytearray(whole)
    damaged[at % len(whole)] ^= 1 << bit
    for broken in (whole[: cut % len(whole)], bytes(damaged), whole + b"\n"):
        place.write_bytes(broken)
        assert store.get_bytes("rows", "abcd", ".parquet") is None
    store.put_bytes("rows", "abcd", data, ".parquet")
    assert store.get_bytes("rows", "abcd", ".parquet") == data


def test_document_that_is_no_document_is_absent(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.put_bytes("simulator", "abcd", b"{not json", ".json")
    assert store.get("simulator", "abcd") is None


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a file that is always full")
def test_full_disk_is_an_error_that_says_so_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(tmp_path)
    store.put("simulator", "abcd", {"cycles": 1})

    def onto_full(folder: Path) -> tuple[int, str]:
        name = folder / "half"
        name.touch()
        return os.open("/dev/full", os.O_WRONLY), str(name)

    def fill(place: Path) -> None:
        place.mkdir()
        Path("/dev/full").write_bytes(b"x")

    with monkeypatch.context() as patch:
        patch.setattr("warpsight.jobs.store._new_file", onto_full)
        for size in (10, 10_000_000):
            with pytest.raises(NotKept, match=r"the disk is full; finished results are kept\n.*as `results`; the same command"):
                store.put_bytes("rows", "abcd", b"x" * size, ".parquet")
        with pytest.raises(NotKept, match="the disk is full"):
            store.put("simulator", "abcd", {"cycles": 2})
    with pytest.raises(NotKept, match="the disk is full"):
        store.make_folder("feed", fill)
    assert list((tmp_path / ".new").iterdir()) == []
    assert store.get("simulator", "abcd") == {"cycles": 1}
    assert store.get_bytes("rows", "abcd", ".parquet") is None
    assert not store.folder_of("feed").exists()


def test_error_of_a_trace_that_is_not_the_disks_stays_its_own(tmp_path: Path) -> None:
    def broken(place: Path) -> None:
        raise FileNotFoundError("kernel.cu")

    with pytest.raises(FileNotFoundError):
        _store(tmp_path).make_folder("feed", broken)


def test_folder_is_known_again_by_its_address_and_another_one_is_refused(tmp_path: Path) -> None:
    store = _store(tmp_path / "a")
    store.put("simulator", "abcd", {"cycles": 1})
    again = ResultStore.reopen(store.address)
    assert again.get("simulator", "abcd") == {"cycles": 1}
    assert _store(tmp_path / "a").address == store.address
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(UsageError, match="does not exist on "):
        ResultStore.reopen(store.address)
    assert not (tmp_path / "a").exists()
    _store(tmp_path / "a")
    with pytest.raises(NotKept, match="does not exist on"):
        ResultStore.reopen(store.address)


def test_folder_given_relative_to_here_is_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    address = _store(Path("results")).address
    monkeypatch.chdir("/")
    assert ResultStore.reopen(address).folder == tmp_path / "results"


def test_runs_that_begin_at_once_agree_on_the_folders_mark(tmp_path: Path) -> None:
    marks: list[str] = []
    gate = threading.Barrier(8)

    def begin() -> None:
        gate.wait()
        marks.append(_store(tmp_path / "shared").address.mark)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(marks) == 8
    assert len(set(marks)) == 1
