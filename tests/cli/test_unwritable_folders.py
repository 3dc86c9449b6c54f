"""What happens where a folder cannot be written: the current one, that of versions, that of the cache? One error that names place
and remedy, or the answer all the same; root gives up what lets it write everywhere.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import assert_one_error, run

from warpsight.base import diskcache
from warpsight.base.errors import UsageError
from warpsight.explorer.answer import answer
from warpsight.explorer.examples import examples
from warpsight.explorer.project import Project

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]
KERNEL = "__global__ void scale(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2.0f; }\n"
LAUNCH = "source: scale.cu\ngrid: 16\nblock: 128\nargs: ['f32[2048]:uniform']\n"
PROJECT = "gpus: [mdm-pascal]\nkernels:\n  scale: scale.yaml\n"
_VERSION = 0x20080522  # of capget(2)
_OVERRIDE = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable", "more", "of", "these"))


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a project of one kernel: nothing can be written in it."""
    folder = tmp_path / "closed"
    folder.mkdir()
    for name, text in (("scale.cu", KERNEL), ("scale.yaml", LAUNCH), ("warpsight.yaml", PROJECT)):
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    library, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_VERSION, 0), _Sets()
    assert library.capget(ctypes.byref(header), ctypes.byref(sets)) == 0, os.strerror(ctypes.get_errno())
    before = sets.effective
    folder.chmod(0o500)
    try:
        sets.effective = before & ~_OVERRIDE  # of this thread, which keeps the permission to take them back
        assert library.capset(ctypes.byref(header), ctypes.byref(sets)) == 0, os.strerror(ctypes.get_errno())
        with pytest.raises(PermissionError):
            (folder / "new").touch()
        yield folder
    finally:
        sets.effective = before
        assert library.capset(ctypes.byref(header), ctypes.byref(sets)) == 0, os.strerror(ctypes.get_errno())
        folder.chmod(0o700)


@pytest.mark.parametrize(("words", "place"), [
    ("report scale.yaml", "scale.html"), ("report scale.yaml -o new/r.html", "new/r.html"),
    ("report none.yaml -o r.html", "r.html"), ("trace scale.yaml -o traced", "traced"),
    ("profile scale.yaml --gpu mdm-pascal -o p.json", "p.json"), ("init scale.cu -o new.yaml", "new.yaml"),
    ("demo --save mine", "mine"), ("gate -o results", "results"),
])  # fmt: skip
def test_result_that_cannot_be_written_is_one_error_with_its_place(closed: Path, capsys: Capture, words: str, place: str) -> None:
    outcome = run(capsys, *words.split())
    assert_one_error(outcome, 2, f"error: {place}: ", "cannot be ", " -> ")
    assert ("No such file" if "/" in place else "Permission denied") in outcome.err
    assert sorted(each.name for each in closed.iterdir()) == ["scale.cu", "scale.yaml", "warpsight.yaml"]


def test_prediction_needs_no_folder_that_can_be_written(closed: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", "scale.yaml", "--gpu", "mdm-pascal")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("scale.cu:1 scale ")


def test_version_that_cannot_be_written_is_an_error_and_the_next_one_has_its_number(closed: Path) -> None:
    project, question = Project(closed), examples()[0].question
    document = {"predictions": [dict.fromkeys(("kernel", "gpu", "model", "seconds", "cycles", "bound_by"), "x")]}
    with pytest.raises(UsageError, match=r"versions/0001: cannot be written: Permission denied\n.*name another folder"):
        project.keep(question, {"kernel": ""}, document)
    assert project.versions() == []
    closed.chmod(0o700)
    assert project.keep(question, {"kernel": ""}, document) == 1
    assert len(Project(closed).versions()) == 1


def test_explorer_without_a_cache_says_which_folder_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.chdir(tmp_path)
    told: dict[str, str] = {}
    assert answer(examples()[0].question, lambda kind, text: told.update({kind: text}), forks=False) is None
    assert list(told) == ["error"]
    assert "cannot be written: Not a directory" in told["error"] and "set WARPSIGHT_CACHE to a folder" in told["error"]
    assert json.loads(told["error"])["place"] == "file/cache"  # of the current folder, as all places of an answer


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EROFS])
def test_simulators_that_cannot_be_kept_are_one_warning_and_other_entries_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture, reason: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(diskcache, "write_whole", refuse)
    assert not diskcache.put("native", "ab12", b"x")
    assert capsys.readouterr().err == ""
    assert not diskcache.put(diskcache.SIMULATORS, "ab12", b"x")
    assert not diskcache.put(diskcache.SIMULATORS, "cd34", b"x")
    assert capsys.readouterr().err == (
        f"warning: {tmp_path / 'cache'}: cannot be written ({os.strerror(reason)}): each command compiles the simulators again, "
        "for up to half a minute; set WARPSIGHT_CACHE to a folder of your own\n"
    )
