"""Does what nobody expects, a full disk, a closed stream, a defect, odd file names, end in one line and an exit code?"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.base.diskcache import content_key
from warpsight.base.errors import FormatError, WarpsightError
from warpsight.caches.reuse.access_list import read_access_list
from warpsight.cli.main import DEFECT, main
from warpsight.kernels.arguments import read_npy

pytestmark = pytest.mark.unit


def _shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`warpsight COMMAND`, as bash understands it, in another process."""
    return subprocess.run(["bash", "-c", f"{sys.executable} -m warpsight {command}"], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment}, errors="surrogateescape", timeout=300)  # fmt: skip


@pytest.mark.parametrize("command", ["gpus list", "--help", "gpus show v100"])
def test_full_stdout_is_one_error(command: str) -> None:
    done = _shell(f"{command} >/dev/full")
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"error: the output cannot be written: No space left on device\n +-> free space.*\n", done.stderr)


def test_closed_stdout_is_refused_before_anything_is_done() -> None:
    done = _shell("gpus list >&-")
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard output: is closed")
    assert len(done.stderr.splitlines()) == 2


def test_full_and_closed_stderr_leave_the_exit_code() -> None:
    assert _shell("pridict 2>/dev/full").returncode == 2
    assert _shell("pridict 2>&-").returncode == 2
    assert _shell("gpus list >/dev/full 2>&-").returncode == 2


def test_defect_is_one_line_with_a_file_to_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def defective(*_: object, **__: object) -> None:
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr("warpsight.cli.gpus.list_gpus", defective)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["gpus", "list"]) == DEFECT == 70
    out, err = capsys.readouterr()
    (report,) = tmp_path.iterdir()
    assert out == ""
    assert err == (
        "error: internal error in Warpsight: ZeroDivisionError: first line\n"
        f"       -> please report it, with the file {report}\n"
    )
    text = report.read_text("utf-8")
    assert "warpsight gpus list\n" in text
    assert "in defective" in text
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert main(["gpus", "list"]) == DEFECT
    assert "in defective" in capsys.readouterr().err


def test_memory_that_is_not_enough_is_a_limit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def hungry(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("warpsight.cli.gpus.list_gpus", hungry)
    assert main(["gpus", "list"]) == 4
    assert capsys.readouterr().err.startswith("error: the memory of this machine is not enough\n")


def test_keys_take_names_that_are_not_utf_8() -> None:
    assert content_key("a\udcff") != content_key("a\udcfe")
    assert content_key("é") == content_key("é".encode())


@pytest.mark.parametrize(
    ("name", "encoding"), [(b"k\xff.ptx", {}), ("é.ptx".encode(), {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})]
)
def test_names_that_are_not_utf_8_or_ascii(name: bytes, encoding: dict[str, str], tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "w", encoding="ascii") as file:
        file.write(_PTX)
    launch = f"predict '{os.fsdecode(path)}' --grid 1 --block 32 --gpu mdm-pascal"
    for gpu in ("mdm-pascal", "a100"):  # as PTX, and assembled
        done = _shell(launch.replace("mdm-pascal", gpu), **encoding)
        assert done.returncode == 0, done.stderr
    gone = _shell(launch.replace("k\udcff", "n\udcff").replace("é", "è"), **encoding)
    assert gone.returncode == 2
    assert len(gone.stderr.splitlines()) == 2


_PTX = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"


@pytest.mark.parametrize("option", ["predict {}", "predict {} --grid 1 --block 32", "gpus check {}", "cache {}", "report {}",
                                    "model --gpu mdm-pascal --profile {}", "compare {}", "calibrate {} --gpu gtx280",
                                    "gpus import {}", "sweep status {}", "predict {} --gpu v100 --caches-before cold"])  # fmt: skip
def test_pipes_that_nobody_writes_to_and_devices_are_no_input(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero"):
        assert main(option.format(path).split()) == 2
        assert capsys.readouterr().err.startswith("error: ")


_MAGIC = b"\x93NUMPY\x01\x00"


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 'x'), }",
        b"{'descr': [('a', '<f4'), ('a', '<f4')], 'fortran_order': False, 'shape': (4,), }",
        b"{'descr': (1, 2, 3), 'fortran_order': False, 'shape': (4,), }",
        b"{'descr': '<f4', [], 'shape': (4,), }",
        b"(" * 900,
        b"\xff\x00'''",
        b"",
    ],
)
def test_damaged_npy_is_refused(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(_MAGIC + len(header).to_bytes(2, "little") + header + bytes(16))
    with pytest.raises(WarpsightError, match=r"x\.npy"):
        read_npy(str(path), "--arg")


def test_pipes_and_devices_are_no_arrays(tmp_path: Path) -> None:
    pipe = tmp_path / "x.npy"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero"):
        with pytest.raises(FormatError, match=re.escape(path)):
            read_npy(path, "--arg")


@pytest.mark.parametrize("place", [2, 12, 14, 16, 20, -6, -1])
def test_damaged_list_of_accesses_is_refused(place: int, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"blocksize: 32 1 1\n" + b"".join(b"%d 0 %d 4\n" % (i, 4 * i) for i in range(32))))
    packed[place] ^= 0xFF
    path = tmp_path / "a.trc.gz"
    path.write_bytes(packed)
    with pytest.raises(FormatError, match=r"a\.trc\.gz: cannot read"):
        read_access_list(path)


def test_what_fails_because_of_ctrl_c_is_no_defect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def half_imported(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            getattr(sys, "not_there_yet")  # noqa: B009

    monkeypatch.setattr("warpsight.cli.gpus.list_gpus", half_imported)
    assert main(["gpus", "list"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
