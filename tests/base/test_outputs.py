"""Do outputs appear whole, keep what they are (links, devices, permissions), and does what killed processes began go?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from warpsight.base import outputs
from warpsight.base.errors import UsageError
from warpsight.base.outputs import folder_beside, put_in_place, write_whole, written_whole
from warpsight.base.temporary import TemporaryFolder, new_file, sweep_within
from warpsight.cli.output import write_output

pytestmark = pytest.mark.unit


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_error_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), written_whole(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert _names(tmp_path) == ["a"]


def test_new_file_has_the_permissions_of_any_other_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    write_whole(tmp_path / "a", "text")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "a").chmod(0o640)
    write_whole(tmp_path / "a", b"more")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "a").read_text() == "more"


def test_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/file")
    for text in ("first", "second"):
        write_whole(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "far" / "file").read_text() == text
    assert _names(tmp_path / "far") == ["file"]


def test_read_only_file_and_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "a", "new")
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "new")
    assert (tmp_path / "a").read_text() == "old"


def test_file_in_a_folder_that_cannot_be_written_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(outputs, "new_file", refuse)
    write_whole(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "b", "new")


def test_pipe_gets_what_is_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join(10)
    assert got == ["text"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("redirected", [True, False])
def test_streams_and_devices_stay_what_they_are(redirected: bool, tmp_path: Path) -> None:
    """Also where the stream is a file: a new one in its place would not be the one that the shell has open."""
    script = (
        "from warpsight.base.outputs import write_whole\nfor p in ('/dev/stdout', '/dev/fd/2', '/dev/null'): write_whole(p, 'text')"
    )
    command = [sys.executable, "-c", script]
    if redirected:
        with (tmp_path / "out").open("w") as out:
            subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)
        assert (tmp_path / "out").read_text() == "text"
    else:
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "text"
    assert Path("/dev/stdout").is_symlink()
    assert Path("/dev/null").is_char_device()
    assert not list(Path("/dev").glob(".warpsight*"))


def test_full_device_is_one_error() -> None:
    with pytest.raises(UsageError, match="/dev/full: cannot be written: No space left on device"):
        write_output("/dev/full", "text", "-o")


# -- Folders, and what was begun.

@pytest.mark.parametrize("exchange", [True, False])
def test_folder_replaces_the_one_that_was_there(exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        monkeypatch.setattr(outputs, "_exchanged", lambda *_: False)
    place = tmp_path / "t"
    for name in ("first", "second"):
        with folder_beside(place) as new:
            (new / name).write_text(name)
            assert _names(place) == ["first"] if name == "second" else not place.exists()
            held = TemporaryFolder.__new__(TemporaryFolder)
            held.path, held.remove = new, lambda: None  # type: ignore[assignment]
            put_in_place(held, place)
        assert _names(place) == [name]
    assert _names(tmp_path) == ["t"]


def test_file_system_without_exchange_keeps_the_old_folder_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_exchanged", lambda *_: False)
    place = tmp_path / "t"
    place.mkdir()
    (place / "old").write_text("old")
    new = folder_beside(place)
    new.path.rmdir()  # so that it cannot be renamed
    with pytest.raises(FileNotFoundError):
        put_in_place(new, place)
    assert _names(place) == ["old"]
    assert _names(tmp_path) == ["t"]


def test_what_killed_processes_began_goes_and_what_is_in_use_stays(tmp_path: Path) -> None:
    mine, lock = new_file(tmp_path, 0o666)
    folder = folder_beside(tmp_path / "t")
    begun = ("import os, sys; from pathlib import Path; from warpsight.base.temporary import *; p = Path(sys.argv[1]);"
             "a = new_file(p, 0o666); b = TemporaryFolder(p); (b.path / 'x').write_text('x');"
             "c = TemporaryFolder(p, '.old'); (c.path / 'lost').mkdir(); print(flush=True); os._exit(9)")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", begun, str(tmp_path)], stdout=subprocess.PIPE, check=False).returncode == 9
    (tmp_path / ".mine.new").write_text("not Warpsight's")
    there = _names(tmp_path)
    assert len(there) == 6
    sweep_within(tmp_path)
    assert _names(tmp_path) == sorted([mine.name, folder.path.name, ".mine.new", "lost"])
    os.close(lock)
    folder.remove()


def test_what_another_machine_began_stays_for_a_day(tmp_path: Path) -> None:
    new, old = (tmp_path / f".warpsight-00000000-{k:08x}.new" for k in range(2))
    for path in (new, old):
        path.write_text("half")
    os.utime(old, (1e9, 1e9))
    write_whole(tmp_path / "a", "text")
    assert _names(tmp_path) == [new.name, "a"]
